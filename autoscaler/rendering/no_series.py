"""The series that a metric uses from its query's answer, and why a query finds none.

For the latter, Prometheus is asked a few short questions. `validate --prometheus`, `plan` and the
daemon use the same sentences.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from autoscaler.config.conversion import STARTS
from autoscaler.config.promql import selectors_of
from autoscaler.config.promql_parser import Matcher, VectorSelector, quoted
from autoscaler.core.numbers import saturate64
from autoscaler.core.observation import Gap, GapKind, Observation, Pod, PodRequests, Reading, Values
from autoscaler.core.readings import read
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import MetricSpec
from autoscaler.core.target import Query, QueryKey, Target
from autoscaler.core.text import printable, rfc3339
from autoscaler.quantities import format_milli
from autoscaler.rendering import wording

_NAMES_ITS_PODS = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}
"""The kinds whose pods' names begin with the name of the workload."""

_VALUELESS = {GapKind.NOT_A_NUMBER, GapKind.STALE}
_NO_VALUE = "finds no value that counts"
_MOST_VALUES, _MOST_LABELS, _LONGEST = 5, 20, 60


def coverage(
    target: Target, metric: MetricSpec, query: Query, answer: QueryResult, now: float
) -> tuple[str, tuple[str, ...]]:
    """Return sentences about what a metric finds in some series, and what is missing.

    The answer is read as in a sync, with the pods that the series name.
    """
    nothing, of_all, per_pod = "finds nothing", answer, metric.of_pods
    answer = answer.only(query.series_labels)
    if not answer.series:
        pairs = " and ".join(f'{name}="{value}"' for name, value in query.series_labels)
        there = existing(target, metric, query, of_all)
        fault = f"none of the {len(of_all.series)} series is labelled {pairs} (seriesLabels)"
        return nothing, (f"{fault}: {there}",)
    pods = _pods(target, query, answer) if per_pod else ()
    if per_pod and not pods:
        return nothing, (_no_pods(target, metric, query, answer),)
    reading = read(metric, query, answer, target.namespace, pods, now)
    if isinstance(reading, Gap):
        fault = reading.detail
        if reading.kind in {GapKind.EMPTY, GapKind.PARTIAL}:
            fault += f": {existing(target, metric, query, answer)}"
        return _NO_VALUE if reading.kind in _VALUELESS else nothing, (fault,)
    gaps = tuple(gap.detail for gap in reading.gaps)
    if isinstance(reading, Values):
        return _values_found(reading, len(of_all.series)), gaps
    gaps += tuple([gap.detail for gap in reading.dropped.values()][:_MOST_VALUES])
    if reading.samples:
        return (
            f"finds {len(reading.samples):,} {'pod' if len(reading.samples) == 1 else 'pods'}",
            gaps,
        )
    lacking = (*reading.gaps, *reading.dropped.values())
    return _NO_VALUE if any(gap.kind in _VALUELESS for gap in lacking) else nothing, gaps


def _values_found(reading: Values, series: int) -> str:
    if reading.empty:
        return "finds no series, counted as 0 (empty: zero)"
    total = format_milli(saturate64(sum(reading.values)))
    nans = f"; {reading.nans} NaN, counted as 0 (nan: zero)" if reading.nans else ""
    sum_of = "their sum is " if len(reading.values) > 1 else ""
    return f"finds {len(reading.values):,} of {series:,} series, {sum_of}{total}{nans}"


def _pods(target: Target, query: Query, answer: QueryResult) -> Sequence[Pod]:
    series = answer.with_label(query.labels.namespace, target.namespace)
    names = dict.fromkeys(
        series_of_pod.labels.get(query.labels.pod, "") for series_of_pod in series
    )
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
        f"{existing(target, metric, query, answer)}"
    )


def existing(target: Target, metric: MetricSpec, query: Query, answer: QueryResult) -> str:
    """Return the existing values of the labels that select a metric's series."""
    wanted = list(dict.fromkeys(_labels_used(metric, query)))
    texts = [values_of(label, answer) for label in wanted]
    lacking = [label for label, text in zip(wanted, texts, strict=True) if not text]
    parts = [text for text in texts if text]
    if lacking:
        parts.append(f"no series has the label {' or '.join(lacking)}")
        parts.append(labels_of(answer))
    if not metric.of_pods or lacking:
        return "; ".join(parts)
    in_namespace = answer.with_label(query.labels.namespace, target.namespace)
    if in_namespace:
        pods = values_of(query.labels.pod, QueryResult(in_namespace))
        return f"in namespace {target.namespace} {pods}"
    return "; ".join(parts)


def labels_of(answer: QueryResult) -> str:
    """Return which labels the series of an answer have."""
    known = sorted({name for series in answer.series for name in series.labels})
    shown = ", ".join(printable(name, _LONGEST) for name in known[:_MOST_LABELS])
    return f"their labels are {shown}" if shown else "they have no labels"


def _labels_used(metric: MetricSpec, query: Query) -> Iterator[str]:
    yield from (name for name, _ in query.series_labels)
    if metric.described_object is not None:
        yield metric.described_object.kind.lower()
    elif metric.of_pods:
        yield query.labels.namespace
        yield query.labels.pod
    if metric.container is not None:
        yield query.labels.container
    yield from () if metric.selector is None else metric.selector.keys


def values_of(label: str, answer: QueryResult, *, all_of_them: bool = True) -> str:
    """Return some values of a label in an answer, as text; empty without values."""
    values = sorted({series.labels[label] for series in answer.series if label in series.labels})
    if not values:
        return ""
    shown = ", ".join(f'"{printable(value, _LONGEST)}"' for value in values[:_MOST_VALUES])
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    more = more if all_of_them else " and others"
    return f"{printable(label, _LONGEST)} is {shown}{more}"


# -- causes --------------------------------------------------------------------------------------

Ask = Callable[[str], QueryResult | QueryFailure]
"""Asks one PromQL expression."""

_MOST_QUESTIONS = 20
_MOST_SELECTORS, _MOST_MATCHERS = 4, 8
_LONGEST_FINDING = 1000
_LONGEST_SELECTOR = 200
_LOOK_BACK = "6h:1m"
"""How far back, and in which steps, the last sample of a selector without series is searched."""


class _UnknownError(Exception):
    """Prometheus does not answer that."""


def why_no_series(ask: Ask, promql: str, name: str = "") -> str:
    """Return which part of a query without series finds nothing; empty if unknown.

    ``name`` is a name that the reader has just read, and is not repeated.
    """
    found: list[str] = []
    with suppress(_UnknownError):
        for sentence in _Investigation(ask, name).causes(promql):
            found.append(sentence)  # noqa: PERF402 - facts known before a question fails stay
    return printable("; ".join(found), _LONGEST_FINDING)


class _Investigation:
    """Asks a limited number of questions about one query."""

    def __init__(self, ask: Ask, name: str) -> None:
        self._ask = ask
        self._name = name
        self._left = _MOST_QUESTIONS

    def causes(self, promql: str) -> Iterator[str]:
        """Yield a sentence for each selector that finds nothing, or one if all find some."""
        # Start times only choose between series.
        every = (selector for selector in selectors_of(promql) if selector.name != STARTS)
        selectors = tuple(islice(every, _MOST_SELECTORS))
        found: list[str] = []
        for selector in selectors:
            if count := self._count(selector):
                found.append(f"{_promql_of(selector)} has {count:,} series")
            else:
                yield self._lacking(selector)
        if found and len(found) == len(selectors):
            ranges = any(selector.range for selector in selectors)
            rate = "; rate and its like need two samples within their range" if ranges else ""
            yield f"{', '.join(found)}, and what the query does with that leaves none{rate}"

    def _lacking(self, selector: VectorSelector) -> str:
        named = replace(selector, matchers=selector.name_matchers)
        others = [matcher for matcher in selector.matchers if matcher not in named.matchers]
        if not str(named).strip("{}"):
            return f"there are no series {_promql_of(selector)}"
        within = f" within {selector.range}" if selector.range else ""
        total = self._count(named) if others else 0
        if not total:
            known = named.name and named.name == self._name
            none = (
                "no series have that name" if known else f"there are no series {_promql_of(named)}"
            )
            return f"{none}{within}{self._last_sample(named)}"
        there = f"{_promql_of(named)} has {total:,} series, but none"
        return f"{there} {self._excluding(selector, named, others)}{self._last_sample(selector)}"

    def _excluding(
        self, selector: VectorSelector, named: VectorSelector, others: Sequence[Matcher]
    ) -> str:
        """Return the label matchers among ``others`` that exclude all series."""
        asked = others[:_MOST_MATCHERS]
        for matcher in asked:
            if not self._count(replace(selector, matchers=(*named.matchers, matcher))):
                return f"with {_promql_of(matcher)}: {self._there_is(named, matcher)}"
        for matcher in asked:
            kept = tuple(other for other in selector.matchers if other != matcher)
            rest = replace(selector, matchers=kept)
            if count := self._count(rest):
                without = f"without {_promql_of(matcher)} there are {count}"
                there_is = self._there_is(rest, matcher)
                return f"with all of its matchers; {without}: {there_is}"
        return f"is {_promql_of(selector)}"

    def _last_sample(self, selector: VectorSelector) -> str:
        """Return when the last sample was scraped, and whether its target is up, if known."""
        plain = replace(selector, range="", offset="")
        found = ""
        with suppress(_UnknownError):
            times = f"max_over_time(timestamp({samples_of(plain)})[{_LOOK_BACK}])"
            answer = self._answer(f"topk(1, max by (job, instance) ({times}))").series
            if not answer:
                return ""
            last, (job, instance) = (
                answer[0],
                (_quoted(answer[0], "job"), _quoted(answer[0], "instance")),
            )
            found = f"; the last sample was at {rfc3339(last.value)}"
            if job and instance:
                up = self._answer(f"up{{job={job},instance={instance}}}").series
                state = ("up" if up[0].value else "down") if up else "gone"
                target = printable(last.labels["instance"], _LONGEST)
                found += f", and its scrape target {target} is {state}"
        return found

    def _there_is(self, selector: VectorSelector, matcher: Matcher) -> str:
        label = matcher.label
        grouped = label if label.isidentifier() else quoted(label)
        by_value = f"count by ({grouped}) ({samples_of(selector)})"
        answer = self._answer(f"topk({_MOST_VALUES + 1}, {by_value})")
        values = values_of(label, answer, all_of_them=len(answer.series) <= _MOST_VALUES)
        if values:
            return values
        names = labels_of(self._answer(f"topk(1, {samples_of(selector)})"))
        return f"no series has the label {printable(label, _LONGEST_SELECTOR)}; {names}"

    def _count(self, selector: VectorSelector) -> int:
        series = self._answer(f"count({samples_of(selector)})").series
        return int(series[0].value) if series else 0

    def _answer(self, promql: str) -> QueryResult:
        if not self._left:
            raise _UnknownError
        self._left -= 1
        answer = self._ask(promql)
        # Some of the series may be on another server.
        if isinstance(answer, QueryFailure) or answer.warnings:
            raise _UnknownError
        return answer


def samples_of(selector: VectorSelector) -> str:
    """Return PromQL for the last sample of each series with the selector's first matchers."""
    offset = f" offset {selector.offset}" if selector.offset else ""
    if selector.range:
        return f"last_over_time({selector}[{selector.range}]{offset})"
    return f"{selector}{offset}"


def _quoted(series: Series, label: str) -> str:
    return json.dumps(series.labels[label]) if series.labels.get(label) else ""


def _promql_of(part: VectorSelector | Matcher) -> str:
    return printable(str(part), _LONGEST_SELECTOR)


@dataclass(frozen=True, slots=True)
class MissingSeries:
    """A query that found no series; ``what`` is its use, ``metric`` None for a bound's."""

    target: Target
    what: str
    query: Query
    metric: MetricSpec | None = None


def missing_in(target: Target, observation: Observation) -> tuple[MissingSeries, ...]:
    """Return the queries of a target in which a sync found no series.

    For a metric of pods this needs the pods to be known.
    """
    knows_pods = isinstance(observation.pods, tuple)
    found = [
        MissingSeries(target, wording.metric_name(metric), query, metric)
        for metric, query, reading in zip(
            target.spec.metrics, target.queries, observation.readings, strict=True
        )
        if _is_empty(reading) and (knows_pods or not metric.of_pods)
    ]
    for bound, query, reading in (
        ("minReplicasQuery", target.min_replicas_query, observation.min_replicas_reading),
        ("maxReplicasQuery", target.max_replicas_query, observation.max_replicas_reading),
    ):
        if query is not None and _is_empty(reading):
            found.append(MissingSeries(target, bound, query))
    return tuple(found)


def _is_empty(reading: Reading | None) -> bool:
    return type(reading) is Gap and reading.kind is GapKind.EMPTY


@dataclass(slots=True)
class Findings:
    """Explains queries that find nothing; consecutive uses of one query are asked once."""

    ask: Callable[[str, str], QueryResult | QueryFailure]
    """Called with the name of the server, and PromQL."""
    _last: tuple[tuple[QueryKey, str], QueryResult | QueryFailure, str] | None = None

    def text_of(self, missing: MissingSeries) -> str:
        """Return which series of a query exist; empty if unknown."""
        metric = missing.metric
        key = missing.query.key, "" if metric is None else metric.name
        if self._last is None or self._last[0] != key:
            self._last = (key, *self._answer_text(*key))
        _, answer, found = self._last
        if isinstance(answer, QueryFailure):
            return ""
        if answer.series and metric is not None:
            there = existing(missing.target, metric, missing.query, answer)
            return f"the query returns {len(answer.series):,} series: {there}"
        return found

    def _answer_text(self, key: QueryKey, name: str) -> tuple[QueryResult | QueryFailure, str]:
        answer = self.ask(key.server, key.promql)
        if isinstance(answer, QueryFailure) or answer.series:
            return answer, ""
        return answer, why_no_series(lambda promql: self.ask(key.server, promql), key.promql, name)


def of_target(
    findings: Sequence[tuple[MissingSeries, str]], missing: Sequence[MissingSeries]
) -> list[str]:
    """Return the findings about a target's missing series; several uses are named."""
    return [
        f"{use.what}: {found}" if len(missing) > 1 else found for use, found in findings if found
    ]
