"""What would have had to be different for another count: decided again with one thing changed.

No rule is repeated here: each alternative is what `decide` returns for other inputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from autoscaler.core.decide import decide
from autoscaler.core.decision import Calculation, Decision, Limit, MetricResult, Zone
from autoscaler.core.entry import Entry
from autoscaler.core.extensions import Extensions
from autoscaler.core.history import History
from autoscaler.core.limits import TOO_FEW, TOO_MANY
from autoscaler.core.numbers import INT32_MAX, INT64_MAX
from autoscaler.core.observation import Observation, PodSamples, Reading, Scale, Values
from autoscaler.core.spec import (
    Behavior,
    Flags,
    HorizontalPodAutoscalerSpec,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)

_ANY_CHANGE = ScalingPolicy(PolicyType.PODS, INT32_MAX, 1)
_UNIT = 1000
"""Values that are all whole are changed by whole units."""
_PARTS = 10_000
"""The load of pods is changed by such parts of itself."""
_MOST_TIMES = 1 << 40
"""A larger change of a value, in its own steps, is not looked for."""


class Without(StrEnum):
    """What is left out for an alternative."""

    STABILIZATION = "stabilization"
    GAP = "gap"
    POLICY = "policy"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    PAUSE = "pause"
    IDLE = "idle"
    CONTROLLER = "controller"
    REVERSALS = "reversals"
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class OtherValue:
    """At another value the metric number ``index`` would have asked for another count.

    ``result`` is that metric at the nearest such value, ``desired`` the count of the target then.
    """

    index: int
    result: MetricResult
    desired: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Without something the count would have been ``desired``."""

    what: Without
    desired: int


# -- values --------------------------------------------------------------------------------------


def other_values(entry: Entry) -> Iterator[OtherValue]:
    """Yield for each metric the nearest values at which it asks for more, and for less."""
    for index, result in enumerate(entry.decision.metrics):
        if not isinstance(result.outcome, Calculation):
            continue
        reading = entry.inputs.observation.readings[index]
        for up in (True, False):
            found = _nearest(entry, index, reading, up=up)
            if found is not None:
                yield found


def _nearest(entry: Entry, index: int, reading: Reading, *, up: bool) -> OtherValue | None:
    """Look for the nearest value by bisection: a proposal never falls as the value grows."""
    change, steps_down = _changes(reading)
    if change is None:
        return None
    asked = _proposal(_with(entry, index, change(0)), index)
    if asked is None:
        return None

    def differs(steps: int) -> bool:
        proposal = _proposal(_with(entry, index, change(steps if up else -steps)), index)
        return proposal is not None and (proposal > asked if up else proposal < asked)

    most = _MOST_TIMES if up else steps_down
    steps = _first(differs, most)
    if steps is None:
        return None
    decision = _with(entry, index, change(steps if up else -steps))
    return OtherValue(index, decision.metrics[index], decision.desired)


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from 1 to ``most`` for which something holds, as for all above it."""
    high = 1
    while high < most and not holds(high):
        high *= 2
    high = min(high, most)
    if high < 1 or not holds(high):
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _changes(reading: Reading) -> tuple[Callable[[int], Reading] | None, int]:
    """Return what changes a reading by so many steps, and how many of them lead to 0."""
    if isinstance(reading, Values):
        total = sum(reading.values)
        step = _UNIT if all(one % _UNIT == 0 for one in reading.values) else 1
        return partial(_of_total, reading, total, step), max(0, -(-total // step))
    if isinstance(reading, PodSamples) and reading.samples:
        return partial(_of_samples, reading), _PARTS
    return None, 0


def _of_total(reading: Values, total: int, step: int, steps: int) -> Values:
    changed = min(max(0, total + steps * step), INT64_MAX) if steps else total
    return replace(reading, values=(changed,))


def _of_samples(reading: PodSamples, steps: int) -> PodSamples:
    samples = {
        pod: replace(one, milli=min(one.milli * (_PARTS + steps) // _PARTS, INT64_MAX))
        for pod, one in reading.samples.items()
    }
    return replace(reading, samples=samples)


def _with(entry: Entry, index: int, reading: Reading) -> Decision:
    readings = list(entry.inputs.observation.readings)
    readings[index] = reading
    return _decided(entry, replace(entry.inputs.observation, readings=tuple(readings)))


def _proposal(decision: Decision, index: int) -> int | None:
    results = decision.metrics
    return results[index].proposal if index < len(results) else None


# -- what is left out ----------------------------------------------------------------------------


def left_out(entry: Entry) -> Iterator[LeftOut]:
    """Yield each thing without which the count would have been another one."""
    decision = entry.decision
    for what, decide_without in _applicable(entry):
        desired = decide_without().desired
        if desired != (decision.current if decision.breaker else decision.desired):
            yield LeftOut(what, desired)


def _applicable(entry: Entry) -> Iterator[tuple[Without, Callable[[], Decision]]]:
    """Yield what may have had an influence, and what decides without it."""
    decision, observation = entry.decision, entry.inputs.observation
    extensions, before = entry.rules.target.extensions, entry.inputs.history
    if decision.zone is Zone.CONTROLLED:
        alone = replace(observation, controller=None)
        history = replace(before, controller="")
        yield Without.CONTROLLER, partial(_decided, entry, alone, history=history)
    if decision.pause is not None and isinstance(observation.scale, Scale):
        seen = replace(observation, scale=replace(observation.scale, annotations=()))
        awake = replace(extensions, pause=None)
        yield Without.PAUSE, partial(_decided, entry, seen, extensions=awake)
    if decision.zone is Zone.IDLE:
        yield Without.IDLE, partial(_decided, entry, extensions=replace(extensions, idle=None))
    if decision.held_until is not None:
        flags = replace(entry.rules.flags, hold_after_reversals=0)
        yield Without.REVERSALS, partial(_decided, entry, flags=flags)
    if decision.breaker is not None:
        yield Without.BREAKER, partial(_decided, entry)
    yield from _without_stage(entry)


def _without_stage(entry: Entry) -> Iterator[tuple[Without, Callable[[], Decision]]]:
    """Yield what stabilization or the limit comes from, where it changes the count."""
    held, limit, inputs = entry.decision.stabilization, entry.decision.limit, entry.inputs
    if held is not None and held.before != held.after:
        if held.refill is not None:
            yield Without.GAP, partial(_decided, entry, replace(inputs.observation, ranges=None))
        else:
            history = replace(inputs.history, recommendations=())
            yield Without.STABILIZATION, partial(_decided, entry, history=history)
    if limit is not None and limit.before != limit.after:
        yield from _without_limit(entry, limit)


def _without_limit(entry: Entry, limit: Limit) -> Iterator[tuple[Without, Callable[[], Decision]]]:
    target, inputs = entry.rules.target, entry.inputs
    spec, fixed = target.spec, replace(target.extensions, schedules=())
    seen = replace(
        inputs.observation, windows=(), min_replicas_reading=None, max_replicas_reading=None
    )
    if limit.reason == TOO_MANY:
        higher = replace(spec, max_replicas=limit.before)
        yield Without.MAXIMUM, partial(_decided, entry, seen, spec=higher, extensions=fixed)
    elif limit.reason == TOO_FEW:
        lower = replace(spec, min_replicas=max(0, min(limit.before, spec.min_replicas)))
        yield Without.MINIMUM, partial(_decided, entry, seen, spec=lower, extensions=fixed)
    elif spec.behavior is not None:
        history = replace(inputs.history, unseen=None)
        free = replace(spec, behavior=_without_policies(spec.behavior))
        yield Without.POLICY, partial(_decided, entry, spec=free, history=history)


def _without_policies(behavior: Behavior) -> Behavior:
    """Return rules whose policies permit any change."""

    def free(rules: ScalingRules) -> ScalingRules:
        return replace(rules, select_policy=SelectPolicy.MAX, policies=(_ANY_CHANGE,))

    return Behavior(free(behavior.scale_up), free(behavior.scale_down))


def _decided(
    entry: Entry,
    observation: Observation | None = None,
    *,
    spec: HorizontalPodAutoscalerSpec | None = None,
    flags: Flags | None = None,
    history: History | None = None,
    extensions: Extensions | None = None,
) -> Decision:
    """Decide again with other inputs; no breaker holds it, and nothing is written."""
    target, inputs = entry.rules.target, entry.inputs
    decision, _ = decide(
        target.spec if spec is None else spec,
        entry.rules.flags if flags is None else flags,
        inputs.observation if observation is None else observation,
        inputs.history if history is None else history,
        inputs.now,
        inputs.stamp,
        target.extensions if extensions is None else extensions,
    )
    return decision
