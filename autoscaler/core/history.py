"""The history of one target: the state that decisions pass from sync to sync.

A new field needs a default and a type: `shifted` (clock changes) and `autoscaler.persistence.codec`
(storage and validation) derive everything else from these.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from functools import cache
from operator import add
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from autoscaler.core.numbers import INT32_MAX, INT32_MIN
from autoscaler.core.quick import changed, quick
from autoscaler.core.spec import ConditionStatus

T = TypeVar("T")


class UnixTime(Enum):
    """Marks Unix seconds, which change when the clock is set."""

    PAST = "has passed"
    ANY = "may lie ahead"


@dataclass(frozen=True, slots=True)
class IntegerBounds:
    """The bounds of a whole number, both included."""

    least: int
    most: int


Instant = Annotated[float, UnixTime.PAST]
AnyInstant = Annotated[float, UnixTime.ANY]
Replicas = Annotated[int, IntegerBounds(0, INT32_MAX)]
SignedReplicas = Annotated[int, IntegerBounds(INT32_MIN, INT32_MAX)]
Count = Annotated[int, IntegerBounds(0, 2**63 - 1)]


@quick
@dataclass(frozen=True, slots=True)
class Recommendation:
    """The desired count of one sync before stabilization and limits.

    The ``first`` is the current count of the first sync, so that a restart never scales down
    (semantics 4.5). One of incomplete readings is ``only_down``: it counts in the scale-down window
    and not in the scale-up window.
    """

    replicas: SignedReplicas
    time: Instant
    first: bool = field(default=False, compare=False)
    only_down: bool = False


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A rescale by this autoscaler: the change of replicas, and its time (semantics 4.4).

    The next event may reuse the slot of an ``outdated`` one.  A rescale by another instance of
    ours happened between ``earliest`` and ``time``.
    """

    change: Replicas
    time: Instant
    outdated: bool = False
    earliest: Instant | None = None

    @property
    def since(self) -> float:
        """The instant after which it certainly happened."""
        return self.time if self.earliest is None else self.earliest


@quick
@dataclass(frozen=True, slots=True)
class Condition:
    """`HorizontalPodAutoscalerCondition`; ``last_transition`` is when the status last changed."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition: Instant


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Writes whose outcome is unknown until the next read of the scale (semantics 7.7).

    They replace the same ``resource_version``, so at most one of them succeeds: ``after``, the
    last, or one of the ``others``. ``time`` is the stamp of the first.
    """

    before: Replicas
    after: Replicas
    time: Instant
    resource_version: str
    others: tuple[Replicas, ...] = ()


UNKNOWN = 0.0
"""An instant that is unknown: long ago, or never."""


@dataclass(frozen=True, slots=True)
class ReadingGap:
    """A gap in the readings of a metric, from its start to the end of the refill (semantics 7.2).

    ``metric`` is the metric's key; ``pod`` is empty if the whole metric failed. ``since`` is the
    last good reading before the gap, None once the gap has ended; until ``until`` the reading may
    be too low. Before the ``first`` sync a gap is only possible. ``losses`` are recent gaps that
    were each too short to count: their ends and lengths in seconds.
    """

    metric: str
    pod: str = ""
    since: Instant | None = None
    until: AnyInstant = UNKNOWN
    first: bool = False
    losses: tuple[tuple[AnyInstant, float], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The metric and the pod."""
        return self.metric, self.pod


@dataclass(frozen=True, slots=True)
class Contention:
    """The count as last read or written, and changes since by other clients (semantics 7.4, 7.5).

    ``our_step`` is the change of our last write, 0 after another client changed the count;
    ``reversals`` are the instants at which other clients reversed one. ``generation`` is 0 if
    unknown.
    """

    known: Replicas | None = None
    our_step: SignedReplicas = 0
    reversals: tuple[Instant, ...] = ()
    generation: Count = 0


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """In how many consecutive syncs the metric with this key has failed (8.4)."""

    metric: str
    syncs: Annotated[int, IntegerBounds(1, INT32_MAX)]


@dataclass(frozen=True, slots=True)
class KnownBound:
    """The last count that the query of a bound gave, and when (semantics 8.2)."""

    replicas: Replicas
    time: Instant


@quick
@dataclass(frozen=True, slots=True)
class ExtensionHistory:
    """The state of the extensions that passes from sync to sync (semantics 8).

    ``first_seen`` is the first sync of a target with `idle`, UNKNOWN if it had other syncs before;
    ``last_active`` is the last sync in which a metric was active or may have been, None without
    `idle`. ``failures`` are from the last sync, if the target has a fallback.
    ``saturated_since``: the metrics have asked for more than bounds or policies permit since then.
    ``hold_gap`` lasts while `holdScaleDownQuery` holds, and until the ranges are full after it.
    ``blocked_since``: failed metrics have blocked every decision since then (semantics 7.2).
    """

    first_seen: Instant | None = None
    last_active: Instant | None = None
    failures: tuple[FailureStreak, ...] = ()
    known_min: KnownBound | None = None
    known_max: KnownBound | None = None
    saturated_since: Instant | None = None
    hold_gap: ReadingGap | None = None
    blocked_since: Instant | None = None

    @property
    def remembers_rules(self) -> bool:
        """Whether the target has an extension that ends, or had one at the last sync."""
        kept = self.last_active is not None or self.hold_gap is not None
        return kept or self.failures != ()


@quick
@dataclass(frozen=True, slots=True)
class History:
    """The state of one target between two syncs.

    ``recommendations`` is None until the first read of the scale. The slots of a list are reused
    and never pruned: a longer window may include old entries (semantics 4.1 to 4.4).
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
    conditions: tuple[Condition, ...] = ()
    desired_replicas: Replicas = 0
    last_scale_time: Instant | None = None
    zeroed_by_us: bool = False
    """Whether this daemon scaled the target to zero."""
    pending: PendingWrite | None = None
    contention: Contention = Contention()
    unobserved: bool = False
    """Whether the recommendations have a hole (semantics 4.5)."""
    gaps: tuple[ReadingGap, ...] = ()
    """The metrics and pods that have a gap, or had one recently."""
    unseen: Instant | None = None
    """Until this instant other instances may have written unseen (semantics 7.4)."""
    controller: str = ""
    """The other autoscaler that controlled the target at the last check; empty for none."""
    taken: bool = False
    """Whether that autoscaler took over the target while it was live."""
    extended: ExtensionHistory = ExtensionHistory()
    metric_keys: tuple[str, ...] = ()
    """The keys of the metrics at the last sync (`autoscaler.core.gaps`); empty if the history uses
    names."""


def with_extended(history: History, **fields: Any) -> History:
    """Return the history with other ``fields`` of the extensions."""
    return changed(history, extended=changed(history.extended, **fields))


GAP_PERIODS = 3
"""After an absence of more periods than this the recommendations have a hole: some may have been
higher."""


def shifted(value: T, seconds: float) -> T:
    """Shift all instants of a history, or of other data, after the clock was set."""
    kind: Any = type(value)
    move = _mover(kind)
    return cast("T", move(value, seconds)) if move else value


@cache
def _mover(hint: Any) -> Callable[[Any, float], Any] | None:
    """Return the function that shifts the instants in a value of a type; None without instants."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return add if isinstance(args[1], UnixTime) else None
    if origin in {Union, UnionType}:
        move = _mover(next(argument for argument in args if argument is not NoneType))
        return move and (lambda value, by: None if value is None else move(value, by))
    if origin is tuple and args[-1] is ...:
        each = _mover(args[0])
        return each and (lambda values, by: tuple([each(value, by) for value in values]))
    if origin is tuple:
        parts = [_mover(argument) for argument in args]
        return lambda values, by: tuple(
            [part(value, by) if part else value for part, value in zip(parts, values, strict=True)]
        )
    hints = get_type_hints(hint, include_extras=True) if is_dataclass(hint) else {}
    movers = [(name, move) for name, hint in hints.items() if (move := _mover(hint))]

    def move_fields(value: Any, by: float) -> Any:
        return replace(value, **{name: move(getattr(value, name), by) for name, move in movers})

    return move_fields if movers else None
