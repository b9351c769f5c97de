"""PromQL for the usage of containers that counts each running container once.

cAdvisor reports a container that was restarted under the cgroups of the dead and of the new one
for minutes.  A container has several series, too, if its kubelet is scraped twice, if a replica
label is not deduplicated, or if cgroups are nested.
"""

from collections.abc import Sequence

STARTS = "container_start_time_seconds"
CONTAINERS = 'container!="", container!="POD"'
"""The label is empty for a pod's own cgroup and ``POD`` for its pause container."""


def usage_once(usage: str, labels: Sequence[str]) -> str:
    """Return a query for the usage of each container, that of its newest series by start time.

    ``usage`` is an expression of cAdvisor's series.  ``labels`` name a container: namespace, pod
    and container.  Where no series of a container has a start time, or the labels of the start
    time differ, there is one series for each ``id``, between which `core.readings` chooses.
    """
    by, starts = ", ".join(labels), f"{STARTS}{{{CONTAINERS}}}"
    cgroup = f"{by}, id, instance"
    # The kubelet gives start times with fractions of a second, and cAdvisor without.
    newest = f"{starts} > on ({by}) group_left () (max by ({by}) ({starts}) - 1)"
    return (
        f"max by ({by}) ({usage} and on ({cgroup}) ({newest})) or on ({by}) "
        f"max by ({by}, id) ({usage} unless on ({cgroup}) {starts})"
    )


def duplicates(name: str, labels: Sequence[str]) -> tuple[str, str]:
    """Return a query for the number of containers with several series, and one for such series.

    Series of a container that a newer one has replaced are none of them.
    """
    by, starts = ", ".join(labels), f"{STARTS}{{{CONTAINERS}}}"
    replaced = f"{starts} <= on ({by}) group_left () (max by ({by}) ({starts}) - 1)"
    running = f"{name}{{{CONTAINERS}}} unless on ({by}, id, instance) ({replaced})"
    several = f"count by ({by}) ({running}) > 1"
    return f"count({several})", f"({running}) and on ({by}) topk(1, {several})"
