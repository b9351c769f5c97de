"""HPAs that are imported decide as the controller did."""

import json
from pathlib import Path

import pytest

from autoscaler.config import to_core
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec as SpecModel
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Target
from tests.conformance.player import Json, differences, flags_of, rules_of, scenarios, steps_of
from tests.importers.importing import imported

FOLDER = Path(__file__).parent


def imported_spec(folder: Path, scenario: Json) -> HorizontalPodAutoscalerSpec:
    """Import the manifest of a scenario's HPA, and return the spec that the daemon loads."""
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": scenario["spec"],
    }
    ran = imported(folder, json.dumps(manifest))
    config = ran.config if ran.code == 0 else ran.decided
    (target,) = config.targets
    return target.spec


@pytest.mark.parametrize("name", ["documented.jsonl.gz", "random.jsonl.gz"])
def test_the_spec_that_is_imported_is_that_of_the_vectors(tmp_path: Path, name: str) -> None:
    """Field for field, whatever is left out as a default: so is each decision."""
    for scenario in scenarios(FOLDER / name):
        spec = to_core(SpecModel.model_validate(scenario["spec"]))
        assert imported_spec(tmp_path, scenario) == spec, scenario["name"]


def test_decisions_through_an_import(tmp_path: Path) -> None:
    for scenario in scenarios(FOLDER / "documented.jsonl.gz"):
        spec = imported_spec(tmp_path, scenario)
        queries = rules_of(scenario).target.queries
        rules = Rules(Target(scenario["name"], spec, queries), flags_of(scenario["flags"]))
        for tick, step in steps_of(scenario, rules):
            assert list(differences(scenario["name"], tick, step)) == []
