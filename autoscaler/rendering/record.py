"""One target at one sync: builds the answers of `rendering.answers` from a decision.

`target_state` is fast, since a page shows thousands; `decided` is for the log, and `whole` has
everything.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from autoscaler.config.durations import format_seconds
from autoscaler.core.classification import State
from autoscaler.core.decision import Calculation, Decision, MetricResult, Removals, Rounding, Zone
from autoscaler.core.extensions import Mode
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    PodSamples,
    ReadFailure,
    Reading,
    Scale,
    Values,
)
from autoscaler.core.spec import Flags, MetricSpec
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    WriteConflict,
    WriteFailure,
    WriteOutcome,
)
from autoscaler.quantities import format_milli
from autoscaler.rendering import answers, target_rules, wording
from autoscaler.rendering.hpa import current_metrics, hpa_answer
from autoscaler.rendering.reasons import verdict

WRITTEN = "written"
"""The word for a write that the API server accepted."""
UNKNOWN, NOT_ASKED = "<unknown>", "-"
"""In place of the value of a metric that is missing, and of one that the decision did not need."""


class QuerySource(NamedTuple):
    """The origin of a metric's PromQL; ``default`` is for a target without `metrics`."""

    name: str
    default: bool = False


# -- a target ------------------------------------------------------------------------------------


def target_state(result: SyncResult, since: float | None, message: str = "") -> answers.TargetState:
    """Return the state of a target since an instant; ``message`` replaces the verdict if given."""
    metrics = _metrics(result.decision)
    if not metrics:
        # A target at zero, or controlled by another autoscaler, needs no values.
        absent = UNKNOWN if result.decision.current is None else NOT_ASKED
        metrics = tuple([metric_of(metric, None, absent) for metric in result.target.spec.metrics])
    fields = _standing(result, result.classified().state, metrics)
    if message:
        fields["message"] = message
    return answers.TargetState(
        **fields,
        **wording.key_parts(result.target.key)._asdict(),
        object_name=result.target.object_name,
        since=since,
        last_sync=result.decision.time,
    )


def decided(result: SyncResult) -> answers.TargetDecision:
    """Return a decision without its stages."""
    metrics = _metrics(result.decision)
    return answers.TargetDecision(**_decided(result, metrics))


def whole(
    result: SyncResult, sources: Sequence[QuerySource] = (), no_series: Sequence[str] = ()
) -> answers.Decision:
    """Return a complete result; ``sources`` are of the target's queries."""
    decision, scale = result.decision, result.decision.scale
    metrics = tuple(
        decision_metric(metric, **_query(result, index, sources))
        for index, metric in enumerate(decision.metrics)
    )
    fields = _decided(result, metrics) | {
        "scale": {"error": scale.message} if isinstance(scale, ReadFailure) else scale,
        "foreign_change": decision.foreign,
    }
    return answers.Decision(
        **fields,
        zone=decision.zone,
        stages=stages_of(decision),
        rescale=decision.rescale,
        reason=decision.reason,
        conditions=tuple(
            answers.DecisionCondition(
                type=condition.type,
                status=condition.status,
                reason=condition.reason,
                message=wording.plain(condition.message, decision),
                last_transition_time=condition.last_transition,
            )
            for condition in decision.conditions
        ),
        events=tuple(
            answers.DecisionEvent(
                type=event.type, reason=event.reason, message=wording.plain(event.message, decision)
            )
            for event in decision.events
        ),
        current_metrics=tuple(current_metrics(decision)),
        removals=_removals(decision.removals),
        no_series=tuple(no_series),
    )


def _removals(removals: Removals | None) -> answers.PodRemovals | None:
    if removals is None:
        return None
    pods = [
        answers.RemovedPod(
            pod=pod.pod,
            reason=pod.reason,
            value=None if pod.value is None else format_milli(pod.value),
            cost=pod.cost,
        )
        for pod in removals.pods
    ]
    gap = removals.gap
    missing = None if gap is None else gap.detail
    return answers.PodRemovals(count=removals.count, pods=tuple(pods), missing=missing)


def _metrics(decision: Decision) -> tuple[answers.Metric, ...]:
    return tuple([metric_of(result.metric, result) for result in decision.metrics])


def _standing(
    result: SyncResult, state: State, metrics: Sequence[answers.Metric]
) -> dict[str, Any]:
    decision = result.decision
    return {
        "target": wording.target_key(result.target),
        "state": state,
        "message": verdict(result),
        "min_replicas": decision.min_replicas,
        "max_replicas": decision.max_replicas,
        "current_replicas": decision.current,
        "desired_replicas": None if decision.current is None else decision.desired,
        "metrics": metrics,
        "mode": Mode.SHADOW if decision.shadow else Mode.LIVE,
        "controlled_by": printable(decision.controller, LONGEST_SENTENCE) or None,
        "hpa": None if decision.hpa is None else hpa_answer(decision.hpa),
        **target_rules.fields_of(decision),
    }


def _decided(result: SyncResult, metrics: Sequence[answers.Metric]) -> dict[str, Any]:
    decision, about = result.decision, result.classified()
    return {
        "time": decision.time,
        "outcome": decision.outcome,
        "cause": about.cause or None,
        "write": write_word(result.write),
        "held_until": decision.held_until,
        "breaker": decision.breaker,
        "releases_at": decision.releases_at,
        **_standing(result, about.state, metrics),
    }


def write_word(write: WriteOutcome | None) -> str | None:
    """Return the word for the outcome of a write; None if none was needed."""
    words = {AcceptedWrite: WRITTEN, WriteConflict: "superseded", WriteFailure: "failed"}
    if isinstance(write, SkippedWrite):
        return write.reason.value
    return None if write is None else words[type(write)]


def stages_of(decision: Decision) -> tuple[answers.DecisionStage, ...]:
    """Return the stages that have run, in order."""
    scale, combined, limit = decision.scale, decision.combination, decision.limit
    if decision.zone in {Zone.ABOVE_MAX, Zone.BELOW_MIN} and isinstance(scale, Scale):
        to = decision.desired if decision.rounding is None else decision.rounding.before
        bounds = _stage("bounds", scale.spec_replicas, to, decision.reason)
        return (bounds, *_rounding(decision.rounding))
    stages: list[answers.DecisionStage] = []
    if combined is not None:
        stages.append(_stage("combine", combined.before, combined.after, decision.reason))
    if (held := decision.stabilization) is not None:
        by: Mapping[str, Any] = {"held_by": held.held_by, "until": held.until}
        stages.append(_stage("stabilize", held.before, held.after, held.reason, by))
    if limit is not None:
        by = {"policy": limit.policy, "unseen_until": limit.unseen, "until": limit.until}
        by = {} if limit.policy is None else by
        stages.append(_stage("limit", limit.before, limit.after, limit.reason, by))
    return (*stages, *_rounding(decision.rounding))


def _rounding(rounding: Rounding | None) -> Iterator[answers.DecisionStage]:
    if rounding is not None:
        reason = target_rules.rounding(rounding)
        yield _stage("round", rounding.before, rounding.after, reason)


def _stage(
    name: str, before: int, after: int, reason: str, by: Mapping[str, Any] = {}
) -> answers.DecisionStage:
    return answers.DecisionStage(name=name, before=before, after=after, reason=reason, **by)


def defaults_of(flags: Flags) -> answers.Defaults:
    """Return the settings of all targets, as configured."""
    return answers.Defaults(
        tolerance=flags.tolerance,
        downscale_stabilization=format_seconds(flags.downscale_stabilization),
        cpu_initialization_period=format_seconds(flags.cpu_initialization_period),
        initial_readiness_delay=format_seconds(flags.initial_readiness_delay),
    )


# -- a metric ------------------------------------------------------------------------------------


def metric_of(
    metric: MetricSpec, result: MetricResult | None, absent: str = UNKNOWN
) -> answers.Metric:
    """Return one metric; ``absent`` replaces a missing value."""
    return answers.Metric(**_metric(metric, result, absent))


def _metric(metric: MetricSpec, result: MetricResult | None, absent: str) -> dict[str, Any]:
    kind, target = wording.target_number(metric)
    value, text, proposal, activity, fallback = None, absent, None, None, None
    if result is not None:
        proposal, activity = result.proposal, result.activity
        if isinstance(result.outcome, Calculation):
            value, text = wording.measured_number(result.outcome.current), wording.usage(result)
        if (use := result.fallback) is not None:
            fallback = answers.Fallback(behavior=use.fallback.behavior, failed_syncs=use.syncs)
    return {
        "name": wording.metric_name(metric),
        "type": metric.type,
        "target_type": kind,
        "value": value,
        "target": target,
        "text": f"{text}/{wording.target_value(metric)}",
        "proposed_replicas": proposal,
        "activity": activity,
        "fallback": fallback,
    }


def decision_metric(result: MetricResult, **query: Any) -> answers.DecisionMetric:
    """Return a metric with the computation of its proposal, or its failure."""
    outcome, reading, refill = result.outcome, result.reading, result.refill
    fields = _metric(result.metric, result, UNKNOWN) | query | {"missing": gaps_of(reading)}
    if not isinstance(outcome, Calculation):
        return answers.DecisionMetric(**fields, failed=outcome.reason, error=outcome.message)
    fields["pods"] = outcome.groups
    usage, request = wording.usage_and_request(result) or (None, None)
    return answers.DecisionMetric(
        **fields,
        usage=usage,
        request=request,
        total=wording.total(result),
        ratio=_number(outcome.ratio),
        rule=outcome.rule,
        values=tuple(map(format_milli, reading.values)) if isinstance(reading, Values) else None,
        multiplier=outcome.multiplier,
        rebalanced_ratio=_number(outcome.rebalanced_ratio),
        negative_sum=outcome.negative_sum,
        returned=None if refill is None else refill.returned,
        nothing_down_before=None if refill is None else refill.until,
    )


def _number(value: float | None) -> float | str | None:
    """Return a number; as text if it is not finite, which JSON cannot express."""
    return value if value is None or math.isfinite(value) else str(value)


def _query(result: SyncResult, index: int, sources: Sequence[QuerySource]) -> dict[str, Any]:
    source = sources[index] if index < len(sources) else None
    asked = result.target.queries[index] if index < len(result.target.queries) else None
    query = answers.Query(
        promql="" if asked is None else asked.promql,
        source=None if source is None else source.name,
        server=None if asked is None else asked.server or None,
    )
    return {"query": query, "default": source is not None and source.default}


def gaps_of(reading: Reading) -> tuple[Gap, ...]:
    """Return the gaps of a reading."""
    if isinstance(reading, Gap):
        return (reading,)
    if isinstance(reading, PodSamples):
        return (*reading.gaps, *reading.dropped.values())
    return reading.gaps
