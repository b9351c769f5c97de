"""The queries of metrics: the built-in ones, which one gives a metric, and where it stands."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoscaler.config import durations
from autoscaler.config import spec_model as model
from autoscaler.config.document import Location, child, entries, path_of, place_of
from autoscaler.config.settings import DEFAULT_SERVER, Config
from autoscaler.config.sources import Source, sources_of
from autoscaler.config.spec_model import SOURCES
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec, ResourceMetric
from autoscaler.core.target import Query, QueryKey, SeriesLabels, Target

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

    named: Mapping[str, model.QueryModel]
    resources: Mapping[str, model.QueryModel]
    """`resourceQueries` of the document, which replace built-in ones."""
    resources_of: Mapping[str, Mapping[str, model.QueryModel]]
    """Those of `prometheus.servers`, which replace both."""
    _made: dict[tuple[str, str, str | None], Query] = field(default_factory=dict)

    def for_metric(self, metric: model.MetricSpec, server: str | None) -> Query:
        """Return the query of a metric; the rules made sure that there is one.

        ``server`` is that of the target, which its queries ask unless they name one.
        """
        source = metric.source
        if isinstance(source, model.ResourceMetricSource | model.ContainerResourceMetricSource):
            if source.query is not None:
                return query_of(source.query, DEFAULTS.get(source.name, _USUAL), server)
            kind, name, make = "resource", source.name, self._of_resource
        else:
            if source.metric.query is not None:
                return query_of(source.metric.query, server=server)
            kind, name, make = "named", source.metric.name, self._named
        key = (kind, name, server)
        if key not in self._made:
            self._made[key] = make(name, server)
        return self._made[key]

    def _named(self, name: str, server: str | None) -> Query:
        return query_of(self.named[name], server=server)

    def _of_resource(self, name: str, server: str | None) -> Query:
        usual = DEFAULTS.get(name, _USUAL)
        own = self.resources_of.get(server or "", {}).get(name) or self.resources.get(name)
        return (
            replace(usual, server=_core_name(server))
            if own is None
            else query_of(own, usual, server)
        )


def bound_query_of(query: model.BoundQueryModel, server: str | None) -> Query:
    """Convert a query that gives one value, or what all queries have in common.

    It asks the ``server`` unless it names one.
    """
    return Query(
        promql=query.query,
        max_age=query.max_age,
        range_seconds=range_of(query.query),
        server=_core_name(server if query.server is None else query.server),
        empty_is_zero=query.empty == "zero",
        nan_is_zero=query.nan == "zero",
        use_partial=query.partial == "use",
    )


def query_of(query: model.QueryModel, usual: Query = _USUAL, server: str | None = None) -> Query:
    """Convert a query; a ``window`` and a ``server`` that it leaves out are as given.

    A ``window`` stands for a range that the PromQL does not show, as that of a recording rule.
    """
    labels = query.labels
    said = usual.range_seconds if query.window is None else query.window
    converted = bound_query_of(query, server)
    return replace(
        converted,
        window=usual.window if query.window is None else query.window,
        labels=usual.labels
        if labels is None
        else SeriesLabels(labels.namespace, labels.pod, labels.container),
        range_seconds=max(said, converted.range_seconds),
    )


def _core_name(server: str | None) -> str:
    """Return what the core calls a server."""
    return "" if server is None or server == DEFAULT_SERVER else server


class QueryPlace(NamedTuple):
    """A place in a file; ``line`` counts from 1."""

    file: str
    line: int
    path: str


@dataclass(frozen=True, slots=True)
class MetricUse:
    """A metric of a target that uses a query; ``default`` is that of a target without metrics.

    ``number`` is its index in the target's spec; ``own`` is whether the query is in the metric.
    """

    place: QueryPlace
    target: Target
    number: int
    metric: MetricSpec
    query: Query
    default: bool
    own: bool

    @property
    def name(self) -> tuple[str, str]:
        """The key and the name by which the metric finds a query that is not its own."""
        if isinstance(self.metric, ResourceMetric | ContainerResourceMetric):
            return "resourceQueries", self.metric.name
        return "queries", self.metric.metric.name


@dataclass(frozen=True, slots=True)
class BoundUse:
    """A bound of a target that a query gives: ``bound`` is minReplicas or maxReplicas."""

    place: QueryPlace
    target: Target
    bound: str
    query: Query


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """One PromQL at one server, the first place where it stands, and what uses it."""

    key: QueryKey
    place: QueryPlace
    uses: list[MetricUse] = field(default_factory=list)
    bounds: list[BoundUse] = field(default_factory=list)


def queries_of(config: Config, content: bytes | None = None) -> list[AskedQuery]:
    """List every distinct query of a valid configuration, used or not, server by server.

    Its files are read again for their lines; ``content`` as for `load`.
    """
    sources = sources_of(config, content)
    used: dict[QueryKey, AskedQuery] = {}
    by_name: dict[tuple[str, str], list[QueryKey]] = defaultdict(list)
    for use, place in _uses(sources, config.targets):
        used.setdefault(use.query.key, AskedQuery(use.query.key, place)).uses.append(use)
        if not use.own:
            by_name[use.name].append(use.query.key)
    for bound, place in _bounds(sources, config.targets):
        used.setdefault(bound.query.key, AskedQuery(bound.query.key, place)).bounds.append(bound)
    found: dict[QueryKey, AskedQuery] = {}
    for name, server, promql, place in _named(sources):
        # One without a server is asked at that of each target.
        keys = [
            key for key in by_name[name] if key.promql == promql and server in {None, key.server}
        ]
        for key in keys or [QueryKey(server or "", promql)]:
            known = used.get(key, AskedQuery(key, place))
            found.setdefault(key, replace(known, place=place))
    order = list(config.servers)
    return sorted({**used, **found}.values(), key=lambda one: order.index(one.key.server))


class _Named(NamedTuple):
    """A query that has a name; ``server`` is None if it names none."""

    name: tuple[str, str]
    server: str | None
    promql: str
    place: QueryPlace


def _named(sources: Sequence[Source]) -> Iterator[_Named]:
    """Yield the queries that have names, and where they stand."""
    servers = child(sources[0].value, "prometheus", "servers") if sources else None
    names = servers if isinstance(servers, Mapping) else ()
    own = [("prometheus", "servers", str(name), "resourceQueries") for name in names]
    for source in sources:
        for location in (("queries",), ("resourceQueries",), *own):
            named = child(source.value, *location)
            for name, query in named.items() if isinstance(named, Mapping) else ():
                promql = query if isinstance(query, str) else child(query, "query")
                server = child(query, "server") or (location[2] if len(location) > 1 else None)
                place = _place(source, (*location, str(name)))
                at = None if server is None else _core_name(str(server))
                yield _Named((location[-1], str(name)), at, str(promql), place)


def _uses(
    sources: Sequence[Source], targets: Sequence[Target]
) -> Iterator[tuple[MetricUse, QueryPlace]]:
    """Yield the use of each metric, and where its query stands if no name leads to it."""
    for target, (source, index) in zip(targets, _places_of_targets(sources), strict=False):
        location: Location = ("targets", index)
        for number, (metric, query) in enumerate(
            zip(target.spec.metrics, target.queries, strict=True)
        ):
            metric_location = (*location, "metrics", number)
            default = child(source.value, *metric_location) is None
            if default:
                metric_location = location
            own = _own_query(source, metric_location, metric)
            place = _place(source, metric_location)
            use = MetricUse(place, target, number, metric, query, default, own is not None)
            yield use, own or _without_own(place, metric)


def _bounds(
    sources: Sequence[Source], targets: Sequence[Target]
) -> Iterator[tuple[BoundUse, QueryPlace]]:
    """Yield the bounds that queries give, and where these stand."""
    for target, (source, index) in zip(targets, _places_of_targets(sources), strict=False):
        for bound, query in (
            ("minReplicas", target.min_replicas_query),
            ("maxReplicas", target.max_replicas_query),
        ):
            if query is not None:
                place = _place(source, ("targets", index, f"{bound}Query"))
                yield BoundUse(place, target, bound, query), place


def _places_of_targets(sources: Sequence[Source]) -> Iterator[tuple[Source, int]]:
    """Yield where each target stands, in the order of the files, which is that of the targets."""
    for source in sources:
        for index, _ in entries(source.value, "targets"):
            yield source, index


def _own_query(source: Source, location: Location, metric: MetricSpec) -> QueryPlace | None:
    """Return where a metric's own query stands; None where it has none."""
    of_resource = isinstance(metric, ResourceMetric | ContainerResourceMetric)
    own: Location = ("query",) if of_resource else ("metric", "query")
    own = (*location, SOURCES[metric.type], *own)
    return None if child(source.value, *own) is None else _place(source, own)


def _without_own(place: QueryPlace, metric: MetricSpec) -> QueryPlace:
    """Return the place of a metric that has no query of its own: a built-in one, or by name."""
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        return place._replace(path=f"{place.path} (built-in query of {metric.name})")
    return place


def _place(source: Source, location: Location) -> QueryPlace:
    line = place_of(location, source.places).line
    return QueryPlace(str(source.path), line, path_of(location))
