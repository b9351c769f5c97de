"""The reading of a metric: which series of the answer count, and their values (semantics 2.1)."""

import math
from collections.abc import Mapping, Sequence
from heapq import nsmallest

from autoscaler.core.observation import (
    LONGEST_SENTENCE,
    Gap,
    GapKind,
    Pod,
    PodSamples,
    Reading,
    Sample,
    Values,
)
from autoscaler.core.series import QueryFailure, QueryResult, Series, milli_of
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricSpec,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)
from autoscaler.core.target import Query
from autoscaler.core.text import printable, rfc3339

_MOST_GAPS = 10
"""The most series without a value that a reading names."""
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

    Series of pods other than ``pods`` belong to other workloads and are ignored.
    """
    if isinstance(answer, QueryFailure):
        return _gap(GapKind.ERROR, answer.message)
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
    return _completed(_one_value(query, answer, now), query, answer)


def _completed(reading: Values | Gap, query: Query, answer: QueryResult) -> Values | Gap:
    """Take an answer without series for 0 where the query says so, and it is a whole answer."""
    if isinstance(reading, Values) or reading.kind is not GapKind.EMPTY:
        return reading
    if query.empty_is_zero and not answer.warnings:
        return Values((0,), empty=True)
    return _partial_if_empty(reading, answer)


def _partial_if_empty(gap: Gap, answer: QueryResult) -> Gap:
    """Say that the metric's series may be in the missing part of the answer."""
    if gap.kind is not GapKind.EMPTY or not answer.warnings:
        return gap
    return _gap(GapKind.PARTIAL, f"{gap.detail}; {_warnings_of(answer)[0].detail}")


def _warnings(answer: QueryResult, query: Query) -> tuple[Gap, ...]:
    """Return the gaps that warnings make in a reading."""
    return () if query.use_partial else _warnings_of(answer)


def _warnings_of(answer: QueryResult) -> tuple[Gap, ...]:
    return tuple(
        _gap(GapKind.PARTIAL, f"Prometheus warned that its answer is incomplete: {warning}")
        for warning in answer.warnings[:_MOST_GAPS]
    )


def _gap(kind: GapKind, detail: str) -> Gap:
    """Return a gap; the detail may quote labels and messages of servers."""
    return Gap(kind, printable(detail, LONGEST_SENTENCE))


def _value_of(series: Series, query: Query, now: float) -> int | Gap:
    """Return the value of a series in milli-units, or why it does not count."""
    milli = _milli_or_none(series, query, now)
    return _gap_of(series, query, now) if milli is None else milli


def _milli_or_none(series: Series, query: Query, now: float) -> int | None:
    fresh = series.timestamp >= now - query.max_age
    if fresh and query.nan_is_zero and math.isnan(series.value):
        return 0
    return milli_of(series.value) if fresh else None


def _nans(series: Sequence[Series], query: Query, now: float) -> int:
    """Return how many values are NaN and count as 0."""
    if not query.nan_is_zero:
        return 0
    return sum(math.isnan(one.value) and one.timestamp >= now - query.max_age for one in series)


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
    selected = answer.select(metric.metric.selector)
    if not selected:
        of = "none of the series matches the selector"
        return _gap(GapKind.EMPTY, of if answer.series else "the query returned no series")
    values: list[int] = []
    missing: list[Series] = []
    for series in selected:
        milli = _milli_or_none(series, query, now)
        if milli is None:
            missing.append(series)
        else:
            values.append(milli)
    gaps = [_gap_of(series, query, now) for series in missing[:_MOST_GAPS]]
    if not values:
        return gaps[-1]
    nans = _nans(selected, query, now)
    if query.use_partial:
        return Values(tuple(values), nans=nans)
    if len(missing) > _MOST_GAPS:
        more = f"nor do {len(missing) - _MOST_GAPS} more series have a value that counts"
        gaps.append(_gap(gaps[-1].kind, more))
    return Values(tuple(values), (*_warnings_of(answer), *gaps), nans=nans)


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
        one
        for one in answer.with_label(label, name)
        if one.labels.get(query.labels.namespace, default) == namespace
        and (metric.metric.selector is None or metric.metric.selector.matches(one.labels))
    ]
    if not series:
        return _gap(
            GapKind.EMPTY,
            f'none of the series is labelled {label}="{name}" in namespace {namespace}',
        )
    if len(series) > 1:
        return _gap(
            GapKind.AMBIGUOUS,
            f'{len(series)} series are labelled {label}="{name}", and exactly one is needed: '
            f"{labels_text(series[0])} and {labels_text(series[1])}",
        )
    value = _value_of(series[0], query, now)
    if isinstance(value, Gap):
        return value
    return Values((value,), _warnings(answer, query), nans=_nans(series, query, now))


def _one_value(query: Query, answer: QueryResult, now: float) -> Values | Gap:
    series = answer.series
    if not series:
        return _gap(GapKind.EMPTY, "the query returned no series")
    if len(series) > 1:
        return _gap(
            GapKind.AMBIGUOUS,
            f"the query returned {len(series)} series, and exactly one is needed: "
            f"{labels_text(series[0])} and {labels_text(series[1])}",
        )
    value = _value_of(series[0], query, now)
    if isinstance(value, Gap):
        return value
    return Values((value,), _warnings(answer, query), nans=_nans(series, query, now))


class _PodReader:
    """Reads a per-pod metric: at most one sample for each pod."""

    def __init__(
        self,
        metric: PodsMetric | ResourceMetric | ContainerResourceMetric,
        query: Query,
        answer: QueryResult,
        namespace: str,
        now: float,
    ) -> None:
        self._metric = metric
        self._query = query
        self._answer = answer
        self._namespace = namespace
        self._now = now
        self._selector = metric.metric.selector if isinstance(metric, PodsMetric) else None

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
            elif sample.kind is GapKind.AMBIGUOUS:
                return sample
            else:
                dropped[pod.name] = sample
        if not samples and not dropped:
            return self._no_series()
        if not samples:
            return next(iter(dropped.values()))
        return PodSamples(samples, dropped, _warnings(self._answer, self._query))

    def _series_of(self, pod: str) -> list[Series]:
        labels = self._query.labels
        return [
            series
            for series in self._answer.with_label(labels.pod, pod)
            if series.labels.get(labels.namespace) == self._namespace
            and (self._selector is None or self._selector.matches(series.labels))
        ]

    def _sample(self, pod: Pod, series: list[Series]) -> Sample | Gap:
        if isinstance(self._metric, PodsMetric):
            return self._single(pod.name, series)
        by_container = self._by_container(pod.name, series)
        if isinstance(by_container, Gap):
            return by_container
        if isinstance(self._metric, ContainerResourceMetric):
            one = by_container.get(self._metric.container)
            if one is None:
                return _gap(
                    GapKind.EMPTY,
                    f"pod {pod.name} has no series of container {self._metric.container}",
                )
            return self._single(pod.name, [one])
        return self._sum(pod, by_container)

    def _by_container(self, pod: str, series: list[Series]) -> Mapping[str, Series] | Gap:
        label = self._query.labels.container
        found = {one.labels.get(label, ""): one for one in series}
        if len(found) < len(series) or ("" in found and len(found) > 1):
            return self._ambiguous(pod, series, f"namespace, pod and {label}")
        return found

    def _sum(self, pod: Pod, by_container: Mapping[str, Series]) -> Sample | Gap:
        """Return the sum over a pod's containers; a gap if a container has no series."""
        if "" not in by_container:
            # The requests of sidecars count, so their usage must too.
            sidecars = (one for one in pod.requests.init_containers if one.restartable)
            for container in (*pod.requests.containers, *sidecars):
                if container.name not in by_container:
                    return _gap(
                        GapKind.PARTIAL,
                        f"container {container.name} of pod {pod.name} has no series",
                    )
        total, oldest = 0, self._now
        for series in by_container.values():
            value = _value_of(series, self._query, self._now)
            if isinstance(value, Gap):
                return value
            total += value
            oldest = min(oldest, series.timestamp)
        return Sample(total, oldest, self._query.window)

    def _single(self, pod: str, series: list[Series]) -> Sample | Gap:
        if len(series) > 1:
            return self._ambiguous(pod, series, "namespace and pod")
        value = _value_of(series[0], self._query, self._now)
        if isinstance(value, Gap):
            return value
        return Sample(value, series[0].timestamp, self._query.window)

    def _ambiguous(self, pod: str, series: list[Series], by: str) -> Gap:
        return _gap(
            GapKind.AMBIGUOUS,
            f"{len(series)} series are about pod {pod}, {labels_text(series[0])} and "
            f"{labels_text(series[1])} among them; aggregate the query by {by}",
        )

    def _no_series(self) -> Gap:
        labels = self._query.labels
        if not self._answer.series:
            return _gap(GapKind.EMPTY, "the query returned no series")
        return _gap(
            GapKind.EMPTY,
            "none of the series is labelled "
            f'{labels.namespace}="{self._namespace}" and {labels.pod}=<one of its pods>',
        )
