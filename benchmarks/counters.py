"""Counters that servers publish about themselves, read before and after what is measured."""

from collections import Counter
from collections.abc import Callable, Mapping

from prometheus_client.parser import text_string_to_metric_families

_HPA = "horizontal_pod_autoscaler_controller"

_ON_BEHALF_OF_AUTOSCALING = {
    "deployments",
    "replicasets",
    "statefulsets",
    "pods",
    "horizontalpodautoscalers",
    "promqlautoscalers",
    "events",
    "subjectaccessreviews",
    "tokenreviews",
}
"""What autoscalers and adapters ask an API server for; the rest is its own housekeeping."""

_GROUPS = ("metrics.k8s.io", "keda.sh")
"""API groups of which everything is asked for by autoscalers."""


def counts(text: str, family: str, key: Callable[[Mapping[str, str]], str]) -> Counter[str]:
    """Sum a family's samples of an exposition by the key of their labels; "" leaves one out."""
    # The whole page of an API server is megabytes, of which few lines matter.
    lines = [line for line in text.splitlines() if line.startswith((family + "{", family + " "))]
    found: Counter[str] = Counter()
    for parsed in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in parsed.samples:
            if name := key(sample.labels):
                found[name] += round(sample.value)
    return found


def api_requests(text: str) -> Counter[str]:
    """Count an API server's requests by verb, resource and subresource, its own left out."""
    return counts(text, "apiserver_request_total", _request)


def prometheus_queries(text: str) -> int:
    """Return how many instant queries Prometheus has answered."""
    return counts(
        text,
        "prometheus_http_requests_total",
        lambda labels: "query" if labels["handler"] == "/api/v1/query" else "",
    )["query"]


def reconciles(text: str) -> int:
    """Return how many reconciles of an HPA kube-controller-manager has done."""
    return counts(text, f"{_HPA}_reconciliations_total", lambda _: "all")["all"]


def metric_requests(text: str) -> int:
    """Return how many metrics kube-controller-manager has asked the adapter for.

    The API server passes these requests on without counting them.
    """
    return counts(text, f"{_HPA}_metric_computation_total", lambda _: "all")["all"]


def reconciled(text: str) -> int:
    """Return how many HPAs kube-controller-manager has reconciled at least once."""
    return sum(line.startswith(f"{_HPA}_desired_replicas{{") for line in text.splitlines())


def _request(labels: Mapping[str, str]) -> str:
    resource, group = labels["resource"], labels["group"]
    if resource not in _ON_BEHALF_OF_AUTOSCALING and not group.endswith(_GROUPS):
        return ""
    subresource = labels["subresource"]
    return f"{labels['verb']} {resource}{'/' if subresource else ''}{subresource}"
