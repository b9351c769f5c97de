"""What would change a decision: it is decided again with one input changed.

No rule is repeated here: each alternative is the result of `step.step_of` for other inputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import compress
from typing import Any

from autoscaler.core.bounds import MIN_QUERY
from autoscaler.core.decision import (
    SCALE_DOWN_LIMIT,
    SCALE_UP_LIMIT,
    TOO_FEW,
    TOO_MANY,
    Calculation,
    Decision,
    MetricResult,
    Stabilization,
    Zone,
)
from autoscaler.core.history import History, with_extended
from autoscaler.core.numbers import INT32_MAX, INT64_MAX
from autoscaler.core.observation import HOLD_QUERY, Observation, PodSamples, Reading, Scale, Values
from autoscaler.core.spec import (
    Behavior,
    Flags,
    MetricTarget,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.rendering import wording
from autoscaler.rendering.wording import time_of_day

PARTS = 10_000
"""The step by which the load of pods changes, as a part of itself."""
_ANY_CHANGE = ScalingPolicy(PolicyType.PODS, INT32_MAX, 1)
_NO_WINDOW = ScalingRules(0, SelectPolicy.MAX, (_ANY_CHANGE,))
_UNIT = 1000
"""Values that are whole numbers, like their target, change by whole units."""
_MOST_STEPS, _MOST_PARTS = 1 << 40, 1 << 24
"""The largest change of a value, and of the load of pods, that is tried."""
_MOST_COMPUTED, _OF_METRIC = 250_000, 50
"""The most samples in a search for values; a metric counts as 50 in addition to its own."""


_MINIMUM, _MAXIMUM = "minReplicas", "maxReplicas"
_MOST_TOLD = 8
"""The most other values that are shown, since there may be many metrics."""


@dataclass(frozen=True, slots=True)
class OtherValue:
    """With another value of the metric number ``index`` the count would have been ``desired``.

    ``result`` is that metric at the nearest such value. ``parts`` is the change of each pod's load
    in parts of 10,000; None for a value.
    """

    index: int
    result: MetricResult
    desired: int
    parts: int | None


@dataclass(frozen=True, slots=True)
class RemovedInput:
    """Without an input the count would have been ``desired``; ``until`` is the input's end."""

    what: str
    desired: int
    until: str = ""


@dataclass(frozen=True, slots=True)
class OtherBound:
    """With ``replicas`` for a bound's key, the count would have been ``desired``."""

    which: str
    replicas: int
    desired: int


def alternatives(entry: SyncResult) -> tuple[str, ...]:
    """Return a sentence for each change of an input that would have changed the target's count."""
    told, values = list[str](), list[str]()
    for alternative in alternatives_of(entry):
        count = wording.counted(alternative.desired, "replica")
        match alternative:
            case OtherValue():
                values.append(f"{_value(alternative, entry)}: {count}")
            case RemovedInput():
                told.append(f"without {alternative.what}: {count}{alternative.until}")
            case OtherBound() if alternative.which == MIN_QUERY:
                told.append(f"{MIN_QUERY} returning {alternative.replicas}: {count}")
            case OtherBound():
                first = (
                    " at first"
                    if alternative.which == _MAXIMUM and alternative.desired < alternative.replicas
                    else ""
                )
                told.append(f"{alternative.which} {alternative.replicas}: {count}{first}")
    return tuple(dict.fromkeys(told + values[:_MOST_TOLD]))


def _name(result: MetricResult) -> str:
    return wording.metric_name(result.metric)


def _value(alternative: OtherValue, entry: SyncResult) -> str:
    was, result = entry.decision.metrics[alternative.index], alternative.result
    read = entry.inputs.observation.readings[alternative.index]
    if isinstance(result.reading, Values) and isinstance(read, Values):
        then, now = (Decimal(sum(reading.values)) / 1000 for reading in (result.reading, read))
        return f"{_name(result)} at {then:f} instead of {now:f} (asks for {result.proposal})"
    word = "higher" if (alternative.parts or 0) > 0 else "lower"
    change = f"{abs(alternative.parts or 0) * 100 / PARTS:.10g}"
    before, after = wording.usage(was), wording.usage(result)
    shown = f"{after} instead of {before}, " if after != before else ""
    asks = f"({shown}asks for {result.proposal})"
    return f"{_name(result)} {change}% {word} on each pod {asks}"


def alternatives_of(entry: SyncResult) -> Iterator[RemovedInput | OtherBound | OtherValue]:
    """Yield what would change the count; nothing if deciding again gives another result."""
    again = _RepeatedDecision(entry)
    if isinstance(again.base.scale, Scale) and again.base.desired == entry.decision.desired:
        yield from _left_out(again)
        yield from _other_bounds(again)
        yield from _other_values(again)


class _RepeatedDecision:
    """Decides an entry again with other inputs; None means the entry's own."""

    def __init__(self, entry: SyncResult) -> None:
        self.entry = entry
        self.observation, self.history = entry.inputs.observation, entry.inputs.history
        self.spec, self.extensions = entry.target.spec, entry.target.extensions
        self.now = entry.decision.time
        self.computed = 0
        self.base = self.decide()

    def ends(self, until: float | None, what: str = "") -> str:
        """Return the text for when something expires; empty if unknown."""
        return "" if until is None else f" ({what}expires at {time_of_day(until, self.now)})"

    def decide(
        self,
        observation: Observation | None = None,
        *,
        flags: Flags | None = None,
        history: History | None = None,
        breaker: bool = True,
        **of_target: Any,
    ) -> Decision:
        """Decide with other fields of the target; the breaker holds as it held the entry."""
        entry = self.entry
        target = replace(entry.target, **of_target) if of_target else entry.target
        seen, before = observation or self.observation, history or self.history
        inputs = replace(entry.inputs, observation=seen, history=before)
        step = step_of(Rules(target, flags or entry.flags), inputs)
        return step.held_as(entry.decision).decision if breaker else step.decision

    def with_reading(self, index: int, reading: Reading) -> Decision:
        """Decide with another reading of one metric."""
        readings = list(self.observation.readings)
        self.computed += sum(
            _OF_METRIC + (len(reading.samples) if isinstance(reading, PodSamples) else 0)
            for reading in readings
        )
        readings[index] = reading
        return self.decide(replace(self.observation, readings=tuple(readings)))


# -- values --------------------------------------------------------------------------------------


def _other_values(again: _RepeatedDecision) -> Iterator[OtherValue]:
    """Yield the nearest values with a larger or smaller count, for the largest proposals first."""
    asked = {index: _proposal(again.base, index) for index in range(len(again.base.metrics))}
    known = {index: proposal for index, proposal in asked.items() if proposal is not None}
    for index in sorted(known, key=known.__getitem__, reverse=True):
        found = (_nearest(again, index, sign) for sign in (1, -1))
        yield from filter(None, found)


def _proposal(decision: Decision, index: int) -> int | None:
    """Return the replicas that a metric asks for; None if it fails, or does not count."""
    outcome = decision.metrics[index].outcome if decision.metrics else None
    return outcome.proposal if isinstance(outcome, Calculation) else None


def _nearest(again: _RepeatedDecision, index: int, sign: int) -> OtherValue | None:
    """Search the nearest value with a larger count (1) or a smaller one (-1)."""
    reading, before = again.observation.readings[index], again.base.desired
    change, most_up, most_down = _changes(reading, again.spec.metrics[index].target)
    if again.computed > _MOST_COMPUTED:
        return None

    def differs(steps: int) -> bool:
        decision = again.with_reading(index, change(sign * steps))
        return _proposal(decision, index) is not None and (decision.desired - before) * sign > 0

    steps = _first(differs, most_up if sign > 0 else most_down)
    if steps is None:
        return None
    decision = again.with_reading(index, change(sign * steps))
    parts = sign * steps if isinstance(reading, PodSamples) else None
    return OtherValue(index, decision.metrics[index], decision.desired, parts)


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from 1 to ``most`` for which a monotone condition holds."""
    low, high = 0, min(1, most)
    while high > low and not holds(high):
        low, high = high, min(high * 4, most)
    if high == low:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _changes(reading: Reading, target: MetricTarget) -> tuple[Callable[[int], Reading], int, int]:
    """Return a function that changes a reading by steps, and the numbers of steps up and down."""
    if isinstance(reading, Values):
        total, of = sum(reading.values), target.value or target.average_value or 0
        step = 1 if any(milli % _UNIT for milli in (of, *reading.values)) else _UNIT
        most_down = max(0, min(total // step, _MOST_STEPS))

        def of_total(steps: int) -> Values:
            return replace(reading, values=(_at_most(total + steps * step, total),), total=None)

        return of_total, _MOST_STEPS, most_down
    if isinstance(reading, PodSamples):

        def of_samples(steps: int) -> PodSamples:
            samples = {
                pod: replace(
                    sample, milli=_at_most(sample.milli * (PARTS + steps) // PARTS, sample.milli)
                )
                for pod, sample in reading.samples.items()
            }
            return replace(reading, samples=samples)

        return of_samples, _MOST_PARTS, PARTS
    return lambda _steps: reading, 0, 0


def _at_most(milli: int, before: int) -> int:
    return min(milli, max(before, INT64_MAX))


# -- bounds --------------------------------------------------------------------------------------


def _other_bounds(again: _RepeatedDecision) -> Iterator[OtherBound]:
    """Yield bounds that would put the count on the other side of the bounds in force."""
    base, limit = again.base, again.base.limit
    current, reason = base.current or 0, "" if limit is None else limit.reason
    wanted = current if limit is None else limit.before
    if base.zone is Zone.ABOVE_MAX or (base.zone is not Zone.BELOW_MIN and reason == TOO_MANY):
        wanted = current if base.zone is Zone.ABOVE_MAX else wanted
        yield from _further(again, _MAXIMUM, wanted)
    if base.zone is Zone.BELOW_MIN or (base.zone is not Zone.ABOVE_MAX and reason == TOO_FEW):
        wanted = current if base.zone is Zone.BELOW_MIN else wanted
        to_zero = not all(metric.of_pods for metric in again.spec.metrics)
        yield from _further(again, _MINIMUM, max(wanted, 0 if to_zero else 1))
    if base.bounds is not None and base.bounds.hold_down:
        yield from _further(again, MIN_QUERY, 0)


def _further(again: _RepeatedDecision, which: str, wanted: int) -> Iterator[OtherBound]:
    """Yield the least maximum that the metrics need, or the highest minimum that permits a count.

    Both give the count that a bound of ``wanted`` gives now.
    """
    sign = 1 if which is _MAXIMUM else -1
    other = _with_bound(again, which, wanted)
    if (other.desired - again.base.desired) * sign > 0:
        needed = other.desired
        if which is _MAXIMUM and other.combination is not None:
            needed = max(needed, other.combination.after)
        exact = _with_bound(again, which, needed).desired == other.desired
        yield OtherBound(which, needed if exact else wanted, other.desired)


def _with_bound(again: _RepeatedDecision, which: str, replicas: int) -> Decision:
    seen = again.observation
    if which is MIN_QUERY:
        return again.decide(replace(seen, min_replicas_reading=Values((replicas * _UNIT,))))
    bound = "max_replicas" if which is _MAXIMUM else "min_replicas"
    none: dict[str, Any] = {bound: None}
    windows = tuple(
        replace(window, schedule=replace(window.schedule, **none)) for window in seen.windows
    )
    unasked: dict[str, Any] = {f"{bound}_reading": None}
    own: dict[str, Any] = {bound: replicas}
    seen = replace(seen, windows=windows, **unasked)
    return again.decide(seen, spec=replace(again.spec, **own))


# -- removed inputs ------------------------------------------------------------------------------


_Alternatives = Iterator[tuple[str, Decision, str]]
"""The removed input, the decision without it, and the text for its end."""


def _left_out(again: _RepeatedDecision) -> Iterator[RemovedInput]:
    """Yield each input without which the count would have been another."""
    for what, decision, until in (*_of_others(again), *_of_stages(again), *_of_metrics(again)):
        if decision.desired != again.base.desired:
            yield RemovedInput(what, decision.desired, until)
    held = again.base.stabilization
    if held is not None and held.before != held.after and held.refill is None:
        yield from _without_recommendations(again, held)
    if (breaker := again.base.breaker) is not None:
        until = f" (until {time_of_day(breaker.until, again.now)})"
        without = again.decide(breaker=False)
        yield RemovedInput("the scale-down breaker", without.desired, until)


def _of_others(again: _RepeatedDecision) -> _Alternatives:
    """Yield changes by people, other autoscalers and idling."""
    base, seen, extensions = again.base, again.observation, again.extensions
    if base.pause is not None and isinstance(seen.scale, Scale):
        bare = replace(seen, scale=replace(seen.scale, annotations=()))
        yield "the pause", again.decide(bare, extensions=replace(extensions, pause=None)), ""
    if base.hold is not None or base.hold_refill is not None:
        history = with_extended(again.history, hold_gap=None)
        refill = base.hold_refill if base.hold is None else None
        until = again.ends(None if refill is None else refill.until)
        yield HOLD_QUERY, again.decide(replace(seen, hold=None), history=history), until
    if base.zone is Zone.IDLE:
        yield "`idle`", again.decide(extensions=replace(extensions, idle=None)), ""
    if base.rounding is not None:
        yield (
            "`replicas.multipleOf`",
            again.decide(extensions=replace(extensions, replicas=None)),
            "",
        )
    if base.held_until is not None:
        flags = replace(again.entry.flags, hold_after_reversals=0)
        until = f" (they count until {time_of_day(base.held_until, again.now)})"
        yield "the changes by other clients", again.decide(flags=flags), until


def _of_stages(again: _RepeatedDecision) -> _Alternatives:
    """Yield gaps in the readings, and policies."""
    held, limit, spec = again.base.stabilization, again.base.limit, again.spec
    if held is not None and held.refill is not None and not held.refill.after_hold:
        without = again.decide(replace(again.observation, ranges=None))
        yield "the gap in the readings", without, again.ends(held.until)
    if limit is None or limit.reason not in {SCALE_UP_LIMIT, SCALE_DOWN_LIMIT}:
        return
    own = spec.behavior
    if own is None and held is not None and held.before == held.after:
        # With `behavior` recommendations count differently, so they may not matter.
        own = Behavior(_NO_WINDOW, _NO_WINDOW)
    if own is not None:
        free = Behavior(_free(own.scale_up), _free(own.scale_down))
        history = replace(again.history, unseen=None)
        without = again.decide(spec=replace(spec, behavior=free), history=history)
        # The entry has it as of its own write.
        written, until = again.entry.decision.limit, ""
        if written is not None and written.until is not None:
            until = f" (they permit more from {time_of_day(written.until, again.now)})"
        yield "the scaling policies", without, until


def _free(rules: ScalingRules) -> ScalingRules:
    """Return rules whose policies permit any change."""
    return replace(rules, select_policy=SelectPolicy.MAX, policies=(_ANY_CHANGE,))


def _of_metrics(again: _RepeatedDecision) -> _Alternatives:
    """Yield the metrics that failed, and the fallback for them."""
    results = again.base.metrics
    works = [
        isinstance(result.outcome, Calculation) or result.fallback is not None for result in results
    ]
    if any(works) and not all(works):
        failed = list(compress(results, (not is_usable for is_usable in works)))
        named = f"metric {_name(failed[0])}" if len(failed) == 1 else f"{len(failed)} metrics"
        yield f"the failed {named}", _with_metrics(again, works), ""
    if any(result.fallback is not None for result in results):
        extensions = replace(again.extensions, fallback=None)
        yield "the fallback", again.decide(extensions=extensions), ""


def _with_metrics(again: _RepeatedDecision, chosen: list[bool]) -> Decision:
    """Decide with only some of the metrics."""
    seen, extensions = again.observation, again.extensions
    ranges = None if seen.ranges is None else tuple(compress(seen.ranges, chosen))
    readings = tuple(compress(seen.readings, chosen))
    keys = tuple(compress(seen.metric_keys, chosen))
    activations = tuple(compress(extensions.activations, chosen))
    return again.decide(
        replace(seen, readings=readings, ranges=ranges, metric_keys=keys),
        spec=replace(again.spec, metrics=tuple(compress(again.spec.metrics, chosen))),
        extensions=replace(extensions, activations=activations),
    )


def _without_recommendations(
    again: _RepeatedDecision, held: Stabilization
) -> Iterator[RemovedInput]:
    """Yield the recommendation that holds the count; or all, if others hold it too."""
    before, known, holder = again.history, again.history.extended, held.held_by
    if before.recommendations is None or before.unobserved:
        # The time without a sync counts as active, whichever recommendations are removed.
        stamp, first = again.entry.inputs.stamp, known.first_seen
        if first is None and before.recommendations is None:
            first = stamp
        known = replace(known, first_seen=first, last_active=stamp)
    known = replace(known, blocked_since=None)
    others = tuple(entry for entry in before.recommendations or () if entry != holder)
    by, last = "the earlier recommendations", ""
    if holder is not None:
        by = f"the {wording.recommendation(holder, again.now)}"
        last = f"the last one, {holder.replicas} at {time_of_day(holder.time, again.now)}, "
    for what, which, left in ((by, "", others), ("the earlier recommendations", last, ())):
        history = replace(before, recommendations=left, unobserved=False, extended=known)
        desired = again.decide(history=history).desired
        if desired != again.base.desired:
            yield RemovedInput(what, desired, again.ends(held.until, which))
            return
