"""What a target in shadow and the HPA beside it have read of each metric (semantics 8.11).

The HPA reads at other instants, and rounds elsewhere: a value is another one only if ours had none
like it within one period.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import NamedTuple, TypeVar

from autoscaler.agreement.causes import Deviation, Evidence
from autoscaler.agreement.spec_differences import Counterpart
from autoscaler.core.decision import Calculation, Decision
from autoscaler.core.load_in_pods import is_divided
from autoscaler.core.observation import HpaStatus, Scale
from autoscaler.core.quick import quick
from autoscaler.core.spec import MetricSpec, measures_pods, name_of
from autoscaler.core.target import Target

HPA_PERIOD_SECONDS = 15.0
"""The HPA's sync period, unless its controller's flag says otherwise."""
_SLACK_SECONDS = 1.5
"""How much later than its period an HPA may be, since it waits that long after each reconcile."""
_CUT_MILLI = 3
"""So many milli-units of each replica are lost in rounding here and there."""
_STILL_PERIODS = 3
"""A status that is older, while our values change, has stood still."""
_MOST_ROUGH, _ROUGH = 20, 3.0
TIME = attrgetter("time")


class Value(NamedTuple):
    """What was read of a metric, in percent or milli-units, and that times the replicas.

    Where the HPA divides a value by the replicas, both are the value before that.
    """

    one: int
    all: int


@dataclass(frozen=True, slots=True)
class DifferingReading:
    """A metric with another value there, in percent or milli-units; None where it has none.

    Where the HPA divides a value by the replicas, it is the value before that.

    ``lag`` is by how many seconds earlier ours was like theirs, if it was.
    """

    index: int
    metric: str
    ours: int | None
    theirs: int | None
    lag: float | None = None
    failure: str = ""
    """Why ours has none."""
    percent: bool = False
    """Whether the values are percent of the request."""


@quick
@dataclass(frozen=True, slots=True)
class Point:
    """A sync of ours.  ``desired`` is None where the scale could not be read."""

    time: float
    current: int
    desired: int | None
    read: tuple[Value | None, ...] = ()
    failures: tuple[str, ...] = ()
    evidence: Evidence | None = None
    free: int | None = None
    """What the free run has come to; None where it has the count of the object."""
    guarded: Deviation | None = None
    """What holds the count on purpose."""
    asked: tuple[int, int] | None = None
    """The counts that the metrics ask for here and there, before they are stabilized, if known."""


_Step = TypeVar("_Step", Point, HpaStatus)


def around_of(target: Target) -> float:
    """Return how long before and after an instant the other one's count is timing, in seconds."""
    return max(target.sync_period, HPA_PERIOD_SECONDS) + _SLACK_SECONDS


def first_in_force(steps: Sequence[_Step], instant: float) -> int:
    """Return the index of the step that is in force at an instant; 0 where none is yet."""
    return max(0, bisect_right(steps, instant, key=TIME) - 1)


def in_force(steps: Sequence[_Step], begin: float, end: float) -> Sequence[_Step]:
    """Return the steps that are in force at some instant of a time; of none yet the first."""
    first = first_in_force(steps, begin)
    return steps[first : max(first + 1, bisect_right(steps, end, key=TIME))]


# -- what was read -------------------------------------------------------------------------------


def read_here(decision: Decision) -> tuple[Value | None, ...]:
    """Return what was read of each metric."""
    scale = decision.scale
    if not isinstance(scale, Scale):
        return ()
    found: list[Value | None] = []
    for result in decision.metrics:
        value, outcome = None, result.outcome
        if isinstance(outcome, Calculation):
            number = outcome.current.number
            if number is not None:
                value = _value(result.metric, number, scale.spec_replicas, scale.status_replicas)
        found.append(value)
    return tuple(found)


def read_there(
    status: HpaStatus, target: Target, counterpart: Counterpart
) -> tuple[Value | None, ...]:
    """Return what an HPA has read of each of the target's metrics."""
    found: list[Value | None] = []
    replicas = status.current_replicas
    for metric, index in zip(target.spec.metrics, counterpart.metrics, strict=False):
        number = None
        if index is not None and index < len(status.values):
            number = status.values[index]
        found.append(None if number is None else _value(metric, number, replicas, replicas))
    return tuple(found)


def _value(metric: MetricSpec, number: int, replicas: int, divided_by: int) -> Value:
    if is_divided(metric):
        total = number * (divided_by or 1)
        return Value(total, total)
    return Value(number, number * replicas if measures_pods(metric) else number)


def other_readings(
    points: Sequence[Point],
    counterpart: Counterpart,
    target: Target,
    begin: float,
    end: float,
    status: HpaStatus,
    *,
    exactly: bool = False,
) -> tuple[DifferingReading, ...]:
    """Return the metrics whose value there is none that ours had within one period.

    The controller writes no status while nothing changes: the values of one are those of all its
    reconciles until the next.
    """
    around = around_of(target)
    near = in_force(points, begin - around, end + around)
    point = in_force(points, begin, begin)[0]
    found = []
    for index, theirs in enumerate(read_there(status, target, counterpart)):
        metric = target.spec.metrics[index]
        name, percent = name_of(metric), metric.target.average_utilization is not None
        read = [one.read[index] for one in near if index < len(one.read)]
        known = [value for value in read if value is not None]
        if counterpart.metrics[index] is None:
            continue  # it is another configuration
        if theirs is None:
            if known and len(known) == len(read):
                last = known[-1].one
                found.append(DifferingReading(index, name, last, None, percent=percent))
            continue
        slack = 0.0
        if not exactly:
            slack = _slack(points, near, index, status, percent=percent)
        alls = [value.all for value in known]
        is_near = bool(alls) and min(alls) - slack <= theirs.all <= max(alls) + slack
        if is_near and not _stands_still(points, index, status, begin, around):
            continue
        value = point.read[index] if index < len(point.read) else None
        failure = point.failures[index] if index < len(point.failures) else ""
        lag = _lag(points, index, theirs.all, begin)
        ours = None if value is None else value.one
        found.append(DifferingReading(index, name, ours, theirs.one, lag, failure, percent))
    return tuple(found)


def _stands_still(
    points: Sequence[Point], index: int, status: HpaStatus, now: float, around: float
) -> bool:
    """Return whether an HPA has read nothing new for long, while our values have changed.

    It would have written a status.
    """
    if now - status.time <= _STILL_PERIODS * around:
        return False
    since = in_force(points, status.time + around, now - around)
    read = [one.read[index] for one in since if index < len(one.read)]
    known = [value.all for value in read if value is not None]
    rounded = _CUT_MILLI * max(1, status.current_replicas)
    return bool(known) and max(known) - min(known) > 2 * rounded


def _slack(
    points: Sequence[Point],
    near: Sequence[Point],
    index: int,
    status: HpaStatus,
    *,
    percent: bool,
) -> float:
    """Return how far a value between two syncs may be off the values at them.

    That is by what is lost in rounding, by as much as a bend of the values ``near`` it, and by as
    much as the values of a metric that jumps to and fro are off the line between their neighbours.
    """
    bends, off = _off(near, index), _off(points[-_MOST_ROUGH:], index)
    # prometheus-adapter cuts off thousandths of each container, and both round.
    rounded = (1 if percent else _CUT_MILLI) * max(1, status.current_replicas)
    return rounded + max(_ROUGH * median(off) if off else 0.0, *bends, 0.0)


def _off(points: Sequence[Point], index: int) -> list[float]:
    """Return how far the values are off the line between their neighbours."""
    read = [one.read[index] for one in points if index < len(one.read)]
    known = [value.all for value in read if value is not None]
    return [
        abs(middle - (first + last) / 2)
        for first, middle, last in zip(known, known[1:], known[2:], strict=False)
    ]


def _lag(points: Sequence[Point], index: int, value: int, now: float) -> float | None:
    """Return how long before an instant ours last had, or passed, a value; None if never."""
    read = [(one.time, one.read[index]) for one in points if index < len(one.read)]
    known = [(time, own.all) for time, own in read if own is not None and time <= now]
    passed = [
        time
        for (_, before), (time, after) in pairwise(known)
        if min(before, after) <= value <= max(before, after)
    ]
    return now - passed[-1] if passed else None
