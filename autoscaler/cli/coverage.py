"""What a metric finds in its query's answer, without access to the cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.observation import Gap, GapKind, Pod, PodRequests, PodSamples, Values
from autoscaler.core.readings import read
from autoscaler.core.series import QueryResult
from autoscaler.core.spec import (
    ContainerResourceMetric,
    ExternalMetric,
    MetricSpec,
    ObjectMetric,
    PodsMetric,
)
from autoscaler.core.target import Query, Target
from autoscaler.core.text import printable

_NAMES_ITS_PODS = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}
"""The kinds whose pods' names begin with the name of the workload."""

_VALUELESS = {GapKind.NOT_A_NUMBER, GapKind.STALE}
_MOST_VALUES, _MOST_LABELS, _LONGEST = 5, 20, 60


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a metric uses of an answer.

    ``used`` are the values of an External or Object metric in milli-units, or the number of pods
    with a sample.  ``faults`` are sentences that say what is missing.  ``valueless`` is set if
    there are series, but none with a value that counts, ``empty`` if there is no series and that
    counts as 0; ``nans`` of the values were NaN and count as 0.
    """

    used: tuple[int, ...] | int
    faults: tuple[str, ...] = ()
    valueless: bool = False
    empty: bool = False
    nans: int = 0


def coverage(
    target: Target, metric: MetricSpec, query: Query, answer: QueryResult, now: float
) -> Coverage:
    """Read a metric as a sync would; the pods are those that the series name."""
    if not answer.series:
        return Coverage((), ("the query returned no series",))
    per_pod = not isinstance(metric, ExternalMetric | ObjectMetric)
    pods = _pods(target, query, answer) if per_pod else ()
    if per_pod and not pods:
        return Coverage(0, (_no_pods(target, metric, query, answer),))
    reading = read(metric, query, answer, target.namespace, pods, now)
    if isinstance(reading, Gap):
        fault = reading.detail
        if reading.kind in {GapKind.EMPTY, GapKind.PARTIAL}:
            fault += f": {_existing(target, metric, query, answer)}"
        return Coverage(0 if per_pod else (), (fault,), reading.kind in _VALUELESS)
    gaps = tuple(gap.detail for gap in reading.gaps)
    if isinstance(reading, Values):
        return Coverage(reading.values, gaps, empty=reading.empty, nans=reading.nans)
    lacking = (*reading.gaps, *reading.dropped.values())
    valueless = not reading.samples and any(gap.kind in _VALUELESS for gap in lacking)
    return Coverage(len(reading.samples), (*gaps, *_dropped(reading)), valueless)


def _dropped(reading: PodSamples) -> Iterator[str]:
    for gap in list(reading.dropped.values())[:_MOST_VALUES]:
        yield gap.detail


def _pods(target: Target, query: Query, answer: QueryResult) -> Sequence[Pod]:
    """Return a pod for each pod name in the series of the target's namespace."""
    series = answer.with_label(query.labels.namespace, target.namespace)
    names = dict.fromkeys(one.labels.get(query.labels.pod, "") for one in series)
    ref = target.spec.scale_target_ref
    if ref.kind in _NAMES_ITS_PODS:
        names = dict.fromkeys(name for name in names if name.startswith(f"{ref.name}-"))
    none = PodRequests(())
    return [Pod(name, "Running", None, None, None, False, none) for name in names if name]  # noqa: FBT003


def _no_pods(target: Target, metric: MetricSpec, query: Query, answer: QueryResult) -> str:
    ref = target.spec.scale_target_ref
    whose = f" beginning with {ref.name}-" if ref.kind in _NAMES_ITS_PODS else ""
    return (
        f"none of the {len(answer.series)} series is labelled "
        f'{query.labels.namespace}="{target.namespace}" and {query.labels.pod}=<a name{whose}>: '
        f"{_existing(target, metric, query, answer)}"
    )


def _existing(target: Target, metric: MetricSpec, query: Query, answer: QueryResult) -> str:
    """Return which values the labels have that select a metric's series."""
    wanted = list(dict.fromkeys(_labels_used(metric, query)))
    texts = [_values(label, answer) for label in wanted]
    lacking = [label for label, text in zip(wanted, texts, strict=True) if not text]
    parts = [text for text in texts if text]
    if lacking:
        known = sorted({name for one in answer.series for name in one.labels})
        shown = ", ".join(printable(name, _LONGEST) for name in known[:_MOST_LABELS])
        parts.append(f"no series has the label {' or '.join(lacking)}")
        parts.append(f"their labels are {shown}" if shown else "they have no labels")
    if isinstance(metric, ExternalMetric | ObjectMetric) or lacking:
        return "; ".join(parts)
    in_namespace = answer.with_label(query.labels.namespace, target.namespace)
    if in_namespace:
        pods = _values(query.labels.pod, QueryResult(in_namespace))
        return f"in namespace {target.namespace} {pods}"
    return "; ".join(parts)


def _labels_used(metric: MetricSpec, query: Query) -> Iterator[str]:
    """Yield the labels that select a metric's series."""
    if isinstance(metric, ObjectMetric):
        described = metric.described_object
        yield described.kind.lower()
    elif not isinstance(metric, ExternalMetric):
        yield query.labels.namespace
        yield query.labels.pod
    if isinstance(metric, ContainerResourceMetric):
        yield query.labels.container
    if isinstance(metric, ExternalMetric | ObjectMetric | PodsMetric):
        selector = metric.metric.selector
        if selector is not None:
            yield from (key for key, _ in selector.match_labels)
            yield from (one.key for one in selector.match_expressions)


def _values(label: str, answer: QueryResult) -> str:
    """Return which values a label has in an answer; empty if no series has it."""
    values = sorted({one.labels[label] for one in answer.series if label in one.labels})
    if not values:
        return ""
    shown = ", ".join(f'"{printable(value, _LONGEST)}"' for value in values[:_MOST_VALUES])
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return f"{printable(label, _LONGEST)} is {shown}{more}"
