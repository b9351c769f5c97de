"""What holds for every spec, every observation and every history."""

import copy
import math
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.decide import decide
from autoscaler.core.decision import Activity, Calculation, Decision, Outcome, Zone
from autoscaler.core.extensions import Extensions, FallbackBehavior, PauseMode
from autoscaler.core.history import ExtensionHistory, History
from autoscaler.core.normalize import Events, Recommendations, limit, stabilize, stabilize_legacy
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.observation import Gap, GapKind, Observation, Scale, Values
from autoscaler.core.spec import (
    Behavior,
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    ObjectMetric,
    down_window,
)
from autoscaler.core.writes import settle, settle_failure
from autoscaler.persistence.codec import is_same
from autoscaler.rendering.hpa import current_metrics
from autoscaler.rendering.record import stages_of
from tests.core import strategies
from tests.core.builders import BASE, behavior, percent_policy, pods, rules
from tests.narrowing import instance, known

# A busy machine is no failure: neither a deadline nor a complaint about slow drawing.
modest = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def drawn(
    data: st.DataObject,
    taint: st.SearchStrategy[tuple[Gap, ...]] = strategies.no_gaps | strategies.some_gaps,
) -> tuple[HorizontalPodAutoscalerSpec, Flags, Observation, History]:
    """Draw all arguments of a decision but the time; ``taint`` says how readings are incomplete."""
    spec = data.draw(strategies.specs())
    usual = strategies.usual_observations(spec, taint)
    observation = data.draw(usual | usual | strategies.odd_observations(spec, taint))
    history = data.draw(st.just(History()) | strategies.histories)
    return spec, data.draw(strategies.flags), observation, history


def unheld(
    data: st.DataObject, taint: st.SearchStrategy[tuple[Gap, ...]]
) -> tuple[HorizontalPodAutoscalerSpec, Flags, Observation, History]:
    """Draw arguments where no window, no rate limit and no bound would hold a scale-down."""
    free = behavior(down=rules(percent_policy(100), window=0))
    spec = replace(data.draw(strategies.specs()), min_replicas=1, max_replicas=20, behavior=free)
    observation = data.draw(strategies.usual_observations(spec, taint))
    return spec, Flags(), observation, History(recommendations=())


def failed(decision: Decision) -> bool:
    return any(not isinstance(metric.outcome, Calculation) for metric in decision.metrics)


@modest
@given(st.data())
def test_a_decision_can_always_be_made(data: st.DataObject) -> None:
    spec, flags, observation, history = drawn(data)
    decision, after = decide(spec, flags, observation, history, BASE)
    assert 0 <= decision.desired <= INT32_MAX
    for stage in stages_of(decision):
        assert 0 <= stage.after <= INT32_MAX
    assert len(current_metrics(decision)) in {0, len(spec.metrics)}
    types = [condition.type for condition in decision.conditions]
    assert len(types) == len(set(types))
    if decision.rescale:
        settled, _ = settle(spec, decision, after)
        refused, _ = settle_failure(decision, after, history, "conflict")
        assert [condition.type for condition in settled.conditions] == types
        assert [condition.type for condition in refused.conditions] == types


@modest
@given(st.data())
def test_bounds_always_hold(data: st.DataObject) -> None:
    spec, flags, observation, history = drawn(data)
    decision, _ = decide(spec, flags, observation, history, BASE)
    if decision.rescale:
        assert spec.min_replicas <= decision.desired <= spec.max_replicas
        assert decision.desired != decision.current
    elif decision.current is not None:
        assert decision.desired == decision.current
        inside = spec.min_replicas <= decision.desired <= spec.max_replicas
        assert inside or decision.zone is Zone.DISABLED
    else:
        assert decision.outcome is Outcome.BLOCKED


@modest
@given(st.data(), st.booleans(), st.booleans())
def test_neither_failures_nor_incomplete_readings_scale_down(
    data: st.DataObject, eager: bool, complete: bool
) -> None:
    taint = strategies.no_gaps | strategies.some_gaps if complete else strategies.some_gaps
    arguments = unheld(data, taint) if eager else drawn(data, taint)
    decision, _ = decide(*arguments, BASE)
    if decision.zone is Zone.METRICS and (failed(decision) or not complete):
        assert decision.current is not None
        assert decision.desired >= decision.current


@modest
@given(st.data())
def test_a_blocked_decision_changes_nothing_but_conditions(data: st.DataObject) -> None:
    """No count, no scale event, and no recommendation that could keep the target from rising."""
    spec, flags, observation, history = drawn(data)
    decision, after = decide(spec, flags, observation, history, BASE)
    if decision.outcome is Outcome.BLOCKED:
        assert not decision.rescale
        assert after.desired_replicas == history.desired_replicas
        if history.recommendations is not None:
            assert after.recommendations is not None
            before, window = history.recommendations, down_window(spec.behavior, flags)
            assert all(
                recommendation.only_down
                for recommendation in after.recommendations
                if recommendation not in before
            )
            lost = (entry for entry in before if entry not in after.recommendations)
            assert all(entry.time <= BASE - window for entry in lost)
    assert (after.scale_ups, after.scale_downs) == (history.scale_ups, history.scale_downs)


@modest
@given(st.data())
def test_decide_is_pure(data: st.DataObject) -> None:
    arguments = drawn(data)
    before = copy.deepcopy(arguments)
    first = decide(*arguments, BASE)
    assert arguments == before
    assert is_same(decide(*arguments, BASE), first)
    assert is_same(decide(*before, BASE), first)


@modest
@given(st.data())
def test_more_external_load_never_gives_fewer_replicas(data: st.DataObject) -> None:
    spec = data.draw(strategies.specs(strategies.external_metrics))
    metric = instance(ExternalMetric, spec.metrics[0])
    target = metric.target.value or metric.target.average_value or 1
    near = st.integers(0, 40).map(lambda tenths: target * tenths // 10)
    less, more = sorted(data.draw(st.tuples(*[near | st.integers(0, 2**63 - 1)] * 2)))
    current = data.draw(st.integers(0, 12))
    status = data.draw(st.integers(0, 12))
    flags = data.draw(strategies.flags)

    def desired(load: int) -> int:
        observation = Observation(
            Scale(current, status, "app=web"), pods(current), (Values((load,)),) * len(spec.metrics)
        )
        return decide(spec, flags, observation, History(), BASE)[0].desired

    assert desired(less) <= desired(more)


@modest
@given(
    strategies.counts,
    strategies.counts,
    strategies.recommendations,
    strategies.behaviors,
    strategies.flags,
)
def test_a_stabilized_count_changes_exactly_at_until(
    current: int, desired: int, entries: Recommendations, rules: Behavior, flags: Flags
) -> None:
    window = flags.downscale_stabilization

    def with_behavior(at: float) -> tuple[int, float | None]:
        result, _ = stabilize(current, desired, entries, rules, flags, at)
        return result.after, result.until

    def without(at: float) -> tuple[int, float | None]:
        result, _ = stabilize_legacy(desired, entries, window, at)
        return result.after, result.until

    held, _ = with_behavior(BASE)
    assert min(current, desired) <= held <= max(current, desired)
    for path in (with_behavior, without):
        after, until = path(BASE)
        if until is None:
            assert after == desired
        else:
            assert until > BASE
            assert path(math.nextafter(until, 0)) == (after, until)
            assert path(until)[0] != after


@modest
@given(
    st.integers(1, 50),
    strategies.counts,
    strategies.behaviors,
    strategies.scale_events,
    strategies.scale_events,
    st.floats(0, 1, exclude_max=True),
)
def test_a_rate_limit_permits_more_exactly_from_until_on(
    current: int, wanted: int, rules: Behavior, ups: Events, downs: Events, part: float
) -> None:
    changes = History(scale_ups=ups, scale_downs=downs)

    def gone(at: float) -> int:
        return abs(limit(current, wanted, (0, INT32_MAX), rules, changes, at).after - current)

    until = limit(current, wanted, (0, INT32_MAX), rules, changes, BASE).until
    if until is not None:
        last = math.nextafter(until, 0)
        assert gone(min(BASE + (until - BASE) * part, last)) <= gone(BASE)
        assert gone(last) <= gone(BASE)
        assert gone(until) > gone(BASE)


@modest
@given(st.data())
def test_histories_stay_as_long_as_their_windows(data: st.DataObject) -> None:
    spec = data.draw(strategies.specs(strategies.external_metrics))
    loads = data.draw(st.lists(strategies.any_milli, min_size=1, max_size=5))
    history, replicas = History(), spec.min_replicas
    for sync in range(60):
        readings = (Values((loads[sync % len(loads)],)),) * len(spec.metrics)
        seen = Observation(Scale(replicas, replicas, "app=web"), pods(1), readings)
        now = BASE + 60.0 * sync
        decision, history = decide(spec, Flags(), seen, history, now)
        if decision.rescale:
            decision, history = settle(spec, decision, history)
            replicas = decision.desired
    down = None if spec.behavior is None else spec.behavior.scale_down.stabilization_window_seconds
    up = None if spec.behavior is None else spec.behavior.scale_up.stabilization_window_seconds
    window = max(300 if down is None else down, up or 0)
    assert len(history.recommendations or ()) <= window / 60 + 3
    assert len(history.scale_ups) <= 1800 / 60 + 2
    assert len(history.scale_downs) <= 1800 / 60 + 2


# -- idle, fallback, paused and bounds together, in any combination (semantics 8) -----------------


NOTHING = Gap(GapKind.ERROR, "no answer")


def drawn_extended(
    data: st.DataObject, *, paused: bool = True
) -> tuple[HorizontalPodAutoscalerSpec, Observation, History, Extensions]:
    """Draw a decision of a target that may have every extension."""
    spec, extensions = data.draw(strategies.specs()), data.draw(strategies.extensions)
    if not paused:
        extensions = replace(extensions, pause=None)
    observation = data.draw(strategies.extended_observations(spec, extensions))
    return spec, observation, data.draw(strategies.extended_histories), extensions


def decided(data: st.DataObject, *, paused: bool = True) -> tuple[Decision, Extensions]:
    of, observation, history, extensions = drawn_extended(data, paused=paused)
    decision, _ = decide(
        of, data.draw(strategies.flags), observation, history, BASE, extensions=extensions
    )
    return decision, extensions


@modest
@given(st.data())
def test_no_count_is_outside_of_the_bounds_in_force(data: st.DataObject) -> None:
    decision, extensions = decided(data, paused=False)
    current, desired = decision.current, decision.desired
    asleep = extensions.idle is not None and desired == extensions.idle.replicas
    if current is None or desired == current or asleep:
        return
    if decision.zone is Zone.IDLE:  # It is gradual, and on its way.
        assert known(extensions.idle).replicas < desired < current
        return
    low, high = decision.min_replicas, decision.max_replicas
    bounds = decision.bounds
    # A count approaches a gradual bound up to the next multiple beyond it.
    multiple = 1 if extensions.replicas is None else extensions.replicas.multiple_of
    if bounds is not None and bounds.minimum.gradual and current < low:
        assert current < desired <= -(-low // multiple) * multiple
    elif bounds is not None and bounds.maximum.gradual and current > high:
        assert high // multiple * multiple <= desired < current
    else:
        assert low <= desired <= high


@modest
@given(st.data())
def test_missing_data_lowers_nothing(data: st.DataObject) -> None:
    of, observation, history, extensions = drawn_extended(data, paused=False)
    shared = (ExternalMetric, ObjectMetric)
    queues = [index for index, metric in enumerate(of.metrics) if isinstance(metric, shared)]
    readings = list(observation.readings)
    if queues:
        readings[data.draw(st.sampled_from(queues))] = NOTHING
        observation = replace(observation, readings=tuple(readings))
    else:
        observation = replace(observation, min_replicas_reading=NOTHING)
        history = replace(history, extended=replace(history.extended, known_min=None))
    fallback = extensions.fallback
    decision, _ = decide(
        of, data.draw(strategies.flags), observation, history, BASE, extensions=extensions
    )
    current = decision.current
    if current is None or current > decision.max_replicas:
        return
    least, lowering = current, {FallbackBehavior.STATIC, FallbackBehavior.CURRENT_REPLICAS_IF_LOWER}
    if fallback is not None and fallback.behavior in lowering:
        least = min(current, fallback.replicas)
    if decision.rescale:
        assert decision.desired >= least


@modest
@given(st.data())
def test_nothing_goes_idle_while_a_metric_is_active_or_unknown(data: st.DataObject) -> None:
    decision, extensions = decided(data)
    if decision.zone is Zone.IDLE and decision.rescale:
        idle = known(extensions.idle)
        assert decision.desired == idle.replicas or idle.gradual
        assert idle.replicas <= decision.desired < known(decision.current)
        activities = {metric.activity for metric in decision.metrics}
        assert activities <= {Activity.INACTIVE, None}
        assert not known(decision.idle).kept_awake
        if decision.desired < (decision.current or 0):
            assert decision.bounds is None or not decision.bounds.hold_down


@modest
@given(st.data())
def test_a_paused_target_moves_only_to_its_pauses_count(data: st.DataObject) -> None:
    decision, extensions = decided(data)
    pause, current = extensions.pause, decision.current
    if pause is None or current is None or not decision.rescale:
        return
    if pause.mode is PauseMode.ALL:
        assert decision.desired == pause.replicas
    elif pause.mode is PauseMode.SCALE_DOWN:
        assert decision.desired > current
    else:
        assert decision.desired < current


@modest
@given(st.data())
def test_without_extensions_the_hpas_rules_alone_decide(data: st.DataObject) -> None:
    of = data.draw(strategies.specs())
    observation = data.draw(strategies.usual_observations(of, strategies.no_gaps))
    history, flags = data.draw(strategies.histories), data.draw(strategies.flags)
    other = replace(history, extended=ExtensionHistory(0.0, BASE - 5.0, saturated_since=BASE - 5.0))
    decision, after = decide(of, flags, observation, history, BASE)
    again, _ = decide(of, flags, observation, other, BASE)
    assert is_same(replace(again, saturation=None), replace(decision, saturation=None))
    assert (decision.bounds, decision.pause, decision.idle) == (None, None, None)
    assert replace(after.extended, saturated_since=None) == ExtensionHistory()
