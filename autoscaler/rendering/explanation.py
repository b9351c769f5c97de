"""`plan --explain`: every stage of a decision, in the order in which it was made."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from autoscaler.core.classification import failure_of
from autoscaler.core.decision import (
    Calculation,
    Decision,
    Formula,
    Limit,
    MetricResult,
    PodGroups,
    Stabilization,
    UnreadyRule,
    Zone,
)
from autoscaler.core.history import Condition
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    GapKind,
    PodSamples,
    ReadFailure,
    Scale,
    Values,
)
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query
from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.rendering import target_rules, wording
from autoscaler.rendering.hpa import hpa_text
from autoscaler.rendering.reasons import hold, restriction, verdict
from autoscaler.rendering.record import QuerySource, gaps_of

_LABEL_WIDTH = 15
_S = TypeVar("_S", Stabilization, Limit)


def explain(
    result: SyncResult, sources: Sequence[QuerySource] = (), file: str | None = "FILE"
) -> str:
    """Explain a whole decision line by line; ``sources`` are of its queries.

    ``file`` is the configuration for a hint that asks Prometheus; without it there is no hint. With
    the inputs of the decision, the rules in force and the last change are included.
    """
    decision, target = result.decision, result.target
    sentence = printable(verdict(result), LONGEST_SENTENCE)
    stages = target_rules.stages(result) | {
        "HPA": [] if decision.hpa is None else [hpa_text(decision.hpa)],
        "scale": _scale(result),
    }
    for index, metric in enumerate(decision.metrics):
        source = sources[index] if index < len(sources) else QuerySource("query")
        first, *rest = _metric(metric, result)
        query = target.queries[index] if index < len(target.queries) else None
        stages[f"metric {index + 1}"] = [first, *_query(source, query), *rest]
    stages["combined"] = _combination(decision)
    stages |= _rules_and_limits(result)
    stages["conditions"] = [_condition(condition, decision) for condition in decision.conditions]
    gaps = [metric.reading for metric in decision.metrics if isinstance(metric.reading, Gap)]
    if file is not None and any(gap.kind is GapKind.EMPTY for gap in gaps):
        stages["hint"] = [f"`autoscaler validate --prometheus {file}` shows which labels exist"]
    lines = [line for label, texts in stages.items() for line in labelled(label, texts)]
    at = f"{wording.target_key(target)} at {rfc3339(decision.time)}"
    return "\n".join((f"{at}: {sentence}", *lines))


def _rules_and_limits(result: SyncResult) -> dict[str, list[str]]:
    """Return the effects of stabilization and limits; with inputs, also their rules."""
    decision, given = result.decision, result.given
    stages: dict[str, list[str]] = {}
    if given is not None:
        rules = wording.behavior(result.target.spec.behavior, result.flags)
        stages["behavior"] = [f"{name.lower()}: {rule}" for name, rule in rules]
    stages["stabilization"] = _stage(
        decision.stabilization,
        "no stabilization window applies",
        lambda stage: hold(stage, decision.time),
    )
    stages["limit"] = _stage(
        decision.limit, "within bounds and policies", lambda stage: restriction(stage, result)
    )
    if (rounding := decision.rounding) is not None:
        stages["rounding"] = [
            f"{rounding.before} -> {rounding.after}: {target_rules.rounding(rounding)}"
        ]
    stages["removes"] = list(target_rules.removed_pods_lines(result))
    if given is not None:
        last, told = given.history.last_scale_time, "never, as far as known"
        if last is not None:
            told = f"at {rfc3339(last)}, {duration(decision.time - last)} earlier"
        stages["last scaled"] = [told]
    if (missing := decision.lasting_saturation) is not None:
        stages["below demand"] = [target_rules.saturation(missing, decision.time)]
    return stages


def _query(source: QuerySource, query: Query | None) -> Iterator[str]:
    if source.default:
        yield "default metric of the HPA (`metrics` is not set)"
    if query is not None:
        yield f"{source.name}{target_rules.at_server(query)}: {query.promql}"


def _condition(condition: Condition, decision: Decision) -> str:
    """Format a condition; a failure that the verdict names is not repeated."""
    message = wording.plain(condition.message, decision)
    failure = failure_of(decision)
    if failure is not None:
        message = message.replace(failure.message, "see above")
    return f"{condition.type}={condition.status} {condition.reason}: {message}"


def labelled(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield sentences as lines, the first one after a label."""
    for index, text in enumerate(texts):
        shown = printable(text, LONGEST_SENTENCE)
        yield f"  {(label if index == 0 else ''):<{_LABEL_WIDTH}}{shown}"


def _scale(result: SyncResult) -> list[str]:
    decision, scale, hold = result.decision, result.decision.scale, result.decision.hold
    bounds, *more = target_rules.bounds_lines(result)
    if isinstance(scale, ReadFailure):
        return [scale.message, bounds, *more]
    count = wording.counted(scale.spec_replicas, "replica")
    lines = [f"{count} in spec, {scale.status_replicas} in status; {bounds}", *more]
    if decision.foreign is not None:
        lines.append(wording.foreign(decision.foreign))
    if decision.zone in {Zone.ABOVE_MAX, Zone.BELOW_MIN}:
        gradual = ", as the policies permit" if decision.limit is not None else ""
        wanted = decision.desired if hold is None or hold.replicas is None else hold.replicas
        lines.append(f"{decision.reason}: {wanted} regardless of the metrics{gradual}")
    return lines


def _metric(result: MetricResult, of: SyncResult) -> list[str]:
    decision, metric, outcome = of.decision, result.metric, result.outcome
    lines = [f"{metric.type} {wording.metric_name(metric)}, target {wording.target(metric)}"]
    active = [activity for activity in (target_rules.activity(result, of.target),) if activity]
    if not isinstance(outcome, Calculation):
        lines += [f"{outcome.reason}: {outcome.message}", *active]
        if instead := target_rules.fallback(result):
            lines.append(instead + target_rules.fallback_rule(result))
        return lines
    lines += [*active, *_reading(result, outcome)]
    tolerance = decision.tolerance
    if math.isfinite(outcome.ratio):
        borders = f"{1.0 - tolerance.down:g} to {1.0 + tolerance.up:g}"
        lines.append(f"ratio: {outcome.ratio:.4g} (tolerated: {borders})")
    else:
        lines.append("no ratio (no replicas to divide by)")
    lines.append(_proposal(result, outcome, decision.scale))
    if result.refill is not None:
        lines.append(wording.refill(result.refill, decision.time))
    return lines


def _reading(result: MetricResult, outcome: Calculation) -> Iterator[str]:
    reading, groups = result.reading, outcome.groups
    if isinstance(reading, Values):
        if reading.empty:
            yield "no series, counted as 0 (empty: zero)"
        else:
            yield f"value: {_measured(result)}, {len(reading.values)} series"
            if reading.nans:
                yield f"{reading.nans} series NaN, counted as 0 (nan: zero)"
        if outcome.negative_sum:
            yield "a negative sum counts as 0"
    elif isinstance(reading, PodSamples):
        pods = len(reading.samples) if groups is None else groups.ready
        yield f"value: {_measured(result)}, {wording.counted(pods, 'pod')}"
    if groups is not None:
        yield from _pods(groups)
    if not isinstance(reading, Gap):
        yield from (f"{gap.kind.value}: {gap.detail}" for gap in gaps_of(reading))


def _measured(result: MetricResult) -> str:
    of_request, total = wording.usage_and_request(result), wording.total(result)
    if of_request is not None:
        return f"{wording.usage(result)}, {' of '.join(of_request)} per pod on average"
    if total is not None:
        return f"{wording.usage(result)}{wording.per(result.metric)}, {total} in total"
    return wording.usage(result)


def _pods(groups: PodGroups) -> Iterator[str]:
    parts = [f"{groups.ready} ready"]
    for word, names, meaning in (
        ("unready", groups.unready, ""),
        ("missing", groups.missing, ", without a sample"),
        ("ignored", groups.ignored, ", deleted or Failed"),
    ):
        if names:
            parts.append(f"{len(names)} {word}{meaning} ({wording.some(names)})")
    yield "pods: " + ", ".join(parts)
    for rule in UnreadyRule:
        unready = [pod for pod in groups.unready_by if pod.rule is rule]
        if unready:
            until = max((pod.until for pod in unready if pod.until is not None), default=None)
            last = "" if until is None else f"; the last one counts from {rfc3339(until)}"
            some = wording.some(tuple([pod.pod for pod in unready]))
            yield f"unready: {some} ({_UNREADY[rule]}{last})"


_UNREADY = {
    UnreadyRule.PENDING: "Pending",
    UnreadyRule.NO_STATUS: "no Ready condition or start time yet",
    UnreadyRule.NOT_READY: "not Ready within cpuInitializationPeriod",
    UnreadyRule.SAMPLE_WINDOW: (
        "CPU samples cover a time before Ready, within cpuInitializationPeriod"
    ),
    UnreadyRule.NEVER_READY: "never Ready since the start",
}


def _proposal(result: MetricResult, outcome: Calculation, scale: Scale | ReadFailure) -> str:
    proposal, rule, ratio = outcome.proposal, outcome.rule, outcome.ratio
    whys = {
        Formula.WITHIN_TOLERANCE: "ratio within tolerance",
        Formula.SURGE: "more pods run than that, and their load is not low enough",
        Formula.ABOVE_TARGET: (
            f"ratio {ratio:.4g} with {wording.counted(outcome.multiplier or 0, 'ready pod')}"
        ),
    }
    if rule in whys:
        averaged = not result.metric.of_pods and outcome.current.value is None
        which = "status" if averaged and isinstance(scale, Scale) else "spec"
        return f"asks for {proposal} ({which}.replicas): {whys[rule]}"
    if rule is Formula.READY_PODS:
        return f"asks for {proposal} = ceil({ratio:.4g} x {outcome.multiplier} ready pods)"
    filled = "missing and unready pods counted as idle"
    filled = "missing pods counted as fully loaded" if ratio < 1.0 else filled
    if rule is Formula.REBALANCED:
        rebalanced = f"{outcome.rebalanced_ratio:.4g} x {outcome.multiplier} samples"
        return f"asks for {proposal} = ceil({rebalanced}), {filled}"
    if rule is Formula.REBALANCED_AWAY:
        ratio_then = f"{outcome.rebalanced_ratio:.4g} and does not confirm the change"
        return f"asks for {proposal}: with {filled} the ratio is {ratio_then}"
    if rule is Formula.FROM_ZERO:
        return f"asks for {proposal} = ceil({ratio:.4g}): no replicas yet"
    total = sum(result.reading.values) if isinstance(result.reading, Values) else 0
    usage = wording.quantity(result.metric, max(total, 0) if outcome.negative_sum else total)
    return f"asks for {proposal} = ceil({usage} / {wording.target(result.metric)})"


def _combination(decision: Decision) -> list[str]:
    combined = decision.combination
    if combined is None or len(decision.metrics) == 1:
        return []
    winner = wording.plain(combined.winner, decision) or "no metric"
    text = f"{combined.before} -> {combined.after}: largest recommendation, by {winner}"
    if combined.failed:
        text += f"; {combined.failed} of {len(decision.metrics)} metrics failed, no scale-down"
    return [text]


def _stage(stage: _S | None, unchanged: str, why: Callable[[_S], str]) -> list[str]:
    """Return the line of a stage that has run: its change and the reason, if any."""
    if stage is None:
        return []
    if stage.before == stage.after:
        return [f"{stage.after}: {unchanged}"]
    return [f"{stage.before} -> {stage.after} ({stage.reason}): {why(stage)}"]
