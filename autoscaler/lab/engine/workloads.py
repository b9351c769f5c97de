"""Simulated workloads: a count, and pods that become ready after some time."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from autoscaler.core.observation import ContainerRequests, Pod, PodRequests, ReadFailure, Scale
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.writes import FIELD_MANAGER

_NUMBER = re.compile(r"0|[1-9][0-9]*+")
_NO_REQUESTS = PodRequests(())
MOST_PODS = 150_000
"""The most pods of a simulated workload; Kubernetes supports no more in a cluster."""
LONG_AGO = 86_400.0
"""How long before the begin the first pods have started and become ready, in seconds."""


class ReadyTime(NamedTuple):
    """A period with a number of ready pods."""

    begin: float
    end: float
    ready: int


@dataclass(slots=True)
class _SimulatedPod:
    name: str
    created: float
    ready_at: float


def requests_of(containers: Mapping[str, Mapping[str, int]]) -> PodRequests:
    """Return the requests of pods with these containers: nano-units by resource name."""
    return PodRequests(
        tuple(ContainerRequests(name, container) for name, container in containers.items())
    )


@dataclass(slots=True)
class SimulatedWorkload:
    """A Deployment whose controller follows the count at once; instants are Unix seconds.

    A pod is running when it is created and ready ``ready_seconds`` later. A scale-down removes pods
    that are not ready first, then the youngest, as a ReplicaSet does.
    """

    name: str
    begin: float
    replicas: int
    ready_seconds: float = 0.0
    requests: PodRequests = _NO_REQUESTS
    selector: str = ""
    annotations: tuple[tuple[str, str], ...] = ()
    unreadable: str = ""
    """Why the scale cannot be read; empty if it can."""
    set_by: str = ""
    """The field manager that last set the count."""
    generation: int = 1
    _pods: list[_SimulatedPod] = field(default_factory=list)
    _named: int = 0
    _scale: Scale | None = None
    _seen: tuple[Pod, ...] | None = None
    _seen_until: float = 0.0
    """When the next pod becomes ready, which changes the pods as read."""
    _all_ready_at: float = 0.0

    def __post_init__(self) -> None:
        self.selector = self.selector or f"app={self.name}"
        self._grow(self.replicas, self.begin - LONG_AGO, self.begin - LONG_AGO)

    @property
    def scale(self) -> Scale | ReadFailure:
        """The scale subresource as it is read now."""
        if self.unreadable:
            return ReadFailure(self.unreadable)
        if self._scale is None:
            self._scale = Scale(
                self.replicas,
                self.replicas,
                self.selector,
                resource_version=str(self.generation),
                replicas_by=self.set_by,
                generation=self.generation,
                annotations=self.annotations,
            )
        return self._scale

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Set the annotations that begin with ``autoscaler/``."""
        self.annotations = tuple(sorted(annotations.items()))
        self._scale = None

    def set(self, replicas: int, now: float, by: str = FIELD_MANAGER) -> None:
        """Set the count: pods are created or removed."""
        more = replicas - self.replicas
        self.replicas, self.set_by = replicas, by
        self.generation += 1
        self._scale = self._seen = None
        if more > 0:
            self._grow(more, now, now + self.ready_seconds)
        else:
            self._shrink(-more, now)

    def ready(self, now: float) -> int:
        """Return how many pods are ready."""
        if now >= self._all_ready_at:
            return len(self._pods)
        return sum(pod.ready_at <= now for pod in self._pods)

    def ready_names(self, now: float) -> list[str]:
        """Return the names of the pods that are ready."""
        return [pod.name for pod in self._pods if pod.ready_at <= now]

    def may_have(self, pod: str) -> bool:
        """Return whether one of its pods has this name, now or later."""
        name, _, number = pod.rpartition("-")
        return name == self.name and _NUMBER.fullmatch(number) is not None

    def ready_times(self, begin: float, end: float) -> Sequence[ReadyTime]:
        """Return the parts of a time, and the number of ready pods in each."""
        if begin >= self._all_ready_at:
            return (ReadyTime(begin, end, self.replicas),)
        ends = sorted({pod.ready_at for pod in self._pods if begin < pod.ready_at < end})
        spans = pairwise((begin, *ends, end))
        return [ReadyTime(at, then, self.ready(at)) for at, then in spans]

    def pods(self, now: float) -> tuple[Pod, ...]:
        """Return the pods as they are read now."""
        if self._seen is None or now >= self._seen_until:
            self._seen = tuple([self._pod(pod, now) for pod in self._pods])
            later = (pod.ready_at for pod in self._pods if pod.ready_at > now)
            self._seen_until = min(later, default=math.inf)
        return self._seen

    def _pod(self, pod: _SimulatedPod, now: float) -> Pod:
        is_ready = pod.ready_at <= now
        return Pod(
            pod.name,
            "Running",
            ConditionStatus.TRUE if is_ready else ConditionStatus.FALSE,
            pod.ready_at if is_ready else pod.created,
            pod.created,
            deleted=False,
            requests=self.requests,
        )

    def _grow(self, count: int, created: float, ready_at: float) -> None:
        for _ in range(count):
            self._pods.append(_SimulatedPod(f"{self.name}-{self._named}", created, ready_at))
            self._named += 1
        if count:
            self._all_ready_at = max(self._all_ready_at, ready_at)

    def _shrink(self, count: int, now: float) -> None:
        self._pods.sort(key=lambda pod: (pod.ready_at > now, pod.created))
        del self._pods[len(self._pods) - count :]
        self._all_ready_at = max((pod.ready_at for pod in self._pods), default=0.0)
