"""A server is the default only if all sources that need one name it."""

from pathlib import Path
from typing import Any

import pytest

from autoscaler.migrate.conversion import UNKNOWN_URL
from autoscaler.migrate.options import ImportOptions
from tests.importers.keda.converting import converted, loaded
from tests.importers.test_horizontal_pod_autoscalers import autoscaler

A, B = "http://a.shop:9090", "http://b.batch:9090"
CPU = "{type: cpu, metricType: Utilization, metadata: {value: '60'}}"
CRON = (
    "{type: cron, metadata: {timezone: UTC, start: 0 6 * * *, end: 0 8 * * *, desiredReplicas: 3}}"
)
RABBIT = "{type: rabbitmq, metadata: {queueName: mails, mode: QueueLength, value: '20'}}"


def asks(url: str, more: str = "") -> str:
    return (
        f"{{type: prometheus, metadata: {{serverAddress: '{url}', query: up, threshold: 5{more}}}}}"
    )


def keda(name: str, *triggers: str) -> str:
    return (
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\n"
        f"metadata: {{name: {name}, namespace: shop}}\n"
        f"spec: {{scaleTargetRef: {{name: {name}}}, triggers: [{', '.join(triggers)}]}}\n"
    )


def hpa(metric: str, annotations: str = "") -> str:
    return autoscaler(f"metrics: [{metric}]", annotations=f"{{{annotations}}}")


OF_CPU = hpa(
    "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}"
)
ANNOTATED = hpa(
    "{type: External, external: {metric: {name: jobs}, "
    "target: {type: AverageValue, averageValue: 5}}}",
    "metric-config.external.jobs.prometheus/query: up, "
    f"metric-config.external.jobs.prometheus/prometheus-server: '{A}'",
)


def adapter(url: str) -> str:
    host, _, port = url.rpartition(":")
    return (
        f"prometheus: {{url: '{host}', port: {port}}}\nrules: {{default: false, resource: {{}}}}\n"
    )


@pytest.mark.parametrize(
    ("sources", "url", "servers"),
    [
        ([keda("one", asks(A)), keda("two", asks(A))], A, {"one": "", "two": ""}),
        ([keda("one", asks(A), CPU)], A, {"one": ""}),
        ([keda("one", asks(A)), keda("two", CRON)], A, {"one": ""}),
        ([keda("one", asks(A)), keda("two", asks(B))], UNKNOWN_URL, {"one": "a", "two": "b"}),
        ([keda("one", asks(A)), keda("two", CPU)], UNKNOWN_URL, {"one": "a", "two": ""}),
        ([keda("one", asks(A), CPU), keda("two", CPU)], UNKNOWN_URL, {"one": "a", "two": ""}),
        ([keda("one", asks(A)), keda("two", RABBIT)], UNKNOWN_URL, {"one": "a", "two": ""}),
        ([OF_CPU, keda("one", asks(A))], UNKNOWN_URL, {"web": "", "one": "a"}),
        ([keda("one", asks(A)), OF_CPU], UNKNOWN_URL, {"web": "", "one": "a"}),
        ([ANNOTATED, keda("one", asks(A))], A, {"web": "", "one": ""}),
        ([ANNOTATED, keda("one", asks(B))], UNKNOWN_URL, {"web": "a", "one": "b"}),
        ([ANNOTATED, keda("one", CPU)], UNKNOWN_URL, {"web": "a", "one": ""}),
        ([adapter(A), OF_CPU, keda("one", asks(B))], A, {"web": "", "one": "b"}),
        ([adapter(A), adapter(B), OF_CPU], UNKNOWN_URL, {"web": ""}),
        (
            [keda("one", asks(A, ", customHeaders: X-Scope-OrgID=one")), keda("two", asks(A))],
            UNKNOWN_URL,
            {"one": "a", "two": "a-2"},
        ),
    ],
)
def test_a_server_that_all_sources_name_is_the_default(
    sources: list[str], url: str, servers: dict[str, str], tmp_path: Path
) -> None:
    for texts in (sources, sources[::-1]):
        result = converted(*texts)
        prometheus = result.configuration["prometheus"]
        assert prometheus["url"] == url
        assert set(prometheus) <= {"url", "servers"}
        targets = result.configuration["targets"]
        found = {
            target["scaleTargetRef"]["name"]: named
            for target in targets
            if (named := servers_of(result.configuration, target)) is not None
        }
        urls = {name: value["url"] for name, value in prometheus.get("servers", {}).items()}
        by_address = {name: urls[value] if value else "" for name, value in found.items()}
        assert by_address == {
            name: {"": "", "a": A, "b": B, "a-2": A}[server] for name, server in servers.items()
        }
        lacking = url == UNKNOWN_URL and "" in servers.values()
        assert any("no source names" in note for note in result.conversion.notes) == lacking
        if "undecided" not in result.text:
            loaded(result, tmp_path)


def servers_of(configuration: dict[str, Any], target: dict[str, Any]) -> str | None:
    """Return the server that all metrics of a target ask; None if it needs none."""
    asked = set()
    for metric in target.get("metrics", []):
        name = metric.get("external", {}).get("metric", {}).get("name")
        query = configuration.get("queries", {}).get(name, {})
        if query != "vector(0)":
            own = query.get("server") if isinstance(query, dict) else None
            asked.add(own or target.get("server", ""))
    assert len(asked) <= 1
    return asked.pop() if asked else None


def test_the_server_of_the_option_is_the_default() -> None:
    options = ImportOptions(prometheus=B)
    result = converted(OF_CPU, keda("one", asks(A)), keda("two", asks(B)), options=options)
    assert result.configuration["prometheus"] == {"url": B, "servers": {"a": {"url": A}}}
    assert result.conversion.notes == []
