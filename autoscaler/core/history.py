"""What one target's decisions remember of the past.

A new field needs a default and a type, nothing else: moving instants (`shifted`), keeping it in a
file and checking what is read back (`autoscaler.core.history_json`) follow from its type.  Classes
within `History` are kept by the order of their fields: a new one is the last.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from functools import cache
from operator import add
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from autoscaler.core.numbers import INT32_MAX, INT32_MIN
from autoscaler.core.observation import ConditionStatus


class UnixTime(Enum):
    """Marks Unix seconds, which move when the clock is set."""

    PAST = "has passed"
    ANY = "may lie ahead"


@dataclass(frozen=True, slots=True)
class Between:
    """The bounds of a whole number, both included."""

    least: int
    most: int


Instant = Annotated[float, UnixTime.PAST]
AnyInstant = Annotated[float, UnixTime.ANY]
Replicas = Annotated[int, Between(0, INT32_MAX)]
SignedReplicas = Annotated[int, Between(INT32_MIN, INT32_MAX)]
Generation = Annotated[int, Between(0, 2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the metrics asked for at an instant, before any stabilization or limit.

    ``first`` marks the count that was found at the first sync: it counts as a recommendation,
    so that a restart alone never scales down (semantics 4.5).
    """

    replicas: SignedReplicas
    time: Instant
    first: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A change of scale by us: by how many replicas, and when.

    ``outdated`` marks an entry whose slot the next event may take over.  A change by another
    instance of ours is known to lie between ``earliest`` and ``time``; None: it was at ``time``.
    """

    change: Replicas
    time: Instant
    outdated: bool = False
    earliest: Instant | None = None

    def may_be_after(self, instant: float) -> bool:
        """Return whether it may have been after an instant."""
        return self.time > instant

    def is_after(self, instant: float) -> bool:
        """Return whether it certainly was after an instant."""
        return (self.time if self.earliest is None else self.earliest) > instant


@dataclass(frozen=True, slots=True)
class Condition:
    """`HorizontalPodAutoscalerCondition`; the transition is when the status last flipped."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition: Instant


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that was about to be sent, and whose outcome is not known yet.

    It outlives a crash between the request and its answer: the next read of the scale tells
    whether it was applied (`autoscaler.core.writes`).
    """

    before: Replicas
    after: Replicas
    time: Instant
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
    since: Instant | None = None
    until: AnyInstant = UNKNOWN
    first: bool = False
    losses: tuple[tuple[AnyInstant, float], ...] = ()

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

    known: Replicas | None = None
    our_step: SignedReplicas = 0
    reversals: tuple[Instant, ...] = ()
    generation: Generation = 0


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
    desired_replicas: Replicas = 0
    last_scale_time: Instant | None = None
    zeroed_by_us: bool = False
    """Whether the last write that brought the target to zero was ours."""
    pending: PendingWrite | None = None
    contention: Contention = Contention()
    unobserved: bool = False
    """Whether nobody looked for a while, so that the window has a hole before the next sync."""
    gaps: tuple[ReadingGap, ...] = ()
    """Metrics that have no good reading, or had none lately."""
    unseen: Instant | None = None
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
    move = _mover(History)
    return move(history, seconds) if move else history


@cache
def _mover(hint: Any) -> Callable[[Any, float], Any] | None:
    """Return what moves the instants within a value of a type; None where it has none."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return add if isinstance(args[1], UnixTime) else None
    if origin in {Union, UnionType}:
        move = _mover(next(one for one in args if one is not NoneType))
        return move and (lambda value, by: None if value is None else move(value, by))
    if origin is tuple and args[-1] is ...:
        each = _mover(args[0])
        return each and (lambda values, by: tuple([each(one, by) for one in values]))
    if origin is tuple:
        parts = [_mover(one) for one in args]
        return lambda values, by: tuple(
            [part(one, by) if part else one for part, one in zip(parts, values, strict=True)]
        )
    hints = get_type_hints(hint, include_extras=True) if is_dataclass(hint) else {}
    movers = [(name, move) for name, one in hints.items() if (move := _mover(one))]

    def move_fields(value: Any, by: float) -> Any:
        return replace(value, **{name: move(getattr(value, name), by) for name, move in movers})

    return move_fields if movers else None
