"""The status of a PromqlAutoscaler object, for `kubectl get`, `kubectl wait` and dashboards.

It is a merge patch: null removes a key, and keys that are not in it stay as they are.
"""

import json
from collections.abc import Mapping

from autoscaler.config.objects import ObjectRefusal
from autoscaler.core.classification import State, failure_of
from autoscaler.core.contention import CONTROLLED_BY_OTHER
from autoscaler.core.decision import MetricResult, Outcome
from autoscaler.core.spec import ConditionStatus, name_of
from autoscaler.core.status import ABLE_TO_SCALE
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable, rfc3339
from autoscaler.kubernetes.api import MALFORMED, JsonObject
from autoscaler.rendering import reasons, wording
from autoscaler.rendering.hpa import current_metrics

NUMBERS = frozenset({"currentMetrics", "metrics"})
"""The keys that change with every reading."""
_COUNTS = ("currentReplicas", "desiredReplicas", *sorted(NUMBERS))
_READY = "Ready"
_WORKING: Mapping[State, str] = {
    State.SHADOW: "Shadow",
    State.PAUSED: "Paused",
    State.DISABLED: "Disabled",
    State.IDLE: "Idle",
}
"""The reasons of Ready=True, apart from the usual one."""
_LONGEST_MESSAGE, _LONGEST_REASON, _LONGEST_NAME = 1000, 100, 40
_MOST_METRICS = 3

_Told = tuple[ConditionStatus, str, str]
"""Status, reason and message of a condition."""
_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def synced_status(
    sync: SyncResult, generation: int, last_scale: float | None, change: str, before: JsonObject
) -> JsonObject:
    """Return the status of an object in force after a sync.

    ``last_scale`` is the Unix time of the last change of the replicas and ``change`` its text, if
    known (`change_of`). Conditions keep their time if their status is the same as ``before``.
    """
    decision, times = sync.decision, _times(before)
    conditions = [
        _condition(of.type, (of.status, of.reason, of.message), of.last_transition, times)
        for of in decision.conditions
    ]
    conditions.append(_condition(_READY, readiness(sync), decision.time, times))
    status: JsonObject = {"observedGeneration": generation, "conditions": conditions}
    if last_scale is not None:
        status["lastScaleTime"] = rfc3339(last_scale)
    if change:
        status["lastDecision"] = change
    if decision.current is not None:  # Without a scale the last counts stay, as for an HPA.
        status |= {"currentReplicas": decision.current, "desiredReplicas": decision.desired}
        status["currentMetrics"] = [of for of in current_metrics(decision) if of["type"]]
        status["metrics"] = metrics_text(decision.metrics)
    return status


def refused_status(
    refusal: ObjectRefusal, generation: int, now: float, before: JsonObject
) -> JsonObject:
    """Return the status of an object that is not in force; it has no counts."""
    told = (_FALSE, refusal.reason.value, refusal.message)
    conditions = [_condition(_READY, told, now, _times(before))]
    counts = dict.fromkeys(_COUNTS)
    return {"observedGeneration": generation, "conditions": conditions, **counts}


def readiness(sync: SyncResult) -> _Told:
    """Return status, reason and message of the condition Ready."""
    decision, state = sync.decision, sync.classified().state
    for of in decision.conditions:
        if of.type == ABLE_TO_SCALE and of.status is not _TRUE:
            return _FALSE, of.reason, of.message
    failure = failure_of(decision) if state is State.FAILING else None
    if failure is not None:
        if decision.outcome is Outcome.BLOCKED:
            return _FALSE, *failure
        return _TRUE, "Partial", ": ".join(failure)
    if state is State.CONTROLLED:
        return _FALSE, CONTROLLED_BY_OTHER, f"controlled by {decision.controller}"
    return _TRUE, _WORKING.get(state, _READY), "the object is in force"


def change_of(sync: SyncResult, before: str) -> str:
    """Return the text of a change of the replicas; empty without a new one.

    In shadow each sync repeats the change: one with the counts of the text ``before`` is not new.
    """
    decision = sync.decision
    is_new = f" {decision.current} -> {decision.desired}: " not in before
    if decision.rescale and (decision.written or (decision.in_shadow and is_new)):
        return printable(reasons.verdict(sync).removeprefix("scaled "), _LONGEST_MESSAGE)
    return ""


def metrics_text(metrics: tuple[MetricResult, ...]) -> str:
    """Return values and targets as the column TARGETS of `kubectl get hpa`: "rps 61/50"."""
    shown = [
        f"{printable(name_of(of.metric), _LONGEST_NAME)} "
        f"{wording.usage(of)}/{wording.target_value(of.metric)}"
        for of in metrics[:_MOST_METRICS]
    ]
    left = len(metrics) - _MOST_METRICS
    return ", ".join([*shown, f"{left} more"] if left > 0 else shown)


def read_status(known: bytes | None) -> JsonObject:
    """Parse a status that the API server sent; empty without one, or if it is malformed."""
    try:
        status: JsonObject = json.loads(known or b"{}")
        _times(status)
    except MALFORMED:
        return {}
    return status


_Times = dict[tuple[str, str], str]


def _times(status: JsonObject) -> _Times:
    """Return the time of each condition by its type and status."""
    return {
        (str(of["type"]), str(of["status"])): printable(of["lastTransitionTime"])
        for of in status.get("conditions") or ()
    }


def _condition(type_: str, told: _Told, since: float, times: _Times) -> JsonObject:
    status, reason, message = told
    return {
        "type": type_,
        "status": status.value,
        "reason": printable(reason, _LONGEST_REASON),
        "message": printable(message, _LONGEST_MESSAGE),
        "lastTransitionTime": times.get((type_, status.value)) or rfc3339(since),
    }
