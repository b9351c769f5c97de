"""Which query gives a metric: its own, one of `queries` by name, or a resource's."""

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.config.promql_range import range_of
from autoscaler.config.query_model import QueryModel
from autoscaler.config.resource_queries import DEFAULTS
from autoscaler.config.spec_model import MetricSpec
from autoscaler.core.target import Query, SeriesLabels

_USUAL = Query(promql="")


@dataclass(frozen=True)
class Queries:
    """All queries that metrics can name; each is one object, however many targets use it."""

    named: Mapping[str, Query]
    resources: Mapping[str, Query]

    @classmethod
    def of(cls, named: Mapping[str, QueryModel], resources: Mapping[str, QueryModel]) -> "Queries":
        """Convert `queries`, and `resourceQueries` over the built-in ones."""
        overrides = resources.items()
        return cls(
            named={name: query_of(model) for name, model in named.items()},
            resources={
                **DEFAULTS,
                **{name: query_of(model, DEFAULTS.get(name, _USUAL)) for name, model in overrides},
            },
        )

    def for_metric(self, metric: MetricSpec) -> Query:
        """Return the query of a metric; the rules made sure that there is one."""
        resource = metric.resource or metric.container_resource
        if metric.query is not None:
            usual = DEFAULTS.get(resource.name, _USUAL) if resource else _USUAL
            return query_of(metric.query, usual)
        if resource is not None:
            return self.resources[resource.name]
        source = metric.pods or metric.object or metric.external
        if source is None:
            raise ValueError(f"a metric of type {metric.type} without a source")
        return self.named[source.metric.name]


def query_of(model: QueryModel, usual: Query = _USUAL) -> Query:
    """Convert a query; what it leaves out is as in ``usual``.

    A ``window`` tells of a range that the PromQL does not show, as where it names a recording rule.
    """
    labels = model.labels
    said = usual.range_seconds if model.window is None else model.window
    return Query(
        promql=model.query,
        window=usual.window if model.window is None else model.window,
        max_age=usual.max_age if model.max_age is None else model.max_age,
        labels=usual.labels
        if labels is None
        else SeriesLabels(
            namespace=labels.namespace or usual.labels.namespace,
            pod=labels.pod or usual.labels.pod,
            container=labels.container or usual.labels.container,
        ),
        range_seconds=max(said, range_of(model.query)),
    )
