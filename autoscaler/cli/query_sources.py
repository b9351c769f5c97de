"""Where the queries of a configuration's metrics come from."""

from collections.abc import Mapping

from autoscaler.config import Config
from autoscaler.config.problems import path_of
from autoscaler.config.query_places import queries_of
from autoscaler.config.resource_queries import DEFAULTS
from autoscaler.core.printable import printable
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec, ResourceMetric
from autoscaler.core.target import Query
from autoscaler.rendering.record import QuerySource


def query_sources(config: Config) -> Mapping[str, tuple[QuerySource, ...]]:
    """Return the source of each metric's query, in the order of the spec, by the target's key.

    The files of the configuration are read again for it.
    """
    asked = queries_of(config)
    places = {one.promql: one.place.path for one in asked}
    without_metrics = {
        use.target.key for one in asked for use in one.uses if ".metrics[" not in use.place.path
    }
    return {
        target.key: tuple(
            QuerySource(
                printable(_name(metric, query, places.get(query.promql, ""))),
                default=target.key in without_metrics,
            )
            for metric, query in zip(target.spec.metrics, target.queries, strict=True)
        )
        for target in config.targets
    }


def _name(metric: MetricSpec, query: Query, place: str) -> str:
    """Name a query; ``place`` is the first of its PromQL, named queries before metrics' own."""
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        key, name = "resourceQueries", metric.name
        if query == DEFAULTS.get(name):
            return f"the built-in query of {name}"
    else:
        key, name = "queries", metric.metric.name
    named = place.startswith((f"{key}.", f"{key}["))
    return path_of((key, name)) if named else "its own query"
