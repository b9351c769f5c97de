"""Public manifests are imported; they are not part of the project."""

import contextlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config.documents import read
from autoscaler.migrate.adapter_queries import (
    DescribedObject,
    MetricType,
    ResolvedQuery,
    UnresolvedQuery,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import rules_in
from autoscaler.migrate.fields import Fields
from tests.importers.accounting import unaccounted
from tests.importers.importing import Ran, run
from tests.narrowing import known

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"the corpus of public manifests is not at {CORPUS}"
)
OURS = {"prometheus", "cpu", "memory", "cron"}
AUTHENTICATIONS = {"TriggerAuthentication", "ClusterTriggerAuthentication"}
RIGHT = re.compile(
    r"placeholder|has no scheme|`deploymentName`|is required|API server refuses|KEDA requires"
    r"|names no workload|is not in the input|no name of Kubernetes|is no longer supported"
)
"""Why a ScaledObject whose triggers are all read may not be imported whole."""
WITHOUT_QUERY = ("has no metricsQuery", "names no label for a namespace")
"""Why a rule has no query: the adapter could not answer with it either."""
KINDS: tuple[tuple[MetricType, DescribedObject | None], ...] = (
    ("Pods", None),
    ("Object", DescribedObject("", "Service", "front")),
    ("External", None),
)


def files(folder: str) -> list[Path]:
    return sorted((CORPUS / folder).glob("*.y*ml"))


def documents(file: Path) -> list[Any]:
    """Return the mappings in a file, none where it is no YAML."""
    found: list[Any] = []
    with contextlib.suppress(yaml.YAMLError):
        found += yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader)
    return [text for text in found if isinstance(text, dict)]


def each(folder: str, output: Path) -> Iterator[tuple[Path, Ran]]:
    for number, file in enumerate(files(folder)):
        yield file, run([file], output / folder / f"{number}.yaml")


def test_every_file_is_imported_or_refused_with_a_sentence(tmp_path: Path) -> None:
    """What came out whole is valid; what did not has sentences; no key is left out of a report."""
    for folder in ("hpa", "scaledobject", "adapter"):
        for file, ran in each(folder, tmp_path):
            lost = [sentence for sentence in ran.sentences if sentence]
            if ran.code == 0:
                assert ran.config.targets, file
                assert not lost, file
            elif ran.text:
                assert ran.document["targets"], file
                assert lost or ran.report["secrets"], file
            else:
                others = {source["outcome"] for source in ran.report["sources"]}
                assert lost or others <= {"used", "other"}, file
            values = documents(file)
            for source in ran.report["sources"]:
                if source.get("keys") is not None and len(values) == len(ran.report["sources"]):
                    value = values[source["document"] - 1]
                    assert unaccounted(value, source["keys"]) == [], file


def test_autoscalers_of_resource_metrics_are_imported_whole(tmp_path: Path) -> None:
    whole = 0
    for file, ran in each("hpa", tmp_path):
        (manifest, *_) = documents(file)
        spec = manifest["spec"]
        metrics = spec.get("metrics") or ()
        annotated = "alpha.kubernetes.io/metrics" in str(manifest["metadata"].get("annotations"))
        plain = "scaleTargetRef" in spec and not annotated
        if plain and all(metric["type"].endswith("Resource") for metric in metrics):
            whole += 1
            assert ran.code == 0, file
    assert whole > 30


def test_scaled_objects_have_a_target_or_a_known_reason(tmp_path: Path) -> None:
    """95 % have a target; what is undecided or refused of the others lacks what is named."""
    signs_in = [
        file
        for file in files("scaledobject")
        if documents(file)
        and {document.get("kind") for document in documents(file)} <= AUTHENTICATIONS
    ]
    imported = whole = every = 0
    for file in files("scaledobject"):
        for manifest in documents(file):
            triggers = (manifest.get("spec") or {}).get("triggers") or ()
            alone = manifest.get("kind") == "ScaledObject" and len(documents(file)) == 1
            if alone and triggers and {trigger.get("type") for trigger in triggers} <= OURS:
                ran = run([file, *signs_in], tmp_path / file.name)
                every += 1
                imported += bool(ran.text)
                whole += ran.code == 0
                assert ran.code == 0 or any(map(RIGHT.search, ran.sentences)), file
    assert imported >= 0.95 * every > 40
    assert whole > 0.7 * every, (imported, whole, every)


def test_95_percent_of_the_metrics_with_a_rule_have_a_query(tmp_path: Path) -> None:
    groups: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for folder in ("hpa", "adapter"):
        for line in (CORPUS / folder / "MANIFEST.jsonl").read_text().splitlines():
            row = json.loads(line)
            groups[row["group"]][folder].append(CORPUS / folder / row["file"])
    found = lost = 0
    for number, group in enumerate(groups.values()):
        if len(group) < 2:
            continue
        for file in group["hpa"]:
            ran = run([file, *group["adapter"]], tmp_path / f"{number}.yaml")
            if ran.text:
                metrics = [
                    m for target in ran.document["targets"] for m in target.get("metrics", ())
                ]
                found += sum(m["type"] in {"Pods", "Object", "External"} for m in metrics)
                lost += sum("its query is a guess" in sentence for sentence in ran.sentences)
    assert lost <= 0.05 * found
    assert found > 20


def test_each_rule_of_an_adapter_is_read() -> None:
    found = 0
    for file in files("adapter"):
        if not documents(file):
            continue  # one has quotes within quotes, which the adapter cannot read either
        begin = time.thread_time()
        rules = known(rules_in(Fields(read(file.read_text(), lambda *_: None))))
        assert (rules.problems, resource_queries(rules)[1]) == ((), ()), file.name
        for rule in (*rules.custom, *rules.external):
            name = rule.literal_name or (rule.series and rule.name_of(rule.series))
            if name:
                found += 1
                kinds = KINDS[2:] if rule in rules.external else KINDS[:2]
                queries = [
                    resolve(rules, kind, name, namespace="shop", described=described)
                    for kind, described in kinds
                ]
                if not any(isinstance(query, ResolvedQuery) for query in queries):
                    assert isinstance(queries[0], UnresolvedQuery)
                    assert any(reason in queries[0].sentence for reason in WITHOUT_QUERY), name
        assert time.thread_time() - begin < 0.5, file.name
    assert found > 25


def test_a_folder_of_everything_is_one_configuration(tmp_path: Path) -> None:
    ran = run([CORPUS], tmp_path / "all.yaml")
    assert len(ran.document["targets"]) > 100
