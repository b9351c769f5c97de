"""Pods in four groups: ready, unready, missing, ignored (semantics 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from autoscaler.core.observation import ConditionStatus, Pod, Sample
from autoscaler.core.spec import Flags


class UnreadyRule(StrEnum):
    """Why a pod counts as unready; all but the first concern CPU only."""

    PENDING = "Pending"
    """Its phase is Pending."""
    NO_STATUS = "NoStatus"
    """It has no Ready condition or no start time yet."""
    NOT_READY = "NotReady"
    """It is not Ready, and within its CPU initialization period."""
    SAMPLE_WINDOW = "SampleWindow"
    """It is Ready; its sample covers a time at which it was not."""
    NEVER_READY = "NeverReady"
    """It has not been Ready since its start."""


class Unready(NamedTuple):
    """A pod that is set aside, and the instant from which the rule no longer does, if known."""

    pod: str
    rule: UnreadyRule
    until: float | None = None


@dataclass(frozen=True, slots=True)
class PodGroups:
    """How the pods were grouped: a count of the ready ones, the names of the others.

    ``unready_by`` says by which rule each of the unready ones is unready, in their order; it
    explains, and two groupings that differ only in it are equal.
    """

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    unready_by: tuple[Unready, ...] = field(default=(), compare=False)


def group(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, flags: Flags, now: float
) -> PodGroups:
    """Group pods; the first rule that matches wins.  ``resource`` is "" for Pods metrics."""
    ready = 0
    unready: list[Unready] = []
    missing: list[str] = []
    ignored: list[str] = []
    cpu = resource == "cpu"
    for pod in pods:
        if pod.deleted or pod.phase == "Failed":
            ignored.append(pod.name)
        elif pod.phase == "Pending":
            unready.append(Unready(pod.name, UnreadyRule.PENDING))
        elif (sample := samples.get(pod.name)) is None:
            missing.append(pod.name)
        elif cpu and (initializing := _initializing(pod, sample, flags, now)) is not None:
            unready.append(initializing)
        else:
            ready += 1
    names = tuple([one.pod for one in unready])
    return PodGroups(ready, names, tuple(missing), tuple(ignored), tuple(unready))


def _initializing(pod: Pod, sample: Sample, flags: Flags, now: float) -> Unready | None:
    """Return why a pod's CPU is still that of its start and says nothing of its load."""
    if pod.ready is None or pod.start_time is None:
        return Unready(pod.name, UnreadyRule.NO_STATUS)
    # An absent lastTransitionTime is Go's zero time: before everything.
    transition = float("-inf") if pod.ready_transition is None else pod.ready_transition
    not_ready = pod.ready is ConditionStatus.FALSE
    period_end = pod.start_time + flags.cpu_initialization_period
    if period_end > now:
        if not_ready:
            return Unready(pod.name, UnreadyRule.NOT_READY, period_end)
        window_end = transition + sample.window
        if sample.timestamp < window_end:
            return Unready(pod.name, UnreadyRule.SAMPLE_WINDOW, min(window_end, period_end))
        return None
    # Unready since about its start: it never was ready.
    if not_ready and pod.start_time + flags.initial_readiness_delay > transition:
        return Unready(pod.name, UnreadyRule.NEVER_READY)
    return None
