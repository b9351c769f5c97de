"""What the Prometheus Operator and Grafana import: made of the plain files, and of their types."""

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.service import programs
from tests.telemetry.queries import ALERTS, DASHBOARD
from tests.worlds.prometheus.server import required_program

OBJECTS = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "operator_objects.py"))
RELEASE: dict[str, str] = {
    path.name: text for path, text in OBJECTS["release"](Path("release")).items()
}
KINDS = {
    "dashboard.json": "Dashboard",
    "podmonitor.yaml": "PodMonitor",
    "prometheusrule.yaml": "PrometheusRule",
}
EXPORT_KEYS = {"__inputs", "__elements", "__requires"}
EXPORT_SCHEMA = {
    "type": "object",
    "required": [*EXPORT_KEYS, "id", "uid", "title"],
    "properties": {
        "__inputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "label", "description", "type", "pluginId", "pluginName"],
                "additionalProperties": {"type": "string"},
                "properties": {"type": {"enum": ["constant", "datasource"]}},
            },
        },
        "__elements": {"type": "object"},
        "__requires": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "id", "name", "version"],
                "additionalProperties": {"type": "string"},
                "properties": {"type": {"enum": ["datasource", "grafana", "panel"]}},
            },
        },
        "id": {"type": "null"},
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "title": {"type": "string", "minLength": 1},
    },
}
"""The keys that "Export for sharing externally" of Grafana adds or sets."""


def accepts(kind: str, text: str, folder: Path) -> str:
    """Return what the owner's types say of an object: nothing if they accept it."""
    file = folder / "object"
    file.write_text(text)
    command = [str(programs.locate("operator")), kind, str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode == 0) == (not done.stderr)
    return done.stderr


def exported() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RELEASE["dashboard.json"])
    return found


@pytest.mark.parametrize("path", OBJECTS["copies"](), ids=lambda path: path.name)
def test_a_generated_file_of_the_repository_is_up_to_date(path: Path) -> None:
    assert path.read_text() == OBJECTS["copies"]()[path], "run `make objects`"


@pytest.mark.usefixtures("built_programs")
@pytest.mark.parametrize(("name", "kind"), KINDS.items(), ids=KINDS.values())
def test_every_field_is_one_that_the_owner_of_the_type_knows(
    name: str, kind: str, tmp_path: Path
) -> None:
    text = RELEASE[name]
    if kind == "Dashboard":  # the type is that of a stored dashboard
        text = json.dumps({key: item for key, item in exported().items() if key not in EXPORT_KEYS})
    assert accepts(kind, text, tmp_path) == ""
    changed = yaml.safe_load(text)
    changed["titel" if kind == "Dashboard" else "specs"] = {}
    assert accepts(kind, json.dumps(changed), tmp_path) != ""


def test_the_rules_are_the_plain_file_and_promtool_accepts_them(tmp_path: Path) -> None:
    spec = yaml.safe_load(RELEASE["prometheusrule.yaml"])["spec"]
    assert spec == yaml.safe_load(ALERTS.read_text())
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(spec))
    check = [required_program("promtool"), "check", "rules", "--lint=all", "--lint-fatal"]
    subprocess.run([*check, str(file)], check=True)


def test_the_dashboard_has_the_format_of_an_export() -> None:
    jsonschema.validate(exported(), EXPORT_SCHEMA)


def test_the_import_asks_for_the_data_source_of_every_panel() -> None:
    """The panels use the variable `datasource`, and its first value is what Grafana asked for."""
    document, plain = exported(), json.loads(DASHBOARD.read_text())
    (asked,) = document["__inputs"]
    source = document["templating"]["list"][0]
    assert (source["type"], source["name"]) == ("datasource", "datasource")
    assert source["current"]["value"] == f"${{{asked['name']}}}"
    assert document["panels"] == plain["panels"]
    assert document["uid"] == plain["uid"] == "promql-autoscaler"


def test_every_kind_of_panel_is_required() -> None:
    used = {panel["type"] for panel in exported()["panels"]} - {"row"}
    required = {each["id"] for each in exported()["__requires"] if each["type"] == "panel"}
    assert required == used
