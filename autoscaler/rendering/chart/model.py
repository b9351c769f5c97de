"""The parts of a chart: lines, shades and marks. Instants are Unix seconds.

Objects that exist in thousands are plain dataclasses, which `Chart` serializes like itself.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, WithJsonSchema

from autoscaler.rendering.answers import AnswerModel, ExactInstant


def _short(value: float) -> Any:
    """Return a whole number without its fraction, since most numbers of a chart are whole."""
    return int(value) if value == int(value) else value


def _line(numbers: tuple[float | None, ...]) -> list[Any]:
    return [None if number is None else _short(number) for number in numbers]


_NUMBER = {"type": "number"}
_NUMBERS = {"type": "array", "items": {"anyOf": [_NUMBER, {"type": "null"}]}}
Number = Annotated[float, PlainSerializer(_short), WithJsonSchema(_NUMBER)]
Line = Annotated[tuple[float | None, ...], PlainSerializer(_line), WithJsonSchema(_NUMBERS)]
"""One number for each of `Chart.times`, valid until the next; None if unknown."""


@dataclass(frozen=True, slots=True)
class MetricLines:
    """One metric: the replicas it asked for, and its value and target in the same unit.

    ``unit`` is the label of an axis: "%", "cores per pod", "bytes per pod", "per replica"; empty
    for a plain number. ``target`` is the last target value, ``targets`` the one at each time.
    ``low`` and ``high`` are the least and the greatest value until the next time.
    """

    name: str
    unit: str
    target: Number
    targets: Line
    value: Line
    low: Line
    high: Line
    proposal: Line


class ShadeKind(StrEnum):
    """The state during a time."""

    FAILING = "failing"
    FALLBACK = "fallback"
    PAUSED = "paused"
    IDLE = "idle"
    BREAKER = "breaker"
    QUERY_HOLD = "queryHold"
    CONTESTED = "contested"
    CONTROLLED = "controlled"
    DISABLED = "disabled"
    STANDBY = "standby"
    REMOVED = "removed"
    LAPSE = "lapse"
    """Nothing was recorded."""
    BEFORE = "before"
    """Before the target's first record."""
    FUTURE = "future"
    """In the future."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A time with one state, and the sentence at its begin."""

    kind: ShadeKind
    begin: ExactInstant
    end: ExactInstant
    text: str


class MarkKind(StrEnum):
    """Which client changed the count."""

    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A change of the count, by us or another client; ``text`` has the reason or the client."""

    time: ExactInstant
    kind: MarkKind
    before: int
    after: int
    text: str


class Chart(AnswerModel):
    """One target from ``begin`` to ``end``.

    ``times`` ascend. If a minute has only its least, greatest and last values, the counts are the
    last; our changes within it are among the ``marks``. ``minimum`` and ``maximum`` are the bounds
    in force.
    """

    target: str
    begin: ExactInstant = Field(alias="from")
    end: ExactInstant = Field(alias="to")
    times: tuple[ExactInstant, ...]
    current: Line
    desired: Line
    minimum: Line
    maximum: Line
    metrics: tuple[MetricLines, ...]
    shades: tuple[Shade, ...]
    marks: tuple[ChartMark, ...]
