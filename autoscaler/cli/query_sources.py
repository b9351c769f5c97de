"""The name of each metric's query: built-in, named in the configuration, or the metric's own."""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.config import Config
from autoscaler.config.document import path_of
from autoscaler.config.queries import DEFAULTS, queries_of
from autoscaler.core.spec import ContainerResourceMetric, MetricSpec, ResourceMetric
from autoscaler.core.target import Query
from autoscaler.core.text import printable
from autoscaler.rendering.record import QuerySource


def query_sources(config: Config) -> Mapping[str, tuple[QuerySource, ...]]:
    """Return by target the source of each metric's query, in the order of the spec.

    This reads the files of the configuration again.
    """
    asked = queries_of(config)
    places = {one.key: one.place.path for one in asked}
    without_metrics = {
        use.target.key for one in asked for use in one.uses if ".metrics[" not in use.place.path
    }
    return {
        target.key: tuple(
            QuerySource(
                printable(_name(metric, query, places.get(query.key, ""))),
                default=target.key in without_metrics,
            )
            for metric, query in zip(target.spec.metrics, target.queries, strict=True)
        )
        for target in config.targets
    }


def _name(metric: MetricSpec, query: Query, place: str) -> str:
    """Return the name of a query; ``place`` is the first place of its PromQL, a named one first."""
    if isinstance(metric, ResourceMetric | ContainerResourceMetric):
        key, name = "resourceQueries", metric.name
        if replace(query, server="") == DEFAULTS.get(name):
            return f"the built-in query of {name}"
    else:
        key, name = "queries", metric.metric.name
    if place.startswith("prometheus.servers"):
        return place
    named = place.startswith((f"{key}.", f"{key}["))
    return path_of((key, name)) if named else "its own query"
