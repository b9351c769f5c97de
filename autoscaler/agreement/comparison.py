"""How a target in shadow and the HorizontalPodAutoscaler beside it agree (semantics 8.11).

Both counts are steps over time.  They are compared between all instants at which one of them may
have changed, one period later: then it is known whether the other one came to the same count.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter

from autoscaler.agreement.causes import (
    Deviation,
    Evidence,
    evidence_of,
    guard_of,
    held_there,
    proposal_there,
)
from autoscaler.agreement.free_run import FreeRun, Left, free_run
from autoscaler.agreement.readings import (
    TIME,
    DifferingReading,
    Point,
    around_of,
    first_in_force,
    in_force,
    other_readings,
    read_here,
    read_there,
)
from autoscaler.agreement.spec_differences import (
    NO_COUNTERPART,
    Counterpart,
    FieldDifference,
    counterpart_of,
)
from autoscaler.core.decision import MetricFailure
from autoscaler.core.history import GAP_PERIODS
from autoscaler.core.observation import (
    Hpa,
    HpaStatus,
    Observation,
    Pod,
    Scale,
    Unavailable,
    undecided_text,
)
from autoscaler.core.quick import changed, quick
from autoscaler.core.spec import Flags, down_window
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target

_MOST_POINTS, _MOST_MEMORIES = 64, 16
_LONGEST_MEMORY_SECONDS = 3600.0
_LONGEST_LAG_SECONDS = 600.0
_BOUNDS = frozenset({"minReplicas", "maxReplicas"})
_FIRST_WINDOW = "this target was not decided here for a whole stabilization window yet"
_CALM_SECONDS = 60.0
"""A time in which nothing changes is told in such pieces."""
_SAID = attrgetter(
    *("current", "desired", "read", "failures", "evidence", "free", "guarded", "asked")
)


class Agreement(StrEnum):
    """Whether both counts are the same at an instant, and why not."""

    EQUAL = "equal"
    TIMING = "timing"
    """The other one has, or has passed, the same count within one period."""
    SAMPLING = "sampling"
    """Either holds what it was asked for at an instant at which the other one did not read."""
    READING = "reading"
    """A metric was read as another value."""
    CONFIGURATION = "configuration"
    """Fields of the spec, or flags of the controller, differ."""
    DEVIATION = "deviation"
    """One of the differences from the HPA on purpose."""
    UNKNOWN = "unknown"
    NOT_COMPARED = "notCompared"
    """One of the two counts is not known."""


@quick
@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in Unix seconds with one cause; the counts are those of it that differ most."""

    begin: float
    end: float
    agreement: Agreement
    ours: int = 0
    theirs: int = 0
    fields: tuple[FieldDifference, ...] = ()
    readings: tuple[DifferingReading, ...] = ()
    deviation: Deviation | None = None
    remembered: float | None = None
    """Since when a count is held that only one of both has been asked for; None if none is."""
    why: str = ""
    """Why nothing is compared."""

    @property
    def cause(self) -> tuple[object, ...]:
        """What stretches that follow each other have in common if they are one."""
        fields = tuple(one.field for one in self.fields)
        metrics = tuple(one.index for one in self.readings)
        return self.agreement, fields, metrics, self.deviation, self.why


def extended(last: Stretch, following: Stretch) -> Stretch | None:
    """Return two stretches as one, if they are: with the counts that differ most."""
    if last.end != following.begin or last.cause != following.cause:
        return None
    most = max(last, following, key=_distance)
    return replace(most, begin=last.begin, end=following.end)


def _distance(one: Stretch) -> tuple[float, float]:
    """Return how far the counts are apart, and then the readings as parts of ours."""
    parts = (
        abs(each.theirs - each.ours) / abs(each.ours)
        for each in one.readings
        if each.ours and each.theirs is not None
    )
    return abs(one.ours - one.theirs), max(parts, default=0.0)


@dataclass(frozen=True, slots=True)
class RememberedSync:
    """A sync in which metrics asked for other counts here and there: either may be held later."""

    time: float
    ours: int
    theirs: int
    readings: tuple[DifferingReading, ...] = ()
    fields: tuple[FieldDifference, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class HpaComparison:
    """What is remembered of a target's comparison between two syncs; a new one is empty."""

    points: tuple[Point, ...] = ()
    statuses: tuple[HpaStatus, ...] = ()
    began: float = 0.0
    """The first sync."""
    judged: float | None = None
    """Until when it is known how both agree."""
    memories: tuple[RememberedSync, ...] = ()
    free: FreeRun | None = None
    """The free run, where its count is another than that of the object."""
    target: Target | None = None
    hpa: Hpa | None = None
    counterpart: Counterpart = NO_COUNTERPART

    @property
    def free_count(self) -> int | None:
        """What the free run has come to."""
        if self.free is not None:
            return self.free.count
        return self.points[-1].current if self.points else None


def compared(
    before: HpaComparison, result: SyncResult
) -> tuple[HpaComparison, tuple[Stretch, ...]]:
    """Take a sync to the comparison; return what became known by it, in order."""
    decision, target = result.decision, result.target
    hpa = decision.hpa
    now, last = decision.stamp, before.points[-1] if before.points else None
    if last is not None and now <= last.time:
        # The clock was set back: nothing of it can be put in order.
        before, last = HpaComparison(), None
    state = _with_counterpart(before, result, hpa)
    if last is not None and now - last.time > (GAP_PERIODS + 0.5) * target.sync_period:
        gap = _not_compared(state.judged, now, "this process made no decision")
        state = replace(state, points=(), memories=(), judged=now, free=None)
    else:
        gap = ()
    statuses = _joined(state.statuses, () if hpa is None else hpa.statuses, now)
    left = None
    if state.points and state.points[-1].desired is not None:
        left = Left(state.points[-1].current, state.points[-1].desired, state.points[-1].time)
    free = free_run(state.free, left, result)
    point = _point(result, statuses, state)
    if free is not None:
        point = changed(point, free=free.count)
    if not state.points:
        state = changed(state, began=now)
    state = changed(
        state,
        points=_appended(state.points, point),
        statuses=statuses,
        judged=now if state.judged is None else state.judged,
        free=free,
    )
    state, stretches = _judged(state, target, now)
    return state, (*gap, *stretches)


def ended(state: HpaComparison) -> tuple[Stretch, ...]:
    """Return what is left to be said of a comparison that ends, as far as it can be known."""
    if state.target is None or not state.points:
        return ()
    end = state.points[-1].time + around_of(state.target)
    return _judged(state, state.target, end, at_once=True)[1]


def _not_compared(begin: float | None, end: float, why: str) -> tuple[Stretch, ...]:
    if begin is None or begin >= end:
        return ()
    return (Stretch(begin, end, Agreement.NOT_COMPARED, why=why),)


def _with_counterpart(state: HpaComparison, result: SyncResult, hpa: Hpa | None) -> HpaComparison:
    """Compare both configurations again where one of them is another."""
    known = state.hpa
    same = (hpa is None and known is None) or (
        hpa is not None and known is not None and (hpa.name, hpa.spec) == (known.name, known.spec)
    )
    if same and state.target == result.target:
        return state
    if known is None or hpa is None or hpa.name != known.name:
        state = replace(state, statuses=())
    counterpart = NO_COUNTERPART
    if hpa is not None:
        counterpart = counterpart_of(result.target, result.flags, hpa)
    return replace(state, target=result.target, hpa=hpa, counterpart=counterpart)


def _joined(
    known: Sequence[HpaStatus], seen: Sequence[HpaStatus], now: float
) -> tuple[HpaStatus, ...]:
    """Add the statuses that are new; they come in the order of their times."""
    last = known[-1].time if known else float("-inf")
    # One that was received before the clock was set back is not from the future.
    new = (one if one.time <= now else replace(one, time=now) for one in seen)
    return (*known, *(one for one in new if one.time > last))[-_MOST_POINTS:]


def _appended(points: tuple[Point, ...], point: Point) -> tuple[Point, ...]:
    """Add a sync; of many that are alike only the first and the last are kept."""
    if points and points[-1].read == point.read:
        point = changed(point, read=points[-1].read)
    if len(points) > 1 and point.evidence is None:
        said = _SAID(point)
        if _SAID(points[-1]) == said == _SAID(points[-2]):
            return (*points[:-1], point)
    return (*points, point)[-_MOST_POINTS:]


# -- one sync ------------------------------------------------------------------------------------


def _point(result: SyncResult, statuses: Sequence[HpaStatus], state: HpaComparison) -> Point:
    """Return the sync as a point; why it is not as the HPA has decided is looked for at once."""
    decision, scale, counterpart = result.decision, result.decision.scale, state.counterpart
    read = read_here(decision)
    failures = tuple(
        one.outcome.message if isinstance(one.outcome, MetricFailure) else ""
        for one in decision.metrics
    )
    if not isinstance(scale, Scale):
        return Point(decision.stamp, 0, None, read, failures)
    point = Point(
        decision.stamp,
        scale.spec_replicas,
        decision.desired,
        read,
        failures,
        guarded=guard_of(decision),
    )
    status = statuses[-1] if statuses else None
    if status is None:
        return point
    theirs, combined = read_there(status, result.target, counterpart), decision.combination
    values = [None if value is None else value.one for value in theirs]
    asked = evidence = None
    if combined is not None:
        there: int | None = combined.after
        if theirs != read or counterpart.others:
            there = proposal_there(result, status, values, counterpart)
        asked = None if there is None else (combined.after, there)
    unmoved = _unmoved(result, scale, state.points[-1] if state.points else None)
    own = result if unmoved is None else unmoved
    if own.decision.desired != status.desired_replicas:
        around = around_of(result.target)
        evidence = evidence_of(own, status, values, counterpart, around)
    return changed(point, asked=asked, evidence=evidence)


def _unmoved(result: SyncResult, scale: Scale, last: Point | None) -> SyncResult | None:
    """Decide again as if nobody had changed the count since the last sync.

    A target in shadow follows the count: to stay where the HPA has brought it is no agreement with
    that.  None where the count was not changed, or where another one is wanted.
    """
    if last is None or last.desired is None or last.current == scale.spec_replicas:
        return None
    if result.decision.desired != scale.spec_replicas:
        return None
    left = replace(scale, spec_replicas=last.current, status_replicas=last.current)
    inputs = result.inputs
    seen = replace(inputs.observation, scale=left, pods=_oldest(inputs.observation, last.current))
    return step_of(result.rules, replace(inputs, observation=seen)).result


def _oldest(observation: Observation, count: int) -> tuple[Pod, ...] | Unavailable | None:
    """Return so many pods, the oldest ones: what was added to them has started others."""
    pods = observation.pods
    if not isinstance(pods, tuple) or len(pods) <= count:
        return pods
    started = sorted(pods, key=lambda pod: math.inf if pod.start_time is None else pod.start_time)
    return tuple(started[:count])


def _kept(
    memories: tuple[RememberedSync, ...], new: RememberedSync, now: float
) -> tuple[RememberedSync, ...]:
    """Keep the last memories; of those that follow with the same counts the last."""
    if memories and memories[0].time < now - _LONGEST_MEMORY_SECONDS:
        memories = memories[1:]
    if memories and (memories[-1].ours, memories[-1].theirs) == (new.ours, new.theirs):
        memories = memories[:-1]
    return (*memories, new)[-_MOST_MEMORIES:]


# -- one time ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """A time in which both counts stay: after the own ``point``, and under a ``status``."""

    begin: float
    end: float
    point: Point
    status: HpaStatus | None


def _judged(
    state: HpaComparison, target: Target, now: float, *, at_once: bool = False
) -> tuple[HpaComparison, tuple[Stretch, ...]]:
    """Judge all that is older than one period, and forget what nothing later needs."""
    around = around_of(target)
    begin, end = state.judged, now - around
    if begin is None or end <= begin or not state.points:
        return state, ()
    if not at_once and end - begin < _CALM_SECONDS and _is_calm(state, begin):
        return state, ()
    memories = state.memories
    for point in in_force(state.points, begin, end):
        if point.asked is not None and begin < point.time <= end:
            memory = _memory(state, target, point, *point.asked)
            memories = memories if memory is None else _kept(memories, memory, end)
    if memories is not state.memories:
        state = replace(state, memories=memories)
    stretches: list[Stretch] = []
    for piece in _pieces(state, begin, end):
        found = _stretch(state, target, piece)
        joined = extended(stretches[-1], found) if stretches else None
        if joined is None:
            stretches.append(found)
        else:
            stretches[-1] = joined
    oldest = end - around
    points = first_in_force(state.points, oldest - _LONGEST_LAG_SECONDS)
    statuses = first_in_force(state.statuses, oldest)
    state = changed(
        state,
        judged=end,
        points=state.points[points:],
        statuses=state.statuses[statuses:],
    )
    return state, tuple(stretches)


def _is_calm(state: HpaComparison, begin: float) -> bool:
    """Return whether both have wanted the same, and nothing has changed, since an instant."""
    if len(state.points) < 2 or not state.statuses:
        return False
    before, last = state.points[-2:]
    status = state.statuses[-1]
    wanted = before.desired == last.desired == status.desired_replicas
    return wanted and max(before.time, status.time) <= begin and last.free is None


def _memory(
    state: HpaComparison, target: Target, point: Point, ours: int, theirs: int
) -> RememberedSync | None:
    """Return a sync to remember, with why only one of both was asked for its count.

    None where the other one was asked for as much within one period: it remembers that too.
    """
    if ours == theirs:
        return None
    around = around_of(target)
    near = in_force(state.points, point.time - around, point.time + around)
    asked = [one.asked for one in near if one.asked is not None]
    more, less = (0, 1) if ours > theirs else (1, 0)
    has_peak = any(counts[less] >= max(ours, theirs) for counts in asked)
    has_low = any(counts[more] <= min(ours, theirs) for counts in asked)
    if has_peak and has_low:
        return None
    statuses = in_force(state.statuses, point.time, point.time)
    readings = other_readings(
        state.points, state.counterpart, target, point.time, point.time, statuses[0]
    )
    targets = [one for one in state.counterpart.differences if one.field.startswith("metrics")]
    return RememberedSync(point.time, ours, theirs, readings, () if readings else tuple(targets))


def _pieces(state: HpaComparison, begin: float, end: float) -> Iterator[_Piece]:
    points, statuses = in_force(state.points, begin, end), in_force(state.statuses, begin, end)
    changes = {one.time for one in points} | {one.time for one in statuses}
    cuts = [begin, *sorted(at for at in changes if begin < at < end), end]
    for first, last in pairwise(cuts):
        (point,) = in_force(points, first, first)
        known = bisect_right(statuses, first, key=TIME)
        yield _Piece(first, last, point, statuses[known - 1] if known else None)


def _stretch(state: HpaComparison, target: Target, piece: _Piece) -> Stretch:
    """Say how both agree in a piece."""
    point, status = piece.point, piece.status
    begin, end, ours = piece.begin, piece.end, point.desired
    if state.hpa is None or status is None or ours is None:
        why = "no HorizontalPodAutoscaler of it is known"
        if state.hpa is not None:
            why = undecided_text(state.hpa) if status is None else "the scale was not read"
        return Stretch(begin, end, Agreement.NOT_COMPARED, why=why)
    if point.desired != status.desired_replicas and begin < _first_window_end(state, target):
        return Stretch(begin, end, Agreement.NOT_COMPARED, why=_FIRST_WINDOW)
    theirs = status.desired_replicas
    if ours == theirs:
        equal = Stretch(begin, end, Agreement.EQUAL, ours, theirs)
        is_new = begin - state.began < around_of(target)
        if is_new or point.current != status.current_replicas:
            return equal
        readings = _other_readings(state, target, begin, end, status)
        return replace(equal, readings=readings) if readings else equal
    stretch = Stretch(begin, end, Agreement.TIMING, ours, theirs)
    return _differing(state, target, piece, status, stretch)


def _first_window_end(state: HpaComparison, target: Target) -> float:
    """Return until when either may hold what it has seen before the other one was there."""
    behaviors = [target.spec.behavior]
    if state.hpa is not None and state.hpa.spec is not None:
        behaviors.append(state.hpa.spec.behavior)
    return state.began + max(down_window(behavior, Flags()) for behavior in behaviors)


def _differing(
    state: HpaComparison, target: Target, piece: _Piece, status: HpaStatus, stretch: Stretch
) -> Stretch:
    """Say why both want other counts in a piece; the stretch says that it is timing."""
    point, around = piece.point, around_of(target)
    begin, ours, theirs = piece.begin, stretch.ours, stretch.theirs
    # After a change of the count the HPA has decided nothing about the new one until its next sync.
    undecided = point.current != status.current_replicas and begin - status.time < around
    stepping = _stepping(state, target, piece, stretch)
    if stepping or undecided or _is_timing(state, piece, ours, theirs, around):
        return stepping or stretch
    evidence = _evidence_at(state, piece)
    if evidence is None:
        return stretch  # the status was in force for less than a period
    readings = other_readings(
        state.points, state.counterpart, target, piece.begin, piece.end, status
    )
    if evidence.by_readings and not readings and begin - status.time > around:
        # It lasts: what is lost in rounding is enough for another count.
        readings = other_readings(
            state.points, state.counterpart, target, piece.begin, piece.end, status, exactly=True
        )
    memory = _memory_of(state, status, evidence, ours, theirs)
    found = _explained(stretch, evidence, readings, memory)
    by_flag = found.agreement is Agreement.CONFIGURATION and found.fields == evidence.flags
    if by_flag and _expires_there(state, piece, status, around):
        return stretch  # a flag, which no object shows, is no likelier
    if found.agreement is not Agreement.UNKNOWN:
        return found
    if point.guarded is not None:
        # The count has changed since; what held it at that sync is the cause.
        return replace(stretch, agreement=Agreement.DEVIATION, deviation=point.guarded)
    between = _is_between(state, target, piece, status, around)
    return stretch if between or _expires_there(state, piece, status, around) else found


def _stepping(
    state: HpaComparison, target: Target, piece: _Piece, stretch: Stretch
) -> Stretch | None:
    """Return the stretch where the HPA wants another count of the same step, and a cause is known.

    To come to our count in a later step is no agreement then.  None where it agrees, where no
    field but a bound and no reading differs, or where nothing was decided of that step.
    """
    ours, end = stretch.ours, piece.end + around_of(target)
    near = in_force(state.statuses, piece.begin, end)
    step = piece.point.current
    counts = {one.desired_replicas for one in near if one.current_replicas == step}
    if not counts or min(counts) <= ours <= max(counts):
        return None
    up, down = max(ours, *counts) > step, min(ours, *counts) < step
    fields = tuple(
        other.difference
        for other in state.counterpart.others
        if ((other.up and up) or (other.down and down)) and other.difference.field not in _BOUNDS
    )
    if fields:
        return replace(stretch, agreement=Agreement.CONFIGURATION, fields=fields)
    if piece.status is None or step != piece.status.current_replicas or held_there(piece.status):
        return None
    readings = _other_readings(state, target, piece.begin, piece.end, piece.status)
    return _by_readings(stretch, readings) if readings else None


def _explained(
    stretch: Stretch,
    evidence: Evidence,
    readings: tuple[DifferingReading, ...],
    memory: RememberedSync | None,
) -> Stretch:
    """Return the stretch with the first cause that there is; what was decided again comes first."""
    by_readings = _by_readings(stretch, readings)
    deviation = replace(stretch, agreement=Agreement.DEVIATION, deviation=evidence.deviation)
    forgotten = evidence.deviation is Deviation.FORGOTTEN
    fields = evidence.fields or evidence.flags or evidence.related
    configuration = replace(stretch, agreement=Agreement.CONFIGURATION, fields=fields)
    held = stretch
    if memory is not None:
        held = replace(stretch, agreement=Agreement.SAMPLING, remembered=memory.time)
        held = _by_readings(held, memory.readings)
        if memory.fields:
            held = replace(held, agreement=Agreement.CONFIGURATION, fields=memory.fields)
    choices = (
        (evidence.fields != (), configuration),
        (evidence.by_readings, by_readings),
        (evidence.deviation is not None and not forgotten, deviation),
        (memory is not None, held),
        # The other one met the peak up to a period before, and looks again up to a period later.
        (forgotten and evidence.expires, stretch),
        (forgotten, deviation),
        (readings != (), by_readings),
        (fields != (), configuration),
        (evidence.expires, stretch),
    )
    unknown = replace(stretch, agreement=Agreement.UNKNOWN)
    return next((found for is_so, found in choices if is_so), unknown)


def _by_readings(stretch: Stretch, readings: tuple[DifferingReading, ...]) -> Stretch:
    """Name the metrics with another value; where each was so within a period, it is timing."""
    if not readings:
        return stretch
    return replace(stretch, agreement=Agreement.READING, readings=readings)


def _is_timing(state: HpaComparison, piece: _Piece, ours: int, theirs: int, around: float) -> bool:
    """Return whether one of both comes to the other's count, or passes it, within one period."""
    begin, end, status = piece.begin, piece.end + around, piece.status
    own = []
    for point in in_force(state.points, begin, end):
        is_later = status is not None and point.time > status.time
        follows = point.desired == point.current == theirs and is_later
        # To stay where the HPA has brought it says nothing of whether it would have gone there.
        wanted = point.free if follows and point.free is not None else point.desired
        if wanted is not None:
            own.append(wanted)
    other = [one.desired_replicas for one in in_force(state.statuses, begin, end)]
    return min(own) <= theirs <= max(own) or min(other) <= ours <= max(other)


def _is_between(
    state: HpaComparison, target: Target, piece: _Piece, status: HpaStatus, around: float
) -> bool:
    """Return whether an HPA that has just read has read what lies between two syncs of ours.

    Readings of pods are compared as they are: pods that start count for neither of both.
    """
    near = in_force(state.points, piece.begin, piece.end)
    if piece.begin - status.time >= around or len(near) < 2:
        return False
    before, after = near[0].read, near[-1].read
    read = zip(before, read_there(status, target, state.counterpart), after, strict=False)
    return all(
        one is None
        or (
            first is not None
            and last is not None
            and min(first.one, last.one) - 1 <= one.one <= max(first.one, last.one) + 1
        )
        for first, one, last in read
    )


def _expires_there(state: HpaComparison, piece: _Piece, status: HpaStatus, around: float) -> bool:
    """Return whether a count that the HPA holds was asked for here too, and is about to expire.

    Either has met it up to a period before the other one, and looks again up to a period later.
    """
    spec = None if state.hpa is None else state.hpa.spec
    if spec is None or not held_there(status):
        return False
    wanted = status.desired_replicas
    peaks = [one.time for one in state.points if one.asked is not None and one.asked[0] >= wanted]
    window = down_window(spec.behavior, Flags())
    return bool(peaks) and piece.end <= peaks[-1] + window + 2 * around


def _evidence_at(state: HpaComparison, piece: _Piece) -> Evidence | None:
    """Return what was found of the piece's status at the sync before it, or at the next one."""
    status = piece.status
    later = bisect_left(state.points, piece.end, key=TIME)
    for point in (piece.point, *state.points[later : later + 1]):
        found = point.evidence
        if found is not None and status is not None and found.status_time == status.time:
            return found
    return None


def _other_readings(
    state: HpaComparison,
    target: Target,
    begin: float,
    end: float,
    status: HpaStatus,
    *,
    exactly: bool = False,
) -> tuple[DifferingReading, ...]:
    points, counterpart = state.points, state.counterpart
    return other_readings(points, counterpart, target, begin, end, status, exactly=exactly)


def _memory_of(
    state: HpaComparison, status: HpaStatus, evidence: Evidence, ours: int, theirs: int
) -> RememberedSync | None:
    """Return the sync whose recommendation one of both still holds, and the other never had."""
    held = held_there(status)
    for memory in reversed(state.memories):
        here = evidence.held and (memory.ours - memory.theirs) * (ours - theirs) > 0
        there = held and (memory.theirs - memory.ours) * (theirs - ours) > 0
        if here or there:
            return memory
    return None
