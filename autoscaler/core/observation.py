"""What was read of the world for one target at one sync.

Missing data is a value with a name, never a number: see `GapKind`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

LONGEST_SENTENCE = 2000
"""How many characters a sentence may have that repeats what others say."""


class GapKind(StrEnum):
    """Why data is missing.  Each is a different thing and none of them is zero."""

    ERROR = "error"
    """The query failed."""
    EMPTY = "empty"
    """The query succeeded and returned no series that belongs to the metric."""
    NOT_A_NUMBER = "NaN"
    """A series was there, and its value is NaN or infinite."""
    STALE = "stale"
    """A series was there, and its sample is too old."""
    PARTIAL = "partial"
    """Prometheus warned that its answer is not complete."""
    AMBIGUOUS = "ambiguous"
    """Several series claim to be the one value, or lack the label that tells them apart."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of data that is missing, and the sentence that says why."""

    kind: GapKind
    detail: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One pod's value in milli-units, when it was taken, and the seconds that it averages over."""

    milli: int
    timestamp: float
    window: float


@dataclass(frozen=True, slots=True)
class PodSamples:
    """A per-pod metric: pod name -> sample.

    ``dropped`` names pods whose sample was no number or too old; they count as missing.
    ``gaps`` says why the whole reading may understate the truth.
    """

    samples: Mapping[str, Sample]
    dropped: Mapping[str, Gap] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Values:
    """An External metric's values (any number) or an Object's (one), in milli-units.

    ``gaps`` says why their sum may understate the truth.
    """

    values: tuple[int, ...]
    gaps: tuple[Gap, ...] = ()


Reading = PodSamples | Values | Gap
"""What one metric's query gave; a `Gap` when it gave nothing to compute with."""


class ConditionStatus(StrEnum):
    """The status of a condition, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """`resources.requests` of one container, in nano-units by resource name."""

    name: str
    requests: Mapping[str, int]
    restartable: bool = False
    """For an init container: `restartPolicy: Always`, a sidecar."""


@dataclass(frozen=True, slots=True)
class PodRequests:
    """What a pod's spec requests: by container, and for the pod as a whole."""

    containers: tuple[ContainerRequests, ...]
    init_containers: tuple[ContainerRequests, ...] = ()
    pod_level: Mapping[str, int] = field(default_factory=dict)
    """`spec.resources.requests` in nano-units; empty when absent."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The part of a pod that a decision looks at.  Times are Unix seconds."""

    name: str
    phase: str
    ready: ConditionStatus | None
    """The status of the Ready condition; None when the pod has none."""
    ready_transition: float | None
    """`lastTransitionTime` of the Ready condition; None when absent."""
    start_time: float | None
    deleted: bool
    """Whether the pod has a deletionTimestamp."""
    requests: PodRequests


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource as it was read."""

    spec_replicas: int
    status_replicas: int
    selector: str
    resource_version: str = ""
    """Opaque; a write names it so that it never overwrites somebody else's."""
    uid: str = ""
    """The UID of the object that is scaled; empty where it is not known."""
    replicas_by: str = ""
    """The field manager that last set the replicas; empty where it is not known."""
    generation: int = 0
    """How often the object's spec was changed, itself included; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Something of the cluster could not be read; the message is a sentence for the operator."""

    message: str


@dataclass(frozen=True, slots=True)
class Unchecked:
    """It cannot be checked now which other autoscaler controls a target; the message says why.

    ``known`` is who did when that could be checked last, in words, empty for nobody, and None
    where it never could since the process began.
    """

    message: str
    known: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """All that one decision may look at.

    ``pods`` is None where no metric of the spec looks at pods; ``readings`` are in the order
    of the spec's metrics; ``ambiguous_with`` names other targets whose selector matches one
    of this target's pods; ``controller`` says which other autoscaler controls the target, in
    words such as ``HorizontalPodAutoscaler "web"``, and is None where there is none, Unchecked
    where nobody can tell; ``alone`` says that since the scale was read before this time no other
    process with our Lease wrote; ``looked`` is that time (Unix seconds), None where this process
    reads it for the first time.  ``ranges`` says how many seconds each metric's query looks back
    over (0: it looks at an instant); None has gaps in the readings not followed.
    """

    scale: Scale | Unavailable
    pods: tuple[Pod, ...] | Unavailable | None
    readings: tuple[Reading, ...]
    ambiguous_with: tuple[str, ...] = ()
    controller: str | Unchecked | None = None
    alone: bool = True
    looked: float | None = None
    ranges: tuple[float, ...] | None = None
