"""What an HPA reports of itself: conditions, events and metrics (semantics 1.6, 1.7, 2.8)."""

from functools import lru_cache

from autoscaler.core.decision import Calculation, Decision, Event, MetricResult, MetricValueStatus
from autoscaler.core.history import Condition
from autoscaler.core.limits import WITHIN_RANGE
from autoscaler.core.observation import LONGEST_SENTENCE, ConditionStatus
from autoscaler.core.quantity import format_milli
from autoscaler.core.selectors import LabelSelector, go_string
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricIdentifier,
    MetricSpec,
    ObjectMetric,
    ResourceMetric,
    TargetType,
)
from autoscaler.core.text import printable

ABLE_TO_SCALE = "AbleToScale"
SCALING_ACTIVE = "ScalingActive"
SCALING_LIMITED = "ScalingLimited"
FALLBACK = "Fallback"
"""No condition of the HPA: whether a fallback proposes for a metric (semantics 8.4)."""

SCALING_PAUSED = "Paused"
"""The reason of ScalingActive=False in a pause of everything."""
SCALE_DOWN_PAUSED, SCALE_UP_PAUSED = "ScaleDownPaused", "ScaleUpPaused"
MIN_REPLICAS_UNKNOWN = "MinReplicasUnknown"
SCALE_DOWN_BREAKER = "ScaleDownBreaker"
OWN_LIMITS = frozenset(
    {SCALE_DOWN_PAUSED, SCALE_UP_PAUSED, MIN_REPLICAS_UNKNOWN, SCALE_DOWN_BREAKER}
)
"""Reasons of ScalingLimited that the HPA does not have."""
WITHIN_RANGE_MESSAGE = "the desired count is within the acceptable range"

Conditions = tuple[Condition, ...]


def with_condition(
    conditions: Conditions,
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    now: float,
) -> Conditions:
    """Set a condition in its place, or append it (`setConditionInList`)."""
    for index, old in enumerate(conditions):
        if old.type == type_:
            since = old.last_transition if old.status is status else now
            new = Condition(type_, status, reason, message, since)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, Condition(type_, status, reason, message, now))


def overridden(
    conditions: Conditions,
    before: Conditions,
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    now: float,
) -> Conditions:
    """Set a condition; it is as old as that of ``before`` if that had the same status."""
    old = next((one for one in before if one.type == type_ and one.status is status), None)
    since = now if old is None else old.last_transition
    message = printable(message, LONGEST_SENTENCE)
    return with_condition(conditions, type_, status, reason, message, since)


class StatusRecorder:
    """Records the conditions and events of one decision, which is taken at ``now``."""

    def __init__(self, conditions: Conditions, now: float) -> None:
        self.conditions = conditions
        self.events: list[Event] = []
        self._before = conditions
        self._now = now

    def is_true(self, type_: str) -> bool:
        """Return whether a condition is True."""
        return any(
            one.type == type_ and one.status is ConditionStatus.TRUE for one in self.conditions
        )

    def set_true(self, type_: str, reason: str, message: str) -> None:
        """Set a condition to True."""
        self._set(type_, ConditionStatus.TRUE, reason, message)

    def set_false(self, type_: str, reason: str, message: str) -> None:
        """Set a condition to False."""
        self._set(type_, ConditionStatus.FALSE, reason, message)

    def override(self, type_: str, status: ConditionStatus, reason: str, message: str) -> None:
        """Set a condition that this sync has set otherwise before: for a pause, and the like.

        It is as old as that of the last sync if it has the same status.
        """
        self.conditions = overridden(
            self.conditions, self._before, type_, status, reason, message, self._now
        )

    def end_own_reasons(self) -> None:
        """Set those conditions back whose reason is not the HPA's and that this sync left alone."""
        for one, before in zip(self.conditions, self._before, strict=False):
            if one is not before:
                continue
            if one.reason in OWN_LIMITS:
                self.set_false(SCALING_LIMITED, WITHIN_RANGE, WITHIN_RANGE_MESSAGE)
            elif one.reason == SCALING_PAUSED:
                self.set_true(SCALING_ACTIVE, "Resumed", "scaling is paused no longer")

    def warn(self, reason: str, message: str) -> None:
        """Add a Warning event."""
        self.events.append(Event("Warning", reason, printable(message, LONGEST_SENTENCE)))

    def note(self, reason: str, message: str) -> None:
        """Add a Normal event."""
        self.events.append(Event("Normal", reason, printable(message, LONGEST_SENTENCE)))

    def _set(self, type_: str, status: ConditionStatus, reason: str, message: str) -> None:
        message = printable(message, LONGEST_SENTENCE)
        self.conditions = with_condition(self.conditions, type_, status, reason, message, self._now)


_LONGEST_NAME = 1000


@lru_cache(maxsize=65536)
def winner_name(metric: MetricSpec) -> str:
    """Return the name of a metric in the reason of a rescale (semantics 1.7)."""
    return printable(_winner_name(metric), _LONGEST_NAME)


def _winner_name(metric: MetricSpec) -> str:
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        if metric.target.average_value is not None:
            return f"{metric.name} resource"
        scope = "resource" if isinstance(metric, ResourceMetric) else "container resource"
        return f"{metric.name} {scope} utilization (percentage of request)"
    identifier = metric.metric
    external = f"external metric {identifier.name}({go_string(identifier.selector)})"
    if isinstance(metric, ExternalMetric):
        return external
    if isinstance(metric, ObjectMetric):
        if metric.target.type is TargetType.VALUE:
            return f"{metric.described_object.kind} metric {identifier.name}"
        # The controller also calls an averaged Object metric external.
        return external
    return f"pods metric {identifier.name}"


def failure_reason(metric: MetricSpec) -> str:
    """Return the reason of a failed metric's Warning event and of ScalingActive=False."""
    return f"FailedGet{metric.type}Metric"


Json = dict[str, object]


def current_metrics(decision: Decision) -> list[Json]:
    """Return `HorizontalPodAutoscalerStatus.currentMetrics`; a failed metric's entry is empty."""
    return [_metric_status(result) for result in decision.metrics]


def _metric_status(result: MetricResult) -> Json:
    if not isinstance(result.outcome, Calculation):
        return {"type": ""}
    metric, current = result.metric, result.outcome.current
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        body: Json = {"name": metric.name}
        if isinstance(metric, ContainerResourceMetric):
            body["container"] = metric.container
        body["current"] = _value_status(current, binary=metric.name == "memory")
    else:
        body = {"metric": _identifier(metric.metric), "current": _value_status(current)}
        if isinstance(metric, ObjectMetric):
            described = metric.described_object
            body["describedObject"] = {
                "apiVersion": described.api_version,
                "kind": described.kind,
                "name": described.name,
            }
    return {"type": metric.type, metric.type[0].lower() + metric.type[1:]: body}


def _value_status(current: MetricValueStatus, *, binary: bool = False) -> Json:
    status: Json = {}
    if current.value is not None:
        status["value"] = format_milli(current.value, binary=binary)
    if current.average_value is not None:
        status["averageValue"] = format_milli(current.average_value, binary=binary)
    if current.average_utilization is not None:
        status["averageUtilization"] = current.average_utilization
    return status


def _identifier(identifier: MetricIdentifier) -> Json:
    body: Json = {"name": identifier.name}
    if identifier.selector is not None:
        body["selector"] = _selector(identifier.selector)
    return body


def _selector(selector: LabelSelector) -> Json:
    body: Json = {}
    if selector.match_labels:
        body["matchLabels"] = dict(selector.match_labels)
    if selector.match_expressions:
        body["matchExpressions"] = [
            {"key": one.key, "operator": one.operator.value}
            | ({"values": list(one.values)} if one.values else {})
            for one in selector.match_expressions
        ]
    return body
