"""Whether a target is active, and when it may go idle (semantics 8.3)."""

from collections.abc import Iterable
from dataclasses import replace

from autoscaler.core.decision import (
    READY,
    TOO_FEW,
    WITHIN_RANGE,
    Activity,
    Bounds,
    Combination,
    IdleStatus,
    Limit,
    MetricResult,
    Outcome,
    RulesOutcome,
    Stabilization,
    Zone,
)
from autoscaler.core.extensions import Idle
from autoscaler.core.gaps import current_refill
from autoscaler.core.history import UNKNOWN, History, Recommendation, with_extended
from autoscaler.core.numbers import in_units
from autoscaler.core.observation import Observation, OpenWindow, Scale, Values
from autoscaler.core.quick import changed
from autoscaler.core.reconcile import limited, recorded
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.status import (
    SCALING_ACTIVE,
    SCALING_LIMITED,
    WITHIN_RANGE_MESSAGE,
    DecisionContext,
    keys_in,
)

NONE_ACTIVE = "no metric is active"

Activities = tuple[Activity | None, ...]
"""One for each metric of the spec; None for a metric that is not part of the rule."""


def _activities_of(context: DecisionContext, history: History) -> Activities:
    """Return whether each metric is above its activation."""
    observation, metrics = context.observation, context.spec.metrics
    activations = context.extensions.activations or (0,) * len(metrics)
    ranges = observation.ranges or (0.0,) * len(metrics)
    keys = keys_in(observation, metrics)
    judged: list[Activity | None] = []
    for metric, key, reading, activation, seconds in zip(
        metrics, keys, observation.readings, activations, ranges, strict=True
    ):
        if metric.of_pods:
            judged.append(None)
        elif not isinstance(reading, Values):
            judged.append(Activity.UNKNOWN)
        elif reading.units > in_units(activation):
            judged.append(Activity.ACTIVE)
        elif reading.gaps or current_refill(history, key, seconds, context.now):
            judged.append(Activity.UNKNOWN)
        else:
            judged.append(Activity.INACTIVE)
    return tuple(judged)


def idle_in_force(
    context: DecisionContext, idle: Idle, scale: Scale, history: History, *, kept_awake: bool
) -> tuple[IdleStatus, Activities, History]:
    """Return the state of the idle rule, and the history with it.

    If nothing is known of the time before this sync, the target counts as active until now.
    """
    stamp, is_new, before = context.stamp, history.recommendations is None, history.extended
    activities = _activities_of(context, history)
    first_seen, last_active = before.first_seen, before.last_active
    if first_seen is None:
        first_seen = stamp if is_new else UNKNOWN
    active = _is_active(activities)
    if active or kept_awake or history.unobserved or is_new or last_active is None:
        last_active = stamp
    if first_seen != before.first_seen or last_active != before.last_active:
        history = with_extended(history, first_seen=first_seen, last_active=last_active)
    until = max(last_active + idle.after, first_seen + idle.initially)
    sleeping = scale.spec_replicas <= idle.replicas
    if sleeping and history.recommendations:
        history = changed(history, recommendations=())
    return IdleStatus(idle, active, last_active, until, sleeping, kept_awake), activities, history


def note_activity_unread(context: DecisionContext, history: History) -> History:
    """Note the activity of a target whose scale could not be read (semantics 8.3)."""
    observation = context.observation
    # The first sync of a target that this daemon never saw awake is still to come.
    if history.extended.last_active is None:
        return history
    is_asked_for = _gives_least(observation.windows, context.spec.min_replicas)
    is_asked_for = is_asked_for or observation.asks_for_bounds
    if not (is_asked_for or _is_active(_activities_of(context, history))):
        return history
    return with_extended(history, last_active=context.stamp)


def keeps_awake(own: HorizontalPodAutoscalerSpec, bounds: Bounds, observation: Observation) -> bool:
    """Return whether a schedule or query sets a minimum, so that idle does not apply (8.3)."""
    raised = bounds.minimum.replicas > own.min_replicas
    return raised or _gives_least(observation.windows, own.min_replicas)


def _gives_least(windows: Iterable[OpenWindow], replicas: int) -> bool:
    """Return whether an open schedule sets a minimum of at least ``replicas``."""
    return any((window.schedule.min_replicas or 0) >= replicas for window in windows)


def falls(status: IdleStatus, own: HorizontalPodAutoscalerSpec, scale: Scale) -> bool:
    """Return whether a target may be on its way to idle, below its own minimum."""
    return status.idle.gradual and scale.spec_replicas < own.min_replicas


def _is_active(activities: Activities) -> bool:
    return Activity.ACTIVE in activities or Activity.UNKNOWN in activities


def asleep(
    context: DecisionContext,
    status: IdleStatus,
    results: tuple[MetricResult, ...],
    current: int,
    history: History,
) -> tuple[RulesOutcome, History] | None:
    """Return the result for a target that goes or stays idle; None if the metrics decide (8.3)."""
    if any(result.activity is Activity.ACTIVE or result.fallback is not None for result in results):
        return None
    if not status.asleep and (status.active or context.now < status.until):
        return None
    context.status.set_false(SCALING_LIMITED, WITHIN_RANGE, WITHIN_RANGE_MESSAGE)
    if status.active:
        message = "no metric is known to be active, and some are unknown: the count stays"
        context.status.set_true(SCALING_ACTIVE, "Idle", message)
        return RulesOutcome(Zone.IDLE, Outcome.PARTIAL, current, metrics=results), history
    context.status.set_true(SCALING_ACTIVE, "Idle", NONE_ACTIVE)
    replicas, step = status.idle.replicas, None
    if not status.asleep:
        if status.idle.gradual:
            to_idle = changed(context, spec=replace(context.spec, min_replicas=replicas))
            step = limited(to_idle, current, replicas, history)
        after = recorded(context, replicas, history.recommendations or ())
        history = changed(with_extended(history, blocked_since=None), recommendations=after)
    desired = replicas if step is None else step.after
    outcome = RulesOutcome(Zone.IDLE, Outcome.OK, desired, NONE_ACTIVE, results, limit=step)
    return outcome, history


def woken(
    context: DecisionContext,
    combination: Combination,
    results: tuple[MetricResult, ...],
    history: History,
) -> RulesOutcome:
    """Return the result for a target that wakes up: not stabilized, at least the minimum (8.3)."""
    current, desired, least = combination.before, combination.after, context.spec.min_replicas
    wanted = max(desired, least)
    step = limited(context, current, wanted, history)
    if step.after < least:
        step = Limit(wanted, least, TOO_FEW, least)
        context.status.set_true(SCALING_LIMITED, TOO_FEW, f"{least} is the least when awake")
    active = [result.name for result in results if result.activity is Activity.ACTIVE]
    return RulesOutcome(
        Zone.METRICS,
        Outcome.PARTIAL if combination.failed else Outcome.OK,
        step.after,
        f"{next(iter(active), combination.winner)} is active",
        results,
        combination,
        Stabilization(desired, wanted, READY),
        step,
        (Recommendation(desired, context.stamp),),
    )
