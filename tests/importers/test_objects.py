"""`import --as objects`: PromqlAutoscalers in place of targets of a configuration."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import yaml

from autoscaler.cli.object_files import ObjectReader
from autoscaler.config.objects import MOST_ENTRIES
from autoscaler.core.target import Target
from tests.cli.test_importing import POD_METRIC, SCALED, WEB
from tests.importers.importing import PLAIN, Json, Ran, imported, run
from tests.importers.test_corpus import CORPUS, files
from tests.importers.test_horizontal_pod_autoscalers import RULES
from tests.importers.test_horizontal_pod_autoscalers import autoscaler as hpa

OBJECTS = replace(PLAIN, as_="objects")
PODS = hpa(POD_METRIC)
KAFKA = SCALED.replace("{name: orders", "{name: events").replace(
    "  triggers:\n", "  triggers:\n  - {type: kafka, metadata: {lagThreshold: '5'}}\n"
)


def manifests(done: Ran) -> list[Json]:
    return list(yaml.safe_load_all(done.text))


def read(file: Path) -> list[Target]:
    """Read the objects of a file, which are valid."""
    return ObjectReader(None).targets(file)


@pytest.mark.parametrize("texts", [(WEB,), (PODS, RULES), (SCALED,), (WEB, SCALED, KAFKA)])
def test_objects_are_the_targets_of_the_configuration(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    usual = imported(tmp_path, *texts)
    document = usual.document
    done = imported(tmp_path, *texts, options=OBJECTS)
    assert (done.code, done.report["sources"]) == (usual.code, usual.report["sources"])
    queries = document.get("queries", {})
    for target, manifest in zip(document["targets"], manifests(done), strict=True):
        spec = manifest["spec"]
        used = spec.pop("queries", {})
        assert manifest["metadata"]["namespace"] == target.pop("namespace")
        target.pop("undecided", None)
        assert spec == target
        for name, query in used.items():
            assert query == (
                {"query": queries[name]} if isinstance(queries[name], str) else queries[name]
            )
    assert [target.object_name for target in read(done.output)]


def test_the_rest_of_the_configuration_is_a_note(tmp_path: Path) -> None:
    notes = imported(tmp_path, SCALED, options=OBJECTS).report["notes"]
    assert "https://thanos.example" in notes[-1]
    assert "sum(orders)" not in notes[-1]


def test_an_undecided_key_is_a_comment_at_its_object(tmp_path: Path) -> None:
    done = imported(tmp_path, WEB, KAFKA, options=OBJECTS)
    first, second = done.text.split("---\n")
    assert done.code == 3
    assert "undecided" not in first
    assert second.startswith("# undecided: spec.triggers[0]: ")


def test_objects_of_one_namespace_have_distinct_names(tmp_path: Path) -> None:
    other = WEB.replace("kind: Deployment", "kind: StatefulSet")
    done = imported(tmp_path, WEB, other, options=OBJECTS)
    assert [manifest["metadata"]["name"] for manifest in manifests(done)] == ["web", "web-2"]


def test_a_target_that_is_too_large_for_an_object_is_refused(tmp_path: Path) -> None:
    policies = ", ".join(["{type: Pods, value: 1, periodSeconds: 15}"] * (MOST_ENTRIES + 1))
    text = hpa(f"behavior: {{scaleUp: {{policies: [{policies}]}}}}")
    assert imported(tmp_path, text).code == 0
    done = imported(tmp_path, WEB.replace("web", "b"), text, options=OBJECTS)
    assert done.code == 3
    (sentence,) = done.sentences
    assert sentence.startswith("behavior.scaleUp.policies: ")
    assert len(read(done.output)) == 1


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"there are no public manifests at {CORPUS}")
def test_every_public_manifest_that_is_imported_whole_is_a_valid_object(tmp_path: Path) -> None:
    whole = 0
    for number, file in enumerate(chain(files("hpa"), files("scaledobject"))):
        done = run([file], tmp_path / f"{number}.yaml", options=OBJECTS)
        if done.code == 0 and done.text:
            whole += len(read(done.output))
    assert whole > 0
