"""A target over time, for a chart: lines, bands, shades and marks.  Instants are Unix seconds."""

from dataclasses import dataclass

from autoscaler.record.rows import RecordReader

Line = tuple[float | None, ...]
"""One number for each of `Chart.times`; None where there is none, as in a lapse."""


@dataclass(frozen=True, slots=True)
class Band:
    """What lies between two lines."""

    low: Line
    high: Line


@dataclass(frozen=True, slots=True)
class MetricLines:
    """One metric: what it asked for, and its value against its target in the same unit."""

    name: str
    unit: str
    target: float
    value: Line
    low: Line
    high: Line
    proposal: Line


@dataclass(frozen=True, slots=True)
class Shade:
    """A time in which something held: failing, fallback, paused, idle, held by the breaker, ..."""

    kind: str
    begin: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A change of the count, by us or by others."""

    time: float
    kind: str
    before: int
    after: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One target from ``begin`` to ``end``.

    ``stabilization`` is where stabilization would leave the count, ``policies`` where the scaling
    policies would.
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


def chart_of(
    record: RecordReader, target: str, begin: float, end: float, *, most_points: int = 1000
) -> Chart | None:
    """Return a target's chart; None where nothing is recorded.  Raises RecordError."""
    raise NotImplementedError
