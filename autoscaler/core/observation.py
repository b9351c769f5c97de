"""The input of a decision: the values that one sync has read; a `Gap` is missing data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.core.extensions import Schedule
from autoscaler.core.quick import quick
from autoscaler.core.spec import ConditionStatus, HorizontalPodAutoscalerSpec

LONGEST_SENTENCE = 2000
"""The most characters of a sentence that quotes text from outside."""


class GapKind(StrEnum):
    """Why data is missing (semantics 2.1)."""

    ERROR = "error"
    """The query failed."""
    EMPTY = "empty"
    """The query succeeded, and no series of its answer belongs to the metric."""
    NOT_A_NUMBER = "NaN"
    """The value of a series is NaN or infinite."""
    STALE = "stale"
    """The sample of a series is older than the query's `maxAge`."""
    PARTIAL = "partial"
    """Prometheus warned that its answer is incomplete, or a container of a pod has no series."""
    AMBIGUOUS = "ambiguous"
    """Several series match where one is needed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing data, and a sentence that says why."""

    kind: GapKind
    detail: str


@quick
@dataclass(frozen=True, slots=True)
class Sample:
    """The value of one pod in milli-units, its Unix time, and the seconds that it averages over."""

    milli: int
    timestamp: float
    window: float


@dataclass(frozen=True, slots=True)
class PodSamples:
    """The reading of a per-pod metric: samples by pod name.

    The pods in ``dropped`` have series but no usable sample, and count as missing.  With ``gaps``
    the reading may understate the load.
    """

    samples: Mapping[str, Sample]
    dropped: Mapping[str, Gap] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class Values:
    """The reading of an External metric (any number of values) or an Object metric (one).

    The values are in milli-units; with ``gaps`` their sum may understate the load.  An ``empty``
    answer, and ``nans`` of the values, count as 0 (semantics 8.8).  ``total`` is the sum in units
    where thousandths do not hold it.
    """

    values: tuple[int, ...]
    gaps: tuple[Gap, ...] = ()
    empty: bool = field(default=False, compare=False)
    nans: int = field(default=0, compare=False)
    total: float | None = field(default=None, compare=False)

    @property
    def units(self) -> float:
        """The sum in units, as it was read."""
        return sum(self.values) / 1000 if self.total is None else self.total


Reading = PodSamples | Values | Gap
"""The reading of one metric; a `Gap` if there is no value."""


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """`resources.requests` of one container: nano-units by resource name."""

    name: str
    requests: Mapping[str, int]
    restartable: bool = False
    """Whether it is a sidecar: an init container with `restartPolicy: Always`."""


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The requests of a pod's spec: of its containers, and at pod level."""

    containers: tuple[ContainerRequests, ...]
    init_containers: tuple[ContainerRequests, ...] = ()
    pod_level: Mapping[str, int] = field(default_factory=dict)
    """`spec.resources.requests` of the pod in nano-units; empty if absent."""

    @property
    def counted(self) -> tuple[ContainerRequests, ...]:
        """The containers and the sidecars."""
        if not self.init_containers:
            return self.containers
        return (*self.containers, *(init for init in self.init_containers if init.restartable))


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields of a pod that a decision uses.  Times are Unix seconds."""

    name: str
    phase: str
    ready: ConditionStatus | None
    """The status of the Ready condition; None without the condition."""
    ready_transition: float | None
    """`lastTransitionTime` of the Ready condition; None if absent."""
    start_time: float | None
    deleted: bool
    """Whether the pod has a deletionTimestamp."""
    requests: PodRequests
    deletion_cost: int | None = None
    """`controller.kubernetes.io/pod-deletion-cost`; None without one, 0 if it is not a number."""
    our_deletion_cost: int | None = None
    """The deletion cost that this autoscaler has set; another client may have replaced it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource, and what the scaled object's metadata says about it."""

    spec_replicas: int
    status_replicas: int
    selector: str
    resource_version: str = ""
    """A write names it, so that the API server refuses it after any other change."""
    uid: str = ""
    """The UID of the scaled object; empty if unknown."""
    replicas_by: str = ""
    """The field manager that last set the replicas; empty if unknown."""
    generation: int = 0
    """`metadata.generation`, which counts the changes of the object's spec; 0 if unknown."""
    annotations: tuple[tuple[str, str], ...] = ()
    """The object's annotations that begin with ``autoscaler/``, sorted."""


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """The scale or the pods could not be read; the message is for the operator."""

    message: str


@dataclass(frozen=True, slots=True)
class UncheckedControl:
    """It cannot be checked whether another autoscaler controls the target; the reason says why.

    ``known`` is the autoscaler at the last check, empty for none; None before the first check.
    """

    message: str
    known: str | None = None


HOLD_QUERY = "holdScaleDownQuery"
DELETION_COST_QUERY = "scaleDown.podDeletionCost"


@dataclass(frozen=True, slots=True)
class HoldReading:
    """The number of series that forbid scale-downs, and labels of the ``first``; or a ``gap``."""

    series: int = 0
    first: str = ""
    gap: Gap | None = None

    @property
    def holds(self) -> bool:
        """Whether scale-downs are forbidden."""
        return self.series > 0 or self.gap is not None


def why_held(reading: HoldReading) -> str:
    """Return why `holdScaleDownQuery` forbids scale-downs."""
    if reading.gap is not None:
        return f"no scale-down, {HOLD_QUERY} has no valid answer: {reading.gap.detail}"
    if not reading.series:
        return f"no scale-down in the first sync after {HOLD_QUERY} ended"
    more = f" and {reading.series - 1} more" if reading.series > 1 else ""
    # Such as the series of vector(1).
    first = "a value without labels" if reading.first == "{}" else reading.first
    return f"no scale-down while {HOLD_QUERY} returns {first}{more}"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """An open schedule, and its end in Unix seconds and as text in its time zone."""

    schedule: Schedule
    until: float
    until_text: str


@dataclass(frozen=True, slots=True)
class HpaCondition:
    """A condition of the status: whether it is True, and its reason."""

    type: str
    true: bool
    reason: str


@dataclass(frozen=True, slots=True)
class HpaStatus:
    """`HorizontalPodAutoscalerStatus`, received at ``time`` (Unix seconds).

    The controller writes it when it changes. ``values`` are from `currentMetrics` in the order
    of the spec, in the unit of the target: percent of the request, or milli-units. A value that the
    controller could not read is None.
    """

    time: float
    current_replicas: int
    desired_replicas: int
    values: tuple[int | None, ...] = ()
    conditions: tuple[HpaCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Hpa:
    """A HorizontalPodAutoscaler: its recent ``statuses``, the one in force last.

    ``spec`` is None if this daemon cannot read it; ``scaled_object`` is the name of the
    ScaledObject for which KEDA created it, else empty.
    """

    name: str
    scaled_object: str = ""
    spec: HorizontalPodAutoscalerSpec | None = None
    statuses: tuple[HpaStatus, ...] = ()
    undecided: str = ""
    """The reason of the controller if it has not decided yet: `FailedGetExternalMetric`."""

    @property
    def status(self) -> HpaStatus | None:
        """The status in force; None if the controller has not decided yet."""
        return self.statuses[-1] if self.statuses else None


@quick
@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that one decision reads, apart from spec, flags, history and time."""

    scale: Scale | ReadFailure
    pods: tuple[Pod, ...] | ReadFailure | None
    """None if the target needs no pods (`Target.needs_pods`)."""
    readings: tuple[Reading, ...]
    """One for each metric, in the order of the spec."""
    ambiguous_with: tuple[str, ...] = ()
    """Other targets whose selector matches one of the pods."""
    controller: str | UncheckedControl | None = None
    """The other autoscaler that controls the target, such as ``HorizontalPodAutoscaler "web"``."""
    sole_writer: bool = True
    """Whether this process has led without a break since ``last_read`` (semantics 7.4)."""
    last_read: float | None = None
    """When this process read the scale before this sync, in Unix seconds; None if it never did."""
    ranges: tuple[float, ...] | None = None
    """`Query.range_seconds` of each metric; None if gaps are not to be tracked (semantics 7.2)."""
    windows: tuple[OpenWindow, ...] = ()
    """The target's schedules that are open now."""
    min_replicas_reading: Values | Gap | None = None
    max_replicas_reading: Values | Gap | None = None
    """The one value of the query of each bound; None if the target has no such query."""
    last_sync: float | None = None
    """The time of the previous decision in Unix seconds, also of an earlier process whose
    histories this one continues; None if unknown."""
    metric_keys: tuple[str, ...] = ()
    """`Target.metric_keys`; empty if the history uses the names of the metrics."""
    hold: HoldReading | None = None
    """The reading of `Target.hold`; None if the target has no such query."""
    hpa: Hpa | None = None
    """The HPA that controls the target; None if none is known."""
    deletion_costs: PodSamples | Gap | None = None
    """The reading of `Target.deletion_cost`; None if the target has no such query."""

    @property
    def asks_for_bounds(self) -> bool:
        """Whether the target has a query of a bound."""
        return self.min_replicas_reading is not None or self.max_replicas_reading is not None
