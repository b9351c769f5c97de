"""Pods in four groups: ready, unready, missing, ignored (semantics section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.observation import ConditionStatus, Pod, Sample
from autoscaler.core.spec import Flags


@dataclass(frozen=True, slots=True)
class PodGroups:
    """How the pods were grouped: a count of the ready ones, the names of the others."""

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


def group(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, flags: Flags, now: float
) -> PodGroups:
    """Group pods; the first rule that matches wins.  ``resource`` is "" for Pods metrics."""
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    cpu = resource == "cpu"
    for pod in pods:
        if pod.deleted or pod.phase == "Failed":
            ignored.append(pod.name)
        elif pod.phase == "Pending":
            unready.append(pod.name)
        elif (sample := samples.get(pod.name)) is None:
            missing.append(pod.name)
        elif cpu and _initializing(pod, sample, flags, now):
            unready.append(pod.name)
        else:
            ready += 1
    return PodGroups(ready, tuple(unready), tuple(missing), tuple(ignored))


def _initializing(pod: Pod, sample: Sample, flags: Flags, now: float) -> bool:
    """Tell whether a pod's CPU is still that of its start and says nothing of its load."""
    if pod.ready is None or pod.start_time is None:
        return True
    # An absent lastTransitionTime is Go's zero time: before everything.
    transition = float("-inf") if pod.ready_transition is None else pod.ready_transition
    not_ready = pod.ready is ConditionStatus.FALSE
    if pod.start_time + flags.cpu_initialization_period > now:
        return not_ready or sample.timestamp < transition + sample.window
    # Unready since about its start: it never was ready.
    return not_ready and pod.start_time + flags.initial_readiness_delay > transition
