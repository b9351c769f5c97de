"""Where the queries of a configuration stand in its files, and which metrics use them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.config.checking import KEYS
from autoscaler.config.document import child, place_of
from autoscaler.config.problems import Location, path_of
from autoscaler.config.settings import Config
from autoscaler.config.sources import Reading, Source
from autoscaler.config.spec_rules import SOURCES, entries
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec, ResourceMetric
from autoscaler.core.target import Query, Target


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
    reading = Reading(KEYS)
    main = config.path.absolute()
    others = [path for path in config.sources.digests if path != main]
    read = [
        reading.source(config.path, "", content),
        *(reading.source(one, "") for one in others),
    ]
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
