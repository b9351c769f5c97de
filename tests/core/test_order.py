"""Idle, fallback, paused and bounds together, in any combination (semantics 8)."""

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler import core
from autoscaler.core.decide import decide
from autoscaler.core.decision import Activity, Decision, Outcome, Zone
from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    FallbackBehavior,
    Idle,
    Pause,
    PauseMode,
    Schedule,
)
from autoscaler.core.history import (
    Contention,
    ExtensionHistory,
    FailureStreak,
    History,
    Recommendation,
)
from autoscaler.core.observation import (
    Gap,
    GapKind,
    HoldReading,
    Observation,
    OpenWindow,
    Reading,
    Scale,
)
from autoscaler.core.spec import ExternalMetric, Flags, HorizontalPodAutoscalerSpec, ObjectMetric
from tests.core import strategies
from tests.core.builders import BASE, QUEUE, behavior, pods, pods_policy, rules, spec, values
from tests.core.deciding import ERROR
from tests.core.timeline import Timeline
from tests.narrowing import known

NOTHING = Gap(GapKind.ERROR, "no answer")
modest = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])


def drawn(
    data: st.DataObject, *, paused: bool = True
) -> tuple[HorizontalPodAutoscalerSpec, Observation, History, Extensions]:
    """Draw a decision of a target that may have every extension."""
    of = data.draw(strategies.specs())
    extensions = data.draw(strategies.extensions)
    if not paused:
        extensions = replace(extensions, pause=None)
    observation = data.draw(strategies.extended_observations(of, extensions))
    history = replace(
        data.draw(st.just(History()) | strategies.histories),
        extended=ExtensionHistory(
            last_active=data.draw(st.none() | strategies.past),
            known_min=data.draw(strategies.known_bounds),
            known_max=data.draw(strategies.known_bounds),
            failures=tuple(
                FailureStreak("External external metric queue(nil)", syncs)
                for syncs in data.draw(st.lists(st.integers(1, 3), max_size=1))
            ),
        ),
    )
    return of, observation, history, extensions


def decided(data: st.DataObject, *, paused: bool = True) -> tuple[Decision, Extensions]:
    of, observation, history, extensions = drawn(data, paused=paused)
    decision, _ = decide(
        of, data.draw(strategies.flags), observation, history, BASE, extensions=extensions
    )
    return decision, extensions


@modest
@given(st.data())
def test_no_count_is_outside_of_the_bounds_in_force(data: st.DataObject) -> None:
    """But the idle one, a count that is only kept, and a step toward a gradual bound."""
    decision, extensions = decided(data, paused=False)
    current, desired = decision.current, decision.desired
    asleep = extensions.idle is not None and desired == extensions.idle.replicas
    if current is None or desired == current or asleep:
        return
    low, high = decision.min_replicas, decision.max_replicas
    bounds = decision.bounds
    if bounds is not None and bounds.minimum.gradual and current < low:
        assert current < desired <= low
    elif bounds is not None and bounds.maximum.gradual and current > high:
        assert high <= desired < current
    else:
        assert low <= desired <= high


@modest
@given(st.data())
def test_missing_data_lowers_nothing(data: st.DataObject) -> None:
    """Whatever is lost of metrics that tell of work, or of a minimum that is not known."""
    of, observation, history, extensions = drawn(data, paused=False)
    queues = [
        index
        for index, metric in enumerate(of.metrics)
        if isinstance(metric, ExternalMetric | ObjectMetric)
    ]
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
    least = current
    if fallback is not None and fallback.behavior in {
        FallbackBehavior.STATIC,
        FallbackBehavior.CURRENT_REPLICAS_IF_LOWER,
    }:
        least = min(current, fallback.replicas)
    if decision.rescale:
        assert decision.desired >= least


@modest
@given(st.data())
def test_nothing_goes_idle_while_a_metric_is_active_or_unknown(data: st.DataObject) -> None:
    """Nor while its minimum is raised or unknown."""
    decision, extensions = decided(data)
    if decision.zone is Zone.IDLE and decision.rescale:
        assert decision.desired == known(extensions.idle).replicas
        taking_part = {
            metric.activity for metric in decision.metrics if metric.activity is not None
        }
        assert taking_part <= {Activity.INACTIVE}
        assert not known(decision.idle).kept_awake
        if decision.desired < (decision.current or 0):
            assert decision.bounds is None or not decision.bounds.hold_down


@modest
@given(st.data())
def test_a_paused_target_moves_only_to_its_pauses_count(data: st.DataObject) -> None:
    """And one that is paused in a direction never in that one."""
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
    """None of what an extension keeps in a history changes a decision without it."""
    of = data.draw(strategies.specs())
    observation = data.draw(strategies.usual_observations(of, strategies.no_gaps))
    history, flags = data.draw(strategies.histories), data.draw(strategies.flags)
    other = replace(history, extended=ExtensionHistory(0.0, BASE - 5.0, saturated_since=BASE - 5.0))
    decision, after = decide(of, flags, observation, history, BASE)
    again, _ = decide(of, flags, observation, other, BASE)
    assert replace(again, saturation=None) == replace(decision, saturation=None)
    assert (decision.bounds, decision.pause, decision.idle) == (None, None, None)
    assert replace(after.extended, saturated_since=None) == ExtensionHistory()


WINDOW = OpenWindow(Schedule("office", "0 8 * * *", "0 18 * * *", "UTC", 5), BASE + 60, "18:00 UTC")
ALL = Extensions(
    idle=Idle(after=30.0), fallback=Fallback(7, failure_threshold=1), schedules=(WINDOW.schedule,)
)


def test_the_rules_have_an_order() -> None:
    """Paused before bounds, bounds before idle, idle before the metrics, these before policies."""
    slow = behavior(up=rules(pods_policy(1)), down=rules(pods_policy(1), window=60))
    line = Timeline(spec(QUEUE, minimum=2, behavior=slow), replicas=3, extensions=ALL)
    line.sync("0s", queue=30).want(3)
    line.sync("15s", queue=None).want(4, reason="fallback for external metric queue(nil)")
    line.sync("30.1s", queue=0).want(4, stabilized="ScaleDownStabilized")
    line.sync("46s", queue=0).want(0, reason="no metric is active")
    line.opened(WINDOW).sync("1m1s", queue=0)
    line.want(
        5,
        reason="Current number of replicas below Spec.MinReplicas (schedule office until "
        "18:00 UTC)",
    )
    line.annotated(paused_replicas="1").sync("1m16s", queue=90).want(1)
    line.controlled_by('ScaledObject "web"').sync("1m31s", queue=90).want(1)


@pytest.mark.parametrize("mode", [None, *PauseMode])
def test_a_held_target_writes_nothing_paused_or_not(mode: PauseMode | None) -> None:
    """Others have reversed our writes: a pause of ours would be one more."""
    pause = None if mode is None else Pause(mode, 9 if mode is PauseMode.ALL else None)
    target = Timeline(spec(QUEUE), replicas=4, extensions=Extensions(pause=pause))
    for minute in range(4):
        target.sync(f"{minute}m", queue=90).by_hand(4)
    assert (target.decision.outcome is Outcome.BLOCKED) == (mode is not PauseMode.SCALE_UP)
    assert isinstance(target.decision.scale, Scale)


# -- A target passes only through the files of what it has, and of what has happened to it ---------


CORE = Path(core.__file__).parent
GUARDS = frozenset({"guards", "bounds", "idling", "missing_data"})
SINCE_THE_LAST_SYNC = frozenset({"gaps", "contention"})
OF_QUEUE = spec(QUEUE, minimum=2, maximum=20, behavior=behavior())
SCHEDULE = Schedule("office", "0 8 * * *", "0 18 * * *", "UTC", min_replicas=3)


def observed(*readings: Reading, replicas: int = 5) -> Observation:
    """Observe what a daemon does: with ranges, keys and the last sync."""
    return Observation(
        Scale(replicas, replicas, "app=web", generation=7),
        pods(replicas),
        readings,
        last_read=BASE - 15.0,
        last_sync=BASE - 15.0,
        ranges=(120.0,) * len(readings),
        metric_keys=tuple(f"key-{index}" for index in range(len(readings))),
    )


def files_of(observation: Observation, extensions: Extensions = NO_EXTENSIONS) -> frozenset[str]:
    """Decide some time after the first sync, and return which of those files had code that ran."""
    history = History(
        (Recommendation(5, BASE - 15.0),),
        contention=Contention(5, generation=7),
        metric_keys=observation.metric_keys,
    )
    files: set[str] = set()

    def profile(frame: FrameType, _event: str, _argument: object) -> None:
        files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        decide(OF_QUEUE, Flags(), observation, history, BASE, extensions=extensions)
    finally:
        sys.setprofile(before)
    of_core = {path.stem for path in map(Path, files) if path.parent == CORE}
    assert "reconcile" in of_core
    return frozenset(of_core & (GUARDS | SINCE_THE_LAST_SYNC))


WHOLE = observed(values(50.0))
ANNOTATED = replace(
    WHOLE, scale=Scale(5, 5, "app=web", generation=7, annotations=(("autoscaler/paused", "true"),))
)


@pytest.mark.parametrize(
    ("observation", "extensions", "files"),
    [
        *((observed(values(load)), NO_EXTENSIONS, set()) for load in (0.0, 40.0, 50.0, 500.0)),
        *((observed(values(50.0), replicas=n), NO_EXTENSIONS, {"contention"}) for n in (30, 1, 0)),
        (observed(ERROR), NO_EXTENSIONS, {"gaps", "missing_data"}),
        (observed(values(50.0), replicas=6), NO_EXTENSIONS, {"contention"}),
        (WHOLE, Extensions(pause=Pause(PauseMode.SCALE_UP)), {"guards"}),
        (ANNOTATED, NO_EXTENSIONS, {"guards"}),
        (WHOLE, Extensions(schedules=(SCHEDULE,)), {"bounds", "guards"}),
        (
            replace(WHOLE, windows=(OpenWindow(SCHEDULE, BASE + 60.0, "18:00"),)),
            Extensions(schedules=(SCHEDULE,)),
            {"bounds", "guards"},
        ),
        (replace(WHOLE, max_replicas_reading=values(4.0)), NO_EXTENSIONS, {"bounds", "guards"}),
        (WHOLE, Extensions(idle=Idle()), {"idling", "guards"}),
        (WHOLE, Extensions(fallback=Fallback(6)), {"missing_data", "guards"}),
        (replace(WHOLE, hold=HoldReading()), NO_EXTENSIONS, {"guards"}),
        (WHOLE, Extensions(ignore_surge=True), {"guards"}),
    ],
)
def test_only_the_code_of_a_targets_extensions_runs(
    observation: Observation, extensions: Extensions, files: set[str]
) -> None:
    assert files_of(observation, extensions) == files
