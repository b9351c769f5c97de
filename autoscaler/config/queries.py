"""The queries of metrics: the built-in ones, and which one gives a metric."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.config import spec_model as model
from autoscaler.config.promql import range_of
from autoscaler.config.settings import DEFAULT_SERVER
from autoscaler.core.target import Query, SeriesLabels

Labels = tuple[tuple[str, str], ...]
"""Labels of series with their values, sorted by name."""

STARTS = "container_start_time_seconds"
CONTAINERS = 'container!="", container!="POD"'
"""The label is empty for a pod's own cgroup and ``POD`` for its pause container."""


def usage_once(usage: str, labels: Sequence[str], matchers: str = CONTAINERS) -> str:
    """Return a query for the usage of each container, that of its newest series by start time.

    cAdvisor reports a container that was restarted under the cgroups of the dead and of the new one
    for minutes.  A container has several series, too, if its kubelet is scraped twice, if a replica
    label is not deduplicated, or if cgroups are nested.
    ``usage`` is an expression of cAdvisor's series.  ``labels`` name a container: namespace, pod
    and container.  Where no series of a container has a start time, or the labels of the start
    time differ, there is one series for each ``id``, between which `core.readings` chooses.
    """
    by, starts = ", ".join(labels), f"{STARTS}{{{matchers}}}"
    cgroup = f"{by}, id, instance"
    # The kubelet gives start times with fractions of a second, and cAdvisor without.
    newest = f"{starts} > on ({by}) group_left () (max by ({by}) ({starts}) - 1)"
    return (
        f"max by ({by}) ({usage} and on ({cgroup}) ({newest})) or on ({by}) "
        f"max by ({by}, id) ({usage} unless on ({cgroup}) {starts})"
    )


def duplicates(name: str, labels: Sequence[str]) -> tuple[str, str]:
    """Return a query for the number of containers with several series, and one for such series.

    Series of a container that a newer one has replaced are none of them.
    """
    by, starts = ", ".join(labels), f"{STARTS}{{{CONTAINERS}}}"
    replaced = f"{starts} <= on ({by}) group_left () (max by ({by}) ({starts}) - 1)"
    running = f"{name}{{{CONTAINERS}}} unless on ({by}, id, instance) ({replaced})"
    several = f"count by ({by}) ({running}) > 1"
    return f"count({several})", f"({running}) and on ({by}) topk(1, {several})"


SERIES = {
    "cpu": "container_cpu_usage_seconds_total",
    "memory": "container_memory_working_set_bytes",
}
"""What the built-in queries are computed from, by resource."""
CONTAINER = ("namespace", "pod", "container")
"""The labels that name a container in the series of built-in queries."""


def built_in(resource: str, labels: Labels = ()) -> Query:
    """Return the built-in query of a resource, whose series keep the names of these labels."""
    usage = f"{SERIES[resource]}{{{CONTAINERS}}}"
    usual = Query(usage)
    if resource == "cpu":
        usual = Query(f"rate({usage}[2m])", window=120.0, range_seconds=120.0)
    promql = usage_once(usual.promql, (*(name for name, _ in labels), *CONTAINER))
    return replace(usual, promql=promql, series_labels=labels)


DEFAULTS: dict[str, Query] = {resource: built_in(resource) for resource in SERIES}
"""By resource name, in cores and in bytes, as Kubernetes counts them."""


def is_built_in(resource: str, query: Query) -> bool:
    """Return whether a query of a resource is the built-in one, at whatever server."""
    known = resource in DEFAULTS
    return known and query == replace(built_in(resource, query.series_labels), server=query.server)


_USUAL = Query(promql="")


@dataclass(frozen=True)
class Queries:
    """All queries that metrics can name; each is one object, however many targets use it."""

    named: Mapping[str, model.QueryModel]
    resources: Mapping[str, model.QueryModel]
    """`resourceQueries` of the document, which replace built-in ones."""
    resources_of: Mapping[str, Mapping[str, model.QueryModel]]
    """Those of `prometheus.servers`, which replace both."""
    cluster_labels: tuple[str, ...] = ()
    """The names of `seriesLabels` of all clusters."""
    _made: dict[tuple[bool, str, str | None, Labels], Query] = field(default_factory=dict)

    def for_metric(
        self, metric: model.MetricSpec, server: str | None, labels: Labels = ()
    ) -> Query:
        """Return the query of a metric, which asks the target's ``server`` unless it names one.

        Of its answer count the series with the ``labels`` of the target's cluster; those of an
        External metric are selected by the metric alone.
        """
        source = metric.source
        of_resource = isinstance(source, model.ResourceMetricSource)
        identifier = source if isinstance(source, model.ResourceMetricSource) else source.metric
        labels = () if isinstance(source, model.ExternalMetricSource) else labels
        known = of_resource and identifier.name in DEFAULTS
        usual = replace(_USUAL, series_labels=labels, cluster_labels=self.cluster_labels)
        usual = built_in(identifier.name, labels) if known else usual
        if identifier.query is not None:
            return query_of(identifier.query, usual, server)
        key = (of_resource, identifier.name, server, labels)
        if key not in self._made:
            named = identifier.name
            own = self._of_resource(named, server) if of_resource else self.named[named]
            at_server = replace(usual, server=core_name(server))
            self._made[key] = at_server if own is None else query_of(own, usual, server)
        return self._made[key]

    def _of_resource(self, name: str, server: str | None) -> model.QueryModel | None:
        return self.resources_of.get(server or "", {}).get(name) or self.resources.get(name)


def bound_query_of(query: model.BoundQueryModel, server: str | None) -> Query:
    """Convert a query that gives one value; it asks the ``server`` unless it names one."""
    return replace(hold_query_of(query, server), empty_is_zero=query.empty == "zero")


def hold_query_of(query: model.BoundQueryModel | model.HoldQueryModel, server: str | None) -> Query:
    """Convert the same for a hold, to which an empty answer is one."""
    promql = query.query or ""
    return Query(
        promql=promql,
        max_age=query.max_age,
        range_seconds=range_of(promql),
        server=core_name(server if query.server is None else query.server),
        nan_is_zero=query.nan == "zero",
        use_partial=query.partial == "use",
    )


def query_of(query: model.QueryModel, usual: Query, server: str | None) -> Query:
    """Convert a query of metrics, the rest as the ``usual`` one; a ``window`` is a range too."""
    converted = bound_query_of(query, server)
    known, said = converted.range_seconds, usual.range_seconds
    if query.window is not None:
        known, said = range_of(converted.promql, unknown=0.0), query.window
    return replace(
        converted,
        window=usual.window if query.window is None else query.window,
        labels=usual.labels if query.labels is None else query.labels.as_core(SeriesLabels),
        range_seconds=max(said, known),
        assumes_range=query.window is None and range_of(converted.promql, math.inf) == math.inf,
        series_labels=usual.series_labels,
        cluster_labels=usual.cluster_labels,
    )


def core_name(server: str | None) -> str:
    """Return the name of a server in the core: that of the default one is empty."""
    return "" if server is None or server == DEFAULT_SERVER else server
