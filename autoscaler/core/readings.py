"""From a Prometheus answer to a metric's reading: which series belong, and what is missing."""

from collections.abc import Mapping, Sequence

from autoscaler.core.observation import Gap, GapKind, Pod, PodSamples, Reading, Sample, Values
from autoscaler.core.series import Answer, QueryFailure, Series, milli_of
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricSpec,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)
from autoscaler.core.target import Query


def read(
    metric: MetricSpec,
    query: Query,
    answer: Answer | QueryFailure,
    namespace: str,
    pods: Sequence[Pod],
    now: float,
) -> Reading:
    """Read one metric of a target in ``namespace`` out of its query's answer.

    Series of pods that are not among ``pods`` belong to other workloads and are left out.
    """
    if isinstance(answer, QueryFailure):
        return Gap(GapKind.ERROR, answer.message)
    reading: Reading
    if isinstance(metric, ExternalMetric):
        reading = _external(metric, query, answer, now)
    elif isinstance(metric, ObjectMetric):
        reading = _object(metric, query, answer, namespace, now)
    else:
        reading = _PodReader(metric, query, answer, namespace, now).read(pods)
    if isinstance(reading, Gap) and reading.kind is GapKind.EMPTY and answer.warnings:
        # What is not there may be in the part that is missing.
        return Gap(GapKind.PARTIAL, f"{reading.detail}; {_warnings(answer)[0].detail}")
    return reading


def _warnings(answer: Answer) -> tuple[Gap, ...]:
    return tuple(
        Gap(GapKind.PARTIAL, f"Prometheus warned that its answer is incomplete: {warning}")
        for warning in answer.warnings
    )


def _value_of(series: Series, query: Query, now: float) -> int | Gap:
    """Return the series' value in milli-units, or why it has none that counts."""
    if not series.timestamp >= now - query.max_age:
        age = now - series.timestamp
        return Gap(
            GapKind.STALE,
            f"{_labels(series)} was sampled {age:.0f} s ago, and {query.max_age:g} s is too old",
        )
    milli = milli_of(series.value)
    if milli is None:
        return Gap(GapKind.NOT_A_NUMBER, f"{_labels(series)} is {series.value}, not a number")
    return milli


def _labels(series: Series) -> str:
    pairs = ", ".join(f'{key}="{value}"' for key, value in sorted(series.labels.items()))
    return f"{{{pairs}}}"


def _external(metric: ExternalMetric, query: Query, answer: Answer, now: float) -> Reading:
    selected = answer.select(metric.metric.selector)
    gaps = list(_warnings(answer))
    if not selected:
        of = f"none of the {len(answer.series)} series matches the selector"
        return Gap(GapKind.EMPTY, of if answer.series else "the query returned no series")
    values: list[int] = []
    for series in selected:
        value = _value_of(series, query, now)
        if isinstance(value, Gap):
            gaps.append(value)
        else:
            values.append(value)
    return Values(tuple(values), tuple(gaps)) if values else gaps[-1]


def _object(
    metric: ObjectMetric, query: Query, answer: Answer, namespace: str, now: float
) -> Reading:
    described = metric.described_object
    label, name = described.kind.lower(), described.name
    if described.kind == "Namespace" and not described.group:
        # The API answers for the autoscaler's own namespace, whatever name is given.
        label, name = query.labels.namespace, namespace
    series = [
        one
        for one in answer.with_label(label, name)
        if one.labels.get(query.labels.namespace, namespace) == namespace
        and (metric.metric.selector is None or metric.metric.selector.matches(one.labels))
    ]
    if not series:
        return Gap(
            GapKind.EMPTY,
            f'none of the {len(answer.series)} series is labelled {label}="{name}" '
            f"in namespace {namespace}",
        )
    if len(series) > 1:
        return Gap(
            GapKind.AMBIGUOUS,
            f'{len(series)} series are labelled {label}="{name}", and exactly one is needed: '
            f"{_labels(series[0])} and {_labels(series[1])}",
        )
    value = _value_of(series[0], query, now)
    return value if isinstance(value, Gap) else Values((value,), _warnings(answer))


class _PodReader:
    """Reads a per-pod metric: one sample for each pod that has one."""

    def __init__(
        self,
        metric: PodsMetric | ResourceMetric | ContainerResourceMetric,
        query: Query,
        answer: Answer,
        namespace: str,
        now: float,
    ) -> None:
        self._metric = metric
        self._query = query
        self._answer = answer
        self._namespace = namespace
        self._now = now
        self._selector = metric.metric.selector if isinstance(metric, PodsMetric) else None

    def read(self, pods: Sequence[Pod]) -> Reading:
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
            return self._nothing(len(pods))
        if not samples:
            return next(iter(dropped.values()))
        return PodSamples(samples, dropped, _warnings(self._answer))

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
            return self._only(pod.name, series)
        by_container = self._by_container(pod.name, series)
        if isinstance(by_container, Gap):
            return by_container
        if isinstance(self._metric, ContainerResourceMetric):
            one = by_container.get(self._metric.container)
            if one is None:
                return Gap(
                    GapKind.EMPTY,
                    f"pod {pod.name} has no series of container {self._metric.container}",
                )
            return self._only(pod.name, [one])
        return self._total(pod, by_container)

    def _by_container(self, pod: str, series: list[Series]) -> Mapping[str, Series] | Gap:
        label = self._query.labels.container
        found = {one.labels.get(label, ""): one for one in series}
        if len(found) < len(series) or ("" in found and len(found) > 1):
            return self._ambiguous(pod, series, f"namespace, pod and {label}")
        return found

    def _total(self, pod: Pod, by_container: Mapping[str, Series]) -> Sample | Gap:
        """Sum a pod's containers; a container without a series leaves the pod without a sample."""
        if "" not in by_container:
            # A sidecar's request counts, so its usage must be there too.
            sidecars = (one for one in pod.requests.init_containers if one.restartable)
            for container in (*pod.requests.containers, *sidecars):
                if container.name not in by_container:
                    return Gap(
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

    def _only(self, pod: str, series: list[Series]) -> Sample | Gap:
        if len(series) > 1:
            return self._ambiguous(pod, series, "namespace and pod")
        value = _value_of(series[0], self._query, self._now)
        if isinstance(value, Gap):
            return value
        return Sample(value, series[0].timestamp, self._query.window)

    def _ambiguous(self, pod: str, series: list[Series], by: str) -> Gap:
        return Gap(
            GapKind.AMBIGUOUS,
            f"{len(series)} series are about pod {pod}, {_labels(series[0])} and "
            f"{_labels(series[1])} among them; aggregate the query by {by}",
        )

    def _nothing(self, pods: int) -> Gap:
        labels, series = self._query.labels, self._answer.series
        if not series:
            return Gap(GapKind.EMPTY, "the query returned no series")
        return Gap(
            GapKind.EMPTY,
            f"none of the {len(series)} series is labelled "
            f'{labels.namespace}="{self._namespace}" and {labels.pod}=<one of the {pods} pods>',
        )
