"""A target in shadow and the HPA of its workload: when they agree, and what differs (8.11)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.agreement.comparison import HpaComparison
from autoscaler.core.extensions import Extensions, Mode, Pause
from autoscaler.core.observation import Hpa
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScalingRules
from autoscaler.persistence.record.agreement import Agreement, AgreementInterval, joined
from tests.core.builders import (
    BASE,
    QUEUE,
    average,
    behavior,
    both_ways,
    cpu,
    external,
    per_pod,
    percent_policy,
    pods_policy,
    rules,
    spec,
    utilization,
    value,
)
from tests.core.hpa_beside import HpaBeside, Load
from tests.core.timeline import Timeline
from tests.narrowing import assert_parts, known

A = Agreement
PLAIN = spec(QUEUE, maximum=50)
UP = rules(pods_policy(4, 15), percent_policy(100, 15), window=0)


def down(window: int) -> ScalingRules:
    """Return rules that permit everything after a window."""
    return rules(percent_policy(100, 15), window=window)


QUICK = spec(QUEUE, maximum=50, behavior=behavior(up=UP, down=down(60)))


def steps(seconds: float, *levels: float | None) -> Load:
    """Return a load of the queue that has each level for some seconds, in turn."""
    return lambda now, _: {"queue": levels[int(now // seconds) % len(levels)]}


def plateaus(name: str = "queue", *, each: bool = False, of: float = 1.0) -> Load:
    """Return a load of plateaus of four minutes; shared by the pods for ``each``."""
    total = steps(240, 30, 80, 200, 60, 10)
    return lambda now, pods: {name: of * known(total(now, 1)["queue"]) / (pods if each else 1)}


def whole(beside: HpaBeside) -> list[AgreementInterval]:
    """Return the intervals of difference, with adjacent intervals joined."""
    found: list[AgreementInterval] = []
    for stretch in beside.stretches_of(A.DIFFERENT):
        both = joined(found[-1], stretch) if found else None
        found[-1:] = [both] if both is not None else [*found[-1:], stretch]
    return found


# -- the same ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "load"),
    [
        (PLAIN, plateaus()),
        (QUICK, plateaus()),
        (spec(external(value("100")), maximum=20), plateaus()),
        (spec(per_pod("10"), maximum=50), plateaus("rps", each=True)),
        (spec(cpu(utilization(50)), maximum=50), plateaus("cpu", each=True, of=5)),
    ],
)
@pytest.mark.parametrize("phase", [0.3, 7.0, 14.6])
def test_the_same_spec_agrees(of: HorizontalPodAutoscalerSpec, load: Load, phase: float) -> None:
    """Each has its own readings; what is left is the end of a window between two syncs."""
    beside = HpaBeside(of, load, phase=phase).play(2400)
    assert beside.share(A.EQUAL, A.WITHIN_PERIOD) > 0.98
    assert all(stretch.end - stretch.begin < 33 for stretch in whole(beside))
    assert math.isclose(sum(beside.seconds().values()), 2400, abs_tol=100)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([PLAIN, QUICK]),
    st.lists(st.integers(0, 400), min_size=4, max_size=12),
    st.floats(0.1, 14.9),
    st.integers(60, 240),
)
def test_plateaus_agree(
    of: HorizontalPodAutoscalerSpec, levels: list[int], phase: float, length: int
) -> None:
    beside = HpaBeside(of, steps(length, *levels), phase=phase).play(1800)
    assert all(stretch.end - stretch.begin < 33 for stretch in whole(beside))


def pods_each_period(number: int) -> HorizontalPodAutoscalerSpec:
    """Return a spec that permits a number of pods up and down in a period."""
    return replace(QUICK, behavior=both_ways(pods_policy(number, 15)))


@pytest.mark.parametrize(("ours", "theirs"), [(2, 1), (4, 1), (1, 4), (1, 2)])
def test_a_count_that_the_hpa_passes_is_not_agreement(ours: int, theirs: int) -> None:
    """While the HPA moves step by step it comes to each count of ours, or the other way round."""
    load = steps(300, 30, 300)
    same = HpaBeside(pods_each_period(theirs), load).play(2400)
    assert same.share(A.EQUAL, A.WITHIN_PERIOD) > 0.99
    beside = HpaBeside(pods_each_period(ours), load, theirs=pods_each_period(theirs)).play(2400)
    assert beside.share(A.WITHIN_PERIOD) < 0.02
    assert beside.share(A.DIFFERENT) > 0.1


# -- different -----------------------------------------------------------------------------------

SCALE_DOWN, SCALE_UP = "behavior.scaleDown", "behavior.scaleUp"
FOURS, ONE_A_MINUTE = "4 Pods in 15s, 100 Percent in 15s", "1 Pods in 60s"
SLOW_DOWN = behavior(up=UP, down=down(300))
SLOW_UP = behavior(up=rules(pods_policy(1, 60), window=0), down=down(60))
TOLERANT = behavior(up=UP, down=replace(down(60), tolerance=0.75))
WINDOW, AVERAGE = "stabilizationWindowSeconds", "metrics[0].external.target.averageValue"


@pytest.mark.parametrize(
    ("field", "here", "there", "theirs"),
    [
        ("maxReplicas", "50", "10", replace(QUICK, max_replicas=10)),
        ("minReplicas", "1", "5", replace(QUICK, min_replicas=5)),
        (AVERAGE, "10", "13", replace(QUICK, metrics=(external(average("13")),))),
        (
            f"{SCALE_DOWN}.stabilizationWindowSeconds",
            "60",
            "300",
            replace(QUICK, behavior=SLOW_DOWN),
        ),
        (f"{SCALE_UP}.policies", FOURS, ONE_A_MINUTE, replace(QUICK, behavior=SLOW_UP)),
        (f"{SCALE_DOWN}.tolerance", "0.1", "0.75", replace(QUICK, behavior=TOLERANT)),
    ],
)
def test_a_field_with_another_value_is_reported_with_both_values(
    field: str, here: str, there: str, theirs: HorizontalPodAutoscalerSpec
) -> None:
    beside = HpaBeside(QUICK, plateaus(), theirs=theirs).play(2400)
    assert max(stretch.end - stretch.begin for stretch in whole(beside)) > 15
    fields = {change for stretch in whole(beside) for change in stretch.fields}
    assert {(change.path, change.before, change.after) for change in fields} == {
        (field, here, there)
    }


def test_a_behavior_that_is_not_set_has_the_usual_rules() -> None:
    """A difference in the defaults is reported only if nothing else differs."""
    usual = behavior(up=UP, down=rules(percent_policy(100, 15), window=None))
    for other, expected in (
        (usual, ("behavior", "not set", "set, as usual")),
        (QUICK.behavior, ("behavior.scaleDown.stabilizationWindowSeconds", "300", "60")),
    ):
        theirs = replace(PLAIN, behavior=other, max_replicas=50)
        (field,) = HpaBeside(PLAIN, plateaus(), theirs=theirs).play(60).fields
        assert (field.path, field.before, field.after) == expected


def test_a_metric_on_one_side_only_is_reported_by_type_and_name() -> None:
    both = replace(QUICK, metrics=(QUEUE, cpu(utilization(50))))

    def load(now: float, replicas: int) -> Mapping[str, float | None]:
        return {**plateaus()(now, replicas), "cpu": 600 / replicas}

    (field,) = HpaBeside(both, load, theirs=QUICK).play(60).fields
    assert (field.path, field.before, field.after) == ("metrics[1]", "Resource cpu", None)
    (field,) = HpaBeside(QUICK, load, theirs=both).play(60).fields
    assert (field.path, field.before, field.after) == ("metrics[1]", None, "Resource cpu")


def test_a_pause_is_reported_as_a_difference() -> None:
    paused = Extensions(pause=Pause(replicas=7))
    beside = HpaBeside(QUICK, plateaus(), extensions=paused).play(1800)
    assert {field.path for each in whole(beside) for field in each.fields} == {"paused"}
    assert {stretch.ours for stretch in whole(beside)} == {7}


def test_a_different_reading_is_reported_with_both_values() -> None:
    beside = HpaBeside(QUICK, lambda *_: {"queue": 150}, their_load=lambda *_: {"queue": 100})
    beside.play(600)
    (reading,) = whole(beside)[-1].readings
    assert (reading.metric, reading.ours, reading.theirs) == ("queue", 15000, 10000)
    assert beside.share(A.DIFFERENT) > 0.9


def test_a_reading_of_ours_within_one_period_is_not_different() -> None:
    theirs = replace(QUICK, max_replicas=5)
    beside = HpaBeside(QUICK, lambda now, _: {"queue": 100 + now / 20}, theirs=theirs).play(1800)
    assert whole(beside)
    assert not any(stretch.readings for stretch in whole(beside))


# -- not compared --------------------------------------------------------------------------------


def assert_not_compared(stretches: list[AgreementInterval], *parts: str) -> None:
    """Check that nothing was compared, and the values in the one reason."""
    ((kind, why),) = {(stretch.kind, stretch.why) for stretch in stretches}
    assert kind is A.NOT_COMPARED
    assert_parts(why, *parts)


@pytest.mark.parametrize(
    ("here", "parts"),
    [(True, ("here", "queue")), (False, ("ScalingActive", "FailedGetExternalMetric"))],
)
def test_without_a_value_on_one_side_nothing_is_compared(
    parts: tuple[str, ...], *, here: bool
) -> None:
    def failing(now: float, replicas: int) -> Mapping[str, float | None]:
        return {"queue": None} if 300 < now < 900 else plateaus()(now, replicas)

    load, theirs = (failing, plateaus()) if here else (plateaus(), failing)
    beside = HpaBeside(QUICK, load, their_load=theirs).play(1500)
    failed = [stretch for stretch in beside.stretches if BASE + 330 < stretch.begin < BASE + 880]
    assert_not_compared(failed, *parts)


def test_without_one_of_several_values_nothing_is_compared() -> None:
    both = replace(QUICK, metrics=(QUEUE, external(average("5"), name="delay")))

    def theirs(now: float, replicas: int) -> Mapping[str, float | None]:
        return {**plateaus()(now, replicas), "delay": None if now > 100 else 5}

    def load(now: float, replicas: int) -> Mapping[str, float | None]:
        return {**theirs(now, replicas), "delay": 5}

    beside = HpaBeside(both, load, their_load=theirs).play(300)
    assert_not_compared(beside.stretches[-1:], "there", "delay")


def test_at_zero_with_a_disabled_hpa_nothing_is_compared() -> None:
    beside = HpaBeside(QUICK, plateaus(), replicas=0).play(600)
    assert {stretch.kind for stretch in beside.stretches} == {A.NOT_COMPARED}
    assert_not_compared(beside.stretches[-1:], "0 replicas")


@pytest.mark.parametrize(("of", "seconds"), [(PLAIN, 300), (QUICK, 60)])
def test_the_first_window_is_not_compared(of: HorizontalPodAutoscalerSpec, seconds: float) -> None:
    """The HPA holds a peak that ours has not seen; after its window both are the same."""
    beside = HpaBeside(of, steps(300, 180, *[60] * 9))
    beside.sides[1].at = 310.0
    beside.play(1500)
    first = beside.stretches_of(A.NOT_COMPARED)
    assert first[-1].end - BASE == pytest.approx(310 + seconds, abs=0.1)
    assert sum(stretch.end - stretch.begin for stretch in first) == pytest.approx(seconds, abs=0.1)
    assert beside.share(A.EQUAL, A.WITHIN_PERIOD) == 1


def test_more_than_three_periods_without_syncs_are_not_compared() -> None:
    beside = HpaBeside(QUICK, plateaus()).play(300)
    beside.sides[1].at += 300
    beside.play(900)
    gaps = [gap for gap in beside.stretches_of(A.NOT_COMPARED) if gap.begin > BASE + 70]
    assert math.fsum(gap.end - gap.begin for gap in gaps) > 350


def shadow() -> Timeline:
    """Return a target in shadow."""
    return Timeline(QUICK, replicas=3, extensions=Extensions(mode=Mode.SHADOW))


def played(
    line: Timeline, *times: int, hpa: Hpa | None
) -> tuple[HpaComparison, list[AgreementInterval]]:
    """Sync at some seconds, and compare."""
    state, found = HpaComparison(), list[AgreementInterval]()
    for time in times:
        line.beside(hpa).sync(f"{time}s", queue=30.0)
        found += state.add(line.result)
    return state, [*found, *state.rest()]


@pytest.mark.parametrize(
    ("hpa", "part"),
    [(None, "no HorizontalPodAutoscaler"), (Hpa("web", spec=QUICK), "decided nothing")],
)
def test_without_a_decision_of_an_hpa_nothing_is_compared(hpa: Hpa | None, part: str) -> None:
    _, found = played(shadow(), 0, 15, 30, 45, hpa=hpa)
    assert_not_compared(found, part)


# -- the course of it ----------------------------------------------------------------------------


def test_a_clock_that_is_set_back_restarts_the_comparison() -> None:
    state, _ = played(shadow(), 100, 115, 130, hpa=None)
    assert state.add(shadow().sync("20s", queue=30.0).result) == []
    state.add(shadow().sync("60s", queue=30.0).result)
    (found,) = state.rest()
    assert found.begin == BASE + 20


def test_intervals_have_no_gaps_up_to_one_period_before_the_end() -> None:
    beside = HpaBeside(QUICK, plateaus(), their_flags=Flags(tolerance=0.5)).play(1200)
    found = [*beside.stretches, *beside.state.rest()]
    assert all(stretch.end == other.begin for stretch, other in pairwise(found))
    assert found[-1].end == pytest.approx(BASE + 1200 - 16.5, abs=15)
