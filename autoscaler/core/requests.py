"""What a pod requests of a resource (semantics 2.6)."""

from collections.abc import Sequence

from autoscaler.core.observation import ContainerRequests, PodRequests
from autoscaler.core.quantity import milli_value

_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"


def request_of(requests: PodRequests, resource: str, container: str | None) -> int | str:
    """Return a pod's request in milli-units, or the sentence that says why it has none.

    ``container`` names the only container that counts; None means the whole pod.
    """
    if container is None and any(
        name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX) for name in requests.pod_level
    ):
        return _pod_level_request(requests, resource)
    sidecars = (one for one in requests.init_containers if one.restartable)
    counted = (*requests.containers, *sidecars)
    if container is not None:
        counted = tuple(one for one in counted if one.name == container)
        if not counted:
            return f"there is no container {container}"
    total = 0
    for one in counted:
        nano = one.requests.get(resource)
        if nano is None:
            return f"container {one.name} has no request for {resource}"
        total += milli_value(nano)
    return total


def _pod_level_request(requests: PodRequests, resource: str) -> int | str:
    """Take the pod-level request, else the aggregate, in which a container may have none.

    Pod overhead is left out, as upstream does from kubernetes/kubernetes#142154 on.
    """
    if resource in requests.pod_level:
        return milli_value(requests.pod_level[resource])
    every = (*requests.containers, *requests.init_containers)
    if not any(resource in one.requests for one in every):
        return f"no container has a request for {resource}"
    return milli_value(_aggregate(requests.containers, requests.init_containers, resource))


def _aggregate(
    containers: Sequence[ContainerRequests], init: Sequence[ContainerRequests], resource: str
) -> int:
    """Sum as the scheduler does, in nano-units: what runs together, or the largest init step."""
    sidecars = 0
    largest_step = 0
    for one in init:
        request = one.requests.get(resource, 0)
        if one.restartable:
            sidecars += request
            largest_step = max(largest_step, sidecars)
        else:
            largest_step = max(largest_step, sidecars + request)
    running = sum(one.requests.get(resource, 0) for one in containers) + sidecars
    return max(running, largest_step)
