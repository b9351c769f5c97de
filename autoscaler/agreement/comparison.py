"""Compares a target in shadow with the HPA that controls its workload (semantics 8.11).

Both counts are step functions of time. An interval in which one of them may have changed is
classified one period later, when the next sync of each is known.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import TypeVar

from autoscaler.agreement.differences import Counterpart, counterpart_of
from autoscaler.core.decision import Calculation, Outcome
from autoscaler.core.history import GAP_PERIODS
from autoscaler.core.observation import Hpa, HpaStatus, Scale
from autoscaler.core.spec import Behavior, Flags, MetricSpec, down_window, name_of
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.persistence.record.agreement import (
    Agreement,
    AgreementInterval,
    DifferingReading,
    joined,
)
from autoscaler.rendering.hpa import inactive_text, undecided_text

HPA_PERIOD_SECONDS = 15.0
"""The HPA's sync period, unless its controller's flag says otherwise."""
_SLACK_SECONDS = 1.5
"""An HPA's delay beyond its period, since it waits that long after each reconcile."""
_ROUNDED_PERCENT, _ROUNDED_MILLI = 1, 3
"""The part of a value that is lost in rounding, in either autoscaler."""
_LEAST_PART = 0.01
"""Readings that differ by less, as a part of the value, count as equal."""
_CALM_SECONDS = 60.0
"""While nothing changes, time is classified in intervals of this length."""

_TIME = attrgetter("time")


@dataclass(frozen=True, slots=True)
class _Point:
    """One sync of the target; ``why`` is the reason if its count cannot be compared."""

    time: float
    current: int | None
    desired: int
    values: tuple[int | None, ...] = ()
    totals: tuple[int | None, ...] = ()
    """The sum over all replicas, where the value is per replica."""
    why: str = ""

    @property
    def counts(self) -> tuple[object, ...]:
        """Everything but the time and the values."""
        return self.current, self.desired, self.why


_Step = TypeVar("_Step", _Point, HpaStatus)


class HpaComparison:
    """Compares one target with its HPA: takes each sync, returns the completed intervals."""

    def __init__(self) -> None:
        self._points: list[_Point] = []
        self._statuses: list[HpaStatus] = []
        self._began = self._judged = 0.0
        self._window = self._around = 0.0
        self._target: Target | None = None
        self._hpa: Hpa | None = None
        self._counterpart = Counterpart()

    def add(self, result: SyncResult) -> list[AgreementInterval]:
        """Take a sync; return the intervals that it completes, in order."""
        now, target = result.decision.stamp, result.target
        found: list[AgreementInterval] = []
        last = self._points[-1].time if self._points else None
        if last is None or now <= last:  # The clock was set back: instants are no longer in order.
            self._restart(now)
        elif now - last > (GAP_PERIODS + 0.5) * target.sync_period:
            why = "nothing was decided here for more than three periods"
            found = [AgreementInterval(self._judged, now, Agreement.NOT_COMPARED, why=why)]
            self._restart(now)
        self._note_hpa(result, now)
        self._points.append(_point(result))
        return [*found, *self._judge_until(now - self._around)]

    def rest(self) -> list[AgreementInterval]:
        """Return the remaining intervals, at the end of the comparison."""
        if not self._points:
            return []
        return self._judge_until(self._points[-1].time - self._around, at_once=True)

    def _restart(self, now: float) -> None:
        self._points, self._statuses = [], []
        self._began = self._judged = now

    def _note_hpa(self, result: SyncResult, now: float) -> None:
        """Add new statuses; compare both configurations again if one of them has changed."""
        hpa, target, before = result.decision.hpa, result.target, self._hpa
        name = None if hpa is None else hpa.name
        theirs = None if hpa is None else hpa.spec
        if name != (None if before is None else before.name):
            self._statuses, self._began = [], now
        if target != self._target or theirs != (None if before is None else before.spec):
            self._counterpart = counterpart_of(target, result.flags, theirs)
        if hpa is not before or target != self._target:
            specs = [target.spec] if theirs is None else [target.spec, theirs]
            self._window = max(_longest_window(spec.behavior, result.flags) for spec in specs)
            self._around = max(target.sync_period, HPA_PERIOD_SECONDS) + _SLACK_SECONDS
        self._hpa, self._target = hpa, target
        last = self._statuses[-1].time if self._statuses else float("-inf")
        for status in () if hpa is None else hpa.statuses:
            # A status that was received before the clock was set back is not from the future.
            if min(status.time, now) > last:
                self._statuses.append(replace(status, time=min(status.time, now)))

    # -- the times that are known ------------------------------------------------------------------

    def _judge_until(self, end: float, *, at_once: bool = False) -> list[AgreementInterval]:
        begin = self._judged
        if end <= begin or (end - begin < _CALM_SECONDS and not at_once and self._is_calm(begin)):
            return []
        changes = {observation.time for observation in self._points} | {
            observation.time for observation in self._statuses
        }
        changes.add(self._began + self._window)
        cuts = [begin, *sorted(time for time in changes if begin < time < end), end]
        found: list[AgreementInterval] = []
        for piece in pairwise(cuts):
            stretch = self._stretch(*piece)
            both = joined(found[-1], stretch) if found else None
            found[-1:] = [both] if both is not None else [*found[-1:], stretch]
        self._judged = end
        self._points = self._points[_first(self._points, end - self._around) :]
        self._statuses = self._statuses[_first(self._statuses, end - self._around) :]
        return found

    def _is_calm(self, begin: float) -> bool:
        """Return whether nothing has changed since an instant."""
        is_new = bool(self._statuses) and self._statuses[-1].time > begin
        return not is_new and len({point.counts for point in self._points}) == 1

    def _stretch(self, begin: float, end: float) -> AgreementInterval:
        """Classify an interval in which neither count changes."""
        point = self._points[_first(self._points, begin)]
        known = bisect_right(self._statuses, begin, key=_TIME)
        status = self._statuses[known - 1] if known else None
        why = self._why_not(point, status, begin)
        if why or status is None:
            return AgreementInterval(begin, end, Agreement.NOT_COMPARED, why=why)
        ours, theirs = point.desired, status.desired_replicas
        if ours == theirs:
            return AgreementInterval(begin, end, Agreement.EQUAL)
        points, statuses = self._near(self._points, begin), self._near(self._statuses, begin)
        step, their_step = point.current, status.current_replicas
        here = any((point.current, point.desired) == (their_step, theirs) for point in points)
        there = any(
            (status.current_replicas, status.desired_replicas) == (step, ours)
            for status in statuses
        )
        if here or there:
            return AgreementInterval(begin, end, Agreement.WITHIN_PERIOD)
        readings = tuple(self._readings(points, point, status)) if step == their_step else ()
        fields = self._counterpart.fields
        return AgreementInterval(begin, end, Agreement.DIFFERENT, ours, theirs, fields, readings)

    def _near(self, steps: Sequence[_Step], instant: float) -> Sequence[_Step]:
        """Return the steps from the last before an instant to the next one, within one period."""
        last = bisect_right(steps, instant + self._around, key=_TIME)
        return steps[_first(steps, instant - self._around) : last]

    def _why_not(self, point: _Point, status: HpaStatus | None, now: float) -> str:
        """Return why the counts cannot be compared; empty if they can."""
        if self._hpa is None:
            return "no HorizontalPodAutoscaler of it is known"
        if status is None:
            return undecided_text(self._hpa)
        if now < self._began + self._window:
            return "the first stabilization window after a start has not ended"
        spec = self._hpa.spec
        if point.current == 0 and (spec is None or spec.min_replicas > 0):
            return "at 0 replicas the HPA is disabled"
        there = "" if spec is None else _without_value(spec.metrics, status.values, "there")
        return inactive_text(status) or there or point.why

    def _readings(
        self, near: Sequence[_Point], point: _Point, status: HpaStatus
    ) -> Iterator[DifferingReading]:
        """Yield the metrics whose HPA value is not among the readings of the last period."""
        metrics = () if self._target is None else self._target.spec.metrics
        columns = (
            metrics,
            self._counterpart.metrics,
            point.values,
            *(reading.totals for reading in near),
        )
        for metric, index, ours, *totals in zip(*columns, strict=False):
            theirs = None if index is None or index >= len(status.values) else status.values[index]
            known = [total for total in totals if total is not None]
            if ours is None or theirs is None or not known:
                continue
            percent = metric.target.average_utilization is not None
            lost = _ROUNDED_PERCENT if percent else _ROUNDED_MILLI
            replicas = status.current_replicas
            total = _total(metric, theirs, replicas)
            slack = max(_total(metric, lost, replicas), _LEAST_PART * abs(total))
            if not min(known) - slack <= total <= max(known) + slack:
                yield DifferingReading(name_of(metric), ours, theirs, percent)


def _first(steps: Sequence[_Step], instant: float) -> int:
    """Return the index of the step in force at an instant; 0 before the first."""
    return max(0, bisect_right(steps, instant, key=_TIME) - 1)


def _longest_window(behavior: Behavior | None, flags: Flags) -> float:
    up = None if behavior is None else behavior.scale_up.stabilization_window_seconds
    return max(down_window(behavior, flags), float(up or 0))


def _point(result: SyncResult) -> _Point:
    decision = result.decision
    scale, stamp = decision.scale, decision.stamp
    if not isinstance(scale, Scale):
        return _Point(stamp, None, 0, why="the scale was not read")
    values = tuple(
        result.outcome.current.number if isinstance(result.outcome, Calculation) else None
        for result in decision.metrics
    )
    metrics = [result.metric for result in decision.metrics]
    totals = tuple(
        None if value is None else _total(metric, value, scale.status_replicas)
        for metric, value in zip(metrics, values, strict=True)
    )
    why = _without_value(metrics, values, "here")
    if not decision.metrics and decision.outcome is Outcome.BLOCKED:
        why = "nothing could be decided here"
    return _Point(stamp, scale.spec_replicas, decision.desired, values, totals, why)


def _total(metric: MetricSpec, value: int, replicas: int) -> int:
    """Return the sum over all replicas of a value per replica."""
    of_one = metric.of_pods or metric.target.average_value is not None
    return value * (replicas or 1) if of_one else value


def _without_value(metrics: Sequence[MetricSpec], values: Sequence[int | None], where: str) -> str:
    """Return the names of the metrics without a value; empty if all have one."""
    names = [
        name_of(metric) for metric, value in zip(metrics, values, strict=False) if value is None
    ]
    return f"no value {where}: {', '.join(names)}" if names else ""
