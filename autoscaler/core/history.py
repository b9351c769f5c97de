"""What one target's decisions remember of the past."""

from dataclasses import dataclass

from autoscaler.core.observation import ConditionStatus


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the metrics asked for at an instant, before any stabilization or limit."""

    replicas: int
    time: float


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A change of scale by us: by how many replicas, and when.

    ``outdated`` marks an entry whose slot the next event may take over.
    """

    change: int
    time: float
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """`HorizontalPodAutoscalerCondition`; the transition is when the status last flipped."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition: float


@dataclass(frozen=True, slots=True)
class History:
    """The state of one target between two syncs.

    ``recommendations`` is None until the first scale was read.  Lists keep their slots and
    are not pruned: a later, longer window may reach old entries (semantics 4.1 to 4.4).
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
    conditions: tuple[Condition, ...] = ()
    desired_replicas: int = 0
    last_scale_time: float | None = None
    zeroed_by_us: bool = False
    """Whether the last write that brought the target to zero was ours."""
