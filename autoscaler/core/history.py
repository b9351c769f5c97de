"""The history of one target: the state that its decisions carry from sync to sync."""

from dataclasses import dataclass, field, replace

from autoscaler.core.observation import ConditionStatus


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The desired count of one sync before stabilization and limits.

    ``first`` marks the current count of a first sync, which is recorded as a recommendation so
    that a restart never scales down (semantics 4.5).
    """

    replicas: int
    time: float
    first: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A rescale of ours: the number of replicas and the time (semantics 4.4).

    ``outdated`` marks a slot that the next event may reuse.  A rescale by another instance of
    ours happened between ``earliest`` and ``time``; if ``earliest`` is None, at ``time``.
    """

    change: int
    time: float
    outdated: bool = False
    earliest: float | None = None

    def may_be_after(self, instant: float) -> bool:
        """Return whether it may have happened after an instant."""
        return self.time > instant

    def is_after(self, instant: float) -> bool:
        """Return whether it certainly happened after an instant."""
        return (self.time if self.earliest is None else self.earliest) > instant


@dataclass(frozen=True, slots=True)
class Condition:
    """`HorizontalPodAutoscalerCondition`; ``last_transition`` is when the status last changed."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition: float


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write of the scale whose outcome is unknown (semantics 7.7).

    It is stored before the request is sent, so that it survives a crash.  The next read of the
    scale shows whether it was applied (`autoscaler.core.writes`).
    """

    before: int
    after: int
    time: float
    resource_version: str
    """The version that the write replaces."""


UNKNOWN = 0.0
"""An instant that is unknown: long ago, or never."""


@dataclass(frozen=True, slots=True)
class ReadingGap:
    """A gap in the readings of a metric, from its begin to the end of the refill (semantics 7.2).

    ``pod`` names the pod without a sample; it is empty if the whole metric failed.  ``since`` is
    the last good reading before the gap, None once the gap has ended; until ``until`` the reading
    may understate.  ``first`` is set if there was no sync before, so that a gap is only possible.
    ``losses`` are recent gaps that were each too short to matter: their ends and their lengths in
    seconds.
    """

    metric: str
    pod: str = ""
    since: float | None = None
    until: float = UNKNOWN
    first: bool = False
    losses: tuple[tuple[float, float], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The metric and the pod."""
        return self.metric, self.pod


@dataclass(frozen=True, slots=True)
class Contention:
    """The last known count, and who changed it since (semantics 7.4, 7.5).

    ``known`` is the count as last read or written.  ``our_step`` is the change of our last write,
    0 once others have changed the count.  ``reversals`` are the instants at which others reversed
    a write of ours.  ``generation`` is that of the object as of ``known``, 0 if unknown.
    """

    known: int | None = None
    our_step: int = 0
    reversals: tuple[float, ...] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """The state of one target between two syncs.

    ``recommendations`` is None until the scale is read for the first time.  The slots of a list
    are reused and never pruned: a longer window may reach old entries (semantics 4.1 to 4.4).
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
    conditions: tuple[Condition, ...] = ()
    desired_replicas: int = 0
    last_scale_time: float | None = None
    zeroed_by_us: bool = False
    """Whether the target is at zero by a write of ours."""
    pending: PendingWrite | None = None
    contention: Contention = Contention()
    unobserved: bool = False
    """Whether the recommendations have a hole, since syncs were left out (semantics 7.3)."""
    gaps: tuple[ReadingGap, ...] = ()
    """The metrics and pods that have a gap, or had one recently."""
    unseen: float | None = None
    """Until this instant other instances of ours may have written unseen (semantics 7.4)."""
    controller: str = ""
    """The other autoscaler that controlled the target when that was last known; empty for none."""


GAP_PERIODS = 3
"""After an absence of more periods than this the recommendations have a hole."""


def unobserved_after(history: History, absent: float, period: float) -> History:
    """Return the history after an absence: no sync for ``absent`` seconds, infinite if unknown.

    After a long one recommendations are missing that may have been larger than the current count.
    ``period`` is the target's sync period in seconds.
    """
    if history.recommendations is None or absent <= GAP_PERIODS * period:
        return history
    return replace(history, unobserved=True)


def shifted(history: History, seconds: float) -> History:
    """Move every instant of a history by ``seconds``, after the clock was set by as many.

    Windows and periods keep their lengths.
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
