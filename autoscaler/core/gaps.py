"""Readings that return after a gap: they may understate for a while (semantics 7.2, 7.3).

A query looks back over a range, as ``rate(x[2m])`` does over two minutes.  A range that lost its
samples for D seconds reads low by up to D seconds' worth, not only while it fills again, but until
the gap has left it.  Whoever believes such a reading scales down under full load.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.decision import Calculation, MetricResult, Refill
from autoscaler.core.history import UNKNOWN, History, ReadingGap, unobserved_after
from autoscaler.core.observation import Gap, GapKind, Observation, Pod, PodSamples, Reading
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec
from autoscaler.core.status import winner_name
from autoscaler.core.target import Target

_SETTLING_SECONDS, _SETTLING_PART = 5.0, 0.25
"""A server that is back answers with old samples until it scrapes: 5 s and an interval later.

The interval is not known here; a range that is any good has four of them.
"""

_LATE_PERIODS = 1.5
"""A look that is no later than so many periods after the one before misses nothing."""

GapKey = tuple[str, str]
"""A metric, and a pod of which it has samples; empty for the metric as a whole."""


@dataclass(frozen=True, slots=True)
class GapRules:
    """When gaps matter, at one sync: once a range may have lost more than tolerance leaves.

    ``stamp`` is the sync's; ``last`` that of the last one which may have had a good reading, or
    UNKNOWN; ``tolerance`` the part by which a reading may be low without moving anything.
    """

    stamp: float
    last: float
    tolerance: float

    def failed(self, gap: ReadingGap | None, key: GapKey) -> ReadingGap:
        """Begin a gap, or let it go on."""
        if gap is None:
            return ReadingGap(*key, since=self.last)
        if gap.since is not None and not gap.first:
            return gap
        return replace(gap, since=self.last if gap.since is None else gap.since, first=False)

    def read(self, gap: ReadingGap, range_seconds: float) -> ReadingGap | None:
        """End a gap; None once the range lies wholly behind it."""
        if not range_seconds:
            return None
        lasts = whole_after(range_seconds)
        until = min(gap.until, self.stamp + lasts)  # the range may have been another
        losses = tuple(one for one in gap.losses if one[0] > self.stamp - lasts)
        if gap.since is not None:
            losses = (*losses, (self.stamp, self.stamp - gap.since))
            if sum(seconds for _, seconds in losses) > self.tolerance * range_seconds:
                until, losses = self.stamp + lasts, ()
        if until <= self.stamp and not losses:
            return None
        left = replace(gap, since=None, until=until, losses=losses)
        return gap if left == gap else left


def whole_after(range_seconds: float) -> float:
    """Return how many seconds after its return a reading's range is whole again."""
    return range_seconds * (1 + _SETTLING_PART) + _SETTLING_SECONDS if range_seconds else 0.0


def after_absence(target: Target, history: History, absent: float, now: float) -> History:
    """Go on with a history after nobody looked for ``absent`` seconds, infinite if unknown.

    Each metric may have been missing since its next reading was due.
    """
    period = target.sync_period
    if history.recommendations is None or absent <= _LATE_PERIODS * period:
        return history
    since = max(UNKNOWN, now - absent + period)
    gaps = {gap.key: gap for gap in history.gaps}
    for metric in target.spec.metrics:
        key = (_name(metric), "")
        gap = gaps.get(key, ReadingGap(*key))
        gaps[key] = gap if gap.since is not None else replace(gap, since=since)
    history = replace(history, gaps=tuple(gaps.values()))
    return unobserved_after(history, absent, period)


def follow_readings(
    history: History,
    spec_metrics: Sequence[MetricSpec],
    observation: Observation,
    rules: GapRules,
    window: float,
) -> History:
    """Take in which metrics fail and which are back.

    Where nobody looked before, or for a while, any reading may be one that has just returned.
    Where a gap outlasted the stabilization ``window`` the recommendations before it have left it,
    and the target goes on as after a restart.
    """
    ranges = observation.ranges
    if ranges is None:
        return history
    unknown = history.recommendations is None or history.unobserved
    failing = any(isinstance(reading, Gap) for reading in observation.readings)
    if not (history.gaps or failing or unknown):
        return history
    before = {gap.key: gap for gap in history.gaps}
    after: dict[GapKey, ReadingGap] = {}
    outlasted = False
    for metric, reading, seconds in zip(spec_metrics, observation.readings, ranges, strict=True):
        key = (_name(metric), "")
        known = before.get(key)
        if known is None and unknown:
            known = ReadingGap(*key, since=UNKNOWN, first=True)
        if isinstance(reading, Gap):
            after[key] = rules.failed(known, key)
        elif known is not None:
            outlasted |= known.since is not None and rules.stamp - known.since > window
            left = rules.read(known, seconds)
            if left is not None:
                after[key] = left
    names = {_name(metric) for metric in spec_metrics}
    of_pods = (gap for gap in history.gaps if gap.pod and gap.metric in names)
    kept = (*after.values(), *of_pods)
    return replace(
        history,
        gaps=history.gaps if kept == history.gaps else kept,
        unobserved=history.unobserved or (outlasted and history.recommendations is not None),
    )


def refill_of(
    history: History, metric: MetricSpec, range_seconds: float, now: float
) -> Refill | None:
    """Return since when a metric's range fills again; None where it is whole."""
    if not history.gaps:
        return None
    name = _name(metric)
    for gap in history.gaps:
        if gap.key == (name, "") and gap.since is None and gap.until > now:
            return Refill(gap.until - whole_after(range_seconds), gap.until, gap.first)
    return None


def follow_pods(
    history: History,
    result: MetricResult,
    pods: Sequence[Pod],
    range_seconds: float,
    rules: GapRules,
) -> tuple[History, frozenset[str]]:
    """Take in which pods lack a sample; return those whose samples are back and may understate.

    A pod that has not run for a whole range yet never had a whole one: it is new, and not back.
    """
    outcome = result.outcome
    groups = outcome.groups if isinstance(outcome, Calculation) else None
    if groups is None or not (groups.missing or history.gaps):
        return history, frozenset()
    name = _name(result.metric)
    known = {gap.pod: gap for gap in history.gaps if gap.metric == name and gap.pod}
    followed = _follow(known, groups.missing, pods, (name, range_seconds), rules)
    others = [gap for gap in history.gaps if gap.metric != name or not gap.pod]
    kept = (*others, *followed)
    if kept != history.gaps:
        history = replace(history, gaps=kept)
    back = (gap for gap in followed if gap.since is None and gap.until > rules.stamp)
    return history, frozenset(gap.pod for gap in back)


def _follow(
    known: Mapping[str, ReadingGap],
    missing: Iterable[str],
    pods: Sequence[Pod],
    of: tuple[str, float],
    rules: GapRules,
) -> list[ReadingGap]:
    name, range_seconds = of
    missing = frozenset(missing)
    followed: list[ReadingGap] = []
    for pod in pods:
        gap = known.get(pod.name)
        if pod.name in missing:
            new = pod.start_time is None or pod.start_time + range_seconds > rules.stamp
            if gap is not None or not new:
                followed.append(rules.failed(gap, (name, pod.name)))
        elif gap is not None:
            left = rules.read(gap, range_seconds)
            if left is not None:
                followed.append(left)
    return followed


def without(reading: Reading, pods: frozenset[str]) -> Reading:
    """Return a reading without the samples of some pods, which are then missing."""
    if not isinstance(reading, PodSamples):
        return reading
    samples = {name: one for name, one in reading.samples.items() if name not in pods}
    back = {
        name: Gap(GapKind.PARTIAL, f"pod {name} had no sample until lately: its range has a gap")
        for name in reading.samples
        if name in pods
    }
    return replace(reading, samples=samples, dropped={**reading.dropped, **back})


def _name(metric: MetricSpec) -> str:
    container = metric.container if isinstance(metric, ContainerResourceMetric) else ""
    return f"{metric.type} {winner_name(metric)} {container}".rstrip()
