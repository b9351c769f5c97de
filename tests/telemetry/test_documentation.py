"""The table of metrics, the page, the alerts and the dashboard name the same things."""

import re

import pytest

from autoscaler.telemetry import metric_catalog
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metric_catalog import MetricKind
from tests.telemetry.queries import (
    ALERTS,
    DOCUMENT,
    OURS,
    alert_expressions,
    dashboard,
    dashboard_expressions,
    family_of,
    metrics_in,
    panels,
    rules,
    unknown_labels,
)
from tests.telemetry.results import FORMATS, busy, families_of

PROCESS = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_start_time_seconds",
}

EXPRESSIONS = alert_expressions() | dashboard_expressions()


def test_the_document_lists_each_metric_as_the_code_has_it() -> None:
    row = re.compile(r"^\| `(autoscaler_\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE)
    written = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in row.findall(DOCUMENT.read_text())
    }
    assert written == {
        name: (
            family.kind.value,
            (("cluster",) if family.by_cluster else ()) + family.labels,
            family.meaning,
        )
        for name, family in OURS.items()
    }


@pytest.mark.parametrize("accept", FORMATS)
def test_the_page_has_each_metric_of_the_table_and_no_other(accept: str) -> None:
    shown = {}
    for family in families_of(busy(Health()), accept).values():
        if family.name.startswith("autoscaler_"):
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            shown[name] = (family.type, labels, family.documentation)
    assert shown == {
        name: (family.kind.value, set(family.labels), family.meaning)
        for name, family in OURS.items()
    }


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, family in OURS.items():
        assert re.fullmatch(r"autoscaler_[a-z][a-z_]*[a-z]", name)
        assert name.endswith("_total") is (family.kind is MetricKind.COUNTER)
        assert ("duration" in name or "timestamp" in name or "lag" in name) is name.endswith(
            "_seconds"
        )
        assert not {"job", "instance", "namespace", "pod", "container", "service"} & set(
            family.labels
        )
        assert family.meaning.endswith(".")


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_alerts_and_dashboard_name_metrics_and_labels_that_exist(where: str) -> None:
    expression = EXPRESSIONS[where]
    named = metrics_in(expression)
    assert named
    assert {name for name in named if family_of(name) is None} <= PROCESS
    assert unknown_labels(expression) == set()


def test_an_unknown_metric_or_label_is_found() -> None:
    assert family_of("autoscaler_target_replicas") is None
    assert family_of("autoscaler_sync_lag_seconds") is None
    assert family_of("autoscaler_writes_total_sum") is None
    assert unknown_labels('autoscaler_ready{target="x"}') == {"autoscaler_ready{target}"}
    assert unknown_labels("sum by (code) (autoscaler_ready)") == {"code"}
    assert unknown_labels('sum by (le) (rate(autoscaler_sync_lag_seconds_count{le="1"}[1m]))')


def test_each_metric_is_used_by_an_alert_or_the_dashboard() -> None:
    used = {family_of(name) for item in EXPRESSIONS.values() for name in metrics_in(item)}
    unused = {name for name, family in OURS.items() if family not in used}
    assert unused == {metric_catalog.RELOAD_ATTEMPT.name}


def test_each_alert_has_a_severity_a_summary_and_a_description() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["alert"].startswith("Autoscaler")
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"].endswith(".")
        assert len(rule["annotations"]["description"]) > 40
    assert "@" not in ALERTS.read_text()


def test_the_dashboard_works_in_any_grafana_from_12_on() -> None:
    document = dashboard()
    assert document["schemaVersion"] == 42
    assert "id" not in document
    assert [item["name"] for item in document["templating"]["list"]] == [
        "datasource",
        "job",
        "target",
    ]
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"].endswith(".")
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert re.search(rf"\b{label}\b", target["expr"])


def test_no_two_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        grid = panel["gridPos"]
        places = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert max(x for x, _ in places) < 24
        assert not taken & places
        taken |= places
