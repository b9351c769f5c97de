"""The queries of a configuration: their places, and their uses."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoscaler.config.conversion import Labels, core_name, is_built_in
from autoscaler.config.documents import Location, child, entries, path_of
from autoscaler.config.reading import Reading, Source
from autoscaler.config.settings import Config
from autoscaler.core.observation import HOLD_QUERY
from autoscaler.core.readings import DELETION_COST
from autoscaler.core.spec import SOURCES, LabelSelector, MetricSpec
from autoscaler.core.target import Query, QueryKey, Target


def sources_of(config: Config, content: bytes | None) -> Sequence[Source]:
    """Read the files of a valid configuration again; ``content`` as for `load`."""
    reading = Reading()
    main = config.path.absolute()
    read = [reading.source(config.path, "", content)]
    read += [reading.source(path, "") for path in config.sources.digests if path != main]
    return [source for source in read if source is not None]


class QueryPlace(NamedTuple):
    """A place in a file; ``line`` counts from 1."""

    file: str
    line: int
    path: str


@dataclass(frozen=True, slots=True)
class QueryUse:
    """A target that uses a query; the ``selector`` selects some of its series."""

    place: QueryPlace
    target: Target
    query: Query
    selector: LabelSelector | None


@dataclass(frozen=True, slots=True)
class MetricUse(QueryUse):
    """A metric that uses a query; ``default`` marks the metric of a target without metrics.

    ``number`` is its index in the target's spec; ``own`` is whether the query is part of the
    metric.
    """

    number: int
    metric: MetricSpec
    default: bool
    own: bool

    @property
    def name(self) -> tuple[str, str]:
        """The key and the name by which the metric refers to a shared query."""
        return "resourceQueries" if self.metric.of_resource else "queries", self.metric.name


@dataclass(frozen=True, slots=True)
class ExtensionUse(QueryUse):
    """A bound or a hold that uses a query; ``what`` is its key."""

    what: str


@dataclass(frozen=True, slots=True)
class QueryToCheck:
    """One PromQL at one server, its first place, and its uses."""

    key: QueryKey
    place: QueryPlace
    uses: list[MetricUse] = field(default_factory=list)
    bounds: list[ExtensionUse] = field(default_factory=list)
    holds: list[ExtensionUse] = field(default_factory=list)

    @property
    def built_in(self) -> tuple[str, Labels] | None:
        """The resource of a built-in query, and the labels of its series; None for others."""
        named = ((*use.name, use.query) for use in self.uses)
        return next(
            (
                (name, query.series_labels)
                for key, name, query in named
                if key == "resourceQueries" and is_built_in(name, query)
            ),
            None,
        )


def named_queries(config: Config, content: bytes | None = None) -> dict[str, QueryKey]:
    """Return the queries by their names in `queries`; like `queries_of` it reads the files."""
    begin = "queries."
    return {
        query.place.path.removeprefix(begin): query.key
        for query in queries_of(config, content)
        if query.place.path.startswith(begin)
    }


def queries_of(config: Config, content: bytes | None = None) -> list[QueryToCheck]:
    """List each query of a valid configuration, server by server; ``content`` as for `load`."""
    sources = sources_of(config, content)
    # The targets are in the order of the files.
    placed = [
        (target, *at) for target, at in zip(config.targets, _targets_in(sources), strict=False)
    ]
    used: dict[QueryKey, QueryToCheck] = {}
    by_name: dict[tuple[str, str], list[QueryKey]] = defaultdict(list)

    def entry_of(query: Query, place: QueryPlace) -> QueryToCheck:
        return used.setdefault(query.key, QueryToCheck(query.key, place))

    for use, place in (pair for target in placed for pair in _metrics(*target)):
        entry_of(use.query, place).uses.append(use)
        if not use.own:
            by_name[use.name].append(use.query.key)
    for other, name in (pair for target in placed for pair in _others(*target)):
        known = entry_of(other.query, other.place)
        (known.holds if other.what == HOLD_QUERY else known.bounds).append(other)
        by_name["queries", name].append(other.query.key)
    named: dict[QueryKey, QueryToCheck] = {}
    for of, server, promql, place in _named(sources):
        # A query without a server is sent to the server of each target.
        keys = [key for key in by_name[of] if key.promql == promql and server in {None, key.server}]
        for key in keys or [QueryKey(server or "", promql)]:
            known = used.get(key, QueryToCheck(key, place))
            named.setdefault(key, replace(known, place=place))
    order = list(config.servers)
    return sorted({**used, **named}.values(), key=lambda query: order.index(query.key.server))


def _targets_in(sources: Iterable[Source]) -> Iterator[tuple[Source, int]]:
    """Yield for each target of some files the file and the index of its entry."""
    for source in sources:
        for index, entry in entries(source.value, "targets"):
            clusters = child(entry, "clusters")
            for _ in clusters if isinstance(clusters, list) else (None,):
                yield source, index


def _named(
    sources: Sequence[Source],
) -> Iterator[tuple[tuple[str, str], str | None, str, QueryPlace]]:
    """Yield the named queries: name, server if set, PromQL and place."""
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
                at = None if server is None else core_name(str(server))
                yield (location[-1], str(name)), at, str(promql), place


def _metrics(target: Target, source: Source, index: int) -> Iterator[tuple[MetricUse, QueryPlace]]:
    """Yield the use of each metric, and the place of its query if it has no name.

    The values of `scaleDown.podDeletionCost` are read like a metric.
    """
    for number, (metric, query) in enumerate(zip(target.spec.metrics, target.queries, strict=True)):
        location: Location = ("targets", index, "metrics", number)
        default = child(source.value, *location) is None
        place = at = _place(source, location[:2] if default else location)
        own: Location = (*location, SOURCES[metric.type])
        if metric.of_resource:
            at = place._replace(path=f"{place.path} (built-in query of {metric.name})")
        else:
            own = (*own, "metric")
        has_own = child(source.value, *own, "query") is not None
        if has_own:
            at = _place(source, (*own, "query"))
        yield MetricUse(place, target, query, metric.selector, number, metric, default, has_own), at
    if (cost := target.deletion_cost) is not None:
        at = _place(source, ("targets", index, "scaleDown", "podDeletionCost"))
        number = len(target.spec.metrics)
        yield MetricUse(at, target, cost, None, number, DELETION_COST, default=False, own=True), at


def _others(target: Target, source: Source, index: int) -> Iterator[tuple[ExtensionUse, str]]:
    """Yield the other uses of a target, and the names of their queries, if any."""
    hold = None if target.hold is None else target.hold.query
    for key, what, query in (
        ("minReplicasQuery", "minReplicas", target.min_replicas_query),
        ("maxReplicasQuery", "maxReplicas", target.max_replicas_query),
        (HOLD_QUERY, HOLD_QUERY, hold),
    ):
        if query is not None:
            location: Location = ("targets", index, key)
            name = child(source.value, *location, "name")
            selector = target.hold.selector if target.hold and key == HOLD_QUERY else None
            yield (
                ExtensionUse(_place(source, location), target, query, selector, what),
                str(name or ""),
            )


def _place(source: Source, location: Location) -> QueryPlace:
    line = source.places[location].line
    return QueryPlace(str(source.path), line, path_of(location))
