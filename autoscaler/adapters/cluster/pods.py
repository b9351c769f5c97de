"""Pods: lists of them in pages, and of each pod the part that a decision uses."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict, cast

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.adapters.cluster.objects import (
    MALFORMED,
    JsonObject,
    MetadataJson,
    path_of,
    read_list,
)
from autoscaler.core import quantity
from autoscaler.core.observation import (
    ConditionStatus,
    ContainerRequests,
    Pod,
    PodRequests,
    Unavailable,
)


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


class PodJson(TypedDict, total=False):
    """`Pod`: the fields that are read."""

    metadata: MetadataJson
    spec: PodSpecJson
    status: PodStatusJson


ContainerKey = tuple[str, bool, tuple[tuple[str, str], ...]]
RequestsKey = tuple[tuple[ContainerKey, ...], tuple[ContainerKey, ...], tuple[tuple[str, str], ...]]

_MOST_TEMPLATES = 10_000


class PodReader:
    """Reads pods; those with equal requests share one PodRequests.  Thread-safe."""

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


_PAGE = 500
"""As the API's own clients page."""
_ONE_PAGE = 0
"""A limit of 0 is none."""
_GONE = 410
_LONGEST = 200


class Pods:
    """Fits `sync.ports.PodLister`."""

    def __init__(self, api: Api, *, page_size: int = _PAGE) -> None:
        self._api = api
        self._page_size = page_size
        self._reader = PodReader()

    def pods(self, namespace: str, selector: str, deadline: float) -> tuple[Pod, ...] | Unavailable:
        """List the pods that match, all of one resourceVersion."""
        pods = self._list(namespace, selector, deadline, self._page_size)
        if isinstance(pods, Failure) and pods.status == _GONE:
            # A later page came too late for its resourceVersion, which a list in one page cannot.
            pods = self._list(namespace, selector, deadline, _ONE_PAGE)
        return Unavailable(pods.message) if isinstance(pods, Failure) else tuple(pods)

    def _list(
        self, namespace: str, selector: str, deadline: float, limit: int
    ) -> list[Pod] | Failure:
        def ask(query: dict[str, str]) -> JsonObject | Failure:
            return self._api.get(path_of("v1", "pods", namespace), deadline, query)

        def add(items: list[JsonObject]) -> None:
            pods.extend(map(self._reader.read, cast("list[PodJson]", items)))

        pods: list[Pod] = []
        try:
            version = read_list(ask, add, {"labelSelector": selector}, limit)
        except MALFORMED as error:
            return malformed(
                self._api.server,
                self._api.line(f"a list of pods that cannot be read: {error}", _LONGEST),
            )
        return version if isinstance(version, Failure) else pods
