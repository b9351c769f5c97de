"""A sync's result as plain data: what `plan -o json` prints and a log line carries."""

from collections.abc import Sequence

from autoscaler.core.decision import Calculation, Decision, MetricResult
from autoscaler.core.grouping import PodGroups
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    PodSamples,
    Reading,
    Scale,
    Unavailable,
    Values,
)
from autoscaler.core.printable import printable
from autoscaler.core.quantity import format_milli
from autoscaler.core.rfc3339 import instant
from autoscaler.core.status import current_metrics
from autoscaler.core.writes import NotWritten, Superseded, WriteFailed, Written
from autoscaler.rendering import wording
from autoscaler.rendering.query_source import QuerySource, promql_of
from autoscaler.rendering.standing import state_of, verdict
from autoscaler.sync.ports import SyncResult

Json = dict[str, object]


def record(result: SyncResult, sources: Sequence[QuerySource] = ()) -> Json:
    """Return the whole of a result, JSON-ready, keys in camelCase.

    ``sources`` are of the target's queries.
    """
    decision = result.decision
    body: Json = {
        "target": result.target.key,
        "time": instant(decision.time),
        "state": state_of(result).value,
        "message": verdict(result),
        "zone": decision.zone.value,
        "outcome": decision.outcome.value,
        "scale": _scale(decision.scale),
        "minReplicas": decision.min_replicas,
        "maxReplicas": decision.max_replicas,
        "metrics": [
            _metric(one) | _query(result, index, sources)
            for index, one in enumerate(decision.metrics)
        ],
        "stages": _stages(decision),
        "desiredReplicas": None if decision.current is None else decision.desired,
        "rescale": decision.rescale,
        "reason": decision.reason,
        "write": write_word(result),
        "conditions": [
            {
                "type": one.type,
                "status": one.status.value,
                "reason": one.reason,
                "message": wording.plain(one.message, decision),
                "lastTransitionTime": instant(one.last_transition),
            }
            for one in decision.conditions
        ],
        "events": [
            {
                "type": one.type,
                "reason": one.reason,
                "message": wording.plain(one.message, decision),
            }
            for one in decision.events
        ],
        "currentMetrics": current_metrics(decision),
    }
    if result.controller:
        body["controlledBy"] = result.controller
    if decision.foreign is not None:
        change = decision.foreign
        body["foreignChange"] = {
            "before": change.before,
            "after": change.after,
            "manager": change.manager or None,
            "reversal": change.reversal,
        }
    if decision.held_until is not None:
        body["heldUntil"] = instant(decision.held_until)
    if decision.releases_at is not None:
        body["releasesAt"] = instant(decision.releases_at)
    return body


def write_word(result: SyncResult) -> str | None:
    """Say in one word what became of the write; None where none was due."""
    words = {Written: "written", Superseded: "superseded", WriteFailed: "failed"}
    if isinstance(result.write, NotWritten):
        return result.write.reason.value
    return None if result.write is None else words[type(result.write)]


def _scale(scale: Scale | Unavailable) -> Json:
    if isinstance(scale, Unavailable):
        return {"error": printable(scale.message, LONGEST_SENTENCE)}
    return {
        "specReplicas": scale.spec_replicas,
        "statusReplicas": scale.status_replicas,
        "selector": printable(scale.selector, LONGEST_SENTENCE),
    }


def _metric(result: MetricResult) -> Json:
    body: Json = {
        "type": result.metric.type,
        "name": wording.metric_name(result.metric),
        "target": wording.target(result.metric),
    }
    gaps = _gaps(result.reading)
    if gaps:
        body["missing"] = [{"kind": gap.kind.value, "detail": gap.detail} for gap in gaps]
    if not isinstance(result.outcome, Calculation):
        return body | {"failed": result.outcome.reason, "error": result.outcome.message}
    outcome = result.outcome
    body |= {
        **wording.measured(result),
        "ratio": _finite(outcome.ratio),
        "rule": outcome.rule.value,
        "proposal": outcome.proposal,
    }
    if isinstance(result.reading, Values):
        body["values"] = [format_milli(one) for one in result.reading.values]
    if outcome.multiplier is not None:
        body["multiplier"] = outcome.multiplier
    if outcome.rebalanced_ratio is not None:
        body["rebalancedRatio"] = _finite(outcome.rebalanced_ratio)
    if outcome.groups is not None:
        body["pods"] = _groups(outcome.groups)
    if outcome.negative_sum:
        body["negativeSum"] = True
    if result.refill is not None:
        body["returned"] = instant(result.refill.returned)
        body["nothingDownBefore"] = instant(result.refill.until)
    return body


def _query(result: SyncResult, index: int, sources: Sequence[QuerySource]) -> Json:
    body: Json = {"query": {"promql": promql_of(result, index)}}
    if index < len(sources):
        body["query"] = {"source": sources[index].name, "promql": promql_of(result, index)}
        if sources[index].default:
            body["default"] = True
    return body


def _finite(ratio: float) -> float | str:
    """JSON has no infinities and no NaN: those are written as words."""
    return ratio if ratio - ratio == 0.0 else str(ratio)


def _groups(groups: PodGroups) -> Json:
    return {
        "ready": groups.ready,
        "unready": list(groups.unready),
        "missing": list(groups.missing),
        "ignored": list(groups.ignored),
        "unreadyBy": [
            {
                "pod": one.pod,
                "rule": one.rule.value,
                "until": None if one.until is None else instant(one.until),
            }
            for one in groups.unready_by
        ],
    }


def _gaps(reading: Reading) -> tuple[Gap, ...]:
    if isinstance(reading, Gap):
        return (reading,)
    if isinstance(reading, PodSamples):
        return (*reading.gaps, *reading.dropped.values())
    return reading.gaps


def _stages(decision: Decision) -> list[Json]:
    stages: list[Json] = [
        {"name": one.name, "before": one.before, "after": one.after, "reason": one.reason}
        for one in decision.stages
    ]
    stabilization, limit = decision.stabilization, decision.limit
    for stage in stages:
        if stage["name"] == "stabilize" and stabilization:
            if stabilization.held_by:
                stage["heldBy"] = {
                    "replicas": stabilization.held_by.replicas,
                    "time": instant(stabilization.held_by.time),
                }
            _add_until(stage, stabilization.until)
        if stage["name"] == "limit" and limit and limit.policy:
            stage["policy"] = {
                "type": limit.policy.type.value,
                "value": limit.policy.value,
                "periodSeconds": limit.policy.period_seconds,
            }
            if limit.unseen is not None:
                stage["unseenUntil"] = instant(limit.unseen)
            _add_until(stage, limit.until)
    return stages


def _add_until(stage: Json, until: float | None) -> None:
    if until is not None:
        stage["until"] = instant(until)
