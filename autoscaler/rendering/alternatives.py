"""What would have had to be different for another count, in sentences."""

from collections.abc import Iterator

from autoscaler.core.alternatives import LeftOut, OtherValue, Without, left_out, other_values
from autoscaler.core.decision import Calculation, Decision, MetricFailure, Outcome
from autoscaler.core.entry import Entry
from autoscaler.core.observation import LONGEST_SENTENCE, PodSamples, Values
from autoscaler.core.text import printable
from autoscaler.rendering import wording
from autoscaler.rendering.wording import time_of_day

_MOST_VALUES = 6
"""So many values are named; a target may have many metrics."""


def alternatives(entry: Entry) -> tuple[str, ...]:
    """Return a sentence for each."""
    found = [_without(one, entry.decision) for one in left_out(entry)]
    found += _unread(entry.decision)
    values = [_value(one, entry) for one in other_values(entry)]
    return tuple(printable(one, LONGEST_SENTENCE) for one in found + values[:_MOST_VALUES])


def _without(one: LeftOut, decision: Decision) -> str:
    count = wording.counted(one.desired, "replica")
    held, limit = decision.stabilization, decision.limit
    until = None
    if one.what in {Without.STABILIZATION, Without.GAP}:
        until = None if held is None else held.until
    elif one.what is Without.POLICY:
        until = None if limit is None else limit.until
    what = {
        Without.STABILIZATION: "without the earlier recommendations",
        Without.GAP: "without the gap in the readings",
        Without.POLICY: "without the scaling policies",
        Without.MAXIMUM: "with a larger maximum",
        Without.MINIMUM: "with a smaller minimum",
        Without.PAUSE: "without the pause",
        Without.IDLE: "without `idle`",
        Without.CONTROLLER: "without the other autoscaler",
        Without.REVERSALS: "without the hold after reversals",
        Without.BREAKER: "without the scale-down breaker",
    }[one.what]
    from_then = (
        "" if until is None else f"; it may change from {time_of_day(until, decision.time)} on"
    )
    return f"{what} it would have {count}{from_then}"


def _unread(decision: Decision) -> Iterator[str]:
    """Say what the metrics that were read ask for, where another one failed."""
    if decision.outcome is Outcome.OK:
        return
    failed = any(isinstance(one.outcome, MetricFailure) for one in decision.metrics)
    asked = [one.proposal for one in decision.metrics if one.proposal is not None]
    if failed and asked and max(asked) != decision.desired:
        yield (
            f"the metrics that were read ask for {max(asked)} at most; nothing goes down while "
            "another one fails"
        )


def _value(one: OtherValue, entry: Entry) -> str:
    decision = entry.decision
    was, result = decision.metrics[one.index], one.result
    name = wording.metric_name(was.metric)
    asks = f"{name} would have asked for {result.proposal}"
    if one.desired == decision.desired:
        then = f"the target would have stayed at {one.desired}"
    else:
        then = f"the target would have gone to {one.desired}"
    return f"at {_measured(one, entry)} {asks}, and {then}"


def _measured(one: OtherValue, entry: Entry) -> str:
    """Return the other value and the one that was read."""
    result = one.result
    was = entry.inputs.observation.readings[one.index]
    if isinstance(result.reading, Values) and isinstance(was, Values):
        return f"{_exact(sum(result.reading.values))} instead of {_exact(sum(was.values))}"
    outcome = entry.decision.metrics[one.index].outcome
    if isinstance(was, PodSamples) and isinstance(outcome, Calculation):
        before = wording.usage(entry.decision.metrics[one.index])
        return f"about {wording.usage(result)} instead of {before} of each pod"
    return "another value"


def _exact(milli: int) -> str:
    """Write milli-units without rounding: 41, 0.125."""
    whole, rest = divmod(abs(milli), 1000)
    sign = "-" if milli < 0 else ""
    return f"{sign}{whole}.{rest:03d}".rstrip("0").rstrip(".")
