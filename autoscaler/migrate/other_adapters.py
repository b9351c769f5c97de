"""Metrics of other adapters than prometheus-adapter: queries in annotations, and tools."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from autoscaler.config.documents import child
from autoscaler.config.promql_parser import parse
from autoscaler.migrate.fields import Fields, not_filled_in, placeholder
from autoscaler.migrate.promql_answers import has_more

_CONFIG = re.compile(r"metric-config\.([a-z]{1,20})\.([^/]{1,200})\.([a-z-]{1,60})/")
_SEVERAL = "kube-metrics-adapter takes the first of several series; here they are added up"
_INTERVAL = "the query is asked at each sync"
_PER_REPLICA = (
    "kube-metrics-adapter divides the value by the replicas: remove it, and write the target as "
    "averageValue"
)
_SERVER = "is not the URL of a Prometheus: write http:// or https:// before the host"
_NAMES = (
    (re.compile(r"datadogmetric@"), "Datadog's cluster agent"),
    (
        re.compile(r"[a-z.]+\.(?:com|io)\|"),
        "Google's custom-metrics-stackdriver-adapter (Cloud Monitoring)",
    ),
)
"""The prefixes of metrics, and who serves them."""
_COLLECTORS = frozenset(
    {
        *("prometheus", "zmon", "influxdb", "nakadi", "requests-per-second", "hostname", "sqs"),
        *("sqs-queue-length", "http", "json-path", "scalyr", "external-rps", "scaling-schedule"),
    }
)
"""The values of the label `type` of a metric in kube-metrics-adapter."""
_KINDS: Mapping[tuple[str, str], str] = {
    ("metrics.aws", "ExternalMetric"): "k8s-cloudwatch-adapter (Amazon CloudWatch)",
    ("azure.com", "ExternalMetric"): "azure-k8s-metrics-adapter (Azure Monitor)",
    ("azure.com", "CustomMetric"): "azure-k8s-metrics-adapter (Azure Monitor)",
    ("datadoghq.com", "DatadogMetric"): "Datadog's cluster agent",
}


def annotated_query(
    annotations: Fields, kind: str, name: str, selector: object
) -> tuple[str, str] | None:
    """Return the query of a metric and the URL of its server, empty for the default one.

    It is None if no annotation has one.
    """
    before = f"metric-config.{kind.lower()}.{name}.prometheus/"
    keys = [f"{before}{key}" for key in ("query", child(selector, "matchLabels", "query-name"))]
    key = next((key for key in keys if isinstance(annotations.peek(key), str)), None)
    if key is None:
        return None
    promql = str(annotations.get(key)).strip()
    try:
        if has_more(parse(promql), ()):
            annotations.different(key, why=_SEVERAL)
    except ValueError as error:
        annotations.refused(key, why=f"its PromQL is not understood: {error}", kind=kind)
    if found := placeholder(promql):
        annotations.refused(key, why=not_filled_in(found), kind=kind)
    if annotations.peek(f"{before}interval") is not None:
        annotations.ignored(f"{before}interval", why=_INTERVAL)
    if annotations.peek(f"{before}per-replica") == "true":
        annotations.refused(f"{before}per-replica", why=_PER_REPLICA, kind=kind)
    url = annotations.get(f"{before}prometheus-server")
    if url is not None and urlsplit(str(url)).scheme not in {"http", "https"}:
        annotations.refused(f"{before}prometheus-server", why=_SERVER, kind=kind)
        url = None
    return promql, "" if url is None else str(url)


def served_by(tool: str) -> str:
    """Return that another adapter serves a metric, and what to do."""
    return f"{tool} serves this metric, not prometheus-adapter: write the PromQL for its value"


def defined_by(group: str, kind: str) -> str:
    """Return the tool that serves the metrics of objects of a kind; empty for none."""
    return _KINDS.get((group, kind), "")


def tool_of(annotations: Fields, kind: str, name: str, selector: object) -> str:
    """Return the tool that serves a metric, and how that is known; empty if unknown."""
    for key in annotations.value:
        found = _CONFIG.match(key)
        if found and (found[1], found[2]) == (kind.lower(), name):
            return f"kube-metrics-adapter (annotation {key})"
    label = child(selector, "matchLabels", "type")
    if label in _COLLECTORS:
        annotation = f"metric-config.{kind.lower()}.{name}.{label}"
        return f"kube-metrics-adapter (label type: {label}; no annotation {annotation}/... is here)"
    return next((tool for form, tool in _NAMES if form.match(name)), "")
