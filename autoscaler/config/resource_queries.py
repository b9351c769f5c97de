"""The built-in queries of Resource and ContainerResource metrics, over cAdvisor's series."""

from autoscaler.core.target import Query

DEFAULTS: dict[str, Query] = {
    "cpu": Query(
        promql=(
            "sum by (namespace, pod, container) "
            '(rate(container_cpu_usage_seconds_total{container!="", container!="POD"}[2m]))'
        ),
        window=120.0,
        range_seconds=120.0,
    ),
    "memory": Query(
        promql=(
            "sum by (namespace, pod, container) "
            '(container_memory_working_set_bytes{container!="", container!="POD"})'
        ),
    ),
}
"""By resource name.  cpu is in cores and memory in bytes, as Kubernetes counts them.

The container label is empty for a pod's own cgroup and ``POD`` for its pause container; both
would count usage twice.
"""

SERIES_OF = {
    DEFAULTS["cpu"].promql: "container_cpu_usage_seconds_total",
    DEFAULTS["memory"].promql: "container_memory_working_set_bytes",
}
"""What each of them is computed from."""
