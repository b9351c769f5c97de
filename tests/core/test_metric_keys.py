"""A metric's history goes by what is asked, and not by a name (semantics 7.2)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.extensions import Extensions, Fallback
from autoscaler.core.gaps import after_absence, by_keys
from autoscaler.core.history import ExtensionHistory, FailureStreak, History, ReadingGap
from autoscaler.core.observation import Reading
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec, MetricSpec, ScaleTargetRef
from autoscaler.core.target import Query, SeriesLabels, Target, metric_key
from tests.core.builders import (
    BASE,
    average,
    behavior,
    cpu,
    external,
    of_object,
    per_pod,
    rules,
    spec,
    utilization,
    values,
)
from tests.core.deciding import observe
from tests.core.test_gaps import HELD, LOST, PERIOD, RANGE, Line

FREE = behavior(down=rules(*behavior().scale_down.policies, window=0))
QUEUE = external(average("10"))
ONE, TWO = (
    replace(of_object(average("10")), described_object=ScaleTargetRef("v1", "Ingress", name))
    for name in ("one", "two")
)
NAME = "External external metric queue(nil)"
"""What names `QUEUE` where its key is not known."""


def line(of: HorizontalPodAutoscalerSpec, *queries: Query) -> Line:
    """Return a target of 15 replicas whose metrics go by their keys."""
    made = Line(of, RANGE)
    made.keys = Target("shop", of, queries, PERIOD).metric_keys
    return made


def test_two_ingresses_have_gaps_of_their_own() -> None:
    """The reading of one is back, and the other was never away: the first is not whole yet."""
    target = line(spec(ONE, TWO, behavior=FREE), Query("rate(x[2m])"), Query("rate(x[2m])"))
    target.run(900, values(150), values(40)).run(60, LOST, values(40))
    target.run(HELD, values(27), values(40))
    assert target.replicas == 15
    target.sync(values(27), values(40))
    assert target.replicas == 4


def test_one_name_on_two_servers_has_two_streaks_of_failures() -> None:
    """A failure of each is not two in a row."""
    of = spec(QUEUE, QUEUE, behavior=FREE)
    keys = Target("shop", of, (Query("q", server="eu"), Query("q", server="us"))).metric_keys
    fallback = Extensions(fallback=Fallback(4, 2))
    history = History()
    for readings in ((LOST, values(150)), (values(150), LOST), (LOST, values(150))):
        decision, history = decided(of, keys, readings, history, fallback)
        assert [one.fallback for one in decision.metrics] == [None, None]
    decision, _ = decided(of, keys, (LOST, values(150)), history, fallback)
    assert [one.fallback is None for one in decision.metrics] == [False, True]


@pytest.mark.parametrize(
    ("other", "query"),
    [
        (QUEUE, Query("p")),
        (QUEUE, Query("q", server="eu")),
        (QUEUE, Query("q", max_age=60.0)),
        (QUEUE, Query("q", empty_is_zero=True)),
        (QUEUE, Query("q", nan_is_zero=True)),
        (QUEUE, Query("q", use_partial=True)),
        (QUEUE, Query("q", range_seconds=60.0)),
        (QUEUE, Query("q", labels=SeriesLabels(pod="pod_name"))),
        (external(average("10"), selector=LabelSelector((("a", "b"),))), Query("q")),
        (per_pod("10"), Query("q")),
        (cpu(utilization(50)), Query("q")),
        (ONE, Query("q")),
        (TWO, Query("q")),
    ],
)
def test_what_is_asked_tells_metrics_apart(other: MetricSpec, query: Query) -> None:
    """Server, query, how it is read, selector, object and type."""
    assert metric_key(other, query) != metric_key(QUEUE, Query("q"))


def test_names_and_targets_are_no_part_of_a_key() -> None:
    """A metric may be renamed; two of its targets are one reading."""
    key = metric_key(QUEUE, Query("q"))
    assert metric_key(external(average("20"), "renamed"), Query("q")) == key


def test_a_key_is_short_however_long_the_query_is() -> None:
    """It is kept with every history."""
    assert len(metric_key(QUEUE, Query("sum(x) + " * 100_000))) == 16


def test_a_gap_that_went_by_no_key_is_of_any_metric() -> None:
    """Which it was is not known; no fallback comes early."""
    gap, streak = ReadingGap(NAME, since=BASE - 60.0), FailureStreak(NAME, 5)
    before = History((), gaps=(gap,), extended=ExtensionHistory(failures=(streak,)))
    after = by_keys(before, (QUEUE, QUEUE), ("a", "b"))
    assert after.gaps == (replace(gap, metric="a"), replace(gap, metric="b"))
    assert (after.extended.failures, after.metric_keys) == ((), ("a", "b"))
    assert by_keys(after, (QUEUE, QUEUE), ("a", "b")) is after


def test_a_metric_with_another_key_takes_over_the_gap_of_one_that_is_gone() -> None:
    """And no metric that was there before does; a pod's gap is for metrics of pods."""
    gaps = (
        ReadingGap("gone", since=BASE - 60.0, until=BASE + 20.0),
        ReadingGap("lost", since=None, until=BASE + 90.0, losses=((BASE - 5.0, 15.0),)),
        ReadingGap("gone", "p0", since=BASE - 30.0),
    )
    before = History((), gaps=gaps, metric_keys=("here", "gone", "lost"))
    metrics = (QUEUE, ONE, per_pod("10"))
    after = by_keys(before, metrics, ("here", "new", "pods"))
    longest = ReadingGap("new", since=BASE - 60.0, until=BASE + 90.0, losses=((BASE - 5.0, 15.0),))
    assert set(after.gaps) == {
        longest,
        replace(longest, metric="pods"),
        replace(gaps[2], metric="pods"),
    }
    assert by_keys(before, (QUEUE,), ("here",)).gaps == (), "none is new"
    streak = ExtensionHistory(failures=(FailureStreak("gone", 2),))
    counted = by_keys(replace(before, extended=streak), metrics, ("here", "new", "pods"))
    assert counted.extended.failures == ()


@given(st.integers(1, 30), st.integers(0, 40), st.booleans())
def test_no_edit_of_a_query_shortens_what_follows_a_gap(
    lost: int,
    edited: int,
    restarted: bool,  # noqa: FBT001
) -> None:
    """At whatever sync it is edited, with a restart or without one: never lower than unedited."""
    of = spec(QUEUE, behavior=FREE)
    before, after = (Target("shop", of, (Query(one, range_seconds=RANGE),)) for one in "pq")
    same, other = line(of, *before.queries), line(of, *before.queries)
    for target in (same, other):
        target.run(600, values(150))
    for number in range(50):
        if number == edited:
            other.keys = after.metric_keys
            if restarted:
                other.restart()
                other.history = after_absence(after, other.history, PERIOD * 2, other.now)
        reading = LOST if number < lost else values(40)
        same.sync(reading)
        other.sync(reading)
        assert other.replicas >= same.replicas


def test_an_absence_is_of_the_keys_that_a_target_has_now() -> None:
    """The gap that was open under another key is the longer one."""
    target = Target("shop", spec(QUEUE), (Query("q", range_seconds=RANGE),), PERIOD)
    open_gap = ReadingGap(NAME, since=BASE - 600.0)
    history = after_absence(target, History((), gaps=(open_gap,)), 60.0, BASE)
    assert history.gaps == (replace(open_gap, metric=target.metric_keys[0]),)


def decided(
    of: HorizontalPodAutoscalerSpec,
    keys: tuple[str, ...],
    readings: tuple[Reading, ...],
    history: History,
    extensions: Extensions,
) -> tuple[Decision, History]:
    """Decide about a target of 15 replicas whose metrics have these keys."""
    seen = replace(observe(15, *readings), metric_keys=keys)
    return decide(of, Flags(), seen, history, BASE, extensions=extensions)
