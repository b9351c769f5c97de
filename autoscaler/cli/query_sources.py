"""The name of each metric's query: built-in, named in the configuration, or the metric's own."""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.config import Config
from autoscaler.config.document import path_of
from autoscaler.config.queries import DEFAULTS, MetricUse, queries_of
from autoscaler.core.text import printable
from autoscaler.rendering.record import QuerySource


def query_sources(config: Config) -> Mapping[str, tuple[QuerySource, ...]]:
    """Return by target the source of each metric's query, in the order of the spec.

    This reads the files of the configuration again.
    """
    found = {
        (use.target.key, use.number): QuerySource(
            printable(_name(use, one.place.path)), default=use.default
        )
        for one in queries_of(config)
        for use in one.uses
    }
    return {
        target.key: tuple(found[target.key, index] for index in range(len(target.queries)))
        for target in config.targets
    }


def _name(use: MetricUse, place: str) -> str:
    """Return the name of a query; ``place`` is the first place of its PromQL, a named one first."""
    if use.own:
        return "its own query"
    key, name = use.name
    if key == "resourceQueries" and replace(use.query, server="") == DEFAULTS.get(name):
        return f"the built-in query of {name}"
    return place if place.startswith("prometheus.servers") else path_of((key, name))
