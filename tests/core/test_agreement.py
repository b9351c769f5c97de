"""A target in shadow and the HPA beside it: when they agree, and why not (semantics 8.11)."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.agreement.causes import Deviation
from autoscaler.agreement.comparison import (
    Agreement,
    HpaComparison,
    Stretch,
    compared,
    ended,
    extended,
)
from autoscaler.core.extensions import Extensions, Mode, Pause
from autoscaler.core.observation import Hpa
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, ScalingRules
from autoscaler.persistence.codec import dumps, loads
from tests.core.builders import (
    BASE,
    average,
    behavior,
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

A = Agreement
QUEUE = external(average("10"))
PLAIN = spec(QUEUE, maximum=50)
UP = rules(pods_policy(4, 15), percent_policy(100, 15), window=0)


def down(window: int) -> ScalingRules:
    """Return rules that permit everything after a window."""
    return rules(percent_policy(100, 15), window=window)


QUICK = spec(QUEUE, maximum=50, behavior=behavior(up=UP, down=down(60)))


def wave(name: str = "queue", delay: float = 0.0, *, each: bool = False, of: float = 100.0) -> Load:
    """Return a load that goes up and down in 20 minutes; shared by the pods for ``each``."""

    def load(now: float, replicas: int) -> Mapping[str, float | None]:
        total = of * (1 + 0.8 * math.sin((now - delay) / 200))
        return {name: total / replicas if each else total}

    return load


def steps(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001 - a load
    """Return a load of plateaus of four minutes."""
    return {"queue": (30, 80, 200, 60, 10)[int(now // 240) % 5]}


def causes(beside: HpaBeside) -> set[Agreement]:
    """Return what there was besides agreement."""
    return {one.agreement for one in beside.stretches} - {A.EQUAL, A.TIMING, A.NOT_COMPARED}


def whole(beside: HpaBeside) -> list[Stretch]:
    """Return the stretches that are no agreement, those of one cause as one."""
    found: list[Stretch] = []
    for one in beside.stretches:
        joined = extended(found[-1], one) if found else None
        if joined is None:
            found.append(one)
        else:
            found[-1] = joined
    return [one for one in found if one.agreement in causes(beside)]


# -- the same ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "load"),
    [
        (PLAIN, wave()),
        (QUICK, wave()),
        (PLAIN, steps),
        (QUICK, steps),
        (spec(external(value("100")), maximum=50), wave()),
        (spec(per_pod("10"), maximum=50), wave("rps", each=True)),
        (spec(cpu(utilization(50)), maximum=50), wave("cpu", each=True, of=500)),
    ],
)
@pytest.mark.parametrize("phase", [0.3, 7.0, 14.6])
def test_the_same_spec_agrees_at_any_phase(
    of: HorizontalPodAutoscalerSpec, load: Load, phase: float
) -> None:
    """For an hour of changing load, each with its own readings: at once, or within one period."""
    beside = HpaBeside(of, load, phase=phase).play(3600)
    assert causes(beside) == set()
    assert beside.share(A.EQUAL) > 0.7
    assert math.isclose(sum(beside.seconds().values()), 3600, abs_tol=100)


@pytest.mark.parametrize("of", [PLAIN, QUICK])
def test_a_series_that_jumps_is_no_other_reading(of: HorizontalPodAutoscalerSpec) -> None:
    """Its values between our syncs may be outside of ours, as far as ours jump themselves.

    A peak that only one of both has met is held for a window: that is told apart.
    """
    noise = random.Random(1)  # noqa: S311 - no secret
    jumps = [noise.gauss(0, 6) for _ in range(3600)]

    def load(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001
        return {"queue": max(0.0, 100 + 80 * math.sin(now / 300) + jumps[int(now)])}

    beside = HpaBeside(of, load).play(3600)
    assert beside.share(A.EQUAL, A.TIMING, A.SAMPLING) > 0.99
    assert all(one.remembered is not None for one in beside.of(A.SAMPLING))


# -- another configuration -----------------------------------------------------------------------

OTHER_RULES = {
    "behavior.scaleDown.stabilizationWindowSeconds": behavior(up=UP, down=down(300)),
    "behavior.scaleUp.policies": behavior(up=rules(pods_policy(1, 60), window=0), down=down(60)),
    "behavior.scaleDown.tolerance": behavior(up=UP, down=replace(down(60), tolerance=0.75)),
}


@pytest.mark.parametrize(
    ("field", "theirs"),
    [
        ("maxReplicas", spec(QUEUE, maximum=10, behavior=QUICK.behavior)),
        ("minReplicas", spec(QUEUE, minimum=5, maximum=50, behavior=QUICK.behavior)),
        (
            "metrics[0].external.target",
            spec(external(average("13")), maximum=50, behavior=QUICK.behavior),
        ),
        *((field, replace(QUICK, behavior=other)) for field, other in OTHER_RULES.items()),
    ],
)
def test_a_field_with_another_value_is_named(
    field: str, theirs: HorizontalPodAutoscalerSpec
) -> None:
    """It, and nothing else."""
    beside = HpaBeside(QUICK, steps, theirs=theirs).play(3600)
    assert causes(beside) == {A.CONFIGURATION}
    assert {one.field for each in whole(beside) for one in each.fields} == {field}


def pods_each_period(number: int) -> HorizontalPodAutoscalerSpec:
    """Return a spec that goes so many pods up and down in a period."""
    each = rules(pods_policy(number, 15), window=0)
    return replace(QUICK, behavior=behavior(up=each, down=each))


@pytest.mark.parametrize(("ours", "theirs"), [(2, 1), (4, 1), (1, 4), (1, 2)])
def test_to_pass_a_count_in_a_later_step_is_no_agreement(ours: int, theirs: int) -> None:
    """While the HPA moves step by step it comes to each count of ours, or the other way round."""

    def load(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001 - a load
        return {"queue": (30, 300)[int(now // 300) % 2]}

    same = HpaBeside(pods_each_period(theirs), load).play(3600)
    assert causes(same) == set()
    beside = HpaBeside(pods_each_period(ours), load, theirs=pods_each_period(theirs)).play(3600)
    assert causes(beside) == {A.CONFIGURATION}
    assert beside.share(A.TIMING) < 0.05


def test_a_metric_that_only_one_has_is_named() -> None:
    """By its type and its name."""
    both = spec(QUEUE, cpu(utilization(50)), maximum=50, behavior=QUICK.behavior)

    def load(now: float, replicas: int) -> Mapping[str, float | None]:
        return {**steps(now, replicas), "cpu": 600 / replicas}

    beside = HpaBeside(both, load, theirs=QUICK).play(1800)
    assert causes(beside) == {A.CONFIGURATION}
    (difference,) = {one for each in whole(beside) for one in each.fields}
    assert (difference.field, difference.ours, difference.theirs) == (
        *("metrics[1]", "Resource cpu", "not set"),
    )


def test_what_only_targets_here_have_is_named() -> None:
    """The HPA goes on while ours is paused at a count."""
    paused = Extensions(pause=Pause(replicas=7))
    beside = HpaBeside(QUICK, steps, extensions=paused).play(1800)
    assert causes(beside) == {A.CONFIGURATION}
    assert {one.field for each in whole(beside) for one in each.fields} == {"pause"}


@pytest.mark.parametrize(
    ("flags", "flag", "word"),
    [
        (Flags(tolerance=0.5), "--horizontal-pod-autoscaler-tolerance", "more"),
        (
            Flags(downscale_stabilization=900),
            "--horizontal-pod-autoscaler-downscale-stabilization",
            "more",
        ),
    ],
)
def test_a_flag_of_the_controller_is_inferred(flags: Flags, flag: str, word: str) -> None:
    """No object shows it; what it does is seen."""
    of = QUICK if flags.tolerance != 0.1 else PLAIN
    beside = HpaBeside(of, steps, their_flags=flags).play(3600)
    assert causes(beside) == {A.CONFIGURATION}
    assert {(one.field, one.theirs) for each in whole(beside) for one in each.fields} == {
        (flag, word)
    }


# -- other readings ------------------------------------------------------------------------------


def test_an_older_answer_is_another_reading_with_its_age() -> None:
    """It names the metric, and by how much later the HPA sees it."""
    beside = HpaBeside(QUICK, wave(), their_load=wave(delay=90)).play(1800)
    assert causes(beside) == {A.READING}
    lags = [one.lag for each in whole(beside) for one in each.readings if one.lag is not None]
    assert lags
    assert all(75 <= lag <= 105 for lag in lags)


def test_another_reading_is_told_though_the_counts_are_the_same() -> None:
    """At the maximum both want it, and an older answer is seen all the same."""
    of = spec(QUEUE, maximum=3, behavior=QUICK.behavior)
    beside = HpaBeside(of, wave(), their_load=wave(delay=90)).play(1800)
    assert causes(beside) == set()
    told = [one for one in beside.of(A.EQUAL) if one.readings]
    assert sum(one.end - one.begin for one in told) > 600
    assert {each.metric for one in told for each in one.readings} == {"queue"}
    assert not any(one.readings for one in HpaBeside(of, wave()).play(1800).of(A.EQUAL))


def test_an_answer_that_stands_still_within_noise_is_told() -> None:
    """The HPA writes no status, though what it reads would change with each scrape."""
    noise = random.Random(2)  # noqa: S311 - no secret
    jumps = [noise.gauss(0, 4) for _ in range(1800)]

    def load(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001
        return {"queue": 96 + jumps[int(now)]}

    def stale(now: float, replicas: int) -> Mapping[str, float | None]:
        return load(600.0 if 600 < now < 900 else now, replicas)

    of = spec(QUEUE, maximum=5, behavior=QUICK.behavior)
    beside = HpaBeside(of, load, their_load=stale).play(1500)
    still = [one for one in beside.stretches if one.readings]
    assert still
    assert all(640 < one.begin - BASE < 930 for one in still)


def test_an_answer_that_stands_still_is_another_reading() -> None:
    """Until it moves again."""

    def frozen(now: float, replicas: int) -> Mapping[str, float | None]:
        return wave()(min(now, 400), replicas)

    beside = HpaBeside(QUICK, wave(), their_load=frozen).play(1500)
    assert causes(beside) == {A.READING}
    assert whole(beside)[0].begin - BASE > 400


@pytest.mark.parametrize("there", [True, False])
def test_a_metric_that_only_one_can_read(*, there: bool) -> None:
    """Then that one stays where it is, and the other one goes on."""

    def failing(now: float, replicas: int) -> Mapping[str, float | None]:
        return {"queue": None} if 300 < now < 900 else wave()(now, replicas)

    load, theirs = (wave(), failing) if there else (failing, wave())
    beside = HpaBeside(QUICK, load, their_load=theirs).play(1500)
    assert causes(beside) <= {A.READING}
    if there:
        (reading,) = {one.theirs for each in whole(beside) for one in each.readings}
        assert reading is None


def test_a_count_that_is_held_since_another_reading_has_its_cause() -> None:
    """A peak that only the HPA has read holds its count for a window, under equal readings."""

    def peak(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001
        return {"queue": 180.0 if 600 < now < 606 else 100.0 - (now > 606) * 40}

    def flat(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001
        return {"queue": 100.0 - (now > 606) * 40}

    beside = HpaBeside(PLAIN, flat, their_load=peak, replicas=10).play(1500)
    held = [one for one in whole(beside) if one.remembered is not None]
    assert causes(beside) == {A.READING}
    assert held
    assert all(500 < (one.remembered or 0) - BASE < 620 for one in held)


# -- on purpose ----------------------------------------------------------------------------------


def test_after_a_gap_ours_stays_and_the_hpa_goes_down() -> None:
    """Semantics 7.2: the range of the query is not full yet, and a rate understates."""

    def load(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001
        if 600 < now < 700:
            return {"queue": None}
        return {"queue": 30.0 if 700 <= now < 820 else 100.0}

    beside = HpaBeside(QUICK, load, range_seconds=300, replicas=10).play(1500)
    assert causes(beside) == {A.DEVIATION}
    assert {one.deviation for one in whole(beside)} == {Deviation.AFTER_GAP}


def test_a_controller_that_was_restarted_has_forgotten() -> None:
    """Ours holds what the HPA recommended itself, until its own window is over."""
    beside = HpaBeside(QUICK, steps, replicas=3)
    beside.ours = QUICK
    beside.play(735)
    live = beside.sides[0].line
    live.history = replace(live.history, recommendations=(), scale_ups=(), scale_downs=())
    beside.play(800)
    assert causes(beside) <= {A.DEVIATION}


# -- what is not compared ------------------------------------------------------------------------


def shadow() -> Timeline:
    """Return a target in shadow."""
    return Timeline(QUICK, replicas=3, extensions=Extensions(mode=Mode.SHADOW))


def played(line: Timeline, *times: int, hpa: Hpa | None) -> tuple[HpaComparison, list[Stretch]]:
    """Sync at some seconds, and compare."""
    state = HpaComparison()
    found: list[Stretch] = []
    for time in times:
        line.beside(hpa).at(f"{time}s", queue=30.0)
        state, more = compared(state, line.result)
        found += more
    return state, found


def test_without_an_hpa_nothing_is_compared() -> None:
    """It is said why."""
    _, found = played(shadow(), 0, 15, 30, 45, hpa=None)
    assert {(one.agreement, one.why) for one in found} == {
        (A.NOT_COMPARED, "no HorizontalPodAutoscaler of it is known")
    }


def test_an_hpa_that_has_decided_nothing_is_not_compared() -> None:
    """A new one has no status."""
    _, found = played(shadow(), 0, 15, 30, 45, hpa=Hpa("web", spec=QUICK))
    assert {one.agreement for one in found} == {A.NOT_COMPARED}


def test_what_is_held_since_before_the_begin_is_not_compared() -> None:
    """The HPA holds a peak that ours has not seen; after its window both are the same."""

    def load(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001 - a load
        return {"queue": 180.0 if now < 300 else 60.0}

    beside = HpaBeside(PLAIN, load)
    beside.sides[1].at = 400.0
    beside.play(1500)
    assert causes(beside) == set()
    assert any("whole stabilization window" in one.why for one in beside.of(A.NOT_COMPARED))
    assert beside.share(A.EQUAL, A.TIMING) == 1


def test_a_time_without_syncs_is_not_compared() -> None:
    """More than three periods: the process stood still."""
    beside = HpaBeside(QUICK, wave()).play(300)
    beside.sides[1].at += 300
    beside.play(900)
    gaps = beside.of(A.NOT_COMPARED)
    assert math.fsum(one.end - one.begin for one in gaps) > 290


def test_a_clock_that_is_set_back_begins_anew() -> None:
    """What was noted before is of another time."""
    state, _ = played(shadow(), 100, 115, 130, hpa=None)
    line = shadow().at("20s", queue=30.0)
    state, found = compared(state, line.result)
    assert (len(state.points), found) == (1, ())


def test_the_end_tells_what_is_left() -> None:
    """Up to the last sync but for one period that nobody can judge any more."""
    beside = HpaBeside(QUICK, wave()).play(600)
    last = beside.stretches[-1].end
    left = ended(beside.state)
    assert left[0].begin == last
    assert left[-1].end == beside.state.points[-1].time


def test_stretches_follow_each_other_without_a_hole() -> None:
    """All time is of some kind, once."""
    found = HpaBeside(QUICK, wave(), their_load=wave(delay=60)).play(1200).stretches
    assert all(one.end == other.begin for one, other in pairwise(found))


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
    """Whatever the levels are: both read each of them, and nothing is left unknown."""

    def load(now: float, replicas: int) -> Mapping[str, float | None]:  # noqa: ARG001
        return {"queue": float(levels[int(now // length) % len(levels)])}

    beside = HpaBeside(of, load, phase=phase).play(1800)
    assert beside.share(A.EQUAL, A.TIMING) > 0.99
    assert A.UNKNOWN not in beside.seconds()


def test_a_stretch_is_kept_and_read_back() -> None:
    """With its cause."""
    beside = HpaBeside(QUICK, wave(), their_load=wave(delay=90)).play(900)
    for stretch in beside.stretches:
        assert loads(Stretch, dumps(stretch)) == stretch
