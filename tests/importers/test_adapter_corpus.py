"""Rules and HPAs as people wrote them, where they stand beside the checkout."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config import documents
from autoscaler.migrate.adapter_queries import (
    Described,
    Resolved,
    Unresolved,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import AdapterRules, merged, rules_in
from autoscaler.migrate.fields import Fields

_CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
_REFUSED = ("has no metricsQuery", "names no label for a namespace")
"""Of rules that the adapter could not answer with either."""


@pytest.fixture(scope="module")
def corpus() -> Path:
    """Give the folder of real manifests, which are not part of the project."""
    if not (_CORPUS / "adapter").is_dir():
        pytest.skip(f"no manifests to read at {_CORPUS}")
    return _CORPUS


def documents_in(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the repository and the value of each document that is YAML."""
    for file in sorted(folder.glob("*.yaml")):
        repository = file.name.rsplit("--", 2)[0]
        for document in documents.documents(file.read_text()):
            yield repository, document.value


def rules_by_repository(folder: Path) -> dict[str, AdapterRules]:
    """Return the rules of each repository, in the order of its files."""
    found: dict[str, list[AdapterRules]] = {}
    for repository, value in documents_in(folder):
        rules = rules_in(Fields(value))
        if rules is not None:
            found.setdefault(repository, []).append(rules)
    return {repository: merged(rules) for repository, rules in found.items()}


def test_every_document_of_rules_is_read(corpus: Path) -> None:
    """Each has rules, none of which is left out, and its metrics have queries or a right reason."""
    read, refused = 0, []
    for file in sorted((corpus / "adapter").glob("*.yaml")):
        begin = time.thread_time()
        try:
            value = documents.read(file.read_text(), lambda *_: None)
        except yaml.YAMLError:
            continue  # one has quotes within quotes, which the adapter cannot read either
        rules = rules_in(Fields(value))
        assert rules is not None, file.name
        assert rules.problems == (), file.name
        assert resource_queries(rules)[1] == (), file.name
        for kind, each in (("Pods", rules.custom), ("External", rules.external)):
            for rule in each:
                name = rule.literal_name or (rule.series and rule.name_of(rule.series))
                if not name:
                    continue
                read += 1
                pair = [
                    resolve(rules, kind, name, namespace="shop", described=described)  # type: ignore[arg-type]
                    for described in (None, Described("", "Service", "front"))
                    if kind != "External" or described is None
                ]
                if not any(isinstance(one, Resolved) for one in pair):
                    refused.append(pair[0])
        assert time.thread_time() - begin < 0.5, file.name
    assert read > 25
    for one in refused:
        assert isinstance(one, Unresolved)
        assert any(reason in one.sentence for reason in _REFUSED), one.sentence


def metrics_of(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metrics of an HPA that an adapter serves, as (type, source)."""
    for _, metric in documents.entries(value, "spec", "metrics"):
        kind = documents.child(metric, "type")
        source = documents.child(metric, str(kind).lower())
        if kind in {"Pods", "Object", "External"} and isinstance(source, Mapping):
            yield str(kind), source


def test_metrics_with_a_rule_in_their_repository_have_a_query(corpus: Path) -> None:
    """At least 95 % of them."""
    rules = rules_by_repository(corpus / "adapter")
    found = []
    for repository, value in documents_in(corpus / "hpa"):
        for kind, source in metrics_of(value) if repository in rules else ():
            metric = source.get("metric") or {
                "name": source.get("metricName"),
                "selector": source.get("metricSelector") or source.get("selector"),
            }
            object_ = source.get("describedObject") or source.get("target") or {}
            group = str(object_.get("apiVersion", "")).rpartition("/")[0]
            described = Described(group, str(object_.get("kind")), str(object_.get("name")))
            one = resolve(
                rules[repository],
                kind,  # type: ignore[arg-type]  # one of the three
                str(metric.get("name")),
                namespace=str(documents.child(value, "metadata", "namespace") or "default"),
                described=described if kind == "Object" else None,
                selector=metric.get("selector"),
            )
            found.append(one)
    resolved = [one for one in found if isinstance(one, Resolved)]
    assert len(found) > 20
    assert len(resolved) >= 0.95 * len(found)
