"""The record of a daemon as the data of a replay.

The record has for each sync the count and, for each metric, the value in the unit of its target and
the proposal. An average is rounded there: of the possible totals, one is taken that leads to the
proposal.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TypeVar

from typing_extensions import override

from autoscaler.core.calculator import MetricContext, propose
from autoscaler.core.classification import Mark
from autoscaler.core.decision import Calculation
from autoscaler.core.observation import Pod, PodRequests, Scale, Values
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import ConditionStatus, Flags, MetricSpec, Tolerance, tolerance_of
from autoscaler.core.target import Query, QueryKey, Target
from autoscaler.lab.engine.answers import EMPTY, Answer, Answers
from autoscaler.lab.engine.building import BuildError, ReplayData, other_queries
from autoscaler.lab.engine.loads import Average, Totals, labels_of, requested_by_pod
from autoscaler.lab.engine.workloads import MOST_PODS
from autoscaler.persistence.record.reader import DirectoryRecord
from autoscaler.persistence.record.rows import Change, Lapse, Sample

_Cursor = Callable[[float], Sample | None]
"""Returns the sample in force at an instant, which never decreases."""
_V = TypeVar("_V")
_NO_VALUE = QueryFailure("the record has no value of it then")
_ASK = "`autoscaler replay` asks Prometheus"
_PAGE = 1000
_MOST_CHANGES = 100_000
_MOST_ENTRIES = 50


class RecordedData(ReplayData):
    """A `ReplayData` for targets as they were or with other settings.

    The record has for each metric a value for its former target, so only metrics that it had then
    can be replayed. Methods raise RecordError.
    """

    def __init__(self, record: DirectoryRecord, begin: float, end: float, flags: Flags) -> None:
        self._record = record
        self._begin, self._end = begin, end
        self._flags = flags
        self._formers: dict[str, Target] = {}
        self._changes_of: tuple[str, list[Change]] = ("", [])
        self._pods_of: tuple[str, list[tuple[Pod, ...]]] = ("", [])
        """The last read data, by target: a target is built at once, and asks for it often."""

    @override
    def answers(self, query: QueryKey) -> Answers:
        # The record has the readings of metrics, and no other queries.
        raise BuildError(f"the record has no answers to {query.promql}; ask Prometheus for them")

    @override
    def reading(self, target: Target, number: int) -> Answers:
        """Return one series with all values together, for a metric that is not per pod."""
        target, number = self._as_it_was(target, number)
        metric, cursor = target.spec.metrics[number], self._cursor(target)
        labels = labels_of(metric, target.queries[number], target.namespace)
        tolerance = tolerance_of(target.spec, self._flags)

        def answer(instant: float) -> Answer:
            sample = cursor(instant)
            if sample is None:
                return EMPTY
            found = _metric_numbers(sample, number)
            if found is None:
                return _NO_VALUE
            is_average = metric.target.average_value is not None
            milli = _total(metric, *found, tolerance) if is_average else found[0]
            return QueryResult([Series(labels, milli / 1000, instant)])

        return answer

    @override
    def totals(self, target: Target, number: int) -> Totals:
        """Return the average of a metric of pods, and the possible numbers of pods."""
        target, number = self._as_it_was(target, number)
        metric, cursor, requested = target.spec.metrics[number], self._cursor(target), 1.0
        if metric.of_resource:
            known = self.requests(target) or PodRequests(())
            requested = requested_by_pod(metric, known) or 1.0

        def total(instant: float) -> Average | QueryFailure | None:
            sample = cursor(instant)
            if sample is None:
                return None
            found = _metric_numbers(sample, number)
            if found is None:
                return _NO_VALUE
            value, proposal, count = found
            average = value / 1000
            if metric.target.average_utilization is not None:
                # The percentage is truncated: this is the least usage with it.
                average = math.ceil(value * requested * 10) / 1000
            return Average(average, count, *_measured_pods(metric, value, proposal, count))

        return total

    @override
    def others(self, target: Target) -> Mapping[QueryKey, Answers]:
        """Return bounds and holds as they were in force."""
        was = self.former(target)
        hold = None if was.hold is None else was.hold.query
        recorded: tuple[tuple[Query | None, Callable[[Change], float | None]], ...] = (
            (was.min_replicas_query, lambda change: change.min_replicas),
            (was.max_replicas_query, lambda change: change.max_replicas),
            (hold, lambda change: 1.0 if change.marks & Mark.QUERY_HOLD else None),
        )
        found = {
            query.key: _as_answers(_in_force(self._changes(target), what))
            for query, what in recorded
            if query is not None
        }
        for key in other_queries(target):
            if key not in found:
                raise BuildError(f"nothing is recorded of the query {key.promql}; {_ASK}")
        return found

    @override
    def ran(self, target: Target) -> Answers | None:
        return _counts(self._cursor(target))

    @override
    def ran_after(self, target: Target) -> Answers | None:
        """Return counts: the count that a sync wrote holds until the next one reads the count."""
        written = [change for change in self._changes(target) if change.marks & Mark.WRITTEN]
        return _counts(self._cursor(target), written)

    @override
    def replicas(self, target: Target) -> int | None:
        for sample in self._record.samples(target.key, self._begin, self._end):
            if sample.numbers and sample.numbers[0] is not None:
                return sample.numbers[0]
        return None

    @override
    def instants(self, target: Target) -> Callable[[], Iterable[float]] | None:
        """Return the syncs; one in which no number changed is assumed after each period.

        With another period it is synced once in each.
        """
        is_as_it_was = target.sync_period == self.former(target).sync_period
        return partial(self._stamps, target) if is_as_it_was else None

    @override
    def notes(self, target: Target) -> Sequence[str]:
        """Return the pauses and other autoscalers that set the actual counts."""
        marks = Mark(0)
        for change in self._changes(target):
            marks |= change.marks
        words = {
            Mark.PAUSED: "it was paused for some of the time, and is not in a replay",
            Mark.CONTROLLED: "another autoscaler controlled it for some of the time",
        }
        return [sentence for mark, sentence in words.items() if marks & mark]

    @override
    def ready_seconds(self, target: Target) -> float | None:
        """Return the median over the pods that decisions of the time saw start."""
        took: dict[str, float] = {}
        for pods in self._pods(target):
            for pod in pods:
                if pod.ready is not ConditionStatus.TRUE or None in {
                    pod.start_time,
                    pod.ready_transition,
                }:
                    continue
                seconds = (pod.ready_transition or 0.0) - (pod.start_time or 0.0)
                # The Ready condition of an older pod may have changed for another reason.
                if (pod.start_time or 0.0) >= self._begin and seconds >= 0.0:
                    took[pod.name] = seconds
        return median(took.values()) if took else None

    @override
    def requests(self, target: Target) -> PodRequests | None:
        """Return the requests of a pod in the last decision."""
        for pods in self._pods(target):
            if pods:
                return pods[-1].requests
        return None

    def former(self, target: Target) -> Target:
        """Return a target as configured at the begin, by which its values are read."""
        key = target.key
        if key not in self._formers:
            self._formers[key] = self._former(target)
        return self._formers[key]

    def _as_it_was(self, target: Target, number: int) -> tuple[Target, int]:
        """Return a target as it was, and the former number of a metric. Raises BuildError."""
        was, metric = self.former(target), target.spec.metrics[number]
        asked = target.queries[number]
        for known, (other, query) in enumerate(zip(was.spec.metrics, was.queries, strict=True)):
            same_metric = type(other) is type(metric) and other.name == metric.name
            if same_metric and query.key == asked.key:
                return was, known
        raise BuildError(
            f"nothing is recorded of the metric {metric.name} with this query; the record "
            f"has {', '.join(spec.name for spec in was.spec.metrics)} with the queries of then; "
            f"{_ASK}"
        )

    def _former(self, target: Target) -> Target:
        key = target.key
        change = self._record.change_at(key, self._begin)
        if change is None:
            later = self._record.changes([key], self._begin, self._end, limit=_PAGE)
            change = later[-1] if later else None
        entry = None if change is None else self._record.entry_or_none(change)
        return target if entry is None else entry.target

    def _lapses(self, target: Target) -> Sequence[Lapse]:
        return self._record.lapses(target.key, self._begin, self._end)

    def _cursor(self, target: Target) -> _Cursor:
        """Return the samples of a target, from the begin on."""
        samples = self._record.samples(target.key, self._begin, self._end)
        return _held_at(samples, self._lapses(target))

    def _stamps(self, target: Target) -> Iterator[float]:
        """Yield the instants of the syncs; one without a sample is a period after another."""
        period, lapses = target.sync_period, self._lapses(target)
        last = None
        for sample in self._record.samples(target.key, self._begin, self._end):
            yield from _between(last, sample.time, period, lapses)
            if sample.time >= self._begin:
                yield sample.time
            last = sample.time
        yield from _between(last, self._end, period, lapses)

    def _changes(self, target: Target) -> list[Change]:
        """Return the changes of a target up to the end, and the one in force at the begin."""
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
        return sorted([*found, *([] if held is None else [held])], key=lambda change: change.time)

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
    """Yield the syncs after another, one per period, that have no sample of their own."""
    number = 1
    while last is not None and (at := last + number * period) < until - period / 2:
        if not any(lapse.begin <= at < lapse.end for lapse in lapses):
            yield at
        number += 1


def _held_at(samples: Iterator[Sample], lapses: Sequence[Lapse]) -> _Cursor:
    """Return the sample in force at an instant; None after a lapse until the next one."""
    held: Sample | None = None
    following = next(samples, None)

    def sample(instant: float) -> Sample | None:
        nonlocal held, following
        while following is not None and following.time <= instant:
            held, following = following, next(samples, None)
        begun = math.inf if held is None else held.time
        is_lost = any(begun <= lapse.begin < instant for lapse in lapses)
        return None if is_lost else held

    return sample


def _counts(cursor: _Cursor, written: Sequence[Change] = ()) -> Answers:
    """Return the count of each sync, or the count that it has ``written``, as one series."""
    last_written = _in_force(written, lambda change: change)

    def answer(instant: float) -> Answer:
        sample, last = cursor(instant), last_written(instant)
        count = sample.numbers[0] if sample is not None and sample.numbers else None
        if sample is not None and last is not None and last.time >= sample.time:
            count = last.desired
        return EMPTY if count is None else QueryResult([Series({}, float(count), instant)])

    return answer


def _metric_numbers(sample: Sample, number: int) -> tuple[int, int | None, int] | None:
    """Return value, proposal and count; None where the metric had no value."""
    place = 2 + 2 * number
    if len(sample.numbers) <= place + 1:
        return None
    value, count = sample.numbers[place], sample.numbers[0]
    if value is None or count is None or not 0 <= count <= MOST_PODS:
        return None
    return value, sample.numbers[place + 1], count


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


def _measured_pods(
    metric: MetricSpec, value: int, proposal: int | None, count: int
) -> tuple[int, int]:
    """Return the least and the greatest number of pods of an average, from its proposal.

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


def _in_force(
    changes: Sequence[Change], what: Callable[[Change], _V]
) -> Callable[[float], _V | None]:
    """Return a value of the last change as of an instant; None before the first."""
    place = 0

    def value(instant: float) -> _V | None:
        nonlocal place
        while place < len(changes) and changes[place].time <= instant:
            place += 1
        return what(changes[place - 1]) if place else None

    return value


def _as_answers(value: Callable[[float], float | None]) -> Answers:
    """Return a value over time as answers with one series; no series for None."""

    def answer(instant: float) -> Answer:
        found = value(instant)
        return EMPTY if found is None else QueryResult([Series({}, found, instant)])

    return answer
