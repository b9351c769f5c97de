"""Metrics that other adapters serve: their queries are taken, or their tools are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.migrate.options import ImportOptions
from tests.importers.importing import imported
from tests.importers.test_horizontal_pod_autoscalers import autoscaler

OF = "metric-config.external.jobs.prometheus"
QUERY = 'sum(jobs{namespace="shop"})'
TYPE = {"type": "prometheus"}


def external(name: str = "jobs", labels: dict[str, str] | None = None) -> dict[str, Any]:
    metric = {"name": name, **({"selector": {"matchLabels": labels}} if labels else {})}
    return {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "5"}},
    }


def hpa(metric: object, annotations: dict[str, str]) -> str:
    return autoscaler(f"metrics: {json.dumps([metric])}", annotations=json.dumps(annotations))


OBJECT = {
    "type": "Object",
    "object": {
        "metric": {"name": "jobs"},
        "describedObject": {"apiVersion": "v1", "kind": "Pod", "name": "dummy"},
        "target": {"type": "AverageValue", "averageValue": "5"},
    },
}
OF_OBJECT = "metric-config.object.jobs.prometheus"
NAMED = {**TYPE, "query-name": "jobs"}
OLD = "metric-config.external.prometheus-query.prometheus/jobs"


@pytest.mark.parametrize(
    ("metric", "annotations"),
    [
        (external(labels=TYPE), {f"{OF}/query": f"{QUERY}\n", f"{OF}/interval": "10s"}),
        (external(), {f"{OF}/query": QUERY}),
        (external("prometheus-query", NAMED), {OLD: QUERY}),
        (OBJECT, {f"{OF_OBJECT}/query": f"scalar({QUERY})"}),
    ],
)
def test_the_query_of_an_annotation_is_taken(
    tmp_path: Path, metric: object, annotations: dict[str, str]
) -> None:
    ran = imported(tmp_path, hpa(metric, annotations))
    assert ran.code == 0
    query, *_ = annotations.values()
    assert list(ran.document["queries"].values()) == [query.strip()]
    (written,) = ran.target["metrics"]
    name = written["external"]["metric"]["name"]
    assert written == external(name)
    assert ran.keys("different") == {}
    assert ran.config.targets


def test_a_query_asks_the_server_of_its_annotation(tmp_path: Path) -> None:
    server = {f"{OF}/query": QUERY, f"{OF}/prometheus-server": "http://thanos.monitoring.svc"}
    options = ImportOptions(prometheus="http://prometheus:9090")
    ran = imported(tmp_path, hpa(external(labels=TYPE), server), options=options)
    assert ran.document["queries"] == {"jobs": {"query": QUERY, "server": "thanos"}}
    assert ran.document["prometheus"] == {
        "url": "http://prometheus:9090",
        "servers": {"thanos": {"url": "http://thanos.monitoring.svc"}},
    }
    assert ran.config.targets


@pytest.mark.parametrize(
    ("promql", "outcome", "why"),
    [
        ("jobs", "different", "first of several series"),
        ("clamp_max(jobs, 100)", "different", "first of several series"),
        ("sum by (queue) (jobs)", "different", "first of several series"),
        ("sum(jobs", "refused", "PromQL is not understood"),
        ("sum(jobs{n='${NS}'})", "refused", "${NS} is a placeholder"),
    ],
)
def test_a_doubtful_annotation_is_a_difference_or_refused(
    tmp_path: Path, promql: str, outcome: str, why: str
) -> None:
    ran = imported(tmp_path, hpa(external(), {f"{OF}/query": promql}))
    (sentence,) = ran.keys(outcome).values()
    assert why in sentence
    assert ran.code == (3 if outcome == "refused" else 0)


AWS = "apiVersion: metrics.aws/v1alpha1\nkind: ExternalMetric\nmetadata: {name: jobs}\n"
TOOLS = [
    (external("pubsub.googleapis.com|subscription|num_undelivered_messages"), {}, "stackdriver"),
    (external("prometheus.googleapis.com|jobs|gauge"), {}, "stackdriver"),
    (external("kubernetes.io|container|cpu"), {}, "stackdriver"),
    (external("datadogmetric@shop:jobs"), {}, "Datadog"),
    (external(labels={"type": "zmon"}), {}, "kube-metrics-adapter (label type: zmon"),
    (external(labels=TYPE), {}, f"no annotation {OF}/"),
    (
        external(),
        {"metric-config.external.jobs.zmon/key": "x"},
        "annotation metric-config.external.jobs.zmon/key",
    ),
    (external(), {}, "k8s-cloudwatch-adapter (Amazon CloudWatch), by ExternalMetric jobs,"),
    (
        external(labels=TYPE),
        {f"{OF}/query": QUERY, f"{OF}/prometheus-server": "thanos:9090"},
        "http:// or https://",
    ),
    (OBJECT, {f"{OF_OBJECT}/query": QUERY, f"{OF_OBJECT}/per-replica": "true"}, "averageValue"),
]


@pytest.mark.parametrize(("metric", "annotations", "why"), TOOLS)
def test_an_open_decision_names_the_tool_or_what_is_wrong(
    tmp_path: Path, metric: object, annotations: dict[str, str], why: str
) -> None:
    ran = imported(tmp_path, hpa(metric, annotations), AWS)
    (left,) = ran.target["undecided"]
    assert why in left["why"]
    assert "prometheus-adapter has no" not in left["why"]
