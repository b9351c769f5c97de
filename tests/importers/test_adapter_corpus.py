"""Rules and HPAs as people wrote them, where they stand beside the checkout."""

import time
from pathlib import Path

import pytest
import yaml

from autoscaler.config import documents
from autoscaler.migrate.adapter_queries import (
    DescribedObject,
    ResolvedQuery,
    UnresolvedQuery,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import rules_in
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
                    for described in (None, DescribedObject("", "Service", "front"))
                    if kind != "External" or described is None
                ]
                if not any(isinstance(item, ResolvedQuery) for item in pair):
                    refused.append(pair[0])
        assert time.thread_time() - begin < 0.5, file.name
    assert read > 25
    for error in refused:
        assert isinstance(error, UnresolvedQuery)
        assert any(reason in error.sentence for reason in _REFUSED), error.sentence
