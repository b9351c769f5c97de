"""The notation of promtool's unit tests for the samples of a series, such as ``0+10x20 _ stale``.

    a       one sample                       axn     a, and n times a again
    a+bxn   a, then n times b more           a-bxn   a, then n times b less
    _       no sample                        _xn     n times no sample
    stale   the series ends here             NaN, Inf, -Inf are numbers

Items stand between blanks, one for each interval.  What promtool refuses is refused here:
https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple, TypeAlias

MOST_SAMPLES = 100_000
"""The most samples of one series, including omitted ones: 17 days of one each 15 seconds."""
_LONGEST_ITEM = 100

_NUMBER = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_ITEM = re.compile(
    r"_(?:x(?P<omitted>[0-9]++))?"
    r"|(?P<stale>stale)"
    rf"|(?P<value>[+-]?{_NUMBER})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>[0-9]++))?"
    rf"|(?P<word>[+-]?(?i:nan|inf))(?:(?P<word_step>[+-]{_NUMBER})x(?P<word_times>[0-9]++))?"
)
_SUM = re.compile(rf"{_NUMBER}[+-]{_NUMBER}")
_WORD_TIMES = re.compile(r"[+-]?(?i:nan|inf)x[0-9]++")
_OCTAL = re.compile(r"[+-]?0[0-7]++")
_FORM = "write numbers with blanks between them, a+bxn or a-bxn or axn, _ or _xn, stale"


class Ramp(NamedTuple):
    """A sample, and ``times`` more, each ``step`` more than the one before."""

    value: float
    step: float = 0.0
    times: int = 0


class OmittedSamples(NamedTuple):
    """A number of missing samples."""

    times: int = 1


class StaleMarker(NamedTuple):
    """A stale marker: the series ends."""


Item: TypeAlias = Ramp | OmittedSamples | StaleMarker


class SeriesSamples(NamedTuple):
    """The samples of one series: the numbers of their intervals from 0 in order, and the values.

    A value of None is a stale marker.
    """

    places: Sequence[int]
    values: Sequence[float | None]


def parse(text: str) -> tuple[Item, ...]:
    """Parse the notation. Raises ValueError with a sentence that has the correct form."""
    if "{{" in text:
        raise ValueError("has a native histogram: a metric is a number, so write what PromQL gives")
    if "\n" in text.strip():
        raise ValueError("goes over several lines: write it on one, or begin it with > for YAML")
    items = tuple(map(_item, re.findall(r"[^ \t]+", text.strip())))
    count = count_of(items)
    if count > MOST_SAMPLES:
        raise ValueError(
            f"means {count:,} samples, the limit is {MOST_SAMPLES:,}: use a longer interval"
        )
    return items


def count_of(items: Iterable[Item]) -> int:
    """Return the number of intervals of items."""
    return sum(map(_count, items))


def samples_of(items: Iterable[Item]) -> SeriesSamples:
    """Return the samples of the items, added up as promtool does."""
    count = 0
    places: list[int] = []
    values: list[float | None] = []
    for item in items:
        own = _count(item)
        if not isinstance(item, OmittedSamples):
            places.extend(range(count, count + own))
            values.extend(_values(item))
        count += own
    return SeriesSamples(places, values)


def _count(item: Item) -> int:
    if isinstance(item, Ramp):
        return item.times + 1
    return item.times if isinstance(item, OmittedSamples) else 1


def _values(item: Ramp | StaleMarker) -> Iterable[float | None]:
    if isinstance(item, StaleMarker):
        return [None]
    return accumulate(chain([item.value], repeat(item.step, item.times)))


def _item(text: str) -> Item:
    form = _ITEM.fullmatch(text) if len(text) <= _LONGEST_ITEM else None
    if form is None:
        raise ValueError(f"has {_excerpt(text)}, which promtool does not know: {_advice(text)}")
    if form["stale"]:
        return StaleMarker()
    number = form["value"] or form["word"]
    if number is None:
        return OmittedSamples(int(form["omitted"] or 1))
    step, times = form["step"] or form["word_step"], form["times"] or form["word_times"]
    return Ramp(_number(number), _number(step) if step else 0.0, int(times or 0))


def _number(text: str) -> float:
    # Go, in which promtool is written, reads a leading 0 as octal.
    value = float(int(text, 8)) if _OCTAL.fullmatch(text) else float(text)
    if math.isinf(value) and text.lower().lstrip("+-") != "inf":
        raise ValueError(f"has {_excerpt(text)}, which is too large a number")
    return value


def _advice(text: str) -> str:
    if len(text) > _LONGEST_ITEM:
        return _FORM
    if text.lower().startswith("stale") or _WORD_TIMES.fullmatch(text):
        return "`stale`, NaN and Inf stand alone; repeat them with blanks between"
    if text.startswith("x"):
        return "remove the blank before x, as in 200x20"
    if _SUM.fullmatch(text):
        return f"say how often, as in {text}x20"
    before, x, _ = text.partition("x")
    if x and (_ITEM.fullmatch(before) or _SUM.fullmatch(before)):
        return "write a whole number after x, as in 200x20"
    return _FORM


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_ITEM else f"{text[:_LONGEST_ITEM]}…")
