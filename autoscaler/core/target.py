"""A target: the spec of one workload's autoscaler and the queries that give its metrics."""

from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.spec import HorizontalPodAutoscalerSpec


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """The names of the labels that identify the namespace, pod and container of a series."""

    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


class QueryKey(NamedTuple):
    """Which request a query shares with others: the server that is asked, and the PromQL."""

    server: str
    """Empty for the default one."""
    promql: str


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its answer is read.

    Queries with the same server and PromQL share one request.
    """

    promql: str
    window: float = 60.0
    """The seconds over which a sample is an average; the HPA's default is 60."""
    max_age: float = 300.0
    """The age in seconds beyond which a sample is stale."""
    labels: SeriesLabels = SeriesLabels()
    range_seconds: float = 0.0
    """The longest range of the PromQL in seconds; 0 if it has none."""
    server: str = ""
    """The name of the Prometheus server that is asked; empty for the default one."""
    empty_is_zero: bool = False
    """Whether an answer without a series of the metric is a value of 0, and not missing data."""
    nan_is_zero: bool = False
    """Whether NaN is 0, and not missing data."""
    use_partial: bool = False
    """Whether a reading that may understate may scale down all the same."""

    key: QueryKey = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", QueryKey(self.server, self.promql))


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of `targets` in the configuration.

    ``queries`` are in the order of ``spec.metrics``.  Those of the bounds are None if these are
    fixed (semantics 8.2).
    """

    namespace: str
    spec: HorizontalPodAutoscalerSpec
    queries: tuple[Query, ...]
    sync_period: float = 15.0
    """The seconds from one sync to the next."""
    extensions: Extensions = NO_EXTENSIONS
    min_replicas_query: Query | None = None
    max_replicas_query: Query | None = None

    key: str = field(init=False, compare=False)
    """The identity, `namespace/kind/name`; `kind.group` if the kind is not of its usual group."""
    all_queries: tuple[Query, ...] = field(init=False, compare=False, repr=False)
    """Those of the metrics and of the bounds."""

    def __post_init__(self) -> None:
        ref = self.spec.scale_target_ref
        usual = {""} if ref.kind == "ReplicationController" else {"", "apps"}
        kind = ref.kind if ref.group in usual else f"{ref.kind}.{ref.group}"
        object.__setattr__(self, "key", f"{self.namespace}/{kind}/{ref.name}")
        bounds = (self.min_replicas_query, self.max_replicas_query)
        every = (*self.queries, *(one for one in bounds if one is not None))
        object.__setattr__(self, "all_queries", every)
