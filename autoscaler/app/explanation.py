"""A decision told to an operator, line by line, in the order in which it was made."""

import math
from collections.abc import Iterator

from autoscaler.app import wording
from autoscaler.app.ports import SyncResult
from autoscaler.core.decision import (
    Calculation,
    Decision,
    Limit,
    MetricResult,
    Rule,
    Stabilization,
    Zone,
)
from autoscaler.core.limits import SCALE_DOWN_LIMIT, SCALE_UP_LIMIT, TOO_FEW, TOO_MANY
from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    PodSamples,
    Scale,
    Unavailable,
    Values,
)
from autoscaler.core.printable import printable
from autoscaler.core.writes import (
    NOT_LEADING,
    NotWritten,
    Superseded,
    WriteFailed,
    WriteOutcome,
    Written,
)

_LABEL_WIDTH = 12


def explain(result: SyncResult) -> str:
    """Tell the whole decision of one target."""
    decision, target = result.decision, wording.target_key(result.target)
    lines = [
        f"{target} at {wording.instant(decision.time)}: {verdict(result)}",
        *_lines("scale", _scale(decision)),
    ]
    for number, metric in enumerate(decision.metrics, 1):
        lines += _lines(f"metric {number}", _metric(metric, decision))
    lines += _lines("combine", _combination(decision))
    lines += _lines("stabilize", _stabilization(decision.stabilization))
    lines += _lines("limit", _limit(decision.limit))
    if decision.releases_at is not None:
        lines += _lines("next", [f"a limit lets go at {wording.instant(decision.releases_at)}"])
    lines += _lines(
        "conditions",
        [f"{one.type}={one.status} {one.reason}: {one.message}" for one in decision.conditions],
    )
    return "\n".join(lines)


def verdict(result: SyncResult) -> str:
    """Say in one sentence what was decided and what became of it."""
    said = _verdict(result)
    if not result.controller:
        return said
    but = ", but" if result.decision.rescale else ";"
    return f"{said}{but} {result.controller} controls it: the daemon leaves it alone"


def _verdict(result: SyncResult) -> str:
    decision, write = result.decision, result.write
    current = decision.current
    if current is None:
        return "nothing is decided, since the scale cannot be read"
    if not decision.rescale:
        return _unchanged(decision, current)
    move = f"{current} -> {decision.desired} replicas"
    why = f" ({decision.reason})" if decision.reason else " (a recent recommendation)"
    return _written(write, move, why)


def _written(write: WriteOutcome | None, move: str, why: str) -> str:
    if isinstance(write, Superseded):
        return f"{move} not written: somebody else set {write.scale.spec_replicas} meanwhile"
    if isinstance(write, WriteFailed):
        return f"{move} not written: {printable(write.message, LONGEST_SENTENCE)}"
    if isinstance(write, NotWritten) and write.word == NOT_LEADING:
        return f"{move} is left to the process that leads{why}"
    return f"{'scaled' if isinstance(write, Written) else 'would scale'} {move}{why}"


def _unchanged(decision: Decision, current: int) -> str:
    if decision.zone is Zone.DISABLED:
        return "disabled: the target is at zero, and minReplicas is not"
    if decision.zone is Zone.CONTROLLED:
        return f"stays at {current} replicas: another autoscaler controls it"
    if decision.held_until is not None:
        until = wording.instant(decision.held_until)
        return f"stays at {current} replicas: held until {until}, since others undo our writes"
    if decision.outcome == "blocked":
        return f"stays at {current} replicas: nothing can be decided"
    return f"stays at {current} replicas"


def _lines(label: str, texts: list[str]) -> Iterator[str]:
    for index, text in enumerate(texts):
        shown = printable(text, LONGEST_SENTENCE)
        yield f"  {(label if index == 0 else ''):<{_LABEL_WIDTH}}{shown}"


def _scale(decision: Decision) -> list[str]:
    bounds = f"minReplicas {decision.min_replicas}, maxReplicas {decision.max_replicas}"
    if isinstance(decision.scale, Unavailable):
        return [decision.scale.message, bounds]
    scale = decision.scale
    lines = [f"{scale.spec_replicas} replicas in spec, {scale.status_replicas} in status; {bounds}"]
    if decision.foreign is not None:
        lines.append(wording.foreign(decision.foreign))
    if decision.zone in {Zone.ABOVE_MAX, Zone.BELOW_MIN}:
        lines.append(f"{decision.reason}: {decision.desired}, without a look at the metrics")
    return lines


def _metric(result: MetricResult, decision: Decision) -> list[str]:
    metric = result.metric
    lines = [f"{metric.type} {wording.metric_name(metric)}, target {wording.target(metric)}"]
    outcome = result.outcome
    if not isinstance(outcome, Calculation):
        return [*lines, f"{outcome.reason}: {outcome.message}"]
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


def _reading(result: MetricResult, outcome: Calculation) -> list[str]:
    reading, lines = result.reading, []
    if isinstance(reading, Values):
        total = wording.quantity(result.metric, sum(reading.values))
        of = "1 series" if len(reading.values) == 1 else f"the sum of {len(reading.values)} series"
        lines.append(f"measured {total}, {of}")
        if outcome.negative_sum:
            lines.append("a negative sum counts as 0")
    elif isinstance(reading, PodSamples):
        counted = len(reading.samples) if outcome.groups is None else outcome.groups.ready
        lines.append(f"measured {wording.usage(result)} over {counted} pods")
    if outcome.groups is not None:
        groups = outcome.groups
        named = (
            ("unready", groups.unready),
            ("missing", groups.missing),
            ("ignored", groups.ignored),
        )
        parts = [f"{groups.ready} ready"]
        parts += [f"{len(names)} {word} ({_some(names)})" for word, names in named if names]
        lines.append("pods: " + ", ".join(parts))
    if not isinstance(reading, Gap):
        lines += [f"{gap.kind.value}: {gap.detail}" for gap in reading.gaps]
    if isinstance(reading, PodSamples):
        lines += [f"{gap.kind.value}: {gap.detail}" for gap in reading.dropped.values()]
    return lines


def _some(names: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _proposal(result: MetricResult, outcome: Calculation, scale: Scale | Unavailable) -> str:
    proposal, rule, ratio = outcome.proposal, outcome.rule, outcome.ratio
    if rule is Rule.WITHIN_TOLERANCE:
        which = "spec" if wording.per_pod(result.metric) else _counted(result, scale)
        return f"proposes {proposal}: within tolerance, the {which} replicas stand"
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
    if combined is None:
        return []
    text = f"{combined.before} -> {combined.after}"
    if len(decision.metrics) > 1:
        text += f", the largest proposal, of {combined.winner or 'no metric'}"
    if combined.failed:
        text += f"; {combined.failed} of {len(decision.metrics)} metrics failed, which forbids less"
    return [text]


def _stabilization(stage: Stabilization | None) -> list[str]:
    if stage is None:
        return []
    if stage.refill is not None and stage.until is not None:
        back = wording.instant(stage.refill.returned)
        why = (
            f"the first reading was at {back}"
            if stage.refill.first
            else f"a reading returned at {back}"
        )
        until = wording.instant(stage.until)
        why = f"{why}, and nothing goes down before {until}"
        return [f"{stage.before} -> {stage.after}, {stage.reason}: {why}"]
    if stage.held_by is None:
        return [f"{stage.after}: no recent recommendation holds it"]
    until = "" if stage.until is None else f" until {wording.instant(stage.until)}"
    verb = "was the count at the first sync," if stage.held_by.first else "was recommended at"
    holder = f"{stage.held_by.replicas} {verb} {wording.instant(stage.held_by.time)},"
    return [f"{stage.before} -> {stage.after}, {stage.reason}: {holder} and holds{until}"]


def _limit(stage: Limit | None) -> list[str]:
    if stage is None:
        return []
    if stage.before == stage.after:
        return [f"{stage.after}: within bounds and rates"]
    cause = {
        TOO_FEW: "minReplicas is the least",
        TOO_MANY: "maxReplicas is the most",
        SCALE_UP_LIMIT: f"up to {stage.allowed} are permitted at once",
        SCALE_DOWN_LIMIT: f"down to {stage.allowed} are permitted at once",
    }[stage.reason]
    if stage.unseen is not None:
        cause = (
            f"what other instances of this autoscaler wrote until {wording.instant(stage.unseen)} "
            "was not seen, and counts as all that is permitted"
        )
    if stage.policy is not None:
        policy = stage.policy
        cause += f" by the policy {policy.type} {policy.value} per {policy.period_seconds}s"
    if stage.until is not None:
        cause += f", more from {wording.instant(stage.until)} on"
    return [f"{stage.before} -> {stage.after}, {stage.reason}: {cause}"]
