"""Gaps in the readings, and the refill after them (semantics 7.2, 7.3).

A query looks back over a range: ``rate(x[2m])`` over two minutes. If the range lacks the samples of
D seconds, the result is too low by up to D seconds' worth until the gap has left the range. A
decision on it would scale down under full load. The history identifies a metric by a key, which is
a digest of its query, since names may change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import MetricResult, Refill
from autoscaler.core.history import GAP_PERIODS, UNKNOWN, History, ReadingGap
from autoscaler.core.observation import Gap, Pod
from autoscaler.core.spec import MetricSpec, down_window
from autoscaler.core.status import DecisionContext, keys_in
from autoscaler.core.target import Target

_SETTLING_SECONDS, _SETTLING_PART = 5.0, 0.25
"""A restarted server answers from old samples until its first scrape, which takes up to 5 s and one
scrape interval: at most a quarter of a useful range."""

_MISSED_AFTER_PERIODS = 1.5
"""A target has missed a sync if the last one is longer ago than this."""

GapKey = tuple[str, str]
"""A metric's key and a pod; the pod is empty for the metric as a whole."""


# -- keys ----------------------------------------------------------------------------------------


def by_keys(history: History, metrics: Sequence[MetricSpec], keys: Sequence[str]) -> History:
    """Return a history with the current keys of the metrics.

    A new key may belong to a metric whose query was edited: it takes over the gaps of metrics that
    no longer exist, so that no edit shortens a refill. Its consecutive failures are counted from 0,
    so that no fallback applies early.
    """
    if history.metric_keys == keys:
        return history
    new = [key for key in dict.fromkeys(keys) if key not in history.metric_keys]
    of_pods = {key for key, metric in zip(keys, metrics, strict=False) if metric.of_pods}
    gaps: dict[GapKey, ReadingGap] = {}
    for gap in history.gaps:
        for key in (gap.metric,) if gap.metric in keys else new:
            if not gap.pod or key in of_pods:
                of_key = replace(gap, metric=key)
                other = gaps.get(of_key.key)
                gaps[of_key.key] = of_key if other is None else _longer(of_key, other)
    extended = history.extended
    if extended.failures:
        failures = tuple(streak for streak in extended.failures if streak.metric in keys)
        extended = replace(extended, failures=failures)
    return replace(history, gaps=tuple(gaps.values()), extended=extended, metric_keys=tuple(keys))


def _longer(gap: ReadingGap, other: ReadingGap) -> ReadingGap:
    """Return a gap that lasts as long as the longer of two."""
    begun = [each.since for each in (gap, other) if each.since is not None]
    return replace(
        gap,
        since=min(begun, default=None),
        until=max(gap.until, other.until),
        first=gap.first and other.first,
        losses=tuple(sorted({*gap.losses, *other.losses})),
    )


# -- the gaps of one sync ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GapTracker:
    """Opens and closes the gaps of one sync; a gap matters if it exceeds the tolerance.

    ``stamp`` is the steady time of the sync.  ``last_reading`` is the latest possible good reading,
    or UNKNOWN.  ``tolerance`` is the part by which a reading may be too low.
    """

    stamp: float
    last_reading: float
    tolerance: float

    def opened(self, gap: ReadingGap | None, key: GapKey) -> ReadingGap:
        """Return the gap of a reading that is missing."""
        if gap is None:
            return ReadingGap(*key, since=self.last_reading)
        if gap.since is None:  # The gap was closed, and opens again while the range refills.
            return replace(gap, since=self.last_reading, first=False)
        # The gap is still open; if it was only possible, it is certain now.
        return replace(gap, first=False) if gap.first else gap

    def closed(self, gap: ReadingGap, range_seconds: float) -> ReadingGap | None:
        """Return the gap of a metric with a reading; None once the gap has left the range."""
        if not range_seconds:
            return None
        refill = refill_seconds(range_seconds)
        until = min(gap.until, self.stamp + refill)  # the range may have been longer
        losses = tuple(loss for loss in gap.losses if loss[0] > self.stamp - refill)
        if gap.since is not None:
            # The range may contain several short gaps, which count together. A gap since UNKNOWN
            # (0.0) exceeds the tolerance by itself.
            losses = (*losses, (self.stamp, self.stamp - gap.since))
            if sum(seconds for _, seconds in losses) > self.tolerance * range_seconds:
                until, losses = self.stamp + refill, ()
        if until <= self.stamp and not losses:
            return None
        closed = replace(gap, since=None, until=until, losses=losses)
        return gap if closed == gap else closed


def tracker_of(context: DecisionContext) -> GapTracker:
    """Return the tracker of this sync; good readings are assumed up to the previous sync."""
    observation = context.observation
    # A record of an earlier version has no last sync.
    last = observation.last_read if observation.last_sync is None else observation.last_sync
    return GapTracker(context.stamp, UNKNOWN if last is None else last, context.tolerance.down)


def refill_seconds(range_seconds: float) -> float:
    """Return the seconds that a range takes to be full again after a reading has returned."""
    return range_seconds * (1 + _SETTLING_PART) + _SETTLING_SECONDS if range_seconds else 0.0


def refill_until(until: float, range_seconds: float, **why: bool) -> Refill:
    """Return the refill that ends at ``until``; it is a ``first`` reading, or ``after_hold``."""
    return Refill(until - refill_seconds(range_seconds), until, **why)


def after_absence(target: Target, history: History, absent: float, now: float) -> History:
    """Return the history after an absence: no sync for ``absent`` seconds, infinite if unknown.

    Each metric may have had a gap since the first missed sync (semantics 7.3).
    """
    period = target.sync_period
    if history.recommendations is None or absent <= _MISSED_AFTER_PERIODS * period:
        return history
    since = max(UNKNOWN, now - absent + period)
    history = by_keys(history, target.spec.metrics, target.metric_keys)
    gaps = {gap.key: gap for gap in history.gaps}
    for metric in target.metric_keys:
        key = (metric, "")
        gap = gaps.get(key, ReadingGap(*key))
        gaps[key] = gap if gap.since is not None else replace(gap, since=since)
    unobserved = history.unobserved or absent > GAP_PERIODS * period
    return replace(history, gaps=tuple(gaps.values()), unobserved=unobserved)


def track_readings(history: History, context: DecisionContext) -> History:
    """Return the history with the gaps of the metrics; long ones leave a hole (4.5, 7.2).

    If there was no sync before, or none for a while, a gap before any reading is possible.
    """
    observation, tracker = context.observation, tracker_of(context)
    window = down_window(context.spec.behavior, context.flags)
    any_may_have_returned = history.recommendations is None or history.unobserved
    before = {gap.key: gap for gap in history.gaps}
    after: dict[GapKey, ReadingGap | None] = {}
    exceeds_window = False
    keys = keys_in(observation, context.spec.metrics)
    ranges = observation.ranges or ()
    for metric, reading, seconds in zip(keys, observation.readings, ranges, strict=True):
        key = (metric, "")
        gap = before.get(key)
        if gap is None and any_may_have_returned:
            gap = ReadingGap(*key, since=UNKNOWN, first=True)
        if isinstance(reading, Gap):
            after[key] = tracker.opened(gap, key)
        elif gap is not None:
            exceeds_window |= gap.since is not None and tracker.stamp - gap.since > window
            after[key] = tracker.closed(gap, seconds)
    of_pods = (gap for gap in history.gaps if gap.pod and gap.metric in keys)
    kept = (*filter(None, after.values()), *of_pods)
    return replace(
        history,
        gaps=history.gaps if kept == history.gaps else kept,
        unobserved=history.unobserved or (exceeds_window and history.recommendations is not None),
    )


def current_refill(
    history: History, metric: str, range_seconds: float, now: float
) -> Refill | None:
    """Return the refill of a metric at ``now``; None if its range is full."""
    for gap in history.gaps:
        if gap.key == (metric, "") and gap.since is None and gap.until > now:
            return refill_until(gap.until, range_seconds, first=gap.first)
    return None


def track_pods(
    history: History,
    metric: str,
    result: MetricResult,
    pods: Sequence[Pod],
    range_seconds: float,
    tracker: GapTracker,
) -> tuple[History, Sequence[ReadingGap]]:
    """Return the history with the gaps of a metric's pods, and the gaps that still refill."""
    groups = result.groups
    if groups is None or not (groups.missing or history.gaps):
        return history, ()
    before = {gap.pod: gap for gap in history.gaps if gap.metric == metric and gap.pod}
    missing = frozenset(groups.missing)
    tracked: list[ReadingGap] = []
    for pod in pods:
        gap = before.get(pod.name)
        if pod.name in missing:
            # A pod that has run for less than a range is new: it never had a full one.
            new = pod.start_time is None or pod.start_time + range_seconds > tracker.stamp
            if gap is not None or not new:
                tracked.append(tracker.opened(gap, (metric, pod.name)))
        elif gap is not None:
            closed = tracker.closed(gap, range_seconds)
            if closed is not None:
                tracked.append(closed)
    others = [gap for gap in history.gaps if gap.metric != metric or not gap.pod]
    kept = (*others, *tracked)
    if kept != history.gaps:
        history = replace(history, gaps=kept)
    return history, [gap for gap in tracked if gap.since is None and gap.until > tracker.stamp]
