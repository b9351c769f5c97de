"""After a gap nothing goes down before readings are worth as much as before (semantics 7.2)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision, Refill
from autoscaler.core.extensions import Extensions, Fallback
from autoscaler.core.gaps import after_absence, by_keys
from autoscaler.core.history import (
    ExtensionHistory,
    FailureStreak,
    History,
    ReadingGap,
    Recommendation,
)
from autoscaler.core.observation import (
    Gap,
    GapKind,
    Observation,
    PodSamples,
    ReadFailure,
    Reading,
    Sample,
    Scale,
    Values,
)
from autoscaler.core.spec import (
    Flags,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricSpec,
    ScaleTargetRef,
    TargetType,
)
from autoscaler.core.target import Query, SeriesLabels, Target, metric_key
from autoscaler.core.writes import settle
from autoscaler.persistence.codec import dumps, loads
from tests.core.builders import (
    BASE,
    FREE,
    MAILS,
    QUEUE,
    average,
    behavior,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    percent_policy,
    pod,
    pods,
    rules,
    samples,
    spec,
    utilization,
    value,
    values,
)
from tests.core.deciding import observe
from tests.narrowing import known

PERIOD = 15.0
RANGE = 120.0
WHOLE = 155.0
"""Seconds after which a range of two minutes is whole again: a server scrapes late at first."""
HELD = 165.0
"""The seconds of the syncs before that."""
LOST = Gap(GapKind.ERROR, "Prometheus is away")
AWAY = ReadFailure("no answer")


def short(window: int) -> HorizontalPodAutoscalerSpec:
    return spec(
        QUEUE, behavior=behavior(down=rules(*behavior().scale_down.policies, window=window))
    )


class Line:
    """One target, synced every 15 seconds; every write is accepted."""

    def __init__(
        self,
        of: HorizontalPodAutoscalerSpec | None = None,
        range_seconds: float = RANGE,
        replicas: int = 15,
    ) -> None:
        self.spec = of or spec(QUEUE)
        self.ranges: tuple[float, ...] | None = (range_seconds,) * len(self.spec.metrics)
        self.replicas = replicas
        self.keys: tuple[str, ...] = ()
        self.history = History()
        self.now = BASE
        self.looked: float | None = None
        self.synced: float | None = None
        self.decision: Decision

    def sync(self, *readings: Reading, api: bool = True) -> Decision:
        """Sync once; ``api`` says whether the scale can be read."""
        seen = Observation(
            Scale(self.replicas, self.replicas, "app=web") if api else AWAY,
            pods(self.replicas),
            readings,
            last_read=self.looked,
            ranges=self.ranges,
            last_sync=self.synced,
            metric_keys=self.keys,
        )
        decision, history = decide(self.spec, Flags(), seen, self.history, self.now)
        if decision.rescale:
            _, history = settle(self.spec, decision, history)
            self.replicas = decision.desired
        self.history = history
        self.looked = self.now if api else self.looked
        self.synced = self.now
        self.now += PERIOD
        return decision

    def count_after(self, *readings: Reading) -> int:
        """Sync once; return how many replicas there are then."""
        self.sync(*readings)
        return self.replicas

    def run(self, seconds: float, *readings: Reading, api: bool = True) -> "Line":
        for _ in range(round(seconds / PERIOD)):
            self.decision = self.sync(*readings, api=api)
        return self

    def assert_refills(self, *readings: Reading) -> None:
        """Find that nothing goes down before the range is whole, and everything then."""
        self.run(HELD, *readings).assert_goes_down(*readings)

    def assert_goes_down(self, *readings: Reading) -> None:
        """Find that this sync is the first to go down."""
        assert self.replicas == 15
        assert self.count_after(*readings) == 4

    def restart(self) -> "Line":
        """Begin anew with the history that was kept, and with when that was."""
        self.looked = None
        return self


def part(messages: int) -> Values:
    """Return an incomplete reading of at least this number of messages."""
    return Values((messages * 1000,), (Gap(GapKind.PARTIAL, "store eu"),))


def steady(of: HorizontalPodAutoscalerSpec | None = None, range_seconds: float = RANGE) -> Line:
    return Line(of, range_seconds).run(900, values(150))


def test_an_outage_longer_than_a_short_window_takes_nothing_down() -> None:
    """Two and a half minutes away with a window of 60 s: held until the range is whole again."""
    line = steady(short(60)).run(150, LOST)
    returned = line.now
    decision = line.sync(values(27))
    assert decision.outcome == "ok"
    assert decision.metrics[0].refill == Refill(returned, returned + WHOLE)
    line.run(HELD - PERIOD, values(60))
    held = known(line.decision.stabilization)
    assert (held.before, held.after, held.reason) == (6, 15, "ScaleDownStabilized")
    assert (held.until, held.refill) == (returned + WHOLE, Refill(returned, returned + WHOLE))
    assert line.count_after(values(60)) == 6, "at the instant at which the range is whole"


def test_scaling_up_stays_free() -> None:
    line = steady(short(0)).run(360, LOST)
    assert line.count_after(values(290)) == 29
    assert line.count_after(values(100)) == 29


def test_an_instant_selector_counts_at_its_first_good_reading() -> None:
    """A gauge is as good as ever at once; only what the window has forgotten holds it.

    Whether failed metrics blocked each decision, or the scale could not be read either.
    """
    line = steady(short(60), range_seconds=0.0).run(45, LOST).run(PERIOD, values(40))
    line.run(60, values(40))
    assert line.replicas == 4
    for api in (True, False):
        line = steady(short(60), range_seconds=0.0).run(150, LOST, api=api)
        line.run(60, values(40))
        assert line.replicas == 15, "the count is a recommendation: the gap outlasted the window"
        assert line.count_after(values(40)) == 4


@pytest.mark.parametrize(
    ("range_seconds", "syncs", "matters"),
    [(30.0, 1, True), (120.0, 1, True), (300.0, 1, False), (300.0, 2, True), (600.0, 2, False)],
)
def test_a_gap_matters_from_a_tenth_on(range_seconds: float, syncs: int, matters: bool) -> None:
    line = steady(short(0), range_seconds).run(syncs * PERIOD, LOST)
    decision = line.sync(values(40))
    assert (decision.metrics[0].refill is not None) is matters
    assert line.replicas == (15 if matters else 4)


def test_small_gaps_matter_together() -> None:
    line = steady(short(0), 300.0).run(15, LOST).run(60, values(150)).run(15, LOST)
    assert line.count_after(values(40)) == 15
    line = steady(short(0), 300.0).run(15, LOST).run(390, values(150)).run(15, LOST)
    assert line.count_after(values(40)) == 4


def test_one_failure_in_fifty_lets_a_target_scale_down() -> None:
    """A server that fails now and then holds a target for two minutes of twelve, not for ever."""
    line = Line(short(60)).run(600, values(150))
    replicas = []
    for number in range(100):
        line.sync(LOST if number % 50 == 0 else values(40))
        replicas.append(line.replicas)
    assert replicas[12] == 4
    assert set(replicas[12:]) == {4}


def test_a_gap_that_does_not_matter_leaves_a_refill_as_it_is() -> None:
    line = steady(short(0), range_seconds=300.0).run(45, LOST)
    line.run(30, values(40)).run(PERIOD, LOST).run(390 - 45, values(40))
    line.assert_goes_down(values(40))


def unaware(history: History) -> Line:
    """Return a target with a history that knows nothing of the last hour."""
    line = Line(short(0))
    line.history, line.now = history, BASE + 3600
    return line


REFILLING: dict[str, Callable[[], Line]] = {
    "gap": lambda: steady(short(0)).run(60, LOST),
    "gap-in-the-refill": lambda: steady(short(0)).run(60, LOST).run(60, values(40)).run(30, LOST),
    "restart-in-the-gap": lambda: steady(short(0)).run(60, LOST).restart().run(60, LOST),
    "scale-unreadable": lambda: steady(short(0)).run(90, LOST, api=False),
    "no-memory": lambda: unaware(History()),
    "absence": lambda: unaware(
        History(recommendations=steady(short(0)).history.recommendations, unobserved=True)
    ),
}


@pytest.mark.parametrize("line", REFILLING.values(), ids=REFILLING)
def test_nothing_goes_down_before_the_range_is_complete(line: Callable[[], Line]) -> None:
    line().assert_refills(values(40))


def test_a_restart_in_the_refill_changes_nothing() -> None:
    line = steady(short(0)).run(60, LOST).run(PERIOD, values(40)).restart()
    line.run(HELD - PERIOD, values(40)).assert_goes_down(values(40))


def test_another_metric_takes_nothing_down_meanwhile() -> None:
    """The one that returns may ask for more once it is whole; one that is whole may take it up."""
    both = spec(QUEUE, MAILS, behavior=short(0).behavior)
    line = Line(both).run(600, values(150), values(20)).run(60, LOST, values(20))
    assert line.run(HELD, values(27), values(60)).replicas == 15
    assert line.count_after(values(27), values(200)) == 20


CPU = spec(
    cpu(utilization(50)), behavior=behavior(down=rules(*behavior().scale_down.policies, window=0))
)


def usage(*milli: int | None) -> PodSamples:
    """Return samples of cpu of `p0`, `p1`, ...; None is a pod without one."""
    found = samples(*(value or 0 for value in milli), at=0.0)
    return PodSamples({f"p{n}": found[f"p{n}"] for n, item in enumerate(milli) if item is not None})


def rates(*units: int | None) -> PodSamples:
    """Return likewise samples of a metric of pods, whose target is 10."""
    return usage(*(None if unit is None else unit * 1000 for unit in units))


@pytest.mark.parametrize(
    ("of", "whole", "half", "back"),
    [
        (CPU, usage(*[500] * 4), usage(500, 500, None, None), usage(500, 500, 100, 100)),
        (
            spec(per_pod("10"), behavior=CPU.behavior),
            *(rates(*[10] * 4), rates(10, 10, None, None), rates(10, 10, 2, 2)),
        ),
    ],
    ids=["utilization", "average"],
)
def test_pods_whose_samples_return_are_charged_as_missing_until_they_are_whole(
    of: HorizontalPodAutoscalerSpec, whole: PodSamples, half: PodSamples, back: PodSamples
) -> None:
    """Half of the pods had none for a minute, and read a fifth when they return."""
    line = Line(of, replicas=4).run(600, whole).run(60, half)
    returned = line.now
    line.run(HELD, back)
    assert line.replicas == 4
    assert line.history.gaps[0].until == returned + WHOLE
    assert line.count_after(back) == 3, "whole again, and really less"
    assert line.history.gaps == ()


def test_a_pod_that_is_new_is_not_one_that_returned() -> None:
    """It never had a whole range: the HPA's own rules for new pods hold, and no others."""
    line = Line(CPU, replicas=2).run(600, usage(400, 400))
    young = (pod(), pod("p1", start=line.now - BASE - 60))
    seen = replace(observe(2, usage(400, None)), pods=young, last_read=line.looked, ranges=(RANGE,))
    _, history = decide(CPU, Flags(), seen, line.history, line.now)
    assert history.gaps == ()


def test_pods_that_return_do_not_hold_a_scale_up() -> None:
    line = Line(CPU, replicas=4).run(600, usage(*[500] * 4)).run(60, usage(500, 500, None, None))
    assert line.count_after(usage(900, 900, 900, 900)) > 4


def test_a_pod_that_is_gone_is_forgotten() -> None:
    line = Line(CPU, replicas=4).run(600, usage(*[500] * 4)).run(60, usage(500, 500, 500, None))
    assert [gap.pod for gap in line.history.gaps] == ["p3"]
    line.replicas = 3
    line.sync(usage(500, 500, 500))
    assert line.history.gaps == ()


def test_a_rolling_restart_of_all_exporters_takes_nothing_down() -> None:
    """Each of them is away for a minute, one after another, and its pods read low for two."""
    line = Line(CPU, replicas=8).run(600, *[usage(*[480] * 8)])
    for second in range(0, 8 * 60 + 180, int(PERIOD)):
        ages = [second - 60 * number for number in range(8)]
        low = [480 * (age - 45) // 135 if 60 <= age < 180 else 480 for age in ages]
        read = [None if 0 <= age < 60 else milli for age, milli in zip(ages, low, strict=True)]
        assert line.count_after(usage(*read)) == 8


@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.sampled_from([30.0, 120.0, 300.0]),
    st.sampled_from([0, 15, 60, 300]),
    st.data(),
)
def test_no_outage_takes_a_steady_load_down(
    away: list[bool], range_seconds: float, window: int, data: st.DataObject
) -> None:
    line = steady(short(window), range_seconds)
    lost: list[tuple[float, float]] = []
    for gone in away:
        if data.draw(st.integers(0, 9)) == 0:
            line.restart()
        now = line.now
        if gone:
            lost.append((now - PERIOD, now))
            line.sync(LOST)
        else:
            missing = sum(
                max(0.0, min(end, now) - max(begin, now - range_seconds)) for begin, end in lost
            )
            part = max(0.0, 1 - missing / range_seconds)
            assert line.count_after(Values((round(150_000 * part),))) == 15


def windows(
    up: int, down: int, *metrics: MetricSpec, maximum: int = 60
) -> HorizontalPodAutoscalerSpec:
    """Return a spec with these stabilization windows, and without a tolerance."""
    fast = percent_policy(900)
    both = behavior(rules(fast, window=up, tolerance=0.0), rules(fast, window=down, tolerance=0.0))
    return spec(*(metrics or (QUEUE,)), maximum=maximum, behavior=both)


def test_recommendations_of_a_refill_count_for_scaling_down_only() -> None:
    line = Line(windows(300, 300)).run(900, values(150)).run(270, LOST)
    line.run(HELD, values(80))
    line.run(30, values(20))
    assert line.replicas == 8, "the recommendation of 8 is within the window"
    line = Line(windows(300, 0)).run(900, values(150)).run(60, LOST).run(HELD, values(20))
    line.sync(values(200))
    assert line.replicas == 15, "the recommendation of 15 before the gap is within the window"
    line.run(60, values(200))
    assert line.replicas == 20, "those of 2 after it are so, too"


def test_an_incomplete_reading_that_blocks_is_remembered_for_scaling_down() -> None:
    """It asks for at least 10 of 15 within the window of 300 s: 10 stay until it has passed.

    As with the HPA, which reads 100 messages meanwhile.
    """
    line = Line(short(300), range_seconds=0.0).run(900, values(150)).run(150, part(100))
    assert line.replicas == 15
    last = line.now - PERIOD
    line.run(150, values(20))
    assert line.replicas == 10
    assert known(line.decision.stabilization).held_by == Recommendation(10, last, only_down=True)
    line.run(150 - PERIOD, values(20))
    assert line.replicas == 10
    assert line.count_after(values(20)) == 2


@pytest.mark.parametrize("starts_again", [False, True])
def test_incomplete_readings_beyond_the_window_take_nothing_down(starts_again: bool) -> None:
    """What they may lack is unknown: the count at the return is remembered, as after a gap."""
    line = Line(short(300), range_seconds=0.0).run(900, values(150)).run(330, part(100))
    if starts_again:
        line.history = loads(History, dumps(line.history))
        line.restart()
    returned = line.now
    line.run(300, values(20))
    assert line.replicas == 15
    line.sync(values(20))
    assert (line.replicas, line.now - PERIOD) == (2, returned + 300.0)


def test_alternating_kinds_of_failures_leave_a_hole_too() -> None:
    line = Line(short(300), range_seconds=0.0).run(900, values(150))
    line.run(180, LOST).run(180, part(20)).run(300, values(20))
    assert line.replicas == 15
    assert line.count_after(values(20)) == 2
    both = spec(QUEUE, MAILS, behavior=short(300).behavior)
    line = Line(both, range_seconds=0.0).run(900, values(150), values(150))
    line.run(180, LOST, values(20)).run(180, values(20), LOST).run(300, values(20), values(20))
    assert line.replicas == 15
    assert line.count_after(values(20), values(20)) == 2


def test_the_largest_proven_count_of_blocked_syncs_is_remembered() -> None:
    both = spec(QUEUE, MAILS, behavior=short(300).behavior)
    line = Line(both, range_seconds=0.0).run(PERIOD, values(150), values(20))
    before = line.history.recommendations or ()
    line.sync(LOST, values(120))
    assert line.history.recommendations == before
    line.sync(part(100), values(120))
    asked = Recommendation(12, line.now - PERIOD, only_down=True)
    assert line.history.recommendations == (*before, asked)
    line.sync(part(100), LOST)
    assert known(line.history.recommendations)[-1].replicas == 10


def test_pods_that_all_refill_make_the_metric_refill() -> None:
    """Each lost its samples at another time: what they ask for is remembered, and not obeyed."""
    line = Line(CPU, replicas=4).run(600, usage(500, 500, 500, 500))
    line.run(60, usage(None, None, 500, 500)).run(60, usage(500, 500, None, None))
    returned = line.now - 60
    line.run(60, usage(100, 100, 100, 100))
    held = line.decision.stabilization
    assert (line.replicas, line.decision.outcome) == (4, "ok")
    assert held is not None
    assert (held.before, held.refill) == (1, Refill(returned, returned + WHOLE))


def test_an_absence_may_hide_a_gap() -> None:
    target = Target("shop", short(0), (Query("q", range_seconds=RANGE),), PERIOD)
    for absent, matters in ((PERIOD, False), (22.0, False), (28.0, True), (math.inf, True)):
        line = steady(short(0))
        line.keys = target.metric_keys
        line.now += absent - PERIOD if math.isfinite(absent) else 3600.0
        line.history = after_absence(target, line.history, absent, line.now)
        line.restart()
        decision = line.sync(values(40))
        assert (decision.metrics[0].refill is not None) is matters
        assert line.replicas == (15 if matters else 4)


def test_a_metric_that_is_gone_from_the_spec_is_forgotten() -> None:
    line = steady(short(0)).run(60, LOST)
    assert len(line.history.gaps) == 1
    gone = replace(line.history.gaps[0], pod="p0")
    line.history = replace(line.history, gaps=(*line.history.gaps, gone))
    line.spec = replace(line.spec, metrics=(MAILS,))
    line.sync(values(150))
    assert line.history.gaps == ()


def test_one_metric_with_two_targets_has_one_gap() -> None:
    line = Line(spec(QUEUE, external(average("20")), behavior=short(0).behavior))
    line.run(900, values(150), values(150)).run(60, LOST, LOST)
    assert len(line.history.gaps) == 1
    line.assert_refills(values(40), values(40))


def test_a_pod_that_lost_too_little_to_matter_counts_as_it_is() -> None:
    """One sample of a pod, a tenth of its range: it is not charged as missing when it is back."""
    line = Line(CPU, 300.0, replicas=4).run(900, usage(*[500] * 4))
    line.run(15, usage(500, 500, 500, None))
    assert line.count_after(usage(*[250] * 4)) == 2


# -- A metric's history goes by what is asked, and not by a name -----------------------------------


ONE, TWO = (
    replace(of_object(average("10")), described_object=ScaleTargetRef("v1", "Ingress", name))
    for name in ("one", "two")
)
NAME = "External external metric queue(nil)"
"""What names `QUEUE` where its key is not known."""


def line(of: HorizontalPodAutoscalerSpec, *queries: Query) -> Line:
    made = Line(of, RANGE)
    made.keys = Target("shop", of, queries, PERIOD).metric_keys
    return made


def test_two_ingresses_have_gaps_of_their_own() -> None:
    target = line(spec(ONE, TWO, behavior=FREE), Query("rate(x[2m])"), Query("rate(x[2m])"))
    target.run(900, values(150), values(40)).run(60, LOST, values(40))
    target.run(HELD, values(27), values(40))
    assert target.replicas == 15
    assert target.count_after(values(27), values(40)) == 4


def test_one_name_on_two_servers_has_two_streaks_of_failures() -> None:
    of = spec(QUEUE, QUEUE, behavior=FREE)
    keys = Target("shop", of, (Query("q", server="eu"), Query("q", server="us"))).metric_keys
    fallback = Extensions(fallback=Fallback(4, 2))
    first: tuple[Reading, ...] = (LOST, values(150))
    history = History()
    for number, readings in enumerate((first, first[::-1], first, first), 1):
        seen = replace(observe(15, *readings), metric_keys=keys)
        decision, history = decide(of, Flags(), seen, history, BASE, extensions=fallback)
        assert [metric.fallback is not None for metric in decision.metrics] == [number == 4, False]


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
def test_metrics_with_different_queries_have_different_keys(
    other: MetricSpec, query: Query
) -> None:
    assert metric_key(other, query) != metric_key(QUEUE, Query("q"))


def test_names_and_targets_are_not_part_of_a_key() -> None:
    key = metric_key(QUEUE, Query("q"))
    assert metric_key(external(average("20"), "renamed"), Query("q")) == key


def test_a_key_is_short_however_long_the_query_is() -> None:
    assert len(metric_key(QUEUE, Query("sum(x) + " * 100_000))) == 16


def test_a_gap_without_a_key_applies_to_any_metric() -> None:
    gap, streak = ReadingGap(NAME, since=BASE - 60.0), FailureStreak(NAME, 5)
    before = History((), gaps=(gap,), extended=ExtensionHistory(failures=(streak,)))
    after = by_keys(before, (QUEUE, QUEUE), ("a", "b"))
    assert after.gaps == (replace(gap, metric="a"), replace(gap, metric="b"))
    assert (after.extended.failures, after.metric_keys) == ((), ("a", "b"))
    assert by_keys(after, (QUEUE, QUEUE), ("a", "b")) is after


def test_a_metric_with_another_key_takes_over_the_gap_of_one_that_is_gone() -> None:
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
def test_no_edit_shortens_what_follows_a_gap(lost: int, edited: int, restarted: bool) -> None:
    of = spec(QUEUE, behavior=FREE)
    before, after = (Target("shop", of, (Query(item, range_seconds=RANGE),)) for item in "pq")
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
        assert other.count_after(reading) >= same.replicas


def test_an_absence_is_of_the_keys_that_a_target_has_now() -> None:
    target = Target("shop", spec(QUEUE), (Query("q", range_seconds=RANGE),), PERIOD)
    open_gap = ReadingGap(NAME, since=BASE - 600.0)
    history = after_absence(target, History((), gaps=(open_gap,)), 60.0, BASE)
    assert history.gaps == (replace(open_gap, metric=target.metric_keys[0]),)


# -- after gaps of any metrics a target is never lower than the HPA (7.2) --------------------------

# Nor does it go up later.  Loads are in pods, and half pods: no product of a count and a ratio is
# so near a whole number that the error of a double matters.


UNIT = 27720
"""The load of one pod, which all counts up to `MOST` divide."""
MOST = 12
A_POD = average(f"{UNIT}")
METRICS: tuple[MetricSpec, ...] = (
    *(metric(target) for metric in (external, of_object) for target in (A_POD, value(f"{UNIT}"))),
    per_pod(f"{UNIT}"),
    *(metric(target) for metric in (cpu, container_cpu) for target in (utilization(UNIT), A_POD)),
)


@dataclass(frozen=True)
class Answer:
    """What a metric has at one sync: a load in half pods, whether all of it, and of which pods."""

    halves: int
    is_whole: bool = True
    without: frozenset[int] = frozenset()


def reading_of(metric: MetricSpec, answer: Answer | None, replicas: int) -> Reading:
    """Return the reading of a metric whose load the pods share."""
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


def keyed(of: HorizontalPodAutoscalerSpec, replicas: int, ranges: tuple[float, ...] | None) -> Line:
    """Return a target whose metrics have keys; None for the ranges is a target of the HPA."""
    made = Line(of, replicas=replicas)
    made.ranges, made.keys = ranges, tuple(f"m{number}" for number in range(len(of.metrics)))
    return made


def read_by(line: Line, answers: tuple[Answer | None, ...]) -> None:
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
    of = windows(up, down, *metrics, maximum=MOST)
    ours, theirs = keyed(of, replicas, ranges), keyed(of, replicas, None)
    for number, (answers, syncs) in enumerate(answered):
        if number in restarts:
            ours.restart()
        for _ in range(syncs):
            read = tuple(as_both_read(answer, theirs.replicas) for answer in answers)
            read_by(ours, read)
            read_by(theirs, tuple(answer and replace(answer, is_whole=True) for answer in read))
            assert ours.replicas >= theirs.replicas
