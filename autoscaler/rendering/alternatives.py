"""What would have had to be different for another count, in sentences."""

from autoscaler.core.alternatives import (
    PARTS,
    Bound,
    LeftOut,
    OtherBound,
    OtherValue,
    Without,
    alternatives_of,
)
from autoscaler.core.decision import Decision, MetricFailure
from autoscaler.core.entry import Entry
from autoscaler.core.observation import LONGEST_SENTENCE, Values
from autoscaler.core.text import printable
from autoscaler.rendering import wording
from autoscaler.rendering.wording import time_of_day

_MOST_VALUES = 8
"""So many values are named; a target may have many metrics."""


def alternatives(entry: Entry) -> tuple[str, ...]:
    """Return a sentence for each; values that would have changed the target's count come first."""
    decision = entry.decision
    found: list[str] = []
    values: list[OtherValue] = []
    for one in alternatives_of(entry):
        if isinstance(one, OtherValue):
            values.append(one)
        elif isinstance(one, LeftOut):
            found.append(_without(one, decision))
        else:
            found.append(_bound(one, decision))
    values.sort(key=lambda one: one.desired == decision.desired)
    found += [_value(one, entry) for one in values[:_MOST_VALUES]]
    return tuple(printable(one, LONGEST_SENTENCE) for one in dict.fromkeys(found))


def _goes(desired: int, decision: Decision) -> str:
    stays = desired == decision.current
    return f"would have {'stayed at' if stays else 'gone to'} {desired}"


# -- what is left out ----------------------------------------------------------------------------


def _without(one: LeftOut, decision: Decision) -> str:
    return f"without {_what(one.what, decision)} it {_goes(one.desired, decision)}" + _until(
        one.what, decision
    )


def _what(what: Without, decision: Decision) -> str:
    if what is Without.RECOMMENDATION:
        return _recommendation(decision)
    if what is Without.FAILURES:
        failed = [
            wording.metric_name(one.metric)
            for one in decision.metrics
            if isinstance(one.outcome, MetricFailure) and one.fallback is None
        ]
        named = failed[0] if len(failed) == 1 else f"the {len(failed)} metrics"
        return f"{named}, which failed,"
    return {
        Without.RECOMMENDATIONS: "the earlier recommendations",
        Without.GAP: "the gap in the readings",
        Without.POLICIES: "the limit of each step",
        Without.FALLBACK: "the fallback",
        Without.PAUSE: "the pause",
        Without.IDLE: "its `idle`",
        Without.CONTROLLER: "the other autoscaler",
        Without.REVERSALS: "the changes that others made against ours",
        Without.BREAKER: "the scale-down breaker",
    }[what]


def _recommendation(decision: Decision) -> str:
    held = decision.stabilization
    if held is None or held.held_by is None:
        return "the earlier recommendations"
    by, at = held.held_by, time_of_day(held.held_by.time, decision.time)
    if by.first:
        return f"the count of {by.replicas} at the first sync, {at},"
    return f"the recommendation of {by.replicas} at {at}"


def _until(what: Without, decision: Decision) -> str:
    """Say from when on it no longer keeps the count."""
    held, limit, now = decision.stabilization, decision.limit, decision.time
    of_window = {Without.RECOMMENDATION, Without.RECOMMENDATIONS, Without.GAP}
    if what in of_window and held is not None and held.until is not None:
        which = "that"
        if what is Without.RECOMMENDATIONS and held.held_by is not None:
            at = time_of_day(held.held_by.time, now)
            which = f"the last that holds it, {held.held_by.replicas} at {at},"
        return f"; {which} no longer counts from {time_of_day(held.until, now)} on"
    if what is Without.POLICIES and limit is not None and limit.until is not None:
        return f"; more is permitted from {time_of_day(limit.until, now)} on"
    if what is Without.BREAKER and decision.breaker is not None:
        return f"; that holds until {time_of_day(decision.breaker.until, now)}"
    if what is Without.REVERSALS and decision.held_until is not None:
        return f"; they count until {time_of_day(decision.held_until, now)}"
    return ""


# -- bounds and values ---------------------------------------------------------------------------


def _bound(one: OtherBound, decision: Decision) -> str:
    then = f"it {_goes(one.desired, decision)}"
    if one.which is Bound.ASKED_MINIMUM:
        return f"if {one.which} had given {one.replicas} {then}"
    return f"with a {one.which} of {one.replicas} {then}"


def _value(one: OtherValue, entry: Entry) -> str:
    decision = entry.decision
    name = wording.metric_name(decision.metrics[one.index].metric)
    asks = f"{name} would have asked for {one.result.proposal}"
    return f"{_other(one, entry)}, {asks}, and the target {_goes(one.desired, decision)}"


def _other(one: OtherValue, entry: Entry) -> str:
    """Return the other value and the one that was read."""
    was, result = entry.decision.metrics[one.index], one.result
    read = entry.inputs.observation.readings[one.index]
    if isinstance(result.reading, Values) and isinstance(read, Values):
        return f"at {_exact(sum(result.reading.values))} instead of {_exact(sum(read.values))}"
    word = "more" if (one.parts or 0) > 0 else "less"
    change = f"{abs(one.parts or 0) * 100 / PARTS:.10g}"
    before, after = wording.usage(was), wording.usage(result)
    shown = f" ({after} instead of {before})" if after != before else ""
    return f"with {change}% {word} load on each pod{shown}"


def _exact(milli: int) -> str:
    """Write milli-units without rounding: 41, 0.125."""
    whole, rest = divmod(abs(milli), 1000)
    sign = "-" if milli < 0 else ""
    return f"{sign}{whole}.{rest:03d}".rstrip("0").rstrip(".")
