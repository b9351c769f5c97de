"""The extensions of a target at one instant, and what they prevent.

`bounds` and `idling` are modules of their own; pauses and `holdScaleDownQuery` are here. A target
without extensions (semantics 8) skips all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.bounds import bounds_in_force, within
from autoscaler.core.contention import handed_over
from autoscaler.core.decision import (
    Bounds,
    Decision,
    IdleStatus,
    Outcome,
    QueryHold,
    Refill,
    RulesOutcome,
    Zone,
)
from autoscaler.core.extensions import Mode, Pause, PauseMode
from autoscaler.core.gaps import GapKey, refill_until, tracker_of
from autoscaler.core.history import History, with_extended
from autoscaler.core.idling import Activities, falls, idle_in_force, keeps_awake
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.observation import Observation, ReadFailure, Scale, UncheckedControl, why_held
from autoscaler.core.quick import changed, quick
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.status import (
    INVALID_ANNOTATION,
    MIN_REPLICAS_UNKNOWN,
    SCALE_DOWN_HELD,
    SCALE_DOWN_PAUSED,
    SCALE_UP_PAUSED,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    SCALING_PAUSED,
    DecisionContext,
    StatusRecorder,
)
from autoscaler.core.text import instant_of, printable


@quick
@dataclass(frozen=True, slots=True)
class Guards:
    """The extensions in force for a target; `Decision` has fields with the same names.

    ``sleeps``: it is asleep or on its way, and may stay so. ``in_shadow``: its mode is ``shadow``,
    or a ``controller`` exists. ``taken`` and ``paused_from`` are known only with a result.
    """

    in_shadow: bool = False
    shadow: bool = False
    controller: str = ""
    unchecked: str = ""
    taken: bool = False
    hold: QueryHold | None = None
    hold_refill: Refill | None = None
    pause: Pause | None = None
    bounds: Bounds | None = None
    idle: IdleStatus | None = None
    activities: Activities = ()
    pauses_all: bool = False
    sleeps: bool = False
    paused_from: int | None = None


NO_GUARDS = Guards()


def guards_of(context: DecisionContext, history: History) -> tuple[Guards, History]:
    """Return the guards that do not depend on the scale, and the history with them."""
    seen, hold, refill = context.observation, None, None
    if seen.hold is not None or history.extended.hold_gap is not None:
        hold, refill, history = _hold_in_force(context, history)
    shadow = context.extensions.mode is Mode.SHADOW
    controller, unchecked = _controller_of(seen, history)
    guards = Guards(
        in_shadow=shadow or controller != "",
        shadow=shadow,
        controller=controller,
        unchecked=unchecked,
        hold=hold,
        hold_refill=refill,
    )
    return guards, history


def _controller_of(observation: Observation, history: History) -> tuple[str, str]:
    """Return the other autoscaler that controls the target, and why that cannot be checked now.

    If it cannot be checked, the last known one applies, also after a restart (semantics 7.6).
    """
    seen = observation.controller
    if isinstance(observation.scale, ReadFailure):
        return history.controller, ""
    if not isinstance(seen, UncheckedControl):
        return seen or "", ""
    known = history.controller if seen.known is None else seen.known
    return known, seen.message if known else ""


def guards_in_force(
    context: DecisionContext, guards: Guards, scale: Scale, history: History
) -> tuple[DecisionContext, Guards, History]:
    """Return who controls the target, the pause, the bounds and the activity (8.1 to 8.3)."""
    observation, spec, extensions = context.observation, context.spec, context.extensions
    if guards.controller or history.controller:
        history = handed_over(context, history, guards.controller, shadow=guards.shadow)
    pause, bounds, idle, kept_awake = _pause(context, scale), None, None, False
    activities: Activities = ()
    if extensions.schedules or observation.asks_for_bounds:
        bounds, extended = bounds_in_force(spec, observation, history.extended, context.now)
        if extended is not history.extended:
            history = changed(history, extended=extended)
        context = changed(context, spec=within(spec, bounds))
    if extensions.idle is not None:
        kept_awake = bounds is not None and keeps_awake(spec, bounds, observation)
        idle, activities, history = idle_in_force(
            context, extensions.idle, scale, history, kept_awake=kept_awake
        )
    elif history.extended.last_active is not None:
        history = with_extended(history, last_active=None)
    guards = changed(
        guards,
        taken=history.taken,
        pause=pause,
        bounds=bounds,
        idle=idle,
        activities=activities,
        pauses_all=pause is not None and pause.mode is PauseMode.ALL,
        sleeps=idle is not None and not kept_awake and (idle.asleep or falls(idle, spec, scale)),
    )
    return context, guards, history


def _pause(context: DecisionContext, scale: Scale) -> Pause | None:
    configured = context.extensions.pause
    if not scale.annotations:
        return configured
    pause, problems = pause_in_force(configured, scale.annotations, context.now)
    for problem in problems:
        context.status.warn(INVALID_ANNOTATION, problem)
    return pause


def guarded(
    context: DecisionContext, result: RulesOutcome, guards: Guards, current: int
) -> tuple[RulesOutcome, Guards]:
    """Return a result after a pause, a hold and an unknown minimum apply (8.1, 8.9, 8.2)."""
    wanted, pause, hold, bounds = result.desired, guards.pause, guards.hold, guards.bounds
    is_down = wanted < current
    if pause is not None and guards.pauses_all:
        result = _paused(result, pause, current, context.status)
        if result.desired != wanted:
            guards = replace(guards, paused_from=wanted)
    elif pause is not None and (why := _why_paused(pause, current, wanted)) is not None:
        result = _prevented(context, result, current, *why)
        guards = replace(guards, paused_from=wanted)
    elif hold is not None and is_down:
        result = _prevented(context, result, current, SCALE_DOWN_HELD, why_held(hold.reading))
        guards = replace(guards, hold=replace(hold, replicas=wanted))
    elif bounds is not None and is_down and bounds.hold_down:
        result = _prevented(context, result, current, MIN_REPLICAS_UNKNOWN, bounds.missing)
    lacks_hold = hold is not None and hold.reading.gap is not None
    lacks_bound = bounds is not None and bounds.missing != ""
    if result.outcome is Outcome.OK and (lacks_hold or lacks_bound):
        result = replace(result, outcome=Outcome.PARTIAL)
    return result, guards


def with_guards(decision: Decision, guards: Guards) -> Decision:
    """Return a decision with the fields of its guards."""
    return changed(
        decision,
        bounds=guards.bounds,
        pause=guards.pause,
        paused_from=guards.paused_from,
        idle=guards.idle,
        hold=guards.hold,
        hold_refill=guards.hold_refill,
        shadow=guards.shadow,
        controller=guards.controller,
        unchecked=guards.unchecked,
        taken=guards.taken,
    )


def _prevented(
    context: DecisionContext, result: RulesOutcome, current: int, reason: str, message: str
) -> RulesOutcome:
    context.status.override(SCALING_LIMITED, ConditionStatus.TRUE, reason, message)
    return replace(result, desired=current)


# -- pauses ---------------------------------------------------------------------------------

PAUSED = "autoscaler/paused"
PAUSED_REPLICAS = "autoscaler/paused-replicas"
PAUSED_UNTIL = "autoscaler/paused-until"

_MODES = {"true": PauseMode.ALL, "scale-down": PauseMode.SCALE_DOWN, "scale-up": PauseMode.SCALE_UP}
_LONGEST_VALUE = 60


def pause_in_force(
    configured: Pause | None, annotations: Sequence[tuple[str, str]], now: float
) -> tuple[Pause | None, tuple[str, ...]]:
    """Return the pause of a target at ``now``, and what is wrong with its annotations.

    An unreadable value pauses the target: whoever wrote the annotation wanted no change.
    """
    given = dict(annotations)
    if PAUSED not in given and PAUSED_REPLICAS not in given:
        return configured, ()
    until, problem = _until(given)
    problems = [problem] if problem else []
    if until is not None and until <= now:
        return configured, ()
    passed_over = (
        f"{PAUSED_REPLICAS} is passed over: it goes with {PAUSED} of true, or without that"
    )
    if given.get(PAUSED, "").strip().lower() == "false":
        return None, (passed_over,) if PAUSED_REPLICAS in given else ()
    pause = Pause(by=f"the annotation {PAUSED}", until=until)
    if PAUSED in given:
        mode = _MODES.get(given[PAUSED].strip().lower())
        if mode is None:
            problems.append(
                f"{PAUSED} is {_quoted(given[PAUSED])}, and taken as true; it may be true, false, "
                "scale-down or scale-up"
            )
        pause = replace(pause, mode=mode or PauseMode.ALL)
    if PAUSED_REPLICAS in given:
        problem = passed_over
        if pause.mode is PauseMode.ALL:
            pause, problem = _at_replicas(pause, given[PAUSED_REPLICAS])
        problems += [problem] if problem else []
    return pause, tuple(problems)


def _paused(
    result: RulesOutcome, pause: Pause, current: int, status: StatusRecorder
) -> RulesOutcome:
    """Replace a result by the count of a pause in both directions."""
    status.override(SCALING_ACTIVE, ConditionStatus.FALSE, SCALING_PAUSED, f"paused by {pause.by}")
    return replace(
        result,
        zone=Zone.PAUSED,
        outcome=Outcome.OK if result.outcome is Outcome.OK else Outcome.PARTIAL,
        desired=current if pause.replicas is None else pause.replicas,
        reason=f"paused by {pause.by}",
    )


def _why_paused(pause: Pause, current: int, desired: int) -> tuple[str, str] | None:
    """Return reason and message if a pause of one direction prevents a change; else None."""
    if desired < current and pause.mode is PauseMode.SCALE_DOWN:
        return SCALE_DOWN_PAUSED, f"scale-down is paused by {pause.by}"
    if desired > current and pause.mode is PauseMode.SCALE_UP:
        return SCALE_UP_PAUSED, f"scale-up is paused by {pause.by}"
    return None


def _at_replicas(pause: Pause, text: str) -> tuple[Pause, str]:
    pause = replace(pause, by=f"the annotation {PAUSED_REPLICAS}")
    digits = text.strip()
    if digits.isascii() and digits.isdecimal() and len(digits) <= 10 and int(digits) <= INT32_MAX:
        return replace(pause, replicas=int(digits)), ""
    return pause, (
        f"{PAUSED_REPLICAS} is {_quoted(text)}, which is not a number of replicas; the "
        "current count is kept"
    )


def _until(given: Mapping[str, str]) -> tuple[float | None, str]:
    """Return when the pause of the annotations ends, in Unix seconds; None if never."""
    text = given.get(PAUSED_UNTIL)
    if text is None:
        return None, ""
    instant = instant_of(text)
    if instant is not None:
        return instant, ""
    return None, (
        f"{PAUSED_UNTIL} is {_quoted(text)}, which is not a time such as 2026-01-31T18:00:00Z; the "
        "pause has no end"
    )


def _quoted(text: str) -> str:
    return f'"{printable(text, _LONGEST_VALUE)}"'


# -- `holdScaleDownQuery` -------------------------------------------------------------------

_HOLD_KEY: GapKey = ("", "")


def _hold_in_force(
    context: DecisionContext, history: History
) -> tuple[QueryHold | None, Refill | None, History]:
    """Return the hold, the refill after one, and the history with the gap of the hold."""
    reading, before = context.observation.hold, history.extended.hold_gap
    longest, gap = max(context.observation.ranges or (), default=0.0), None
    # Its cause, such as a missing exporter, may have removed samples of any range.
    if reading is not None and reading.holds:
        gap = tracker_of(context).opened(before, _HOLD_KEY)
    elif reading is not None and before is not None:
        gap = tracker_of(context).closed(before, longest)
    if gap != before:
        history = with_extended(history, hold_gap=gap)
    just_held = before is not None and before.since is not None
    hold = QueryHold(reading) if reading is not None and (reading.holds or just_held) else None
    refill = None
    if gap is not None and gap.since is None and gap.until > context.now:
        refill = refill_until(gap.until, longest, after_hold=True)
    return hold, refill, history
