"""`plan --explain`: every stage of a decision, in the order in which it was made."""

import math
from collections.abc import Iterator, Sequence

from autoscaler.core.bounds import KNOWN_SECONDS, MAX_QUERY, MIN_QUERY
from autoscaler.core.decision import Bound, Calculation, Decision, MetricResult, Rule, Zone
from autoscaler.core.grouping import PodGroups, UnreadyRule
from autoscaler.core.history import Condition, KnownBound
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    GapKind,
    PodSamples,
    Scale,
    Unavailable,
    Values,
)
from autoscaler.core.pauses import INVALID_ANNOTATION, PAUSED, PAUSED_REPLICAS, PAUSED_UNTIL
from autoscaler.core.target import Query
from autoscaler.core.text import printable, rfc3339
from autoscaler.rendering import extension_words, wording
from autoscaler.rendering.record import QuerySource, promql_of, server_of
from autoscaler.rendering.restrictions import hold, restriction
from autoscaler.rendering.verdict import failure_of, verdict
from autoscaler.rendering.wording import time_of_day
from autoscaler.sync.ports import SyncResult

_LABEL_WIDTH = 12


def explain(result: SyncResult, sources: Sequence[QuerySource] = (), file: str = "FILE") -> str:
    """Explain the whole decision of one target, line by line.

    ``sources`` are of its queries, and ``file`` is the configuration's.
    """
    decision, target = result.decision, wording.target_key(result.target)
    sentence = printable(verdict(result), LONGEST_SENTENCE)
    lines = [
        f"{target} at {rfc3339(decision.time)}: {sentence}",
        *labelled("paused", _pause(decision)),
        *labelled("scale", _scale(result)),
        *labelled("idle", _idle(decision)),
    ]
    for index, metric in enumerate(decision.metrics):
        source = sources[index] if index < len(sources) else QuerySource("query")
        first, *rest = _metric(metric, result)
        query = _query(source, promql_of(result, index), server_of(result, index))
        texts = [first, *query, *rest]
        lines += labelled(f"metric {index + 1}", texts)
    lines += labelled("combine", _combination(decision))
    lines += labelled("stabilize", _stabilization(decision))
    lines += labelled("limit", _limit(result))
    lines += labelled("saturated", _saturation(decision))
    lines += labelled("conditions", [_condition(one, decision) for one in decision.conditions])
    if any(_found_no_series(metric) for metric in decision.metrics):
        lines += labelled(
            "hint", [f"`autoscaler validate --prometheus {file}` shows which labels exist"]
        )
    return "\n".join(lines)


def _query(source: QuerySource, promql: str, server: str) -> list[str]:
    at = f" at the server {server}" if server else ""
    default = "the HPA's default metric, since the target has no `metrics`"
    return [
        *([default] if source.default else []),
        *([f"{source.name}{at}: {promql}"] if promql else []),
    ]


def _found_no_series(result: MetricResult) -> bool:
    return isinstance(result.reading, Gap) and result.reading.kind is GapKind.EMPTY


def _condition(condition: Condition, decision: Decision) -> str:
    """Write a condition; a failure that the verdict names already is not repeated."""
    message = wording.plain(condition.message, decision)
    _, failure = failure_of(decision)
    if failure:
        message = message.replace(failure, "see above")
    return f"{condition.type}={condition.status} {condition.reason}: {message}"


def labelled(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield some sentences as lines, the first one after a label."""
    for index, text in enumerate(texts):
        shown = printable(text, LONGEST_SENTENCE)
        yield f"  {(label if index == 0 else ''):<{_LABEL_WIDTH}}{shown}"


def _pause(decision: Decision) -> list[str]:
    alone = _until_alone(decision)
    if decision.pause is None:
        return alone
    words = extension_words.pause(decision.pause, decision.time)
    wrong = [one.message for one in decision.events if one.reason == INVALID_ANNOTATION]
    return [words + extension_words.prevented(decision), *wrong, *alone]


def _until_alone(decision: Decision) -> list[str]:
    """Say that the end of a pause is no pause, where an annotation gives only that."""
    given = dict(decision.scale.annotations) if isinstance(decision.scale, Scale) else {}
    if PAUSED_UNTIL not in given or PAUSED in given or PAUSED_REPLICAS in given:
        return []
    return [f"{PAUSED_UNTIL} alone pauses nothing; it goes with {PAUSED} or {PAUSED_REPLICAS}"]


def _idle(decision: Decision) -> list[str]:
    idle = decision.idle
    if idle is None:
        return []
    last = f"a metric was last active, or may have been, at {rfc3339(idle.last_active)}"
    if decision.zone is Zone.IDLE:
        return [f"{extension_words.asleep(decision)}; idle.replicas is {idle.idle.replicas}"]
    if idle.kept_awake:
        return [f"kept awake, since minReplicas is {extension_words.min_replicas(decision)}"]
    if decision.zone is Zone.METRICS and idle.asleep:
        return ["wakes up, since a metric is active"]
    goes = extension_words.goes_idle(decision)
    return [f"awake; {goes}" if goes else "awake", last]


def _saturation(decision: Decision) -> list[str]:
    one = decision.lasting_saturation
    return [] if one is None else [extension_words.saturation(one, decision.time)]


def _bounds(result: SyncResult) -> list[str]:
    decision, target = result.decision, result.target
    low, high = extension_words.min_replicas(decision), extension_words.max_replicas(decision)
    lines, bounds = [f"minReplicas {low}, maxReplicas {high}"], decision.bounds
    if bounds is not None and bounds.missing:
        down = "; nothing goes down meanwhile" if bounds.hold_down else ""
        lines.append(f"{bounds.missing}{down}")
    if bounds is not None:
        of_min = (MIN_QUERY, bounds.of_min_query, bounds.minimum)
        of_max = (MAX_QUERY, bounds.of_max_query, bounds.maximum)
        lines += _asked_bound(target.min_replicas_query, *of_min, decision.time)
        lines += _asked_bound(target.max_replicas_query, *of_max, decision.time)
    return lines


def _asked_bound(
    query: Query | None, name: str, found: KnownBound | None, bound: Bound, now: float
) -> list[str]:
    """Write the query of a bound, what it gives, and until when if that was read earlier."""
    if query is None:
        return []
    at = f" at the server {query.server}" if query.server else ""
    gives = ""
    if found is not None:
        last = f", as last read, until {time_of_day(found.time + KNOWN_SECONDS, now)}"
        within = f" ({bound.replicas} within the other bounds)"
        gives = f" gives {found.replicas}"
        gives += within if bound.by.startswith(name) and bound.replicas != found.replicas else ""
        gives += last if found.time < now else ""
    return [f"{name}{at}{gives}: {query.promql}"]


def _scale(result: SyncResult) -> list[str]:
    decision = result.decision
    bounds, *more = _bounds(result)
    if isinstance(decision.scale, Unavailable):
        return [decision.scale.message, bounds, *more]
    scale = decision.scale
    count = wording.counted(scale.spec_replicas, "replica")
    lines = [f"{count} in spec, {scale.status_replicas} in status; {bounds}", *more]
    if decision.foreign is not None:
        lines.append(wording.foreign(decision.foreign))
    if decision.zone in {Zone.ABOVE_MAX, Zone.BELOW_MIN}:
        gradual = ", as the policies permit" if decision.limit is not None else ""
        to = f"{decision.desired}, whatever the metrics are{gradual}"
        lines.append(f"{decision.reason}: {to}")
    return lines


def _metric(result: MetricResult, of: SyncResult) -> list[str]:
    decision, metric = of.decision, result.metric
    lines = [f"{metric.type} {wording.metric_name(metric)}, target {wording.target(metric)}"]
    outcome = result.outcome
    active = extension_words.activity(result, of.target)
    shown_activity = [active] if active else []
    if not isinstance(outcome, Calculation):
        lines.append(f"{outcome.reason}: {outcome.message}")
        return [*lines, *shown_activity, *_fallback(result)]
    lines += shown_activity
    lines += _reading(result, outcome)
    tolerance = decision.tolerance
    borders = f"{1.0 - tolerance.down:g} to {1.0 + tolerance.up:g}"
    if math.isfinite(outcome.ratio):
        lines.append(f"ratio {outcome.ratio:.4g}, tolerated are {borders}")
    else:
        lines.append("no ratio, since there are no replicas to divide by")
    lines.append(_proposal(result, outcome, decision.scale))
    if result.refill is not None:
        lines.append(wording.refill(result.refill, decision.time))
    return lines


def _fallback(result: MetricResult) -> list[str]:
    use = result.fallback
    if use is None:
        return []
    return [extension_words.fallback(result) + extension_words.behavior(use.fallback)]


def _reading(result: MetricResult, outcome: Calculation) -> list[str]:
    reading = result.reading
    lines: list[str] = []
    if isinstance(reading, Values):
        lines += _values(result, reading)
        if outcome.negative_sum:
            lines.append("a negative sum counts as 0")
    elif isinstance(reading, PodSamples):
        pods = len(reading.samples) if outcome.groups is None else outcome.groups.ready
        lines.append(f"measured {_measured(result)}, over {wording.counted(pods, 'pod')}")
    if outcome.groups is not None:
        lines += _pods(outcome.groups)
    if not isinstance(reading, Gap):
        lines += [f"{gap.kind.value}: {gap.detail}" for gap in reading.gaps]
    if isinstance(reading, PodSamples):
        lines += [f"{gap.kind.value}: {gap.detail}" for gap in reading.dropped.values()]
    return lines


def _values(result: MetricResult, reading: Values) -> Iterator[str]:
    """Write what was measured, and what of it nobody measured."""
    if reading.empty:
        yield "no series, counted as 0 (empty: zero)"
        return
    yield f"measured {_measured(result)}, {len(reading.values)} series"
    if reading.nans:
        yield f"{reading.nans} of the series NaN, counted as 0 (nan: zero)"


def _measured(result: MetricResult) -> str:
    """Write the value with what it was made of: a total, or a usage and a request."""
    of_request, total = wording.of_request(result), wording.total(result)
    if of_request is not None:
        return f"{wording.usage(result)}: {of_request} a pod on average"
    if total is not None:
        return f"{wording.usage(result)}{wording.per(result.metric)}, {total} in total"
    return wording.usage(result)


def _pods(groups: PodGroups) -> list[str]:
    named = (("unready", groups.unready), ("missing", groups.missing), ("ignored", groups.ignored))
    meanings = {"missing": "without a sample", "ignored": "deleted or Failed"}
    parts = [f"{groups.ready} ready"]
    for word, names in named:
        if names:
            meaning = f", {meanings[word]}" if word in meanings else ""
            parts.append(f"{len(names)} {word}{meaning} ({_some(names)})")
    lines = ["pods: " + ", ".join(parts)]
    for rule in UnreadyRule:
        unready = [one for one in groups.unready_by if one.rule is rule]
        if unready:
            names = tuple([one.pod for one in unready])
            until = max((one.until for one in unready if one.until is not None), default=None)
            lines.append(f"unready {_UNREADY[rule]}{_counts_from(until)}: {_some(names)}")
    return lines


_UNREADY = {
    UnreadyRule.PENDING: "since they are Pending",
    UnreadyRule.NO_STATUS: "since they have no Ready condition or no start time yet",
    UnreadyRule.NOT_READY: "since they are not Ready, in their first cpuInitializationPeriod",
    UnreadyRule.SAMPLE_WINDOW: (
        "since their CPU samples cover a time before they were Ready, in their first "
        "cpuInitializationPeriod"
    ),
    UnreadyRule.NEVER_READY: "since they have not been Ready since they started",
}


def _counts_from(until: float | None) -> str:
    return "" if until is None else f"; the last counts from {rfc3339(until)} on"


def _some(names: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _proposal(result: MetricResult, outcome: Calculation, scale: Scale | Unavailable) -> str:
    proposal, rule, ratio = outcome.proposal, outcome.rule, outcome.ratio
    if rule in {Rule.WITHIN_TOLERANCE, Rule.SURGE}:
        which = "spec" if wording.per_pod(result.metric) else _counted(result, scale)
        why = "more pods run than that, and for so many the load is not low enough"
        why = "the ratio is tolerated" if rule is Rule.WITHIN_TOLERANCE else why
        return f"proposes {proposal}, the count of {which}.replicas, since {why}"
    if rule is Rule.READY_PODS:
        return f"proposes {proposal} = ceil({ratio:.4g} x {outcome.multiplier} ready pods)"
    if rule is Rule.REBALANCED:
        return (
            f"proposes {proposal} = ceil({outcome.rebalanced_ratio:.4g} x {outcome.multiplier} "
            f"samples), {_filled(ratio)}"
        )
    if rule is Rule.REBALANCED_AWAY:
        return (
            f"proposes {proposal}: with {_filled(ratio)} the ratio is "
            f"{outcome.rebalanced_ratio:.4g}, which does not confirm the change"
        )
    if rule is Rule.FROM_ZERO:
        return f"proposes {proposal} = ceil({ratio:.4g}), since there are no replicas yet"
    total = sum(result.reading.values) if isinstance(result.reading, Values) else 0
    usage = wording.quantity(result.metric, max(total, 0) if outcome.negative_sum else total)
    return f"proposes {proposal} = ceil({usage} / {wording.target(result.metric)})"


def _filled(ratio: float) -> str:
    if ratio < 1.0:
        return "missing pods counted as fully loaded"
    return "missing and unready pods counted as idle"


def _counted(result: MetricResult, scale: Scale | Unavailable) -> str:
    averaged = isinstance(result.outcome, Calculation) and result.outcome.current.value is None
    return "status" if averaged and isinstance(scale, Scale) else "spec"


def _combination(decision: Decision) -> list[str]:
    combined = decision.combination
    if combined is None or len(decision.metrics) == 1:
        return []
    winner = wording.plain(combined.winner, decision) or "no metric"
    text = f"{combined.before} -> {combined.after}, the largest proposal, of {winner}"
    if combined.failed:
        text += f"; {combined.failed} of {len(decision.metrics)} metrics failed: no scale-down"
    return [text]


def _stabilization(decision: Decision) -> list[str]:
    stage = decision.stabilization
    if stage is None:
        return []
    if stage.before == stage.after:
        return [f"{stage.after}: no recent recommendation holds it"]
    return [f"{stage.before} -> {stage.after}, {stage.reason}: {hold(stage, decision.time)}"]


def _limit(result: SyncResult) -> list[str]:
    stage = result.decision.limit
    if stage is None:
        return []
    if stage.before == stage.after:
        return [f"{stage.after}: within bounds and rates"]
    why = restriction(stage, result)
    return [f"{stage.before} -> {stage.after}, {stage.reason}: {why}"]
