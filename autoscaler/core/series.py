"""The answer to an instant query: an instant vector, or the reason for its absence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.numbers import saturate64
from autoscaler.core.quick import quick
from autoscaler.core.spec import LabelSelector


@quick
@dataclass(frozen=True, slots=True)
class Series:
    """One element of an instant vector: labels, value, and the sample's Unix time in seconds."""

    labels: Mapping[str, str]
    value: float
    timestamp: float


@quick
@dataclass(frozen=True)
class QueryResult:
    """An instant vector, with an index by labels for many targets, and the server's warnings."""

    series: Sequence[Series]
    warnings: tuple[str, ...] = ()
    _index: dict[str, dict[str | None, list[Series]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _parts: "dict[tuple[tuple[str, str], ...], QueryResult] | None" = field(
        default=None, repr=False, compare=False
    )
    """Series by their labels; most answers have no labels, and there are many answers."""

    def only(self, labels: tuple[tuple[str, str], ...]) -> "QueryResult":
        """Return the answer with only the series that have all of the labels."""
        if not labels:
            return self
        parts = self._parts
        if parts is None:
            parts = {}
            object.__setattr__(self, "_parts", parts)
        part = parts.get(labels)
        if part is None:
            series = [
                each
                for each in self.with_label(*labels[0])
                if all(each.labels.get(name) == value for name, value in labels)
            ]
            part = parts[labels] = QueryResult(series, self.warnings)
        return part

    def with_label(self, name: str, value: str) -> Sequence[Series]:
        """Return the series with the label ``name="value"``."""
        return (self._index.get(name) or self._indexed(name)).get(value, ())

    def has_label(self, name: str) -> bool:
        """Return whether any series has the label."""
        return any(value is not None for value in self._index.get(name) or self._indexed(name))

    def _indexed(self, name: str) -> Mapping[str | None, Sequence[Series]]:
        by_value: dict[str | None, list[Series]] = {}
        for series in self.series:
            by_value.setdefault(series.labels.get(name), []).append(series)
        self._index[name] = by_value
        return by_value

    def select(self, selector: LabelSelector | None) -> Sequence[Series]:
        """Return the series that match a metric's selector; without a selector, all."""
        if selector is None or selector.empty:
            return self.series
        candidates: Sequence[Series] = self.series
        if selector.match_labels:
            candidates = self.with_label(*selector.match_labels[0])
        return [series for series in candidates if selector.matches(series.labels)]


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """A query without an answer; the message is the server's own text if it sent one.

    ``refused`` is set if the server answered that the query itself is wrong.
    """

    message: str
    refused: bool = False


def milli_of(value: float) -> int | None:
    """Convert a sample to milli-units, rounded to nearest; None for NaN and infinities."""
    milli = value * 1000.0
    if math.isfinite(milli):
        return saturate64(round(milli))
    return saturate64(round(value)) if math.isfinite(value) else None
