"""A chart shows the recorded decisions and loses no step."""

import math
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.classification import Mark
from autoscaler.core.extensions import Extensions, Fallback, Pause
from autoscaler.core.spec import Flags
from autoscaler.persistence.record.rows import Lapse, Sample
from autoscaler.rendering.chart import Chart, MarkKind, ShadeKind, chart_of
from autoscaler.rendering.chart.lines import ChartRow, rows_of, sampled_indexes
from tests.core.builders import BASE, average, cpu, external, spec, utilization
from tests.core.timeline import Timeline
from tests.narrowing import known
from tests.worlds.record import MemoryRecord

WEB = "shop/Deployment/web"
QUEUE, MAILS = external(average("10")), external(average("10"), "mails")
HOUR = 3600.0


def charted(record: MemoryRecord, begin: float = 0, end: float = HOUR, **more: Any) -> Chart:
    return known(chart_of(record, WEB, BASE + begin, BASE + end, **more))


def shaded(chart: Chart) -> list[tuple[ShadeKind, float, float]]:
    return [(shade.kind, shade.begin - BASE, shade.end - BASE) for shade in chart.shades]


def played(timeline: Timeline, *queues: float | None, first: int = 0) -> MemoryRecord:
    record = MemoryRecord()
    for index, queue in enumerate(queues, first):
        record.keep_synced(timeline.sync(f"{15 * index}s", queue=queue))
    return record


def index_at(chart: Chart, time: float) -> int:
    """Return the index of the values at an instant."""
    return max(index for index, number in enumerate(chart.times) if number <= BASE + time)


# -- lines ---------------------------------------------------------------------------------------


def test_each_value_holds_from_its_time_on() -> None:
    record = played(Timeline(spec(QUEUE, maximum=8), replicas=3), 30, 30, 60, 60, 60, 60)
    chart = charted(record)
    assert [time - BASE for time in chart.times] == [0, 30, 45, 75]
    assert [*chart.current] == [3, 3, 6, 6]
    assert [*chart.desired] == [3, 6, 6, 6]
    assert (set(chart.minimum), set(chart.maximum)) == ({1}, {8})
    (metric,) = chart.metrics
    assert (metric.name, metric.unit, metric.target) == ("queue", "per replica", 10.0)
    assert [*metric.value] == [10, 20, 10, 10]
    assert [*metric.proposal] == [3, 6, 6, 6]
    # What held at the begin of a view stands there.
    chart = charted(record, 40, 50)
    assert [time - BASE for time in chart.times] == [40, 45, 50]
    assert [*chart.current] == [3, 6, 6]
    assert (chart.begin, chart.end) == (BASE + 40, BASE + 50)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        (cpu(utilization(50)), "%"),
        (cpu(average("500m")), "cores per pod"),
        (replace(cpu(average("1Gi")), name="memory"), "bytes per pod"),
    ],
)
def test_values_are_in_base_units(metric: object, unit: str) -> None:
    timeline = Timeline(spec(metric), replicas=2)  # type: ignore[arg-type] # it is one
    record = MemoryRecord().keep_synced(timeline.sync("0s", cpu=40, memory=40))
    (lines,) = charted(record).metrics
    assert lines.unit == unit
    assert lines.value == ((40.0,) if unit == "%" else (0.4,))
    assert lines.target == {"%": 50, "cores per pod": 0.5, "bytes per pod": 2**30}[unit]


def test_a_time_without_records_has_no_chart() -> None:
    record = played(Timeline(spec(QUEUE), replicas=3), 30, 30)
    assert chart_of(MemoryRecord(), WEB, BASE, BASE + HOUR) is None
    assert chart_of(record, WEB, BASE - HOUR, BASE - 1) is None
    assert chart_of(record, WEB, BASE + 16, BASE + HOUR) is None
    assert chart_of(record, "shop/Deployment/other", BASE, BASE + HOUR) is None


def test_a_missing_value_is_a_gap() -> None:
    chart = charted(played(Timeline(spec(QUEUE), replicas=3), 30, None, 30))
    (metric,) = chart.metrics
    assert [*metric.value] == [10, None, 10]
    assert [*metric.proposal] == [3, None, 3]
    assert [*chart.current] == [3, 3, 3]


def test_a_metric_has_no_value_before_it_was_added() -> None:
    timeline = Timeline(spec(QUEUE), replicas=3)
    record = played(timeline, 30, 31)
    timeline.change(spec(external(average("5")), MAILS))
    record.keep_synced(timeline.sync("30s", queue=15, mails=20))
    queue, mails = charted(record).metrics
    assert (queue.targets, queue.target) == ((10.0, 10.0, 5.0), 5.0)
    assert (mails.targets, mails.value) == ((None, None, 10.0), (None, None, 6.667))


def test_counts_and_marks_are_shown_without_a_lost_entry() -> None:
    record = played(Timeline(spec(QUEUE), replicas=3), 30, 60, 60)
    lost = MemoryRecord()
    for change in reversed(record.changes([WEB], BASE, BASE + HOUR, limit=9)):
        lost.keep_change(change)
    for sample in record.samples(WEB, BASE, BASE + HOUR):
        lost.keep_sample(WEB, sample)
    chart = charted(lost)
    assert (chart.current, chart.maximum) == ((3, 3, 6), (100, 100, 100))
    assert chart.metrics == ()
    assert len(chart.marks) == 1


# -- shades and marks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extensions", "queues", "kind", "span"),
    [
        (Extensions(), [30, None, None, 30, 30], ShadeKind.FAILING, (15, 45)),
        (Extensions(pause=Pause()), [30, 30, 30], ShadeKind.PAUSED, (0, 30)),
        (Extensions(fallback=Fallback(3, 1)), [None] * 3, ShadeKind.FALLBACK, (0, 30)),
    ],
)
def test_a_shade_lasts_from_the_first_sync_to_the_end_of_a_state(
    extensions: Extensions, queues: list[float | None], kind: ShadeKind, span: tuple[float, float]
) -> None:
    record = played(Timeline(spec(QUEUE), replicas=3, extensions=extensions), *queues)
    chart = charted(record)
    assert (kind, *span) in shaded(chart)
    if kind is ShadeKind.FAILING:
        assert len(chart.shades) == 1
        assert "no answer for queue" in chart.shades[0].text


def test_a_lapse_is_a_gap_in_every_line() -> None:
    timeline = Timeline(spec(QUEUE), replicas=3)
    record = played(timeline, None, None).keep_lapse(WEB, BASE + 15, BASE + 300)
    record.keep_synced(timeline.sync("5m", queue=None)).keep_synced(
        timeline.sync("315s", queue=None)
    )
    chart = charted(record)
    gap = index_at(chart, 100)
    lines = (chart.current, chart.desired, chart.minimum, chart.maximum)
    assert [line[gap] for line in lines] == [None] * 4
    assert chart.metrics[0].targets[gap] is None
    assert chart.current[index_at(chart, 300)] == 3
    assert shaded(chart) == [
        (ShadeKind.FAILING, 0, 15),
        (ShadeKind.LAPSE, 15, 300),
        (ShadeKind.FAILING, 300, 315),
    ]


def test_times_before_the_record_and_after_now_are_shaded() -> None:
    timeline = Timeline(spec(QUEUE), replicas=3)
    record = played(timeline, 30, 30, 30).keep_lapse(WEB, BASE + 30, BASE + 100)

    lapse, future = (ShadeKind.LAPSE, 30, 100), (ShadeKind.FUTURE, 100, 300)
    assert shaded(charted(record, -60, 300, now=BASE + 100)) == [
        (ShadeKind.BEFORE, -60, 0),
        lapse,
        future,
    ]
    assert shaded(charted(record, 0, 100, now=BASE + 100)) == [lapse]
    assert shaded(charted(record, 10, 30, now=BASE + 100)) == []


def test_the_lines_of_a_removed_target_end() -> None:
    record = played(Timeline(spec(QUEUE), replicas=3), 30, 30)
    last = known(record.change_at(WEB, BASE + 15))
    removed = replace(last, id=9, time=BASE + 30, marks=Mark.REMOVED, message="removed")
    record.keep_change(removed).keep_sample("other", Sample(BASE + 90, (1, 1)))
    record.keep_lapse(WEB, BASE + 30, math.inf)  # as a record in a file tells it
    chart = charted(record)
    assert (chart.current[-1], chart.maximum[-1]) == (None, None)
    assert shaded(chart) == [(ShadeKind.REMOVED, 30, 90)]


def test_each_change_of_the_count_is_a_mark_with_its_author() -> None:
    timeline = Timeline(spec(QUEUE), replicas=3)
    record = played(timeline, 30, 60, 60)
    record.keep_synced(timeline.by_hand(9, "kubectl").sync("45s", queue=90))
    ours, foreign = charted(record).marks
    assert (ours.time, ours.kind, ours.before, ours.after) == (BASE + 15, MarkKind.OURS, 3, 6)
    assert ours.text.startswith("scaled 3 -> 6: queue above target")
    assert (foreign.time, foreign.kind) == (BASE + 45, MarkKind.FOREIGN)
    assert (foreign.before, foreign.after) == (6, 9)
    assert foreign.text == '"kubectl" set the replicas: 6 -> 9'


def test_marks_near_one_another_are_one() -> None:
    queues = [30, 60] * 40
    flags = Flags(downscale_stabilization=0.0)
    record = played(Timeline(spec(QUEUE), replicas=3, flags=flags), *queues)
    chart = charted(record, most_points=20)
    assert len(chart.marks) <= 20
    assert chart.marks[-1].text.endswith("6 replicas")
    assert "changes: " in chart.marks[-1].text


# -- fewer points --------------------------------------------------------------------------------


def walk(seed: int, count: int) -> list[Sample]:
    """Return samples whose count now and then leaps for one sync."""
    chance, samples = Random(seed), []  # noqa: S311 - no secret
    for index in range(count):
        leap = chance.random() < 0.01
        replicas = chance.choice([1, 2, 40, 60]) if leap else 5 + index // 500
        value = chance.randint(0, 10**6)
        numbers = (replicas, replicas, value, value // 10**5)
        samples.append(Sample(BASE + 15 * index, numbers))
    return samples


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), most=st.integers(60, 400))
def test_sampling_keeps_the_extremes_of_the_count(seed: int, most: int) -> None:
    samples = walk(seed, 900)
    rows = rows_of(samples, [], BASE, BASE + 900 * 15)
    kept = sampled_indexes(rows, BASE, BASE + 900 * 15, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    assert kept[-1] == len(rows) - 1
    bucket = 900 * 15 / (most // 8)
    for begin in range(0, 900 * 15, 900):
        counts = _counts(samples, begin, begin + 900)
        near = _counts([rows[index] for index in kept], begin - bucket, begin + 900 + bucket)
        assert min(near) <= min(counts)
        assert max(near) >= max(counts)


def _counts(rows: Iterable[ChartRow | Sample], begin: float, end: float) -> list[int]:
    """Return the counts from one second up to another."""
    return [row.numbers[0] or 0 for row in rows if begin <= row.time - BASE < end]


def test_sampling_keeps_the_extremes_of_values() -> None:
    record = played(Timeline(spec(QUEUE), replicas=3), *[30 + index % 3 for index in range(200)])
    whole = charted(record).metrics[0]
    few = charted(record, most_points=8)
    assert len(few.times) <= 8
    values = [value for value in whole.value if value is not None]
    assert {*few.metrics[0].low} == {min(values)} | {few.metrics[0].low[-1]}
    assert {*few.metrics[0].high} == {max(values)} | {few.metrics[0].high[-1]}


def test_a_minute_has_the_extremes_of_its_values() -> None:
    record = played(Timeline(spec(QUEUE), replicas=3), 30)
    minute = Sample(BASE + 60, (3, 3, 9000, 3), 60.0, (2, 3, 4000, 2), (8, 3, 9500, 4))
    (queue,) = charted(record.keep_sample(WEB, minute)).metrics
    assert (queue.low[1], queue.high[1], queue.value[1]) == (4, 9.5, 9)
    rows = rows_of([Sample(BASE, (3, 3, 9, 3)), minute], [], BASE, BASE + 300)
    counts = [(row.time - BASE, row.numbers[0]) for row in rows]
    assert counts == [(0, 3), (60, 3), (300, 3)]


def test_extremes_end_when_a_metric_is_replaced() -> None:
    timeline = Timeline(spec(QUEUE), replicas=3)
    record = played(timeline, *[30 + index % 3 for index in range(100)])
    timeline.change(spec(MAILS))
    for index in range(100, 200):
        record.keep_synced(timeline.sync(f"{15 * index}s", mails=90))
    chart = charted(record, most_points=8)
    queue, mails = chart.metrics
    assert max(value for value in queue.high if value is not None) == 10.667
    assert min(value for value in mails.low if value is not None) == 10


def test_a_lapse_shorter_than_a_bucket_is_shown() -> None:
    samples = [Sample(BASE + 15 * index, (3, 3, index, 3)) for index in range(1000)]
    rows = rows_of(samples, [Lapse(BASE + 7501, BASE + 7509)], BASE, BASE + 15000)
    kept = sampled_indexes(rows, BASE, BASE + 15000, 20)
    assert [rows[index].numbers for index in kept].count(()) == 1
    assert len(kept) <= 20
