"""A target: the spec of one workload's autoscaler and the queries that give its metrics."""

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from autoscaler.core.extensions import NO_EXTENSIONS, Extensions, Mode
from autoscaler.core.spec import (
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricSpec,
    needs_pods,
)


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """The names of the labels that identify the namespace, pod and container of a series."""

    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


class QueryKey(NamedTuple):
    """What identifies a request: the server, and the PromQL. Equal keys share one request."""

    server: str
    """Empty for the default one."""
    promql: str


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its answer is read; equal server and PromQL share a request."""

    promql: str
    window: float = 60.0
    """The seconds over which a sample is an average; the HPA's default is 60."""
    max_age: float = 300.0
    """The age in seconds beyond which a sample is stale."""
    labels: SeriesLabels = SeriesLabels()
    range_seconds: float = 0.0
    """The longest range of the PromQL in seconds; 0 without one."""
    assumes_range: bool = False
    """Whether a part of the range is assumed, because the PromQL is not understood and no key sets
    it."""
    server: str = ""
    """The name of the Prometheus server that is asked; empty for the default one."""
    empty_is_zero: bool = False
    """Whether an answer without a series of the metric is a value of 0, and not missing data."""
    nan_is_zero: bool = False
    """Whether NaN is 0, and not missing data."""
    use_partial: bool = False
    """Whether a reading that may be too low may still scale down."""
    series_labels: tuple[tuple[str, str], ...] = ()
    """The labels of the target's cluster that series must have, sorted by name."""
    cluster_labels: tuple[str, ...] = ()
    """The names of the labels of clusters; all series of an External metric must agree in each."""

    key: QueryKey = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", QueryKey(self.server, self.promql))


_KEY_BYTES = 8  # Long enough to distinguish the metrics of one target.


def metric_key(metric: MetricSpec, query: Query) -> str:
    """Return a digest of a metric's query, and of how its answer is read."""
    ref, labels = metric.described_object, query.labels
    selector = metric.selector or LabelSelector()
    described = ref and (ref.group, ref.kind, ref.name)
    asked = (
        (metric.type, described, metric.container),
        (query.server, query.promql, query.range_seconds, query.max_age),
        (query.empty_is_zero, query.nan_is_zero, query.use_partial),
        (labels.namespace, labels.pod, labels.container),
        selector.match_labels,
        [(each.key, each.operator, each.values) for each in selector.match_expressions],
        *([query.series_labels] if query.series_labels else []),
    )
    return blake2b(json.dumps(asked).encode(), digest_size=_KEY_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class HoldQuery:
    """The query of `holdScaleDownQuery`: each series that is not 0 holds (semantics 8.9).

    Only series that match the ``selector`` count. ``condition`` is set if the PromQL is a
    comparison, which returns only series for which it is true, so that their values do not matter.
    """

    query: Query
    selector: LabelSelector | None = None
    condition: bool = False


class TargetName(NamedTuple):
    """The parts of a target's key; no part contains a "/"."""

    cluster: str
    """Empty where the configuration names no clusters."""
    namespace: str
    kind: str
    """`kind.group` if the kind is not of its usual group."""
    name: str

    @classmethod
    def parse(cls, key: str) -> "TargetName":
        """Split a key into its parts; missing parts are empty, and the last one is the name."""
        *front, namespace, kind, name = ("", "", "", *key.split("/", 3))[-4:]
        return cls("".join(front), namespace, kind, name)

    @property
    def key(self) -> str:
        """`namespace/kind/name`, of a named cluster `cluster/namespace/kind/name`."""
        own = f"{self.namespace}/{self.kind}/{self.name}"
        return f"{self.cluster}/{own}" if self.cluster else own

    @property
    def short(self) -> str:
        """The key without its kind, which is seldom needed to distinguish targets."""
        own = f"{self.namespace}/{self.name}"
        return f"{self.cluster}/{own}" if self.cluster else own


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of `targets` in the configuration; ``queries`` are in the order of its metrics."""

    namespace: str
    spec: HorizontalPodAutoscalerSpec
    queries: tuple[Query, ...]
    sync_period: float = 15.0
    """The seconds from one sync to the next."""
    extensions: Extensions = NO_EXTENSIONS
    min_replicas_query: Query | None = None
    max_replicas_query: Query | None = None
    hold: HoldQuery | None = None
    """The query that prevents scale-downs; None without one."""
    deletion_cost: Query | None = None
    """The query of `scaleDown.podDeletionCost`; None without one."""
    cluster: str = ""
    """The name of its cluster; empty where the configuration names none."""
    object_name: str = ""
    """The name of the PromqlAutoscaler that it comes from; empty for a target of a file."""

    key: str = field(init=False, compare=False)
    """The identity (`TargetName`), unique in all clusters."""
    count_queries: tuple[Query, ...] = field(init=False, compare=False, repr=False)
    """The queries of the metrics and of the bounds."""
    deciding_queries: tuple[Query, ...] = field(init=False, compare=False, repr=False)
    """The queries of the metrics, of the bounds and of the hold."""
    all_queries: tuple[Query, ...] = field(init=False, compare=False, repr=False)
    """The queries of the metrics, of the bounds, of the hold and of the deletion costs."""
    metric_keys: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """The key of each metric in the history (`metric_key`)."""
    ranges: tuple[float, ...] = field(init=False, compare=False, repr=False)
    """`Query.range_seconds` of each metric."""

    @property
    def in_shadow(self) -> bool:
        """Whether decisions are made and never written."""
        return self.extensions.mode is Mode.SHADOW

    @property
    def needs_pods(self) -> bool:
        """Whether a decision may need the pods."""
        return self.deletion_cost is not None or needs_pods(self.spec)

    @property
    def place(self) -> tuple[str, str]:
        """The cluster and namespace; within both, a name identifies one object of a kind."""
        return self.cluster, self.namespace

    def __post_init__(self) -> None:
        ref = self.spec.scale_target_ref
        usual = {""} if ref.kind == "ReplicationController" else {"", "apps"}
        kind = ref.kind if ref.group in usual else f"{ref.kind}.{ref.group}"
        key = TargetName(self.cluster, self.namespace, kind, ref.name).key
        object.__setattr__(self, "key", key)
        bounds = (self.min_replicas_query, self.max_replicas_query)
        count = (*self.queries, *(bound for bound in bounds if bound is not None))
        deciding = count if self.hold is None else (*count, self.hold.query)
        every = deciding if self.deletion_cost is None else (*deciding, self.deletion_cost)
        object.__setattr__(self, "count_queries", count)
        object.__setattr__(self, "deciding_queries", deciding)
        object.__setattr__(self, "all_queries", every)
        of_metrics = zip(self.spec.metrics, self.queries, strict=False)
        object.__setattr__(self, "metric_keys", tuple(metric_key(*metric) for metric in of_metrics))
        object.__setattr__(self, "ranges", tuple(query.range_seconds for query in self.queries))
