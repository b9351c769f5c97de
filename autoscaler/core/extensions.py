"""The extensions of a target beyond the HPA's spec; each is off unless configured (semantics 8)."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Idle:
    """Scale to ``replicas`` when no metric was active for ``after`` seconds (semantics 8.3).

    A new target does not go idle in its first ``initially`` seconds. With ``gradual`` the
    scale-down policies apply on the way.
    """

    replicas: int = 0
    after: float = 300.0
    initially: float = 0.0
    gradual: bool = False


class FallbackBehavior(StrEnum):
    """What a fallback proposes: its replicas, or the larger of these and the current count."""

    STATIC = "static"
    CURRENT_REPLICAS = "currentReplicas"
    CURRENT_REPLICAS_IF_HIGHER = "currentReplicasIfHigher"
    CURRENT_REPLICAS_IF_LOWER = "currentReplicasIfLower"


@dataclass(frozen=True, slots=True)
class Fallback:
    """The proposal for a metric that failed in ``failure_threshold`` consecutive syncs (8.4)."""

    replicas: int
    failure_threshold: int = 3
    behavior: FallbackBehavior = FallbackBehavior.STATIC


class PauseMode(StrEnum):
    """Which changes a pause prevents."""

    ALL = "all"
    SCALE_DOWN = "scaleDown"
    SCALE_UP = "scaleUp"


@dataclass(frozen=True, slots=True)
class Pause:
    """No scaling, or none in one direction, until the Unix time ``until`` (semantics 8.1).

    With ``replicas`` (`PauseMode.ALL` only) the target scales to that count and stays there. ``by``
    says who paused it.
    """

    mode: PauseMode = PauseMode.ALL
    replicas: int | None = None
    by: str = "the configuration"
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Bounds that replace the target's from each ``start`` to the next ``end`` (semantics 8.2).

    These are cron expressions in the wall time of ``timezone`` (an IANA name).  A bound that is
    None stays the target's; the policies limit how a ``gradual`` one is approached.
    """

    name: str
    start: str
    end: str
    timezone: str
    min_replicas: int | None = None
    max_replicas: int | None = None
    gradual: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaRounding:
    """Counts are rounded up to a multiple of ``multiple_of`` (semantics 8.13)."""

    multiple_of: int


class Mode(StrEnum):
    """Whether decisions about a target are written."""

    LIVE = "live"
    SHADOW = "shadow"
    """Nothing is written; the history follows the client that writes the count (semantics 8.10)."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """The extensions of one target.

    ``activations`` are in the order of ``spec.metrics``, in milli-units and parts of them: a metric
    is active above its value; an empty tuple means zeros. The metadata of a switch are its heading
    and words on the page, which shows it unless it has its default.
    """

    idle: Idle | None = None
    activations: tuple[float, ...] = ()
    fallback: Fallback | None = None
    pause: Pause | None = None
    schedules: tuple[Schedule, ...] = ()
    replicas: ReplicaRounding | None = None
    mode: Mode = field(default=Mode.LIVE, metadata={"Mode": "shadow: decided, and never written"})
    ignore_surge: bool = field(
        default=False, metadata={"Surge": "the pods of a rolling update's surge do not count"}
    )


NO_EXTENSIONS = Extensions()
