"""Gaps in the readings, and the refill after them (semantics 7.2, 7.3).

A query looks back over a range, as ``rate(x[2m])`` does over two minutes.  If the range lacks the
samples of D seconds, the result is too low by up to D seconds' worth until the gap has left the
range.  A decision on it would scale down under full load.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import Calculation, MetricResult, Refill
from autoscaler.core.history import UNKNOWN, History, ReadingGap, unobserved_after
from autoscaler.core.observation import Gap, GapKind, Observation, Pod, PodSamples, Reading
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec
from autoscaler.core.status import winner_name
from autoscaler.core.target import Target

_SETTLING_SECONDS, _SETTLING_PART = 5.0, 0.25
"""A server that is back answers from old samples until its first scrape: 5 s and one interval.

The scrape interval is unknown here; a useful range has at least four of them.
"""

_MISSED_AFTER_PERIODS = 1.5
"""A target has missed a sync if its last one is longer ago than this."""

GapKey = tuple[str, str]
"""A metric and a pod; the pod is empty for the metric as a whole."""


@dataclass(frozen=True, slots=True)
class GapTracker:
    """Opens and closes the gaps of one sync; a gap matters if it exceeds the tolerance.

    ``stamp`` is that of the sync.  ``last_reading`` is when the last good reading may have been,
    or UNKNOWN.  ``tolerance`` is the part by which a reading may be too low.
    """

    stamp: float
    last_reading: float
    tolerance: float

    def opened(self, gap: ReadingGap | None, key: GapKey) -> ReadingGap:
        """Return the gap of a reading that is missing."""
        if gap is None:
            return ReadingGap(*key, since=self.last_reading)
        if gap.since is None:  # it was closed, and opens again while the range refills
            return replace(gap, since=self.last_reading, first=False)
        # It is still open; one that was only possible is now certain.
        return replace(gap, first=False) if gap.first else gap

    def closed(self, gap: ReadingGap, range_seconds: float) -> ReadingGap | None:
        """Return the gap of a reading that is there; None once the range has no part of it."""
        if not range_seconds:
            return None
        refill = refill_seconds(range_seconds)
        until = min(gap.until, self.stamp + refill)  # the range may have been longer
        losses = tuple(one for one in gap.losses if one[0] > self.stamp - refill)
        if gap.since is not None:
            # The range may hold several short gaps, which matter together.  A gap since UNKNOWN
            # (0.0) exceeds the tolerance by itself.
            losses = (*losses, (self.stamp, self.stamp - gap.since))
            if sum(seconds for _, seconds in losses) > self.tolerance * range_seconds:
                until, losses = self.stamp + refill, ()
        if until <= self.stamp and not losses:
            return None
        closed = replace(gap, since=None, until=until, losses=losses)
        return gap if closed == gap else closed


def refill_seconds(range_seconds: float) -> float:
    """Return the seconds that a range takes to be full again after a reading has returned."""
    return range_seconds * (1 + _SETTLING_PART) + _SETTLING_SECONDS if range_seconds else 0.0


def after_absence(target: Target, history: History, absent: float, now: float) -> History:
    """Return the history after an absence: no sync for ``absent`` seconds, infinite if unknown.

    Each metric may have had a gap since the first sync that was left out (semantics 7.3).
    """
    period = target.sync_period
    if history.recommendations is None or absent <= _MISSED_AFTER_PERIODS * period:
        return history
    since = max(UNKNOWN, now - absent + period)
    gaps = {gap.key: gap for gap in history.gaps}
    for metric in target.spec.metrics:
        key = (metric_key(metric), "")
        gap = gaps.get(key, ReadingGap(*key))
        gaps[key] = gap if gap.since is not None else replace(gap, since=since)
    history = replace(history, gaps=tuple(gaps.values()))
    return unobserved_after(history, absent, period)


def track_readings(
    history: History,
    metrics: Sequence[MetricSpec],
    observation: Observation,
    tracker: GapTracker,
    window: float,
) -> History:
    """Return the history with the gaps of the metrics as of this sync.

    If there was no sync before, or none for a while, any reading may have just returned.  A gap
    longer than the down ``window`` leaves a hole in the recommendations (semantics 4.5).
    """
    ranges = observation.ranges
    if ranges is None:
        return history
    unknown = history.recommendations is None or history.unobserved
    failing = any(isinstance(reading, Gap) for reading in observation.readings)
    if not (history.gaps or failing or unknown):
        return history
    before = {gap.key: gap for gap in history.gaps}
    after: dict[GapKey, ReadingGap | None] = {}
    exceeds_window = False
    for metric, reading, seconds in zip(metrics, observation.readings, ranges, strict=True):
        key = (metric_key(metric), "")
        gap = before.get(key)
        if gap is None and unknown:
            gap = ReadingGap(*key, since=UNKNOWN, first=True)
        if isinstance(reading, Gap):
            after[key] = tracker.opened(gap, key)
        elif gap is not None:
            exceeds_window |= gap.since is not None and tracker.stamp - gap.since > window
            after[key] = tracker.closed(gap, seconds)
    names = {metric_key(metric) for metric in metrics}
    of_pods = (gap for gap in history.gaps if gap.pod and gap.metric in names)
    kept = (*filter(None, after.values()), *of_pods)
    return replace(
        history,
        gaps=history.gaps if kept == history.gaps else kept,
        unobserved=history.unobserved or (exceeds_window and history.recommendations is not None),
    )


def current_refill(
    history: History, metric: MetricSpec, range_seconds: float, now: float
) -> Refill | None:
    """Return the refill of a metric that lasts at ``now``; None if its range is full."""
    if not history.gaps:
        return None
    key = (metric_key(metric), "")
    for gap in history.gaps:
        if gap.key == key and gap.since is None and gap.until > now:
            return Refill(gap.until - refill_seconds(range_seconds), gap.until, gap.first)
    return None


def track_pods(
    history: History,
    result: MetricResult,
    pods: Sequence[Pod],
    range_seconds: float,
    tracker: GapTracker,
) -> tuple[History, frozenset[str]]:
    """Return the history with the gaps of a metric's pods, and the pods that refill."""
    outcome = result.outcome
    groups = outcome.groups if isinstance(outcome, Calculation) else None
    if groups is None or not (groups.missing or history.gaps):
        return history, frozenset()
    metric = metric_key(result.metric)
    known = {gap.pod: gap for gap in history.gaps if gap.metric == metric and gap.pod}
    missing = frozenset(groups.missing)
    tracked: list[ReadingGap] = []
    for pod in pods:
        gap = known.get(pod.name)
        if pod.name in missing:
            # A pod that has not run for a whole range is new: it never had a full one.
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
    refilling = (gap for gap in tracked if gap.since is None and gap.until > tracker.stamp)
    return history, frozenset(gap.pod for gap in refilling)


def without_samples(reading: Reading, pods: frozenset[str]) -> Reading:
    """Return a reading without the samples of some pods, which then count as missing."""
    if not isinstance(reading, PodSamples):
        return reading
    samples = {name: one for name, one in reading.samples.items() if name not in pods}
    removed = {
        name: Gap(GapKind.PARTIAL, f"pod {name} had no sample until lately: its range has a gap")
        for name in reading.samples
        if name in pods
    }
    return replace(reading, samples=samples, dropped={**reading.dropped, **removed})


def metric_key(metric: MetricSpec) -> str:
    """Return what names a metric of a target in its history."""
    container = metric.container if isinstance(metric, ContainerResourceMetric) else ""
    return f"{metric.type} {winner_name(metric)} {container}".rstrip()
