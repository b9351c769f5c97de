"""What a target has besides its spec, as it stands at one instant, and what that prevents.

Each rule has a file, in the order of semantics 8: `pauses`, `bounds`, `idling`, `holds`.
A target that has none of them passes through none of these files.
"""

from dataclasses import dataclass, replace

from autoscaler.core.bounds import bounds_in_force, keeps_awake, within
from autoscaler.core.decision import Bounds, IdleStatus, Outcome, QueryHold, Reconciled, Refill
from autoscaler.core.extensions import Mode, Pause, PauseMode
from autoscaler.core.history import History
from autoscaler.core.holds import hold_in_force, why_held
from autoscaler.core.idling import Activities, idle_in_force
from autoscaler.core.observation import Observation, Scale, Unavailable, Unchecked
from autoscaler.core.pauses import INVALID_ANNOTATION, pause_in_force, paused, why_paused
from autoscaler.core.quick import changed
from autoscaler.core.reconcile import DecisionContext
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.status import MIN_REPLICAS_UNKNOWN, SCALE_DOWN_HELD, SCALING_LIMITED


@dataclass(frozen=True, slots=True)
class Guards:
    """What holds for a target; `Decision` has fields of the same names.

    It ``is_back`` if nothing is known of the time just before this sync, and ``sleeps`` if it is
    asleep and may stay so.  It is ``in_shadow`` by its mode (``shadow``) or while a ``controller``
    is there.  ``taken`` and ``paused_from`` are known once there is a result.
    """

    is_back: bool = False
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
    """Return what holds whatever the scale is, and the history with it."""
    hold = refill = None
    if context.observation.hold is not None or history.extended.hold_gap is not None:
        hold, refill, history = hold_in_force(context, history)
    shadow = context.extensions.mode is Mode.SHADOW
    controller, unchecked = _controller_of(context.observation, history)
    guards = Guards(
        is_back=history.unobserved,
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

    If it cannot, the last known one stands, also after a restart (semantics 7.6).
    """
    seen = observation.controller
    if isinstance(observation.scale, Unavailable):
        return history.controller, ""
    if not isinstance(seen, Unchecked):
        return seen or "", ""
    known = history.controller if seen.known is None else seen.known
    return known, seen.message if known else ""


def guards_in_force(
    context: DecisionContext, guards: Guards, scale: Scale, history: History
) -> tuple[DecisionContext, Guards, History]:
    """Find the pause, the bounds in force and the activity (semantics 8.1 to 8.3)."""
    observation, spec, extensions = context.observation, context.spec, context.extensions
    extended, recommendations = history.extended, history.recommendations
    pause, bounds, idle, kept_awake = _pause(context, scale), None, None, False
    activities: Activities = ()
    if extensions.schedules or observation.asks_for_bounds:
        bounds, extended = bounds_in_force(spec, observation, extended, context.now)
        kept_awake = keeps_awake(spec, bounds, observation)
        context = changed(context, spec=within(spec, bounds))
    if extensions.idle is not None:
        idle, activities, extended = idle_in_force(
            context,
            extensions.idle,
            scale.spec_replicas,
            history,
            extended,
            is_back=guards.is_back,
            kept_awake=kept_awake,
        )
        if idle.asleep and recommendations:
            recommendations = ()
    elif extended.last_active is not None:
        extended = replace(extended, last_active=None)
    guards = replace(
        guards,
        pause=pause,
        bounds=bounds,
        idle=idle,
        activities=activities,
        pauses_all=pause is not None and pause.mode is PauseMode.ALL,
        sleeps=idle is not None and idle.asleep and not kept_awake,
    )
    if extended is not history.extended or recommendations is not history.recommendations:
        history = changed(history, extended=extended, recommendations=recommendations)
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
    context: DecisionContext, result: Reconciled, guards: Guards, current: int
) -> tuple[Reconciled, Guards]:
    """Return what a pause, a hold and an unknown minimum leave of a result (8.1, 8.9, 8.2)."""
    wanted, pause, hold, bounds = result.desired, guards.pause, guards.hold, guards.bounds
    is_down = wanted < current
    if pause is not None and guards.pauses_all:
        result = paused(result, pause, current, context.status)
        if result.desired != wanted:
            guards = replace(guards, paused_from=wanted)
    elif pause is not None and (why := why_paused(pause, current, wanted)) is not None:
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


def _prevented(
    context: DecisionContext, result: Reconciled, current: int, reason: str, message: str
) -> Reconciled:
    context.status.override(SCALING_LIMITED, ConditionStatus.TRUE, reason, message)
    return replace(result, desired=current)
