"""What the models hold -> the types of the core: specs, targets, and the `Config` that has them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from autoscaler import quantities
from autoscaler.config import spec_model as model
from autoscaler.config.promql import is_condition
from autoscaler.config.queries import Labels, Queries, bound_query_of, hold_query_of
from autoscaler.config.settings import (
    ClusterSettings,
    Config,
    IncludedFile,
    MainFile,
    Settings,
    Sources,
)
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions, Pause, PauseMode
from autoscaler.core.spec import HorizontalPodAutoscalerSpec, LabelSelector
from autoscaler.core.target import HoldQuery, Target


def config_of(
    main: MainFile,
    included: Sequence[IncludedFile],
    targets: Iterable[model.TargetModel],
    path: Path,
    sources: Sources,
    pod_namespace: str | None,
) -> Config:
    """Convert documents that all rules accepted, and their ``targets`` one after another."""
    parts: list[MainFile | IncludedFile] = [main, *included]
    queries = Queries(
        {name: query for part in parts for name, query in part.queries.items()},
        main.resource_queries,
        {name: server.resource_queries for name, server in main.prometheus.servers.items()},
        tuple(sorted({name for one in main.clusters or () for name in one.series_labels})),
    )
    shared: _Shared = cache(lambda value: value)
    clusters = {cluster.name: cluster for cluster in main.clusters or ()}
    converted = tuple(
        _target_of(target, cluster, queries, main.sync_period, shared)
        for target in targets
        for cluster in _clusters_of(target, clusters)
    )
    settings = {name: getattr(main, name) for name in Settings.model_fields}
    election = main.leader_election
    namespace = election.namespace or pod_namespace or ""
    settings["leader_election"] = election.model_copy(update={"namespace": namespace})
    # All of it is validated already.
    return Config.model_construct(**settings, path=path, sources=sources, targets=converted)


_Shared: TypeAlias = Callable[[Any], Any]
"""Returns the first value that is equal to one, so that many targets have one object."""


def _clusters_of(
    target: model.TargetModel, clusters: Mapping[str, ClusterSettings]
) -> Sequence[ClusterSettings | None]:
    if not clusters:
        return (None,)
    only = () if target.cluster is None else (target.cluster,)
    return [clusters[name] for name in target.clusters or only or clusters]


def _target_of(
    target: model.TargetModel,
    cluster: ClusterSettings | None,
    queries: Queries,
    sync_period: float,
    shared: _Shared,
) -> Target:
    extensions, server, labels = _extensions(target, shared), target.server, Labels()
    if cluster is not None:
        server = server or cluster.prometheus
        labels = shared(tuple(sorted(cluster.series_labels.items())))
    low, high = target.min_replicas_query, target.max_replicas_query
    hold = target.hold_scale_down_query
    return Target(
        namespace=target.namespace,
        spec=to_core(target),
        queries=tuple(queries.for_metric(metric, server, labels) for metric in target.metrics),
        sync_period=sync_period if target.sync_period is None else target.sync_period,
        extensions=NO_EXTENSIONS if extensions == NO_EXTENSIONS else shared(extensions),
        min_replicas_query=None if low is None else shared(bound_query_of(low, server)),
        max_replicas_query=None if high is None else shared(bound_query_of(high, server)),
        hold=None if hold is None else shared(_hold(hold, queries, server)),
        cluster="" if cluster is None else cluster.name,
    )


def _hold(hold: model.HoldQueryModel, queries: Queries, server: str | None) -> HoldQuery:
    query = hold_query_of(hold if hold.name is None else queries.named[hold.name], server)
    selector = None if hold.selector is None else hold.selector.as_core(LabelSelector)
    return HoldQuery(query, selector, is_condition(query.promql) is True)


def _extensions(target: model.TargetModel, shared: _Shared) -> Extensions:
    activations = tuple(quantities.parse_fine(each.activation or "0") for each in target.metrics)
    extensions, fallback = target.as_core(Extensions), target.fallback
    # The current count needs no other one.
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
