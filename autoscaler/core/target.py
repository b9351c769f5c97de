"""A target: one workload, what its autoscaler spec asks, and the queries that give its metrics."""

from dataclasses import dataclass, field

from autoscaler.core.spec import HorizontalPodAutoscalerSpec


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """The names of the labels that say which object a series is about."""

    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its answer is read.  Two targets with equal PromQL share one request."""

    promql: str
    window: float = 60.0
    """The seconds that a sample averages over (the HPA's default is 60)."""
    max_age: float = 300.0
    """The seconds after which a sample is too old to count."""
    labels: SeriesLabels = SeriesLabels()
    range_seconds: float = 0.0
    """How far the PromQL looks back, in seconds; 0 where it looks at an instant."""


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of `targets`.  ``queries`` are in the order of ``spec.metrics``."""

    namespace: str
    spec: HorizontalPodAutoscalerSpec
    queries: tuple[Query, ...]
    sync_period: float = 15.0
    """Seconds from one sync to the next."""

    key: str = field(init=False, compare=False)
    """The target's identity, `namespace/kind/name` (with the group where it is not usual)."""

    def __post_init__(self) -> None:
        ref = self.spec.scale_target_ref
        usual = {""} if ref.kind == "ReplicationController" else {"", "apps"}
        kind = ref.kind if ref.group in usual else f"{ref.kind}.{ref.group}"
        object.__setattr__(self, "key", f"{self.namespace}/{kind}/{ref.name}")
