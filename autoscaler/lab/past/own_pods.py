"""The target's own pods in an answer over a range, and their totals."""

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator

from autoscaler.config.promql_parser import (
    LONGEST,
    Aggregation,
    BinaryOperation,
    Call,
    Matcher,
    UnsupportedExpression,
    VectorSelector,
    nodes_of,
    with_insertions,
)
from autoscaler.config.promql_parser import read as read_promql
from autoscaler.core.observation import Pod, PodRequests, PodSamples
from autoscaler.core.readings import read
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.target import Query, Target
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.loads import Total, Totals
from autoscaler.lab.engine.workloads import MOST_PODS
from autoscaler.lab.past.ranges import Grid, Matrix, MatrixSeries, runs_of

# The characters of Kubernetes' random names (apimachinery/pkg/util/rand).
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_SUFFIXES = {
    "Deployment": f"{_RANDOM}{{1,10}}-{_RANDOM}{{5}}",
    "Rollout": f"{_RANDOM}{{1,10}}-{_RANDOM}{{5}}",
    "ReplicaSet": f"{_RANDOM}{{5}}",
    "ReplicationController": f"{_RANDOM}{{5}}",
    "StatefulSet": "[0-9]+",
}
"""The suffix after the workload's name and a dash, by kind."""
_OF_ANOTHER_KIND = ".+"
_UNUSUAL = re.compile("[^a-z0-9-]")
_LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
"""The name of a label that needs no quotes."""
VALUE, PODS = {"of": "value"}, {"of": "pods"}
"""The labels of the two series in which totals are stored."""


_MIXING = frozenset(
    {
        *("label_replace", "label_join", "info", "topk", "bottomk", "limitk", "limit_ratio"),
        *("count_values", "scalar", "absent", "absent_over_time"),
    }
)
"""Functions whose result may be of other series than those with the same labels."""


def pods_of(target: Target) -> str:
    """Return the pattern of the names of a target's pods, for PromQL and Python."""
    ref = target.spec.scale_target_ref
    return f"{pattern_of(ref.name)}-{_SUFFIXES.get(ref.kind, _OF_ANOTHER_KIND)}"


def pattern_of(name: str) -> str:
    """Return the pattern of a workload's name, for PromQL and Python.

    A character that no name of a workload has matches any character.
    """
    return _UNUSUAL.sub(lambda found: "[.]" if found[0] == "." else ".", name)


def is_known_kind(target: Target) -> bool:
    """Return whether the suffixes of the pods' names are known for a target."""
    return target.spec.scale_target_ref.kind in _SUFFIXES


def of_own_pods(query: Query, target: Target) -> str:
    """Return a query for the series of a target's pods only, if possible."""
    labels = query.labels
    if not (_LABEL.fullmatch(labels.namespace) and _LABEL.fullmatch(labels.pod)):
        return query.promql
    matchers = (
        Matcher(labels.namespace, "=", target.namespace),
        Matcher(labels.pod, "=~", pods_of(target)),
    )
    return narrowed(query.promql, *matchers) or query.promql


def narrowed(promql: str, *matchers: Matcher) -> str | None:
    """Return an expression for some of the series: those whose labels match.

    Each selector gets the matchers. None if the expression is not understood, or if the matching
    series may depend on others.
    """
    if len(promql) > LONGEST:
        return None
    labels, listed = {matcher.label for matcher in matchers}, ",".join(map(str, matchers))
    insertions: list[tuple[int, str]] = []
    for node in nodes_of(read_promql(promql)):
        match node:
            case UnsupportedExpression() | BinaryOperation(clause="ignoring"):
                return None
            case BinaryOperation(clause="on", labels=matched) if not labels <= matched:
                return None
            case Call(name) | Aggregation(name) if name in _MIXING:
                return None
            case VectorSelector(at=at):
                in_braces = f"{listed}," if node.matchers else listed
                is_open = promql[at - 1] == "{"
                insertions.append((at, in_braces if is_open else f"{{{listed}}}"))
    return with_insertions(promql, insertions) if insertions else None


def totals_of(target: Target, number: int, grid: Grid, matrix: Matrix) -> Matrix:
    """Return the total over a target's pods of the metric with this number, at each instant.

    It is computed from the reading of a sync. It is NaN if a pod has no usable sample.
    """
    query, pattern = target.queries[number], re.compile(pods_of(target))
    at: dict[int, list[Series]] = defaultdict(list)
    labels = query.labels
    for series in matrix.series:
        name = series.labels.get(labels.pod, "")
        if series.labels.get(labels.namespace) == target.namespace and pattern.fullmatch(name):
            for instant, value in _samples(series):
                at[instant].append(Series(series.labels, value, grid.instant(instant)))
    instants = sorted(at)
    totals = [_total(target, number, at[instant], grid.instant(instant)) for instant in instants]
    runs = runs_of(instants)
    return Matrix(
        [
            MatrixSeries(VALUE, runs, array("d", [total.value for total in totals])),
            MatrixSeries(PODS, runs, array("d", [total.pods for total in totals])),
        ]
        if runs
        else [],
        matrix.warnings,
    )


def _total(target: Target, number: int, series: list[Series], now: float) -> Total:
    metric, query = target.spec.metrics[number], target.queries[number]
    names = dict.fromkeys(sample.labels[query.labels.pod] for sample in series)
    pods = [_pod(name) for name in names]
    reading = read(metric, query, QueryResult(series), target.namespace, pods, now)
    if not isinstance(reading, PodSamples) or reading.dropped:
        return Total(math.nan, len(names))
    samples = reading.samples.values()
    return Total(sum(sample.milli for sample in samples) / 1000, len(samples))


def _pod(name: str) -> Pod:
    return Pod(name, "Running", None, None, None, deleted=False, requests=PodRequests(()))


def _samples(series: MatrixSeries) -> Iterator[tuple[int, float]]:
    at = 0
    for first, count in series.runs:
        yield from enumerate(series.values[at : at + count], first)
        at += count


def kept_totals(answers: Answers) -> Totals:
    """Return totals in the form of `totals_of`; a value that is not a number is a gap."""

    def total(instant: float) -> Total | QueryFailure | None:
        answer = answers(instant)
        if isinstance(answer, QueryFailure):
            return answer
        of = {series.labels.get("of"): series.value for series in answer.series}
        value, pods = of.get("value", math.nan), of.get("pods", math.nan)
        if not (math.isfinite(value) and 0 <= pods <= MOST_PODS):
            return None
        if answer.warnings:
            # The missing part may be most of the total.
            return QueryFailure(
                f"Prometheus warned that its answer is incomplete: {answer.warnings[0]}"
            )
        return Total(value, int(pods))

    return total
