"""What a daemon has recorded, as the data of a rehearsal.

The record has of each sync the count and, of each metric, the value as its target is and what it
proposed.  An average is rounded there: of the totals that it may have come from, one is taken that
leads to the proposal.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from autoscaler.core.calculator import propose
from autoscaler.core.classification import Mark
from autoscaler.core.decision import Calculation
from autoscaler.core.observation import Pod, PodRequests, Scale, Values
from autoscaler.core.per_pod import MetricContext
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import (
    ConditionStatus,
    ContainerResourceMetric,
    Flags,
    MetricSpec,
    ResourceMetric,
    Tolerance,
    tolerance_of,
)
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.building import BuildError, RehearsalData, metric_name, other_queries
from autoscaler.lab.engine.loads import Average, Totals, labels_of, requested_by_pod
from autoscaler.lab.engine.workloads import MOST_PODS
from autoscaler.persistence.record.reader import DirectoryRecord
from autoscaler.persistence.record.rows import Change, Lapse, Sample

_EMPTY = QueryResult(())
_NO_VALUE = QueryFailure("the record has no value of it then")
_ASK = "`autoscaler replay` asks Prometheus"
_PAGE = 1000
_MOST_CHANGES = 100_000
_MOST_ENTRIES = 50


class RecordedData(RehearsalData):
    """Fits `RehearsalData`, for targets as they were or with other settings.

    The record has of each metric a value as its target was, so only what it had then can be
    rehearsed.  Its methods raise RecordError.
    """

    def __init__(self, record: DirectoryRecord, begin: float, end: float, flags: Flags) -> None:
        self._record = record
        self._begin, self._end = begin, end
        self._flags = flags
        self._formers: dict[str, Target] = {}
        self._changes_of: tuple[str, list[Change]] = ("", [])
        self._pods_of: tuple[str, list[tuple[Pod, ...]]] = ("", [])
        """What was read last, by its target: a target is built in one go, and asks for it often."""

    def answers(self, query: QueryKey) -> Answers:
        """Fit `RehearsalData`: the record has what metrics read, and no other queries."""
        raise BuildError(f"the record has no answers to {query.promql}; ask Prometheus for them")

    def reading(self, target: Target, number: int) -> Answers:
        """Fit `RehearsalData`."""
        target, number = self._as_it_was(target, number)
        labels = labels_of(target.spec.metrics[number], target.queries[number], target.namespace)
        tolerance = tolerance_of(target.spec, self._flags)
        return _RecordedReading(self.cursor(target), target, number, tolerance, labels)

    def totals(self, target: Target, number: int) -> Totals:
        """Fit `RehearsalData`."""
        target, number = self._as_it_was(target, number)
        metric, requested = target.spec.metrics[number], None
        if isinstance(metric, ResourceMetric | ContainerResourceMetric):
            requested = requested_by_pod(metric, self.requests(target) or PodRequests(()))
        return _RecordedTotals(self.cursor(target), metric, number, requested)

    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        """Fit `RehearsalData`: bounds and holds as they were in force."""
        found: dict[QueryKey, Answers] = {}
        was = self.former(target)
        low, high, hold = was.min_replicas_query, was.max_replicas_query, was.hold
        if low is not None:
            found[low.key] = _InForce(self._changes(target), lambda one: one.min_replicas)
        if high is not None:
            found[high.key] = _InForce(self._changes(target), lambda one: one.max_replicas)
        if hold is not None:
            found[hold.query.key] = _InForce(self._changes(target), _held)
        for key in other_queries(target):
            if key not in found:
                raise BuildError(f"nothing is recorded of the query {key.promql}; {_ASK}")
        return found

    def ran(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`."""
        return _Counts(self.cursor(target))

    def ran_after(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`: what a sync wrote holds until the next one reads the count."""
        written = [one for one in self._changes(target) if one.marks & Mark.WRITTEN]
        return _Counts(self.cursor(target), written)

    def replicas(self, target: Target) -> int | None:
        """Fit `RehearsalData`."""
        for sample in self._record.samples(target.key, self._begin, self._end):
            if sample.numbers and sample.numbers[0] is not None:
                return sample.numbers[0]
        return None

    def instants(self, target: Target) -> Iterable[float] | None:
        """Fit `RehearsalData`: a sync in which no number changed was one period after another.

        With another period it is synced once in each.
        """
        is_as_it_was = target.sync_period == self.former(target).sync_period
        return _Instants(self, target) if is_as_it_was else None

    def notes(self, target: Target) -> Sequence[str]:
        """Fit `RehearsalData`: by which pauses and other autoscalers the counts came that ran."""
        marks = Mark(0)
        for change in self._changes(target):
            marks |= change.marks
        words = {
            Mark.PAUSED: "it was paused for some of the time, and is not in a rehearsal",
            Mark.CONTROLLED: "another autoscaler controlled it for some of the time",
        }
        return [sentence for mark, sentence in words.items() if marks & mark]

    def ready_seconds(self, target: Target) -> float | None:
        """Fit `RehearsalData`: the median of the pods that decisions of the time saw start."""
        took: dict[str, float] = {}
        for pods in self._pods(target):
            for pod in pods:
                if pod.ready is not ConditionStatus.TRUE or None in {
                    pod.start_time,
                    pod.ready_transition,
                }:
                    continue
                seconds = (pod.ready_transition or 0.0) - (pod.start_time or 0.0)
                # The Ready condition of a pod that is older may have changed for another reason.
                if (pod.start_time or 0.0) >= self._begin and seconds >= 0.0:
                    took[pod.name] = seconds
        return median(took.values()) if took else None

    def requests(self, target: Target) -> PodRequests | None:
        """Fit `RehearsalData`: those of a pod that a decision saw last."""
        for pods in self._pods(target):
            if pods:
                return pods[-1].requests
        return None

    def former(self, target: Target) -> Target:
        """Return a target as it was configured at the begin, by which its values are read."""
        key = target.key
        if key not in self._formers:
            self._formers[key] = self._former(target)
        return self._formers[key]

    def _as_it_was(self, target: Target, number: int) -> tuple[Target, int]:
        """Return a target as it was, and the number that a metric had.  Raises BuildError."""
        was, metric, asked = (
            self.former(target),
            target.spec.metrics[number],
            target.queries[number],
        )
        for known, (other, query) in enumerate(zip(was.spec.metrics, was.queries, strict=True)):
            same_metric = type(other) is type(metric) and metric_name(other) == metric_name(metric)
            if same_metric and query.key == asked.key:
                return was, known
        raise BuildError(
            f"nothing is recorded of the metric {metric_name(metric)} with this query; the record "
            f"has {', '.join(map(metric_name, was.spec.metrics))} with the queries of then; {_ASK}"
        )

    def _former(self, target: Target) -> Target:
        key = target.key
        change = self._record.change_at(key, self._begin)
        if change is None:
            later = self._record.changes([key], self._begin, self._end, limit=_PAGE)
            change = later[-1] if later else None
        entry = None if change is None else self._record.entry_or_none(change)
        return target if entry is None else entry.target

    def lapses(self, target: Target) -> Sequence[Lapse]:
        """Return when nothing was recorded of a target."""
        return self._record.lapses(target.key, self._begin, self._end)

    def cursor(self, target: Target) -> "_Cursor":
        """Return the samples of a target, from the begin on."""
        samples = self._record.samples(target.key, self._begin, self._end)
        return _Cursor(samples, self.lapses(target))

    def stamps(self, target: Target) -> Iterator[float]:
        """Yield the instants of the syncs; one that has no sample is a period after another."""
        period, lapses = target.sync_period, self.lapses(target)
        last = None
        for sample in self._record.samples(target.key, self._begin, self._end):
            yield from _between(last, sample.time, period, lapses)
            if sample.time >= self._begin:
                yield sample.time
            last = sample.time
        yield from _between(last, self._end, period, lapses)

    def _changes(self, target: Target) -> list[Change]:
        """Return the changes of a target up to the end, and the one that held at the begin."""
        if self._changes_of[0] != target.key:
            self._changes_of = target.key, self._read_changes(target)
        return self._changes_of[1]

    def _read_changes(self, target: Target) -> list[Change]:
        found: list[Change] = []
        before = None
        while len(found) < _MOST_CHANGES:
            page = self._record.changes(
                [target.key], self._begin, self._end, limit=_PAGE, before=before
            )
            found += page
            if len(page) < _PAGE:
                break
            before = page[-1].id
        held = self._record.change_at(target.key, self._begin)
        return sorted([*found, *([] if held is None else [held])], key=lambda one: one.time)

    def _pods(self, target: Target) -> list[tuple[Pod, ...]]:
        """Return the pods that decisions of the time saw, the last ones first."""
        if self._pods_of[0] != target.key:
            self._pods_of = target.key, list(self._read_pods(target))
        return self._pods_of[1]

    def _read_pods(self, target: Target) -> Iterator[tuple[Pod, ...]]:
        for change in self._record.changes(
            [target.key], self._begin, self._end, limit=_MOST_ENTRIES
        ):
            entry = self._record.entry_or_none(change)
            pods = None if entry is None else entry.inputs.observation.pods
            if isinstance(pods, tuple):
                yield pods


def _between(
    last: float | None, until: float, period: float, lapses: Sequence[Lapse]
) -> Iterator[float]:
    """Yield the syncs after one, a period after each other, that have no sample of their own."""
    number = 1
    while last is not None and (at := last + number * period) < until - period / 2:
        if not any(lapse.begin <= at < lapse.end for lapse in lapses):
            yield at
        number += 1


@dataclass(frozen=True, slots=True)
class _Instants:
    """The instants of a target's syncs, which can be gone through again."""

    data: RecordedData
    target: Target

    def __iter__(self) -> Iterator[float]:
        return self.data.stamps(self.target)


class _Cursor:
    """The sample that holds at an instant; none after a lapse until the next one."""

    def __init__(self, samples: Iterator[Sample], lapses: Sequence[Lapse]) -> None:
        self._samples = samples
        self._lapses = lapses
        self._sample: Sample | None = None
        self._next = next(samples, None)

    def at(self, instant: float) -> Sample | None:
        while self._next is not None and self._next.time <= instant:
            self._sample, self._next = self._next, next(self._samples, None)
        sample = self._sample
        if sample is None or any(sample.time <= lapse.begin < instant for lapse in self._lapses):
            return None
        return sample


@dataclass(slots=True)
class _Counts:
    """The count of each sync, or what it has ``written``, as an answer of one series."""

    cursor: _Cursor
    written: Sequence[Change] = ()
    _place: int = 0

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        sample = self.cursor.at(instant)
        count = sample.numbers[0] if sample is not None and sample.numbers else None
        while self._place < len(self.written) and self.written[self._place].time <= instant:
            self._place += 1
        last = self.written[self._place - 1] if self._place else None
        if sample is not None and last is not None and last.time >= sample.time:
            count = last.desired
        return _EMPTY if count is None else QueryResult([Series({}, float(count), instant)])


def _metric_numbers(sample: Sample | None, number: int) -> tuple[int, int | None, int] | None:
    """Return the value, the proposal and the count; None where the metric had no value."""
    place = 2 + 2 * number
    if sample is None or len(sample.numbers) <= place + 1:
        return None
    value, count = sample.numbers[place], sample.numbers[0]
    if value is None or count is None or not 0 <= count <= MOST_PODS:
        return None
    return value, sample.numbers[place + 1], count


@dataclass(slots=True)
class _RecordedReading:
    """The answers of a metric that is not of each pod: one series of all values together."""

    cursor: _Cursor
    target: Target
    number: int
    tolerance: Tolerance
    labels: Mapping[str, str]

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        sample = self.cursor.at(instant)
        if sample is None:
            return _EMPTY
        found = _metric_numbers(sample, self.number)
        if found is None:
            return _NO_VALUE
        milli = found[0]
        metric = self.target.spec.metrics[self.number]
        if metric.target.average_value is not None:
            milli = _total(metric, *found, self.tolerance)
        return QueryResult([Series(self.labels, milli / 1000, instant)])


def _total(
    metric: MetricSpec, average: int, proposal: int | None, count: int, tolerance: Tolerance
) -> int:
    """Return a total of a rounded average that leads to the proposal (semantics 2.5)."""
    most, target = average * (count or 1), metric.target.average_value or 1
    least = (average - 1) * count + 1 if count else most
    candidates = [most, least, (least + most) // 2, (proposal or 0) * target]
    reading = MetricContext(Scale(count, count, ""), (), tolerance, Flags(), 0.0)
    for total in candidates:
        if least <= total <= most and proposal is not None:
            result = propose(metric, Values((total,)), reading)
            if isinstance(result, Calculation) and result.proposal == proposal:
                return total
    return most


@dataclass(slots=True)
class _RecordedTotals:
    """The average of a metric of pods, and of how many of the pods it may have been."""

    cursor: _Cursor
    metric: MetricSpec
    number: int
    requested: float | None

    def at(self, instant: float) -> Average | QueryFailure | None:
        """Fit `Totals`."""
        sample = self.cursor.at(instant)
        if sample is None:
            return None
        found = _metric_numbers(sample, self.number)
        if found is None:
            return _NO_VALUE
        value, proposal, count = found
        average = value / 1000
        if self.metric.target.average_utilization is not None:
            # The percentage is cut off: the least usage that has it.
            average = math.ceil(value * (self.requested or 1.0) * 10) / 1000
        return Average(average, count, *_measured_pods(self.metric, value, proposal, count))


def _measured_pods(
    metric: MetricSpec, value: int, proposal: int | None, count: int
) -> tuple[int, int]:
    """Return of how many pods an average is at least and at most, by what it led to.

    A proposal of another count is the total over the target, rounded up (semantics 2.2).
    """
    least, most = min(count, 1), count
    target = metric.target.average_value or metric.target.average_utilization
    if target and value > 0 and proposal and proposal != count:
        fewest = (proposal - 1) * target // (value + 1) + 1
        found = max(fewest, least), min(proposal * target // value, most)
        if found[0] <= found[1]:
            return found
    return least, most


@dataclass(slots=True)
class _InForce:
    """What changes say was in force, as an answer of one series; no series for None."""

    changes: Sequence[Change]
    what: Callable[[Change], float | None]
    _place: int = 0

    def at(self, instant: float) -> QueryResult | QueryFailure:
        """Fit `Answers`."""
        while self._place < len(self.changes) and self.changes[self._place].time <= instant:
            self._place += 1
        value = self.what(self.changes[self._place - 1]) if self._place else None
        return _EMPTY if value is None else QueryResult([Series({}, value, instant)])


def _held(change: Change) -> float | None:
    """Return a value that holds where a hold was in force."""
    return 1.0 if change.marks & Mark.QUERY_HOLD else None
