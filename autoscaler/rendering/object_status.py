"""The status of a PromqlAutoscaler object, for `kubectl get`, `kubectl wait` and dashboards.

A status is a merge patch: null removes a key, and an absent key stays as it is.
"""

import json
from collections.abc import Mapping
from itertools import islice

from autoscaler.config.objects import ObjectRefusal
from autoscaler.core.classification import State, failure_of
from autoscaler.core.contention import CONTROLLED_BY_OTHER, REPLICAS_CONTESTED
from autoscaler.core.decision import MetricResult, Outcome
from autoscaler.core.spec import ConditionStatus, name_of
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import instant_of, printable, rfc3339
from autoscaler.core.writes import WriteFailure
from autoscaler.rendering import reasons, wording
from autoscaler.rendering.hpa import current_metrics

Status = dict[str, object]

READY = "Ready"
"""The condition for `kubectl wait`, and its usual reason."""
NUMBERS = frozenset({"currentMetrics", "metrics"})
"""The keys that change with every reading."""

_LONGEST_MESSAGE, _LONGEST_REASON = 1000, 100
_LONGEST_DECISION = 500
_MOST_METRICS = 3
_LONGEST_NAME = 40
_Told = tuple[ConditionStatus, str, str]
"""Status, reason and message of a condition."""
_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def synced_status(
    sync: SyncResult, generation: int, last_scale: float | None, change: str, before: Status
) -> Status:
    """Return the status of an object in force after a sync.

    ``last_scale`` is the Unix time of the last change of the replicas and ``change`` its text, if
    known (`change_of`). Conditions whose status is the same as ``before`` keep their time.
    """
    decision = sync.decision
    status: Status = {"observedGeneration": generation}
    conditions = [
        _condition(
            each.type, (each.status, each.reason, each.message), each.last_transition, before
        )
        for each in decision.conditions
    ]
    ready = _condition(READY, readiness(sync), decision.time, before)
    status["conditions"] = [*conditions, ready]
    if last_scale is not None:
        status["lastScaleTime"] = rfc3339(last_scale)
    if change:
        status["lastDecision"] = change
    # Without a scale nothing is known about the counts: the last ones stay, as for an HPA.
    if decision.current is not None:
        status["currentReplicas"] = decision.current
        status["desiredReplicas"] = decision.desired
        status["currentMetrics"] = [
            metric for metric in current_metrics(decision) if metric["type"]
        ]
        status["metrics"] = metrics_text(decision.metrics)
    return status


def refused_status(refusal: ObjectRefusal, generation: int, now: float, before: Status) -> Status:
    """Return the status of an object that is not in force; it has no counts."""
    readiness = (_FALSE, refusal.reason.value, refusal.message)
    removed = ("currentReplicas", "desiredReplicas", *NUMBERS)
    status: Status = dict.fromkeys(removed)
    status["observedGeneration"] = generation
    status["conditions"] = [_condition(READY, readiness, now, before)]
    return status


_WORKING: Mapping[State, str] = {
    State.SHADOW: "Shadow",
    State.PAUSED: "Paused",
    State.DISABLED: "Disabled",
    State.IDLE: "Idle",
}
"""The reasons of Ready=True, apart from the usual one."""


def readiness(sync: SyncResult) -> _Told:
    """Return status, reason and message of the condition Ready."""
    decision, state = sync.decision, sync.classified().state
    failure = failure_of(decision)
    if isinstance(sync.write, WriteFailure):
        return _FALSE, "FailedUpdateScale", sync.write.message
    if state is State.CONTESTED:
        return _FALSE, REPLICAS_CONTESTED, "other clients undo the changes of the replicas"
    if state is State.FAILING and failure is not None:
        if decision.outcome is Outcome.BLOCKED:
            return _FALSE, failure.reason, failure.message
        return _TRUE, "Partial", f"{failure.reason}: {failure.message}"
    if decision.controller and not decision.shadow:
        return _FALSE, CONTROLLED_BY_OTHER, f"{decision.controller} scales the workload"
    reason = _WORKING.get(state, READY)
    return _TRUE, reason, "the object is in force"


def change_of(sync: SyncResult, before: str) -> str:
    """Return the text of a change of the replicas; empty without a new one.

    In shadow each sync repeats the change: one with the counts of the text ``before`` is not new.
    """
    decision = sync.decision
    repeated = f" {decision.current} -> {decision.desired}: " in before
    if not decision.rescale or not (decision.written or (decision.in_shadow and not repeated)):
        return ""
    return printable(reasons.verdict(sync).removeprefix("scaled "), _LONGEST_DECISION)


def metrics_text(metrics: tuple[MetricResult, ...]) -> str:
    """Return values and targets as the column TARGETS of `kubectl get hpa`: "rps 61/50"."""
    shown = [
        f"{printable(name_of(result.metric), _LONGEST_NAME)} "
        f"{wording.usage(result)}/{wording.target_value(result.metric)}"
        for result in islice(metrics, _MOST_METRICS)
    ]
    left = len(metrics) - _MOST_METRICS
    return ", ".join(shown + ([f"{left} more"] if left > 0 else []))


def _condition(type_: str, told: _Told, since: float, before: Status) -> Status:
    status, reason, message = told
    return {
        "type": type_,
        "status": status.value,
        "reason": printable(reason, _LONGEST_REASON),
        "message": printable(message, _LONGEST_MESSAGE),
        "lastTransitionTime": _known_since(type_, status.value, before) or rfc3339(since),
    }


def _known_since(type_: str, status: str, before: Status) -> str | None:
    """Return the time of a condition with the same status before; None without one."""
    conditions = before.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == type_:
            since = condition.get("lastTransitionTime")
            instant = instant_of(since) if isinstance(since, str) else None
            same = condition.get("status") == status and instant is not None
            return rfc3339(instant or 0.0) if same else None
    return None


def read_status(known: bytes | None) -> Status:
    """Parse a status that the API server sent; empty without one, or if it is malformed."""
    try:
        status = json.loads(known or b"{}")
    except (ValueError, RecursionError):
        return {}
    return status if isinstance(status, dict) else {}


def differences(before: Status, status: Status) -> frozenset[str]:
    """Return the keys that a patch changes."""
    return frozenset(key for key, value in status.items() if before.get(key) != value)


def patched(before: Status, status: Status) -> Status:
    """Return a status after a patch."""
    return {key: value for key, value in (before | status).items() if value is not None}
