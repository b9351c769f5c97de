"""Pod JSON, as the API sends it, to the part of a pod that a decision looks at."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from autoscaler.core import quantity
from autoscaler.core.observation import ConditionStatus, ContainerRequests, Pod, PodRequests


class ResourcesJson(TypedDict, total=False):
    """`ResourceRequirements`."""

    requests: dict[str, str]


class ContainerJson(TypedDict, total=False):
    """`Container`."""

    name: str
    resources: ResourcesJson
    restartPolicy: str


class PodSpecJson(TypedDict, total=False):
    """`PodSpec`."""

    containers: list[ContainerJson]
    initContainers: list[ContainerJson]
    resources: ResourcesJson


class ConditionJson(TypedDict, total=False):
    """`PodCondition`."""

    type: str
    status: str
    lastTransitionTime: str | None


class PodStatusJson(TypedDict, total=False):
    """`PodStatus`."""

    phase: str
    startTime: str
    conditions: list[ConditionJson]


class PodMetadataJson(TypedDict, total=False):
    """`ObjectMeta`."""

    name: str
    deletionTimestamp: str


class PodJson(TypedDict, total=False):
    """`Pod`: the fields that are read."""

    metadata: PodMetadataJson
    spec: PodSpecJson
    status: PodStatusJson


ContainerKey = tuple[str, bool, tuple[tuple[str, str], ...]]
RequestsKey = tuple[tuple[ContainerKey, ...], tuple[ContainerKey, ...], tuple[tuple[str, str], ...]]

_MOST_TEMPLATES = 10_000

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading JSON that is not a pod raises."""


class PodReader:
    """Reads pods; those of one template share one PodRequests.  Safe for many threads."""

    def __init__(self) -> None:
        self._templates: dict[RequestsKey, PodRequests] = {}

    def read(self, pod: PodJson) -> Pod:
        """Read one pod.  Raises one of MALFORMED for what is not one."""
        metadata = pod["metadata"]
        status = pod.get("status") or {}
        ready = _ready(status.get("conditions") or ())
        start_time = status.get("startTime")
        transition = ready.get("lastTransitionTime") if ready is not None else None
        return Pod(
            name=metadata["name"],
            phase=status.get("phase", ""),
            ready=_STATUSES[ready["status"]] if ready is not None else None,
            ready_transition=unix_seconds(transition) if transition else None,
            start_time=unix_seconds(start_time) if start_time else None,
            deleted="deletionTimestamp" in metadata,
            requests=self._requests(pod.get("spec") or {}),
        )

    def _requests(self, spec: PodSpecJson) -> PodRequests:
        key: RequestsKey = (
            tuple([_container_key(container) for container in spec.get("containers") or ()]),
            tuple([_container_key(container) for container in spec.get("initContainers") or ()]),
            _quantities(spec.get("resources")),
        )
        known = self._templates.get(key)
        if known is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            known = self._templates.setdefault(key, _pod_requests(key))
        return known


_STATUSES = {str(status): status for status in ConditionStatus}


def _ready(conditions: list[ConditionJson] | tuple[()]) -> ConditionJson | None:
    for condition in conditions:
        if condition["type"] == "Ready":
            return condition
    return None


def _container_key(container: ContainerJson) -> ContainerKey:
    return (
        container["name"],
        container.get("restartPolicy") == "Always",
        _quantities(container.get("resources")),
    )


def _quantities(resources: ResourcesJson | None) -> tuple[tuple[str, str], ...]:
    return tuple((resources.get("requests") or {}).items()) if resources else ()


def _pod_requests(key: RequestsKey) -> PodRequests:
    containers, init_containers, pod_level = key
    return PodRequests(
        containers=tuple(_container(container) for container in containers),
        init_containers=tuple(_container(container) for container in init_containers),
        pod_level=_nano(pod_level),
    )


def _container(key: ContainerKey) -> ContainerRequests:
    name, restartable, requests = key
    return ContainerRequests(name, _nano(requests), restartable)


def _nano(requests: tuple[tuple[str, str], ...]) -> Mapping[str, int]:
    return {name: quantity.parse(str(amount)) for name, amount in requests}


def unix_seconds(text: str) -> float:
    """Read RFC 3339, as `metav1.Time` and `MicroTime` are sent.  Raises ValueError."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} is not a time: it has no offset; right is 2006-01-02T15:04:05Z")
    return instant.timestamp()
