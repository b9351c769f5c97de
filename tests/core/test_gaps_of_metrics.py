"""After gaps of several metrics of any types a target is never lower than the HPA (7.2).

Nor does it go up later.  Loads are in pods, and half pods: no product of a count and a ratio is so
near a whole number that the error of a double matters.
"""

from dataclasses import dataclass, replace

from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.core.observation import Gap, GapKind, PodSamples, Reading, Sample, Values
from autoscaler.core.spec import HorizontalPodAutoscalerSpec, MetricSpec, TargetType
from tests.core.builders import (
    BASE,
    average,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    percent_policy,
    rules,
    spec,
    utilization,
    value,
)
from tests.core.builders import behavior as behavior_of
from tests.core.test_gaps import LOST, Line

UNIT = 27720
"""The load of one pod, which all counts up to `MOST` divide."""
MOST = 12
METRICS: tuple[MetricSpec, ...] = (
    external(average(f"{UNIT}")),
    external(value(f"{UNIT}")),
    of_object(average(f"{UNIT}")),
    of_object(value(f"{UNIT}")),
    per_pod(f"{UNIT}"),
    cpu(utilization(UNIT)),
    cpu(average(f"{UNIT}")),
    container_cpu(utilization(UNIT)),
    container_cpu(average(f"{UNIT}")),
)


@dataclass(frozen=True)
class Answer:
    """What a metric has at one sync: a load in half pods, whether all of it, and of which pods."""

    halves: int
    is_whole: bool = True
    without: frozenset[int] = frozenset()


def reading_of(metric: MetricSpec, answer: Answer | None, replicas: int) -> Reading:
    """Return what a metric reads of a load that is shared by so many pods."""
    if answer is None:
        return LOST
    gaps = () if answer.is_whole else (Gap(GapKind.PARTIAL, "store eu"),)
    if not metric.of_pods:
        total = answer.halves * UNIT * 1000 // 2
        return Values((total,), gaps)
    percent = metric.target.type is TargetType.UTILIZATION
    each = answer.halves * UNIT * (10 if percent else 1000) // (2 * replicas)
    names = [f"p{number}" for number in range(replicas) if number not in answer.without]
    return PodSamples({name: Sample(each, BASE, 60.0) for name in names}, gaps=gaps)


def target(
    of: HorizontalPodAutoscalerSpec, replicas: int, ranges: tuple[float, ...] | None
) -> Line:
    """Return a target whose metrics have keys; None for the ranges is a target of the HPA."""
    made = Line(of, replicas=replicas)
    made.ranges, made.keys = ranges, tuple(f"m{number}" for number in range(len(of.metrics)))
    return made


def sync(line: Line, answers: tuple[Answer | None, ...]) -> None:
    """Sync once."""
    pairs = zip(line.spec.metrics, answers, strict=True)
    line.sync(*(reading_of(metric, answer, line.replicas) for metric, answer in pairs))


Course = tuple[
    tuple[MetricSpec, ...], tuple[float, ...], list[tuple[tuple[Answer | None, ...], int]]
]
"""Metrics, the ranges of their queries, and what they read for how many syncs."""
_FEW_PODS = st.frozensets(st.integers(0, 3), max_size=3)
_ANSWERS = st.none() | st.builds(Answer, st.integers(0, 28), st.booleans(), _FEW_PODS)
_WINDOWS = st.sampled_from([0, 30, 60, 300])
_RANGES = st.sampled_from([0.0, 30.0, 120.0, 600.0])


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Return metrics, the ranges of their queries, and what they read for how many syncs."""
    metrics = draw(st.lists(st.sampled_from(METRICS), min_size=1, max_size=3))
    answers = st.tuples(*[_ANSWERS] * len(metrics))
    course = draw(st.lists(st.tuples(answers, st.sampled_from([1, 1, 2, 5, 12])), max_size=20))
    return tuple(metrics), draw(st.tuples(*[_RANGES] * len(metrics))), course


def of_windows(metrics: tuple[MetricSpec, ...], up: int, down: int) -> HorizontalPodAutoscalerSpec:
    """Return a spec with these stabilization windows, and without a tolerance."""
    usual = percent_policy(900)
    both = behavior_of(
        rules(usual, window=up, tolerance=0.0), rules(usual, window=down, tolerance=0.0)
    )
    return spec(*metrics, maximum=MOST, behavior=both)


def as_both_read(answer: Answer | None, fewest: int) -> Answer | None:
    """Return what takes as many samples from both; a metric without any of one is lost to both."""
    if answer is None:
        return None
    without = answer.without & frozenset(range(fewest))
    return None if len(without) == fewest else replace(answer, without=without)


_SOME = frozenset({1, 2, 3})


@example(
    # One metric fails while the pods of the other refill: the HPA decides and records nothing.
    course=(
        (METRICS[0], METRICS[5]),
        (0.0, 120.0),
        [
            ((Answer(8), Answer(8)), 20),
            ((None, Answer(8, without=_SOME)), 2),
            ((None, Answer(2)), 4),
            ((Answer(24), Answer(8)), 4),
        ],
    ),
    replicas=4,
    up=60,
    down=300,
    restarts=frozenset(),
)
@example(
    # Incomplete readings within a window for scaling down that ends before a whole one.
    course=(
        METRICS[:1],
        (0.0,),
        [((Answer(10),), 1), ((Answer(8, is_whole=False),), 2), ((Answer(2),), 1)],
    ),
    replicas=5,
    up=0,
    down=30,
    restarts=frozenset(),
)
@given(courses(), st.integers(1, 6), _WINDOWS, _WINDOWS, st.frozensets(st.integers(0, 40)))
def test_after_gaps_a_target_of_any_metrics_is_never_lower_than_the_hpa_leaves_it(
    course: Course, replicas: int, up: int, down: int, restarts: frozenset[int]
) -> None:
    """Two targets that read the same, one by the HPA's rules alone, which has no word for a part.

    Ours starts again at times.
    """
    metrics, ranges, answered = course
    of = of_windows(metrics, up, down)
    ours, theirs = target(of, replicas, ranges), target(of, replicas, None)
    for number, (answers, syncs) in enumerate(answered):
        if number in restarts:
            ours.restart()
        for _ in range(syncs):
            read = tuple(as_both_read(answer, theirs.replicas) for answer in answers)
            sync(ours, read)
            sync(theirs, tuple(answer and replace(answer, is_whole=True) for answer in read))
            assert ours.replicas >= theirs.replicas
