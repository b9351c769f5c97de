"""A target: the spec of one workload's autoscaler and the queries that give its metrics."""

from dataclasses import dataclass, field

from autoscaler.core.spec import HorizontalPodAutoscalerSpec


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """The names of the labels that identify the namespace, pod and container of a series."""

    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its answer is read.  Targets with the same PromQL share one request."""

    promql: str
    window: float = 60.0
    """The seconds over which a sample is an average; the HPA's default is 60."""
    max_age: float = 300.0
    """The age in seconds beyond which a sample is stale."""
    labels: SeriesLabels = SeriesLabels()
    range_seconds: float = 0.0
    """The longest range of the PromQL in seconds; 0 if it has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of `targets` in the configuration.

    ``queries`` are in the order of ``spec.metrics``.
    """

    namespace: str
    spec: HorizontalPodAutoscalerSpec
    queries: tuple[Query, ...]
    sync_period: float = 15.0
    """The seconds from one sync to the next."""

    key: str = field(init=False, compare=False)
    """The identity, `namespace/kind/name`; `kind.group` if the kind is not of its usual group."""

    def __post_init__(self) -> None:
        ref = self.spec.scale_target_ref
        usual = {""} if ref.kind == "ReplicationController" else {"", "apps"}
        kind = ref.kind if ref.group in usual else f"{ref.kind}.{ref.group}"
        object.__setattr__(self, "key", f"{self.namespace}/{kind}/{ref.name}")
