"""The reading of a metric: which series of the answer count, and their values (semantics 2.1)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from autoscaler.core.observation import (
    DELETION_COST_QUERY,
    LONGEST_SENTENCE,
    Gap,
    GapKind,
    HoldReading,
    Pod,
    PodSamples,
    Reading,
    Sample,
    Values,
)
from autoscaler.core.series import QueryFailure, QueryResult, Series, milli_of
from autoscaler.core.spec import (
    ExternalMetric,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    TargetType,
)
from autoscaler.core.target import HoldQuery, Query
from autoscaler.core.text import printable, rfc3339

_MOST_GAPS = 10
"""The most series without a value that a reading names."""
_CGROUP = "id"
_NO_SERIES = "the query returned no series"
_MOST_LABELS, _LONGEST_NAME, _LONGEST_LABELS = 20, 100, 600
"""The most labels of a series in a message, and the most characters of a name and of them all."""


def read(
    metric: MetricSpec,
    query: Query,
    answer: QueryResult | QueryFailure,
    namespace: str,
    pods: Sequence[Pod],
    now: float,
) -> Reading:
    """Return the reading of a metric of a target in ``namespace`` from its query's answer.

    Series of pods other than ``pods`` belong to other workloads and are ignored, like series of
    other clusters (semantics 8.12).
    """
    if isinstance(answer, QueryFailure):
        return _gap(GapKind.ERROR, answer.message)
    of_all, answer = answer, answer.only(query.series_labels)
    if of_all.series and not answer.series:
        pairs = " and ".join(f'{name}="{value}"' for name, value in query.series_labels)
        none = f"none of the series is labelled {pairs} (seriesLabels)"
        return _completed(_gap(GapKind.EMPTY, none), query, answer)
    if isinstance(metric, ExternalMetric):
        return _completed(_external(metric, query, answer, now), query, answer)
    if isinstance(metric, ObjectMetric):
        return _completed(_object(metric, query, answer, namespace, now), query, answer)
    reading = _PodReader(metric, query, answer, namespace, now).read(pods)
    return _partial_if_empty(reading, answer) if isinstance(reading, Gap) else reading


def read_bound(query: Query, answer: QueryResult | QueryFailure, now: float) -> Values | Gap:
    """Return the one value of a query for a bound (semantics 8.2, 8.8)."""
    if isinstance(answer, QueryFailure):
        return _gap(GapKind.ERROR, answer.message)
    reading: Values | Gap = _gap(GapKind.EMPTY, _NO_SERIES)
    if answer.series:
        several = f"the query returned {len(answer.series)} series"
        reading = _one_value(answer.series, several, query, answer, now)
    return _completed(reading, query, answer)


def read_hold(hold: HoldQuery, answer: QueryResult | QueryFailure, now: float) -> HoldReading:
    """Return the reading of a hold query; an answer without series does not hold (8.9)."""
    if isinstance(answer, QueryFailure):
        return HoldReading(gap=_gap(GapKind.ERROR, answer.message))
    query, says, first, gap = hold.query, 0, "", None
    for series in answer.select(hold.selector):
        stale = series.timestamp < now - query.max_age
        if stale or (math.isnan(series.value) and not (hold.condition or query.nan_is_zero)):
            gap = gap or _gap_of(series, query, now)
        elif hold.condition or (series.value != 0 and not math.isnan(series.value)):
            # The order of series may change from one answer to the next.
            labels = labels_text(series)
            says, first = says + 1, labels if not says else min(first, labels)
    if says:
        return HoldReading(says, first)
    if gap is None and answer.warnings and not query.use_partial:
        gap = _warnings_of(answer)[0]
    return HoldReading(gap=gap)


DELETION_COST = PodsMetric(
    MetricIdentifier(DELETION_COST_QUERY), MetricTarget(TargetType.AVERAGE_VALUE)
)
"""The values of `scaleDown.podDeletionCost` are read like a metric of type Pods."""


def read_deletion_costs(
    query: Query,
    answer: QueryResult | QueryFailure,
    namespace: str,
    pods: Sequence[Pod],
    now: float,
) -> PodSamples | Gap:
    """Return the values of pods from the answer to `Target.deletion_cost` (semantics 8.14)."""
    reading = read(DELETION_COST, query, answer, namespace, pods, now)
    if isinstance(reading, Values):
        raise TypeError("a metric of type Pods has a sample for each pod")
    return reading


def _completed(reading: Values | Gap, query: Query, answer: QueryResult) -> Values | Gap:
    """Return 0 for a complete answer without series, if the query says so."""
    if isinstance(reading, Values) or reading.kind is not GapKind.EMPTY:
        return reading
    if query.empty_is_zero and not answer.warnings:
        return Values((0,), empty=True)
    return _partial_if_empty(reading, answer)


def _partial_if_empty(gap: Gap, answer: QueryResult) -> Gap:
    """Return a gap for an empty partial answer: the series may be in the missing part."""
    if gap.kind is not GapKind.EMPTY or not answer.warnings:
        return gap
    return _gap(GapKind.PARTIAL, f"{gap.detail}; {_warnings_of(answer)[0].detail}")


def _warnings(answer: QueryResult, query: Query) -> tuple[Gap, ...]:
    """Return the gaps that the warnings of an answer cause in a reading."""
    return () if query.use_partial else _warnings_of(answer)


def _warnings_of(answer: QueryResult) -> tuple[Gap, ...]:
    return tuple(
        _gap(GapKind.PARTIAL, f"Prometheus warned that its answer is incomplete: {warning}")
        for warning in answer.warnings[:_MOST_GAPS]
    )


def _gap(kind: GapKind, detail: str) -> Gap:
    """Return a gap; the detail may quote labels and messages of servers."""
    return Gap(kind, printable(detail, LONGEST_SENTENCE))


def _milli_or_none(series: Series, query: Query, now: float) -> int | None:
    """Return the value of a series in milli-units; None if it does not count (`_gap_of`)."""
    fresh = series.timestamp >= now - query.max_age
    if fresh and query.nan_is_zero and math.isnan(series.value):
        return 0
    return milli_of(series.value) if fresh else None


def _values(
    counted: Sequence[Series], values: Sequence[int], gaps: tuple[Gap, ...], query: Query
) -> Values:
    """Return the ``values`` of series that count, with their sum in units if it differs."""
    numbers = [series.value for series in counted]
    nans = sum(map(math.isnan, numbers)) if query.nan_is_zero else 0
    if nans:
        numbers = [0.0 if math.isnan(number) else number for number in numbers]
    try:
        total = math.fsum(numbers)
    except OverflowError:
        total = sum(numbers)
    unlike = None if total == sum(values) / 1000 else total
    return Values(tuple(values), gaps, nans=nans, total=unlike)


def _gap_of(series: Series, query: Query, now: float) -> Gap:
    if series.timestamp >= now - query.max_age:
        return _gap(GapKind.NOT_A_NUMBER, f"{labels_text(series)} is {series.value}, not a number")
    # The instant and not the age, so that the text is the same at each sync.
    return _gap(
        GapKind.STALE,
        f"{labels_text(series)} was sampled at {rfc3339(series.timestamp)}, and is older than "
        f"{query.max_age:g} s (maxAge)",
    )


def labels_text(series: Series) -> str:
    """Format the labels of a series for a message, shortened and printable."""
    first = nsmallest(_MOST_LABELS, series.labels.items())
    pairs = [f'{printable(key, _LONGEST_NAME)}="{printable(value)}"' for key, value in first]
    if len(first) < len(series.labels):
        pairs.append(f"and {len(series.labels) - len(first)} more")
    return printable(f"{{{', '.join(pairs)}}}", _LONGEST_LABELS)


def _external(
    metric: ExternalMetric, query: Query, answer: QueryResult, now: float
) -> Values | Gap:
    selected = answer.select(metric.selector)
    if not selected:
        of = "none of the series matches the selector"
        return _gap(GapKind.EMPTY, of if answer.series else _NO_SERIES)
    for label in query.cluster_labels:
        clusters = sorted({series.labels[label] for series in selected if label in series.labels})
        if len(clusters) > 1:
            two = f'the series are of several clusters, {label}="{clusters[0]}" and "{clusters[1]}"'
            return _gap(GapKind.AMBIGUOUS, f"{two}: select one, or sum up without the label")
    counted: list[Series] = []
    values: list[int] = []
    missing: list[Series] = []
    for series in selected:
        milli = _milli_or_none(series, query, now)
        if milli is None:
            missing.append(series)
        else:
            counted.append(series)
            values.append(milli)
    if not missing and not answer.warnings:
        return _values(counted, values, (), query)
    gaps = [_gap_of(series, query, now) for series in missing[:_MOST_GAPS]]
    if not counted:
        return gaps[-1]
    if len(missing) > _MOST_GAPS:
        more = f"nor do {len(missing) - _MOST_GAPS} more series have a value that counts"
        gaps.append(_gap(gaps[-1].kind, more))
    of_values = () if query.use_partial else (*_warnings_of(answer), *gaps)
    return _values(counted, values, of_values, query)


def _object(
    metric: ObjectMetric, query: Query, answer: QueryResult, namespace: str, now: float
) -> Values | Gap:
    described = metric.described_object
    label, name = described.kind.lower(), described.name
    if described.kind == "Namespace" and not described.group:
        # The custom metrics API ignores the name and answers for the HPA's own namespace.
        label, name = query.labels.namespace, namespace
    # If no series has a namespace label, the query has aggregated it away and none is needed.
    default = "" if answer.has_label(query.labels.namespace) else namespace
    series = [
        each
        for each in answer.with_label(label, name)
        if each.labels.get(query.labels.namespace, default) == namespace
        and (metric.selector is None or metric.selector.matches(each.labels))
    ]
    if not series:
        none = f'none of the series is labelled {label}="{name}" in namespace {namespace}'
        return _gap(GapKind.EMPTY, none)
    several = f'{len(series)} series are labelled {label}="{name}"'
    return _one_value(series, several, query, answer, now)


def _one_value(
    series: Sequence[Series], several: str, query: Query, answer: QueryResult, now: float
) -> Values | Gap:
    """Return the value of the only series; ``several`` is the message if there are more."""
    if len(series) > 1:
        two = f"{labels_text(series[0])} and {labels_text(series[1])}"
        return _gap(GapKind.AMBIGUOUS, f"{several}, and exactly one is needed: {two}")
    milli = _milli_or_none(series[0], query, now)
    if milli is None:
        return _gap_of(series[0], query, now)
    return _values(series, (milli,), _warnings(answer, query), query)


@dataclass(frozen=True, slots=True)
class _PodReader:
    """Reads a per-pod metric: at most one sample for each pod."""

    metric: MetricSpec
    query: Query
    answer: QueryResult
    namespace: str
    now: float

    def read(self, pods: Sequence[Pod]) -> PodSamples | Gap:
        samples: dict[str, Sample] = {}
        dropped: dict[str, Gap] = {}
        for pod in pods:
            series = self._series_of(pod.name)
            if not series:
                continue
            sample = self._sample(pod, series)
            if isinstance(sample, Sample):
                samples[pod.name] = sample
            else:
                dropped[pod.name] = sample
        if samples:
            return PodSamples(samples, dropped, _warnings(self.answer, self.query))
        return next(iter(dropped.values()), self._no_series())

    def _series_of(self, pod: str) -> list[Series]:
        labels = self.query.labels
        selector = self.metric.selector
        return [
            series
            for series in self.answer.with_label(labels.pod, pod)
            if series.labels.get(labels.namespace) == self.namespace
            and (selector is None or selector.matches(series.labels))
        ]

    def _sample(self, pod: Pod, series: list[Series]) -> Sample | Gap:
        metric, label = self.metric, self.query.labels.container
        if not metric.of_resource:
            by = "namespace and pod"
            return self._summed(series) if len(series) == 1 else _ambiguous(pod.name, series, by)
        by_container = self._by_container(pod, series)
        chosen: dict[str, Series] = {}
        for name, several in by_container.items():
            only = _outermost(several)
            if only is None or (name == "" and len(by_container) > 1):
                among = series if only else several
                return _ambiguous(pod.name, among, f"namespace, pod and {label}")
            chosen[name] = only
        if metric.container is not None:
            lacking = f"pod {pod.name} has no series of container {metric.container}"
            own = chosen.get(metric.container)
            return _gap(GapKind.EMPTY, lacking) if own is None else self._summed([own])
        if "" not in chosen:
            # The requests of sidecars count, so their usage must too.
            for container in pod.requests.counted:
                if container.name not in chosen:
                    lacking = f"container {container.name} of pod {pod.name} has no series"
                    return _gap(GapKind.PARTIAL, lacking)
        return self._summed(chosen.values(), self.now)

    def _by_container(self, pod: Pod, series: list[Series]) -> dict[str, list[Series]]:
        """Return the series of the containers with requests that count, and of the pod itself."""
        names = {each.name for each in pod.requests.counted}
        if self.metric.container is not None:
            names = {self.metric.container}
        by_container: dict[str, list[Series]] = {}
        for each in series:
            name = each.labels.get(self.query.labels.container, "")
            if not name or not names or name in names:
                by_container.setdefault(name, []).append(each)
        return by_container

    def _summed(self, several: Iterable[Series], latest: float = math.inf) -> Sample | Gap:
        """Return the sum of series, as of the oldest of them, but not after ``latest``."""
        total, oldest = 0, latest
        for series in several:
            milli = _milli_or_none(series, self.query, self.now)
            if milli is None:
                return _gap_of(series, self.query, self.now)
            total += milli
            oldest = min(oldest, series.timestamp)
        return Sample(total, oldest, self.query.window)

    def _no_series(self) -> Gap:
        labels = self.query.labels
        if not self.answer.series:
            return _gap(GapKind.EMPTY, _NO_SERIES)
        return _gap(
            GapKind.EMPTY,
            "none of the series is labelled "
            f'{labels.namespace}="{self.namespace}" and {labels.pod}=<one of its pods>',
        )


def _outermost(series: list[Series]) -> Series | None:
    """Return the series of a container's outermost cgroup; None if there are several containers.

    cAdvisor has the path of a cgroup in the label ``id``. Cgroups within a container's, and the
    same path seen from a node that is a container itself, belong to the container. The kubelet's
    own series of a container has no path.
    """
    if len(series) == 1:
        return series[0]
    outermost, *others = sorted(series, key=lambda each: len(each.labels.get(_CGROUP, "")))
    path = outermost.labels.get(_CGROUP, "")
    rest = {**outermost.labels, _CGROUP: ""}
    for other in others:
        inner = other.labels.get(_CGROUP, "")
        if {**other.labels, _CGROUP: ""} != rest or inner == path:
            return None
        if not (inner.startswith(f"{path}/") or inner.endswith(path)):
            return None
    return outermost


def _ambiguous(pod: str, series: Sequence[Series], by: str) -> Gap:
    advice = f"aggregate the query by {by}"
    if _CGROUP in series[0].labels:
        advice += ", or scrape container_start_time_seconds, which shows what runs"
    return _gap(
        GapKind.AMBIGUOUS,
        f"{len(series)} series are about pod {pod}, {labels_text(series[0])} and "
        f"{labels_text(series[1])} among them; {advice}",
    )
