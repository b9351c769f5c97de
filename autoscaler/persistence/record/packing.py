"""The samples of one target as text: the differences from the previous sample.

A sample has fields separated by commas, and ends with a semicolon: the milliseconds since the
previous sample, empty for one period, then for each number its difference from the previous one, or
itself after a missing one; empty if unchanged, and `-` if it is missing now. Instants are Unix
seconds, rounded to milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, reduce
from itertools import groupby

from autoscaler.persistence.record.changes import inflated
from autoscaler.persistence.record.rows import Numbers, Sample

MOST_NUMBERS = 4096
"""The most numbers of a sample."""

MINUTE_SECONDS = 60.0
_END, _MISSING = ";", "-"
_LIMIT = 1 << 63
"""Numbers have 64 bits, like quantities in milli-units."""


class Packer:
    """Packs the samples of one target since ``begin``, at which the first one is shortest.

    ``period`` is the usual time between samples in seconds; ``end`` is the last sync, which may
    have changed nothing, and ``text`` the appended text.
    """

    __slots__ = ("_at", "_numbers", "_period", "begin", "end", "text")

    def __init__(self, begin: float, period: float) -> None:
        self.begin = self.end = begin
        self.text = ""
        self._period = _period_of(period)
        self._at = _milliseconds(begin) - self._period
        self._numbers: Numbers = ()

    def add(self, time: float, numbers: Numbers) -> str:
        """Return the text that a sample appends; empty if no number has changed.

        Raises ValueError for a sample that cannot be stored: an instant that is not finite, a
        number beyond 64 bits, or more than MOST_NUMBERS numbers. Nothing is appended then.
        """
        added = ""
        if numbers != self._numbers:
            if len(numbers) > MOST_NUMBERS:
                raise ValueError(f"{len(numbers)} numbers in a sample are more than {MOST_NUMBERS}")
            added = self.append(time, numbers)
        self.end = time
        return added

    def append(self, time: float, numbers: Numbers) -> str:
        """Append a sample, even without a changed number; return its text."""
        at = _milliseconds(time)
        step = at - self._at
        fields = ["" if step == self._period else str(step)]
        for number, old in zip(numbers, _padded(self._numbers, len(numbers)), strict=True):
            if number == old:
                fields.append("")
            elif number is None:
                fields.append(_MISSING)
            else:
                fields.append(str(_checked(number) - (old or 0)))
        added = ",".join(fields) + _END
        self.text += added
        self._at, self._numbers = at, numbers
        return added


def unpack(text: str, begin: float, period: float) -> Iterator[Sample]:
    """Yield the samples of a text; at damage raises ValueError after the samples before it.

    ``begin`` and ``period`` are the values it was packed with.
    """
    usual = _period_of(period)
    at, numbers = _milliseconds(begin) - usual, Numbers()
    *parts, rest = text.split(_END)
    for part in parts:
        step, *fields = part.split(",")
        at += _checked(int(step)) if step else usual
        numbers = tuple(map(_changed, fields, _padded(numbers, len(fields))))
        yield Sample(at / 1000, numbers)
    if rest:
        raise ValueError("a sample is cut off")


def _changed(field: str, old: int | None) -> int | None:
    if not field:
        return old
    return None if field == _MISSING else _checked(int(field) + (old or 0))


def _padded(numbers: Numbers, count: int) -> Numbers:
    """Return a sample with more numbers, which are missing at first."""
    return numbers[:count] + (None,) * (count - len(numbers))


def _checked(number: int) -> int:
    if -_LIMIT <= number < _LIMIT:
        return number
    raise ValueError("a number is beyond 64 bits")


def _period_of(seconds: float) -> int:
    return max(1, _milliseconds(seconds))


def _milliseconds(seconds: float) -> int:
    try:
        return round(seconds * 1000)
    except (OverflowError, ValueError):
        raise ValueError(f"{seconds} is not a valid time") from None


# -- steps of a minute -----------------------------------------------------------------------------


def by_minute(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Yield one sample for each minute in which a number changed, at the minute's begin.

    ``samples`` are in order and without a lapse between them, and may include such minutes. The
    values before a minute count for its low and high, unless it begins with a sample. If the number
    of values changes at a sample, low and high start again with it.
    """
    held: Numbers | None = None
    for minute, group in groupby(
        samples, lambda sample: sample.time // MINUTE_SECONDS * MINUTE_SECONDS
    ):
        own = list(group)
        begin = own[0].time if held is None else minute
        lows = [sample.low or sample.numbers for sample in own]
        highs = [sample.high or sample.numbers for sample in own]
        last = own[-1].numbers
        if {held} != {*lows, *highs, *[sample.numbers for sample in own]}:
            before = [] if held is None or own[0].time == begin else [held]
            low = reduce(partial(_folded, min), before + lows)
            high = reduce(partial(_folded, max), before + highs)
            yield Sample(begin, last, MINUTE_SECONDS, low, high)
        held = last


def _folded(fold: Callable[[int, int], int], numbers: Numbers, others: Numbers) -> Numbers:
    if len(numbers) != len(others):
        return others
    return tuple(
        [
            other if number is None else number if other is None else fold(number, other)
            for number, other in zip(numbers, others, strict=True)
        ]
    )


def pack_minutes(samples: Iterable[Sample], begin: float) -> str:
    """Pack the result of `by_minute`: the numbers, lows and highs of each minute are one sample.

    Raises ValueError as `Packer.add` does.
    """
    packer = Packer(begin, MINUTE_SECONDS)
    for sample in samples:
        packer.append(sample.time, (*sample.numbers, *sample.low, *sample.high))
    return packer.text


def unpack_minutes(text: str, begin: float) -> Iterator[Sample]:
    """Yield the minutes of a text, as `unpack` does for samples."""
    for time, numbers, *_ in unpack(text, begin, MINUTE_SECONDS):
        count = len(numbers) // 3
        low, high = numbers[count : 2 * count], numbers[2 * count :]
        yield Sample(time, numbers[:count], MINUTE_SECONDS, low, high)


def samples_of(chunks: Iterable[tuple[float, float, float, str | bytes]]) -> Iterator[Sample]:
    """Yield the samples of chunks: begin, end, period (0 for minutes), and text or deflated text.

    A damaged chunk ends at the damage, and the next one starts again.
    """
    for begin, _, period, body in chunks:
        with suppress(ValueError):
            text = body if isinstance(body, str) else inflated(body).decode()
            yield from unpack(text, begin, period) if period else unpack_minutes(text, begin)
