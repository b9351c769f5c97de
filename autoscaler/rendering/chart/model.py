"""What a chart is made of: lines, bands, shades and marks.  Instants are Unix seconds."""

from dataclasses import dataclass
from enum import StrEnum

Line = tuple[float | None, ...]
"""One number for each of `Chart.times`, which holds until the next; None where there is none."""


@dataclass(frozen=True, slots=True)
class Band:
    """What lies between two lines."""

    low: Line
    high: Line


@dataclass(frozen=True, slots=True)
class MetricLines:
    """One metric: what it asked for, and its value against its target in the same unit.

    ``unit`` is as an axis is labelled: "%", "cores per pod", "bytes per pod", "per replica"; empty
    for a plain number.  ``target`` is the last one, ``targets`` the one at each time.  Values and
    proposals are those at a time, with the least and the most until the next.
    """

    name: str
    unit: str
    target: float
    targets: Line
    value: Line
    low: Line
    high: Line
    proposal: Line
    proposal_low: Line
    proposal_high: Line


class ShadeKind(StrEnum):
    """What held for a time."""

    FAILING = "failing"
    FALLBACK = "fallback"
    PAUSED = "paused"
    IDLE = "idle"
    BREAKER = "breaker"
    CONTESTED = "contested"
    CONTROLLED = "controlled"
    DISABLED = "disabled"
    STANDBY = "standby"
    REMOVED = "removed"
    LAPSE = "lapse"
    """Nothing was recorded."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A time in which something held, and the sentence of when it began."""

    kind: ShadeKind
    begin: float
    end: float
    text: str


class MarkKind(StrEnum):
    """Who changed the count."""

    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A change of the count, by us or by others; ``text`` says why, or by whom."""

    time: float
    kind: MarkKind
    before: int
    after: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One target from ``begin`` to ``end``.

    ``times`` ascend.  Counts that were reached between two times have times of their own; if all of
    them were of one minute of which only the least, the most and the last are kept, these are some
    seconds apart.  ``minimum`` and ``maximum`` are the bounds in force.  Within ``stabilization``
    stabilization leaves a count, beyond it changes it to the nearest edge (without `behavior`, all
    that is below goes up to the high one); ``policies`` is how far the policies and bounds permit
    a count to go at once.
    """

    target: str
    begin: float
    end: float
    times: tuple[float, ...]
    current: Line
    desired: Line
    minimum: Line
    maximum: Line
    stabilization: Band
    policies: Band
    metrics: tuple[MetricLines, ...]
    shades: tuple[Shade, ...]
    marks: tuple[ChartMark, ...]
