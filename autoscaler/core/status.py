"""The status that an HPA reports: conditions, events and reasons (semantics 1.6, 1.7)."""

from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.core.decision import WITHIN_RANGE, Event
from autoscaler.core.extensions import Extensions
from autoscaler.core.history import Condition
from autoscaler.core.observation import LONGEST_SENTENCE, Observation
from autoscaler.core.quick import bounded_cache, quick
from autoscaler.core.selectors import go_string
from autoscaler.core.spec import (
    ConditionStatus,
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    ObjectMetric,
    TargetType,
    Tolerance,
)
from autoscaler.core.text import printable

ABLE_TO_SCALE = "AbleToScale"
SCALING_ACTIVE = "ScalingActive"
SCALING_LIMITED = "ScalingLimited"
FALLBACK = "Fallback"
"""Not a condition of the HPA: whether a fallback proposes for a metric (semantics 8.4)."""

SCALING_PAUSED = "Paused"
"""The reason of ScalingActive=False while everything is paused."""
SCALE_DOWN_PAUSED, SCALE_UP_PAUSED = "ScaleDownPaused", "ScaleUpPaused"
MIN_REPLICAS_UNKNOWN = "MinReplicasUnknown"
SCALE_DOWN_BREAKER = "ScaleDownBreaker"
SCALE_DOWN_HELD = "ScaleDownHeld"
"""The reason of a hold by `holdScaleDownQuery`."""
OWN_LIMITS = frozenset(
    {
        *(SCALE_DOWN_PAUSED, SCALE_UP_PAUSED, MIN_REPLICAS_UNKNOWN),
        *(SCALE_DOWN_BREAKER, SCALE_DOWN_HELD),
    }
)
"""Reasons of ScalingLimited that the HPA does not have."""
OWN_REASONS = OWN_LIMITS | {SCALING_PAUSED}
"""The reasons of all conditions that the HPA does not have."""
INVALID_ANNOTATION = "InvalidAnnotation"
WITHIN_RANGE_MESSAGE = "the desired count is within the acceptable range"

Conditions = tuple[Condition, ...]
# In Python 3.11, looking up a member of an Enum takes as long as creating a record.
_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


class StatusRecorder:
    """Records the conditions and events of one decision, taken at ``now``.

    ``before`` are the conditions before the decision, by default ``conditions``.
    """

    def __init__(
        self, conditions: Conditions, now: float, before: Conditions | None = None
    ) -> None:
        self.events: list[Event] = []
        self._conditions = {condition.type: condition for condition in conditions}
        self._before = self._conditions.copy()
        if before is not None:
            self._before = {condition.type: condition for condition in before}
        self._set_types: set[str] = set()
        self._now = now

    @property
    def conditions(self) -> Conditions:
        """The current conditions, in order; new ones are last."""
        return tuple(self._conditions.values())

    def is_true(self, type_: str) -> bool:
        """Return whether a condition is True."""
        condition = self._conditions.get(type_)
        return condition is not None and condition.status is _TRUE

    def set_true(self, type_: str, reason: str, message: str) -> None:
        """Set a condition to True."""
        self._set(type_, _TRUE, reason, message, self._conditions.get(type_))

    def set_false(self, type_: str, reason: str, message: str) -> None:
        """Set a condition to False."""
        self._set(type_, _FALSE, reason, message, self._conditions.get(type_))

    def override(self, type_: str, status: ConditionStatus, reason: str, message: str) -> None:
        """Replace a condition of this sync; it keeps its previous transition time."""
        self._set(type_, status, reason, message, self._before.get(type_))

    def end_own_reasons(self) -> None:
        """Reset conditions with a reason of this project that this sync did not set again."""
        for condition in self._before.values():
            if condition.reason not in OWN_REASONS or condition.type in self._set_types:
                continue
            if condition.reason in OWN_LIMITS:
                self.set_false(SCALING_LIMITED, WITHIN_RANGE, WITHIN_RANGE_MESSAGE)
            else:
                self.set_true(SCALING_ACTIVE, "Resumed", "scaling is paused no longer")

    def warn(self, reason: str, message: str) -> None:
        """Add a Warning event."""
        self.events.append(Event("Warning", reason, printable(message, LONGEST_SENTENCE)))

    def note(self, reason: str, message: str) -> None:
        """Add a Normal event."""
        self.events.append(Event("Normal", reason, printable(message, LONGEST_SENTENCE)))

    def _set(
        self, type_: str, status: ConditionStatus, reason: str, message: str, old: Condition | None
    ) -> None:
        """Set a condition; the transition time stays if ``old`` has the same status."""
        self._set_types.add(type_)
        since = self._now if old is None or old.status is not status else old.last_transition
        before = self._before.get(type_)
        if (
            before is not None
            and before.reason == reason
            and before.message == message
            and before.status is status
            and before.last_transition == since
        ):
            self._conditions[type_] = before
            return
        message = printable(message, LONGEST_SENTENCE)
        self._conditions[type_] = Condition(type_, status, reason, message, since)


@quick
@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The parameters of all stages of one decision; ``spec`` has the bounds in force.

    Ages are measured at ``now``; the history records the sync with ``stamp``. Both are Unix
    seconds.
    """

    spec: HorizontalPodAutoscalerSpec
    flags: Flags
    observation: Observation
    now: float
    stamp: float
    tolerance: Tolerance
    status: StatusRecorder
    extensions: Extensions


_LONGEST_NAME = 1000
_CACHED_BYTES = 64 << 20


def _named_bytes(metric: MetricSpec) -> int:
    return _LONGEST_NAME + 4 * len(go_string(metric.selector)) + len(metric.name)


@bounded_cache(_CACHED_BYTES, _named_bytes)
def winner_name(metric: MetricSpec) -> str:
    """Return the name of a metric in the reason of a rescale (semantics 1.7)."""
    return printable(_winner_name(metric), _LONGEST_NAME)


def _winner_name(metric: MetricSpec) -> str:
    if metric.of_resource:
        if metric.target.average_value is not None:
            return f"{metric.name} resource"
        scope = "container resource" if metric.container else "resource"
        return f"{metric.name} {scope} utilization (percentage of request)"
    external = f"external metric {metric.name}({go_string(metric.selector)})"
    if isinstance(metric, ExternalMetric):
        return external
    if isinstance(metric, ObjectMetric):
        if metric.target.type is TargetType.VALUE:
            return f"{metric.described_object.kind} metric {metric.name}"
        # The controller also calls an averaged Object metric external.
        return external
    return f"pods metric {metric.name}"


def keys_in(observation: Observation, metrics: Sequence[MetricSpec]) -> Sequence[str]:
    """Return the key of each metric in the history; its name if no key is observed."""
    return observation.metric_keys or tuple(
        f"{metric.type} {winner_name(metric)} {metric.container or ''}".rstrip()
        for metric in metrics
    )


def failure_reason(metric: MetricSpec) -> str:
    """Return the reason of a failed metric's Warning event and of ScalingActive=False."""
    return f"FailedGet{metric.type}Metric"
