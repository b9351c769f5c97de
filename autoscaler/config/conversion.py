"""Converts the models to the types of the core: queries, targets, and the `Config` of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from autoscaler import quantities
from autoscaler.config import spec_model as model
from autoscaler.config.promql import is_condition, range_of
from autoscaler.config.settings import (
    DEFAULT_SERVER,
    ClusterSettings,
    Config,
    IncludedFile,
    MainFile,
    QueryModels,
    Settings,
    Sources,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions, Pause, PauseMode
from autoscaler.core.spec import HorizontalPodAutoscalerSpec, LabelSelector
from autoscaler.core.target import HoldQuery, Query, SeriesLabels, Target

# -- queries: the built-in ones, and which one gives a metric -------------------------------------

Labels = tuple[tuple[str, str], ...]
"""Labels of series with their values, sorted by name."""

STARTS = "container_start_time_seconds"
CONTAINERS = 'container!="", container!="POD"'
"""The label is empty for a pod's own cgroup and ``POD`` for its pause container."""


def usage_once(usage: str, labels: Sequence[str], matchers: str = CONTAINERS) -> str:
    """Return a query for the usage of each container, from its newest series by start time.

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


SERIES = {
    "cpu": "container_cpu_usage_seconds_total",
    "memory": "container_memory_working_set_bytes",
}
"""What the built-in queries are computed from, by resource."""
CONTAINER = ("namespace", "pod", "container")
"""The sources of the built-in queries, by resource."""


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
    """All queries that metrics can name; each is one object, even if many targets use it."""

    named: Mapping[str, model.QueryModel]
    resources: Mapping[str, model.QueryModel]
    """`resourceQueries` of the document, which replace built-in ones."""
    resources_of: Mapping[str, Mapping[str, model.QueryModel]]
    """The queries of `prometheus.servers`, which replace both."""
    cluster_labels: tuple[str, ...] = ()
    """The names of `seriesLabels` of all clusters."""
    _made: dict[tuple[bool, str, str | None, Labels], Query] = field(default_factory=dict)

    def for_metric(
        self, metric: model.MetricSpec, server: str | None, labels: Labels = ()
    ) -> Query:
        """Return the query of a metric, which asks the target's ``server`` unless it names one.

        Series of the answer count if they have the ``labels`` of the target's cluster; series of an
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
    """Convert a query that gives one value."""
    return replace(shared_query_of(query, server), empty_is_zero=query.empty == "zero")


def shared_query_of(
    query: model.BoundQueryModel | model.HoldQueryModel | model.PodDeletionCostModel,
    server: str | None,
) -> Query:
    """Convert the keys that all queries have; it asks the ``server`` unless it names one."""
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
    """Convert a query of metrics, with the ``usual`` defaults; a ``window`` also sets the range."""
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
    """Return the name of a server in the core; the default server's name is empty."""
    return "" if server is None or server == DEFAULT_SERVER else server


# -- targets ---------------------------------------------------------------------------------------


def config_of(
    main: MainFile,
    included: Sequence[IncludedFile],
    targets: Iterable[model.TargetModel],
    path: Path,
    sources: Sources,
    pod_namespace: str | None,
) -> Config:
    """Convert documents that satisfy all rules, and their ``targets`` one after another."""
    parts: list[MainFile | IncludedFile] = [main, *included]
    named = {name: query for part in parts for name, query in part.queries.items()}
    models = QueryModels(named, main.resource_queries)
    queries = queries_of(main, models)
    shared: Shared = cache(lambda value: value)
    clusters = {cluster.name: cluster for cluster in main.clusters or ()}
    converted = tuple(
        target_of(target, target.namespace, cluster, queries, main.sync_period, shared)
        for target in targets
        for cluster in _clusters_of(target, clusters)
    )
    settings = {name: getattr(main, name) for name in Settings.model_fields}
    election = main.leader_election
    namespace = election.namespace or pod_namespace or ""
    settings["leader_election"] = election.model_copy(update={"namespace": namespace})
    if main.objects.enabled:
        settings["query_models"] = models
    # Everything is already valid.
    return Config.model_construct(**settings, path=path, sources=sources, targets=converted)


def queries_of(settings: Settings, models: QueryModels) -> Queries:
    """Return all queries of a configuration."""
    clusters = settings.clusters or ()
    return Queries(
        models.named,
        models.resources,
        {name: server.resource_queries for name, server in settings.prometheus.servers.items()},
        tuple(sorted({name for cluster in clusters for name in cluster.series_labels})),
    )


Shared: TypeAlias = Callable[[Any], Any]
"""Returns the first of equal values, so that many targets share one object."""


def _clusters_of(
    target: model.TargetModel, clusters: Mapping[str, ClusterSettings]
) -> Sequence[ClusterSettings | None]:
    if not clusters:
        return (None,)
    only = () if target.cluster is None else (target.cluster,)
    return [clusters[name] for name in target.clusters or only or clusters]


def target_of(
    target: model.ScalingModel,
    namespace: str,
    cluster: ClusterSettings | None,
    queries: Queries,
    sync_period: float,
    shared: Shared,
) -> Target:
    """Convert a valid model; ``sync_period`` is its default."""
    extensions, server, labels = _extensions(target, shared), target.server, Labels()
    if cluster is not None:
        server = server or cluster.prometheus
        labels = shared(tuple(sorted(cluster.series_labels.items())))
    low, high = target.min_replicas_query, target.max_replicas_query
    hold, down = target.hold_scale_down_query, target.scale_down
    return Target(
        namespace=namespace,
        spec=to_core(target),
        queries=tuple(
            shared(queries.for_metric(metric, server, labels)) for metric in target.metrics
        ),
        sync_period=sync_period if target.sync_period is None else target.sync_period,
        extensions=NO_EXTENSIONS if extensions == NO_EXTENSIONS else shared(extensions),
        min_replicas_query=None if low is None else shared(bound_query_of(low, server)),
        max_replicas_query=None if high is None else shared(bound_query_of(high, server)),
        hold=None if hold is None else shared(_hold(hold, queries, server)),
        deletion_cost=None if down is None else shared(_deletion_cost(down, server, labels)),
        cluster="" if cluster is None else cluster.name,
    )


def _deletion_cost(down: model.ScaleDownModel, server: str | None, labels: Labels) -> Query:
    query, own = down.pod_deletion_cost, _USUAL.labels
    if query.labels is not None:
        own = query.labels.as_core(SeriesLabels)
    return replace(shared_query_of(query, server), labels=own, series_labels=labels)


def _hold(hold: model.HoldQueryModel, queries: Queries, server: str | None) -> HoldQuery:
    query = shared_query_of(hold if hold.name is None else queries.named[hold.name], server)
    selector = None if hold.selector is None else hold.selector.as_core(LabelSelector)
    return HoldQuery(query, selector, is_condition(query.promql) is True)


def _extensions(target: model.ScalingModel, shared: Shared) -> Extensions:
    activations = tuple(quantities.parse_fine(each.activation or "0") for each in target.metrics)
    extensions, fallback = target.as_core(Extensions), target.fallback
    # The current count needs no other count.
    count = 0 if fallback is None else fallback.replicas or 0
    return replace(
        extensions,
        activations=activations if any(activations) else (),
        fallback=extensions.fallback and replace(extensions.fallback, replicas=count),
        pause=_pause(target.paused),
        schedules=tuple(map(shared, extensions.schedules)),
    )


def _pause(paused: bool | str | model.PausedReplicas) -> Pause | None:  # noqa: FBT001 - YAML
    if isinstance(paused, model.PausedReplicas):
        return Pause(replicas=paused.replicas)
    if isinstance(paused, bool):
        return Pause() if paused else None
    return Pause(PauseMode(paused))


def to_core(spec: model.HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """Convert a spec, in which the models have filled in the API's defaults."""
    return spec.as_core(HorizontalPodAutoscalerSpec)
