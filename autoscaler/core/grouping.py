"""The groups of pods: ready, unready, missing and ignored (semantics 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from autoscaler.core.observation import ConditionStatus, Pod, Sample
from autoscaler.core.spec import Flags


class UnreadyRule(StrEnum):
    """Why a pod is unready; every rule but the first applies to cpu only."""

    PENDING = "Pending"
    """Its phase is Pending."""
    NO_STATUS = "NoStatus"
    """It has no Ready condition or no start time yet."""
    NOT_READY = "NotReady"
    """It is not Ready, and within the CPU initialization period."""
    SAMPLE_WINDOW = "SampleWindow"
    """It is Ready, but its sample covers a time before it was."""
    NEVER_READY = "NeverReady"
    """It has never been Ready."""


class Unready(NamedTuple):
    """An unready pod, the rule, and the instant from which the rule no longer applies, if known."""

    pod: str
    rule: UnreadyRule
    until: float | None = None


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The number of ready pods, and the names of the others.

    ``unready_by`` has the rule of each unready pod, in the same order; it only explains the
    groups, so equality ignores it.
    """

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    unready_by: tuple[Unready, ...] = field(default=(), compare=False)


def group_pods(
    pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, flags: Flags, now: float
) -> PodGroups:
    """Group pods by the first rule that matches.  ``resource`` is empty for a Pods metric."""
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
    """Return why the cpu usage of a pod may be that of its start; None if it counts."""
    if pod.ready is None or pod.start_time is None:
        return Unready(pod.name, UnreadyRule.NO_STATUS)
    # An absent lastTransitionTime is Go's zero time, which is before every other.
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
    # A transition so soon after the start is the initial one: it has never been ready.
    if not_ready and pod.start_time + flags.initial_readiness_delay > transition:
        return Unready(pod.name, UnreadyRule.NEVER_READY)
    return None
