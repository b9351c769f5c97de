"""One decision: the stages of the HPA in `reconcile`, and the extensions around them.

The extensions are in `guards` (semantics 8), the events since the last sync in `contention` and
`gaps` (7), the consequences of gaps in `missing_data` (7.2, 8.4). A target runs only the code of
the extensions that it has.
"""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core import contention, gaps, idling, missing_data, reconcile
from autoscaler.core.bounds import approached
from autoscaler.core.calculator import MetricContext
from autoscaler.core.decision import (
    TOO_MANY,
    Combination,
    Decision,
    ForeignChange,
    Limit,
    MetricResult,
    Outcome,
    Refill,
    Rounding,
    RulesOutcome,
    Saturation,
    Zone,
    last_refill,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.guards import (
    NO_GUARDS,
    Guards,
    guarded,
    guards_in_force,
    guards_of,
    with_guards,
)
from autoscaler.core.history import ExtensionHistory, History
from autoscaler.core.multiples import in_multiples
from autoscaler.core.observation import Gap, Observation, Pod, ReadFailure, Scale
from autoscaler.core.quick import changed
from autoscaler.core.removals import removals_of
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, tolerance_of
from autoscaler.core.status import ABLE_TO_SCALE, DecisionContext, StatusRecorder
from autoscaler.core.writes import FIELD_MANAGER, resolve

# In Python 3.11, looking up a member of an Enum takes as long as creating a record.
_METRICS, _OK, _BLOCKED = Zone.METRICS, Outcome.OK, Outcome.BLOCKED


def decide(
    spec: HorizontalPodAutoscalerSpec,
    flags: Flags,
    observation: Observation,
    history: History,
    now: float,
    stamp: float | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> tuple[Decision, History]:
    """Decide on the replicas of one target at ``now``; return the decision and the new history.

    The sync is recorded as of ``stamp`` (`instants_of`), by default as of ``now``.  If the decision
    says ``rescale``, the caller writes the scale and takes the outcome to `settle_write`.
    """
    if observation.metric_keys and observation.metric_keys != history.metric_keys:
        history = gaps.by_keys(history, spec.metrics, observation.metric_keys)
    status, tolerance = StatusRecorder(history.conditions, now), tolerance_of(spec, flags)
    stamp = now if stamp is None else stamp
    context = DecisionContext(spec, flags, observation, now, stamp, tolerance, status, extensions)
    guards, scale = NO_GUARDS, observation.scale
    if _has_guards(extensions, observation, history):
        guards, history = guards_of(context, history)
    if _may_have_gaps(observation, history):
        history = gaps.track_readings(history, context)
    if isinstance(scale, ReadFailure):
        if extensions.idle is not None:
            history = idling.note_activity_unread(context, history)
        return _concluded(context, reconcile.unreadable(scale, status), guards, history)
    history, foreign, has_risen = _since_last_sync(context, guards, scale, history)
    if guards is not NO_GUARDS:
        context, guards, history = guards_in_force(context, guards, scale, history)
    history = _with_recommendations(context, scale, history, has_risen=has_risen)
    unseen = history.unseen
    if unseen is not None and guards.in_shadow:
        # A target that is never written cannot exceed a policy.
        history = changed(history, unseen=None)
    result, history = _by_zone(context, guards, scale, history, spec.min_replicas)
    if (rounding := extensions.replicas) is not None:
        result = in_multiples(result, context.spec, scale.spec_replicas, rounding.multiple_of)
    if unseen is not history.unseen:
        history = changed(history, unseen=unseen)
    return _concluded(context, result, guards, history, foreign)


def _has_guards(extensions: Extensions, observation: Observation, history: History) -> bool:
    """Return whether the target has a rule of semantics 8, or had one until now."""
    scale = observation.scale
    return (
        (extensions is not NO_EXTENSIONS and extensions != NO_EXTENSIONS)
        or observation.hold is not None
        or observation.asks_for_bounds
        or observation.controller is not None
        or history.controller != ""
        or (isinstance(scale, Scale) and scale.annotations != ())
        or history.extended.remembers_rules
    )


# -- since the last sync -------------------------------------------------------------------------


def _may_have_gaps(observation: Observation, history: History) -> bool:
    """Return whether readings are missing, or may have been (semantics 7.2)."""
    if observation.ranges is None:
        return False
    if history.gaps or history.unobserved or history.recommendations is None:
        return True
    return Gap in map(type, observation.readings)


def _since_last_sync(
    context: DecisionContext, guards: Guards, scale: Scale, history: History
) -> tuple[History, ForeignChange | None, bool]:
    """Settle a pending write, and note changes by other clients (semantics 7.4, 7.5, 7.7).

    Returns the history, another client's change, and whether another instance may have scaled up.
    """
    observation, status = context.observation, context.status
    status.set_true(ABLE_TO_SCALE, "SucceededGetScale", "the current scale was read")
    if history.pending is not None:
        history = resolve(context, history, scale)
    if guards.in_shadow or history.controller:
        return contention.followed(context, history, scale), None, False
    left = history.contention
    is_as_left = left.known == scale.spec_replicas and left.generation == scale.generation
    if observation.sole_writer and is_as_left:
        return history, None, False
    history, foreign = contention.note_changes(context, history, scale)
    is_higher = left.known is not None and scale.spec_replicas > left.known
    may_be_ours = not observation.sole_writer and scale.replicas_by in {"", FIELD_MANAGER}
    return history, foreign, is_higher and may_be_ours


def _with_recommendations(
    context: DecisionContext, scale: Scale, history: History, *, has_risen: bool
) -> History:
    """Record the current count where recommendations are missing (semantics 4.5, 7.4)."""
    recommendations = history.recommendations
    if recommendations is None or history.unobserved:
        recommendations = reconcile.with_current(context, recommendations, scale.spec_replicas)
        history = replace(history, recommendations=recommendations, unobserved=False)
    if has_risen and recommendations is not None:
        # The other instance may have read a value that this one did not.
        risen = reconcile.recorded(context, scale.spec_replicas, recommendations, only_down=True)
        history = replace(history, recommendations=risen)
    return history


# -- the count -----------------------------------------------------------------------------------


def _by_zone(
    context: DecisionContext, guards: Guards, scale: Scale, history: History, own_minimum: int
) -> tuple[RulesOutcome, History]:
    """Decide by the first zone that matches (semantics 1.2, 6.7, 8.1 to 8.3)."""
    current = scale.spec_replicas
    # After the state was lost, only the object shows who scaled it to zero.
    ours = current == 0 and (history.zeroed_by_us or scale.replicas_by == FIELD_MANAGER)
    if ours is not history.zeroed_by_us:
        history = replace(history, zeroed_by_us=ours)
    is_off = current == 0 and own_minimum != 0 and guards.idle is None
    zone = reconcile.zone_of(context.spec, current, is_off=is_off and not ours)
    if guards.pauses_all:
        # At zero nothing can be measured.
        zone = Zone.PAUSED if is_off else _METRICS
    if zone is _METRICS or (zone is Zone.BELOW_MIN and guards.sleeps):
        result, history = _by_metrics(context, guards, scale, history)
        # On the way to idle, a count below the minimum rises to it if nothing can be decided.
        falls = guards.idle is not None and not guards.idle.asleep
        if zone is _METRICS or not falls or result.outcome is not _BLOCKED:
            return result, history
    result = reconcile.without_metrics(context, zone, current)
    if guards.bounds is not None and zone in {Zone.ABOVE_MAX, Zone.BELOW_MIN}:
        result = approached(result, context, guards.bounds, current, history)
    return result, history


def _by_metrics(
    context: DecisionContext, guards: Guards, scale: Scale, history: History
) -> tuple[RulesOutcome, History]:
    current, idle = scale.spec_replicas, guards.idle
    pods = reconcile.usable_pods(context, scale)
    if pods is None:
        return RulesOutcome(_METRICS, _BLOCKED, current), history
    results, history = _results(context, guards, scale, pods, history)
    if idle is not None and not idle.kept_awake and (idle.asleep or guards.hold_refill is None):
        decided = idling.asleep(context, idle, results, current, history)
        if decided is not None:
            return decided
    counted = _counted(results, guards, pods)
    combination = reconcile.combined(counted, current, context.status)
    if combination is None:
        history = missing_data.record_blocked(counted, context, history)
        return RulesOutcome(_METRICS, _BLOCKED, current, metrics=results), history
    if history.extended.blocked_since is not None:
        history = missing_data.end_blocked(
            context, history.extended.blocked_since, current, history
        )
    if guards.sleeps:
        result = idling.woken(context, combination, results, history)
    else:
        result = _normalized(context, combination, results, guards.hold_refill, history)
    if context.extensions.fallback is not None:
        result = missing_data.decided_by_fallback(result, context.status)
    return result, history


def _results(
    context: DecisionContext, guards: Guards, scale: Scale, pods: Sequence[Pod], history: History
) -> tuple[tuple[MetricResult, ...], History]:
    """Return the result of each metric after gaps, fallback and idle are applied."""
    metric_context = MetricContext(
        scale, pods, context.tolerance, context.flags, context.now, context.extensions
    )
    results = reconcile.measured(context, metric_context)
    if context.observation.ranges is not None and (
        history.gaps or any(result.groups and result.groups.missing for result in results)
    ):
        results, history = missing_data.after_gaps(results, context, metric_context, history)
    reconcile.report_failures(_counted(results, guards, pods), context.status)
    if context.extensions.fallback is not None or history.extended.failures:
        results, history = missing_data.with_fallback(results, context, metric_context, history)
    if guards.idle is not None:
        pairs = zip(results, guards.activities, strict=True)
        results = tuple(changed(result, activity=activity) for result, activity in pairs)
    return results, history


def _counted(
    results: tuple[MetricResult, ...], guards: Guards, pods: Sequence[Pod]
) -> tuple[MetricResult, ...]:
    """Return the results that count; an idle target has no pods, so pod metrics are left out."""
    if pods or guards.idle is None or not guards.idle.asleep:
        return results
    return tuple(result for result in results if not result.metric.of_pods)


def _normalized(
    context: DecisionContext,
    combination: Combination,
    results: tuple[MetricResult, ...],
    hold_refill: Refill | None,
    history: History,
) -> RulesOutcome:
    """Stabilize and limit the combined count (semantics 4); no scale-down during a refill (7.2)."""
    current, desired = combination.before, combination.after
    recommendations = history.recommendations or ()
    refill = None
    if desired < current and (hold_refill is not None or history.gaps):
        refill = last_refill(results, hold_refill)
    if refill is None:
        stabilization, after = reconcile.stabilized(context, current, desired, recommendations)
        if history.gaps and missing_data.rests_on_refill(desired, results, context):
            after = reconcile.recorded(context, desired, recommendations, only_down=True)
    else:
        stabilization, after = missing_data.stabilized_in_refill(
            context, current, desired, refill, recommendations
        )
    limit = reconcile.limited(context, current, stabilization.after, history)
    return RulesOutcome(
        _METRICS,
        Outcome.PARTIAL if combination.failed else _OK,
        limit.after,
        reconcile.reason_of(combination),
        results,
        combination,
        stabilization,
        limit,
        after,
    )


# -- what may be written -------------------------------------------------------------------------


def _concluded(
    context: DecisionContext,
    result: RulesOutcome,
    guards: Guards,
    history: History,
    foreign: ForeignChange | None = None,
) -> tuple[Decision, History]:
    """Return the decision that a result gives, and the history after it."""
    scale, wanted, contested = context.observation.scale, result.desired, None
    current = scale.spec_replicas if isinstance(scale, Scale) else 0
    if guards is not NO_GUARDS:
        result, guards = guarded(context, result, guards, current)
    if result.zone is not Zone.UNKNOWN:
        context.status.end_own_reasons()
    if result.desired != current and history.contention.reversals:
        contested = contention.contested_until(context, history.contention)
    extended, saturation = history.extended, None
    if result.outcome is not _BLOCKED:
        # A change that a pause or another client prevents is not a saturation.
        is_free = contested is None and result.desired == wanted and not guards.pauses_all
        limit = result.limit if is_free else None
        saturation, extended = _saturated(limit, result.rounding, extended, context.now)
    if contested is not None:
        result = replace(result, outcome=_BLOCKED, desired=current)
    decision = _decision_of(context, result, foreign, contested, saturation)
    if guards is not NO_GUARDS:
        decision = with_guards(decision, guards)
    is_blocked, recommendations = result.outcome is _BLOCKED, result.recommendations
    return decision, changed(
        history,
        recommendations=history.recommendations if recommendations is None else recommendations,
        conditions=decision.conditions,
        desired_replicas=history.desired_replicas if is_blocked else result.desired,
        extended=extended,
    )


def _decision_of(
    context: DecisionContext,
    result: RulesOutcome,
    foreign: ForeignChange | None,
    contested: float | None,
    saturation: Saturation | None,
) -> Decision:
    scale, costs = context.observation.scale, context.observation.deletion_costs
    return Decision(
        time=context.now,
        stamp=context.stamp,
        zone=result.zone,
        outcome=result.outcome,
        scale=scale,
        min_replicas=context.spec.min_replicas,
        max_replicas=context.spec.max_replicas,
        tolerance=context.tolerance,
        desired=result.desired,
        rescale=isinstance(scale, Scale) and result.desired != scale.spec_replicas,
        reason=result.reason,
        metrics=result.metrics,
        combination=result.combination,
        stabilization=result.stabilization,
        limit=result.limit,
        conditions=context.status.conditions,
        events=tuple(context.status.events),
        foreign=foreign,
        held_until=contested,
        saturation=saturation,
        wanted_by=result.wanted_by,
        hpa=context.observation.hpa,
        rounding=result.rounding,
        removals=None if costs is None else removals_of(context.observation, result.desired),
    )


def _saturated(
    limit: Limit | None, rounding: Rounding | None, extended: ExtensionHistory, now: float
) -> tuple[Saturation | None, ExtensionHistory]:
    """Return the saturation by a limit, if any, and the history with its start (semantics 8.6)."""
    since, saturation = extended.saturated_since, None
    if limit is not None:
        missing = limit.before - (limit.after if rounding is None else rounding.after)
        if missing > 0:
            begun = now if since is None else since
            # Only a maximum rounds a wanted count down.
            reason = limit.reason if limit.before > limit.after else TOO_MANY
            saturation = Saturation(missing, begun, reason)
    after = None if saturation is None else saturation.since
    return saturation, extended if after == since else changed(extended, saturated_since=after)
