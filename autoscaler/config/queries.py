"""The queries of metrics: the built-in ones, which one gives a metric, and where it stands."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoscaler.config import durations
from autoscaler.config import spec_model as model
from autoscaler.config.document import Location, child, entries, path_of, place_of
from autoscaler.config.settings import Config
from autoscaler.config.sources import Reading, Source
from autoscaler.config.spec_model import SOURCES
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec, ResourceMetric
from autoscaler.core.target import Query, SeriesLabels, Target

DEFAULTS: dict[str, Query] = {
    "cpu": Query(
        promql=(
            "sum by (namespace, pod, container) "
            '(rate(container_cpu_usage_seconds_total{container!="", container!="POD"}[2m]))'
        ),
        window=120.0,
        range_seconds=120.0,
    ),
    "memory": Query(
        promql=(
            "sum by (namespace, pod, container) "
            '(container_memory_working_set_bytes{container!="", container!="POD"})'
        )
    ),
}
"""By resource name.  cpu is in cores and memory in bytes, as Kubernetes counts them.

The container label is empty for a pod's own cgroup and ``POD`` for its pause container; both
would count usage twice.
"""

SERIES_OF = {
    DEFAULTS["cpu"].promql: "container_cpu_usage_seconds_total",
    DEFAULTS["memory"].promql: "container_memory_working_set_bytes",
}
"""What each of them is computed from."""


_DURATION = r"(?:\d+(?:ms|[smhdwy]))+|\d+(?:\.\d+)?"

_TOKEN = re.compile(
    r"""(?P<skip>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|\#[^\n]*|\s+)"""
    rf"|\[\s*(?P<range>{_DURATION})\s*(?::[^\]]*)?\]"
    rf"|offset\s+(?P<offset>{_DURATION})\b"
    r"|(?P<open>[({])|(?P<close>[)}])|(?P<other>\w+|.)",
    re.DOTALL,
)


_OF_THE_LAST_SAMPLES = frozenset({"last_over_time", "irate", "idelta"})
"""Functions that look at the end of their range only: what was lost before makes no difference."""


def range_of(promql: str) -> float:
    """Return the seconds before its evaluation that an expression may take samples from.

    0 for an instant selector: the lookback of Prometheus is not counted, since a series ends with
    the first scrape that fails.  A range after a closing parenthesis is a subquery's, and begins
    where the ranges inside begin.
    """
    longest = [0.0]
    callers = [""]
    before = 0.0
    """How far that looks back which the next range or offset belongs to."""
    word = ""
    for token in _TOKEN.finditer(promql):
        kind = token.lastgroup
        if kind == "skip":
            continue
        if kind == "open":
            longest.append(0.0)
            callers.append(word)
            before, word = 0.0, ""
            continue
        word = token[0] if kind == "other" else ""
        if kind == "close" and len(longest) > 1:
            before = longest.pop()
            callers.pop()
        elif kind == "range" and callers[-1] in _OF_THE_LAST_SAMPLES:
            pass
        elif kind in {"range", "offset"}:
            text = token[kind]
            # Prometheus also takes plain numbers, of seconds.
            before += durations.parse(text) if text[-1].isalpha() else float(text)
        else:
            before = 0.0
        longest[-1] = max(longest[-1], before)
    return max(longest)


_USUAL = Query(promql="")


@dataclass(frozen=True)
class Queries:
    """All queries that metrics can name; each is one object, however many targets use it."""

    named: Mapping[str, Query]
    resources: Mapping[str, Query]

    @classmethod
    def of(
        cls, named: Mapping[str, model.QueryModel], resources: Mapping[str, model.QueryModel]
    ) -> "Queries":
        """Convert `queries`, and `resourceQueries` over the built-in ones."""
        overrides = resources.items()
        return cls(
            named={name: query_of(query) for name, query in named.items()},
            resources={
                **DEFAULTS,
                **{name: query_of(query, DEFAULTS.get(name, _USUAL)) for name, query in overrides},
            },
        )

    def for_metric(self, metric: model.MetricSpec) -> Query:
        """Return the query of a metric; the rules made sure that there is one."""
        source = metric.source
        if isinstance(source, model.ResourceMetricSource | model.ContainerResourceMetricSource):
            if source.query is None:
                return self.resources[source.name]
            return query_of(source.query, DEFAULTS.get(source.name, _USUAL))
        own = source.metric.query
        return self.named[source.metric.name] if own is None else query_of(own)


def bound_query_of(query: model.BoundQueryModel) -> Query:
    """Convert a query that gives one value, or what all queries have in common."""
    return Query(
        promql=query.query,
        max_age=query.max_age,
        range_seconds=range_of(query.query),
        server=query.server or "",
        empty_is_zero=query.empty == "zero",
        nan_is_zero=query.nan == "zero",
        use_partial=query.partial == "use",
    )


def query_of(query: model.QueryModel, usual: Query = _USUAL) -> Query:
    """Convert a query; a ``window`` that it leaves out is as in ``usual``.

    A ``window`` stands for a range that the PromQL does not show, as that of a recording rule.
    """
    labels = query.labels
    said = usual.range_seconds if query.window is None else query.window
    converted = bound_query_of(query)
    return replace(
        converted,
        window=usual.window if query.window is None else query.window,
        labels=usual.labels
        if labels is None
        else SeriesLabels(labels.namespace, labels.pod, labels.container),
        range_seconds=max(said, converted.range_seconds),
    )


class QueryPlace(NamedTuple):
    """A place in a file; ``line`` counts from 1."""

    file: str
    line: int
    path: str


@dataclass(frozen=True, slots=True)
class MetricUse:
    """A metric of a target that uses a query; ``default`` is that of a target without metrics."""

    place: QueryPlace
    target: Target
    metric: MetricSpec
    query: Query
    default: bool


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """One PromQL, the first place where it stands, and the metrics that use it."""

    promql: str
    place: QueryPlace
    uses: list[MetricUse] = field(default_factory=list)


def queries_of(config: Config, content: bytes | None = None) -> list[AskedQuery]:
    """List every distinct PromQL of a valid configuration, used or not.

    Its files are read again for their lines; ``content`` as for `load`.
    """
    sources = _sources(config, content)
    found: dict[str, AskedQuery] = {}
    for source in sources:
        for key in ("queries", "resourceQueries"):
            named = child(source.value, key)
            for name, query in named.items() if isinstance(named, Mapping) else ():
                promql = query if isinstance(query, str) else child(query, "query")
                place = _place(source, (key, str(name)))
                found.setdefault(str(promql), AskedQuery(str(promql), place))
    for use, location in _uses(sources, config.targets):
        promql = use.query.promql
        if promql not in found:
            found[promql] = AskedQuery(promql, location)
        found[promql].uses.append(use)
    return list(found.values())


def _sources(config: Config, content: bytes | None) -> Sequence[Source]:
    reading = Reading()
    main = config.path.absolute()
    others = [path for path in config.sources.digests if path != main]
    read = [reading.source(config.path, "", content), *(reading.source(one, "") for one in others)]
    return [source for source in read if source is not None]


def _uses(
    sources: Sequence[Source], targets: Sequence[Target]
) -> Iterator[tuple[MetricUse, QueryPlace]]:
    """Yield the use of each metric, and where its query stands if no name leads to it."""
    places = (
        (source, index) for source in sources for index, _ in entries(source.value, "targets")
    )
    # Both are in the order of the files.
    for target, (source, index) in zip(targets, places, strict=False):
        location: Location = ("targets", index)
        for number, (metric, query) in enumerate(
            zip(target.spec.metrics, target.queries, strict=True)
        ):
            metric_location = (*location, "metrics", number)
            default = child(source.value, *metric_location) is None
            if default:
                metric_location = location
            use = MetricUse(_place(source, metric_location), target, metric, query, default)
            yield use, _own_query(source, metric_location, metric)


def _own_query(source: Source, location: Location, metric: MetricSpec) -> QueryPlace:
    """Return where a metric's own query stands, or the metric that is read by a built-in one."""
    key = SOURCES[metric.type]
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        own = _place(source, (*location, key, "query"))
        if child(source.value, *location, key, "query") is None:
            own = _place(source, location)
            return own._replace(path=f"{own.path} (built-in query of {metric.name})")
        return own
    return _place(source, (*location, key, "metric", "query"))


def _place(source: Source, location: Location) -> QueryPlace:
    line = place_of(location, source.places).line
    return QueryPlace(str(source.path), line, path_of(location))
