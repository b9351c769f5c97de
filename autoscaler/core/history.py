"""What one target's decisions remember of the past."""

from dataclasses import dataclass, field, replace

from autoscaler.core.observation import ConditionStatus


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the metrics asked for at an instant, before any stabilization or limit.

    ``first`` marks the count that was found at the first sync: it counts as a recommendation,
    so that a restart alone never scales down (semantics 4.5).
    """

    replicas: int
    time: float
    first: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A change of scale by us: by how many replicas, and when.

    ``outdated`` marks an entry whose slot the next event may take over.  A change by another
    instance of ours is known to lie between ``earliest`` and ``time``; None: it was at ``time``.
    """

    change: int
    time: float
    outdated: bool = False
    earliest: float | None = None

    def may_be_after(self, instant: float) -> bool:
        """Tell whether it may have been after an instant."""
        return self.time > instant

    def is_after(self, instant: float) -> bool:
        """Tell whether it certainly was after an instant."""
        return (self.time if self.earliest is None else self.earliest) > instant


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
    whether it was applied (`autoscaler.core.writes`).
    """

    before: int
    after: int
    time: float
    resource_version: str
    """The version that the write was to replace."""


UNKNOWN = 0.0
"""Stands for an instant of which only is known that it was long ago, if ever."""


@dataclass(frozen=True, slots=True)
class ReadingGap:
    """A metric without a good reading now, or that had none lately (`autoscaler.core.gaps`).

    ``pod`` names the one pod that had no sample, and is empty where the whole metric had none.
    ``since`` is the last good reading before a gap that still lasts, None where it is over;
    before ``until`` the reading may understate.  ``first`` says that nobody looked before: whether
    there was a gap is not known.  ``losses`` are the gaps of late that do not matter, each with its
    end and its seconds: together they may.
    """

    metric: str
    pod: str = ""
    since: float | None = None
    until: float = UNKNOWN
    first: bool = False
    losses: tuple[tuple[float, float], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What it is about: the metric and the pod."""
        return self.metric, self.pod


@dataclass(frozen=True, slots=True)
class Contention:
    """What others did to the count that we last knew (`autoscaler.core.contention`).

    ``known`` is the count as it was last read or written, ``our_step`` the change of our last
    write until somebody reverses it, ``reversals`` the instants at which somebody did.
    ``generation`` is the object's as of ``known``, 0 where it is not known.
    """

    known: int | None = None
    our_step: int = 0
    reversals: tuple[float, ...] = ()
    generation: int = 0


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
    contention: Contention = Contention()
    unobserved: bool = False
    """Whether nobody looked for a while, so that the window has a hole before the next sync."""
    gaps: tuple[ReadingGap, ...] = ()
    """Metrics that have no good reading, or had none lately."""
    unseen: float | None = None
    """The last instant up to which another instance of ours may have written unseen."""
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
        scale_ups=tuple(_shifted(one, seconds) for one in history.scale_ups),
        scale_downs=tuple(_shifted(one, seconds) for one in history.scale_downs),
        unseen=None if history.unseen is None else history.unseen + seconds,
        gaps=tuple(
            replace(
                one,
                since=None if one.since is None else one.since + seconds,
                until=one.until + seconds,
                losses=tuple((end + seconds, lost) for end, lost in one.losses),
            )
            for one in history.gaps
        ),
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
        contention=replace(
            history.contention,
            reversals=tuple(one + seconds for one in history.contention.reversals),
        ),
    )


def _shifted(event: ScaleEvent, seconds: float) -> ScaleEvent:
    earliest = None if event.earliest is None else event.earliest + seconds
    return replace(event, time=event.time + seconds, earliest=earliest)
