"""What one target's decisions remember of the past."""

from dataclasses import dataclass, field, replace

from autoscaler.core.observation import ConditionStatus


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the metrics asked for at an instant, before any stabilization or limit.

    ``first`` marks the count that was found at the first sync: it counts as a recommendation,
    so that a restart alone never scales down (semantics R5).
    """

    replicas: int
    time: float
    first: bool = field(default=False, compare=False)


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
class PendingWrite:
    """A write that was about to be sent, and whose outcome is not known yet.

    It outlives a crash between the request and its answer: the next read of the scale tells
    whether it landed (`autoscaler.core.pending`).
    """

    before: int
    after: int
    time: float
    resource_version: str
    """The version that the write was to replace."""


@dataclass(frozen=True, slots=True)
class Rivalry:
    """What others did to the count that we last knew (`autoscaler.core.rivalry`).

    ``known`` is the count as it was last read or written, ``our_step`` the change of our last
    write until somebody reverses it, ``reversals`` the instants at which somebody did.
    """

    known: int | None = None
    our_step: int = 0
    reversals: tuple[float, ...] = ()


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
    pending: PendingWrite | None = None
    rivalry: Rivalry = Rivalry()
    unobserved: bool = False
    """Whether nobody looked for a while, so that the window has a hole before the next sync."""
    controller: str = ""
    """Which other autoscaler controlled the target when that was last known; empty for none."""


GAP_PERIODS = 3
"""An absence that is no longer than so many periods of a target is no news to it."""


def unobserved_after(history: History, absent: float, period: float) -> History:
    """Go on with a history after nobody looked for ``absent`` seconds, infinite if unknown.

    What the metrics asked for in a long gap is not known, and it may have been more than there is
    now.  ``period`` is the target's.
    """
    if history.recommendations is None or absent <= GAP_PERIODS * period:
        return history
    return replace(history, unobserved=True)


def shifted(history: History, seconds: float) -> History:
    """Move every instant of a history, after the clock that it was written by was set.

    Windows and periods then last as long as they would have.
    """
    return replace(
        history,
        recommendations=None
        if history.recommendations is None
        else tuple(replace(one, time=one.time + seconds) for one in history.recommendations),
        scale_ups=tuple(replace(one, time=one.time + seconds) for one in history.scale_ups),
        scale_downs=tuple(replace(one, time=one.time + seconds) for one in history.scale_downs),
        conditions=tuple(
            replace(one, last_transition=one.last_transition + seconds)
            for one in history.conditions
        ),
        last_scale_time=None
        if history.last_scale_time is None
        else history.last_scale_time + seconds,
        pending=None
        if history.pending is None
        else replace(history.pending, time=history.pending.time + seconds),
        rivalry=replace(
            history.rivalry, reversals=tuple(one + seconds for one in history.rivalry.reversals)
        ),
    )
