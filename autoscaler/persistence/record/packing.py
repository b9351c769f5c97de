"""The samples of one target as bytes: what has changed since the sample before.

A sample is a header byte, then numbers of 7 bits a byte (LEB128), each if the header says so: the
time, the rest of the mask, how many numbers there are now, and each number that has changed.
Bits of the header: 0 and 1 the time (`_REGULAR`, `_PERIODS`, `_IRREGULAR`), 2 the rest of the mask
follows, 3 to 6 which of the first four numbers have changed, 7 how many numbers there are changes.
A number is the zigzag (0, 1, 2, ... for 0, -1, 1, ...) of its difference to the one before, or of
itself after a missing one; it is 0 if it is missing now.  Instants are Unix seconds, kept to the
millisecond.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from autoscaler.persistence.record.rows import Numbers, Sample
from autoscaler.persistence.sqlite_files import MalformedError

MOST_NUMBERS = 4096
"""More numbers than this are not kept in a sample."""

# The sample is one period after the one before; as many periods after it as follows; a period after
# it, and as many milliseconds as follow.
_REGULAR, _PERIODS, _IRREGULAR = 0, 1, 2
_TIME = 0b11
_WIDE = 1 << 2
_MASK_SHIFT, _MASK_BITS = 3, 4
_MASK = (1 << _MASK_BITS) - 1
_RESHAPED = 1 << 7

MINUTE_SECONDS = 60.0
_MOST_BITS = 70
"""No number is longer than this: a difference of two of 64 bits has 66."""
_LIMIT = 1 << 63
"""Numbers are of 64 bits, as quantities in milli-units are."""


class Packer:
    """The samples of one target since ``begin``, at which the first costs least.

    ``period`` is the usual time from one to the next in seconds; ``end`` is the last sync, which
    need not have changed anything.
    """

    __slots__ = ("_at", "_body", "_numbers", "_period", "begin", "end")

    def __init__(self, begin: float, period: float) -> None:
        self.begin = self.end = begin
        self._period = _period_of(period)
        self._at = _milliseconds(begin) - self._period
        self._numbers: Numbers = ()
        self._body = bytearray()

    def add(self, time: float, numbers: Numbers) -> bytes:
        """Return the bytes that a sample appends to the body; none if no number has changed.

        Raises ValueError for what cannot be kept: an instant that is not finite, a number beyond
        64 bits, or more numbers than MOST_NUMBERS.  Nothing has then been added.
        """
        before = self._numbers
        if numbers == before:
            self.end = time
            return b""
        at = _milliseconds(time)
        added = _encoded(at - self._at, self._period, numbers, before)
        self._body += added
        self._at = at
        self._numbers = numbers
        self.end = time
        return added

    def body(self) -> bytes:
        """Return all that was appended."""
        return bytes(self._body)


def unpack(body: bytes, begin: float, period: float) -> Iterator[Sample]:
    """Yield the samples of a body; raises ValueError, after those before it, where it is damaged.

    ``begin`` and ``period`` are those it was packed with.
    """
    reader = _Reader(body, begin, period)
    while reader.advance():
        yield Sample(reader.at / 1000, reader.numbers)


def by_minute(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Yield one sample for each minute in which a number changed, as of the minute's begin.

    ``samples`` are in order and without a lapse between them; there may be such minutes among them.
    What held before a minute counts for its low and high, unless it begins with a sample.
    """
    minute: _Minute | None = None
    for sample in samples:
        begin = sample.time // MINUTE_SECONDS * MINUTE_SECONDS
        if minute is None:
            minute = _Minute(sample.time, (), reset=True)
        elif begin > minute.begin:
            if minute.changed:
                yield minute.sample()
            minute = _Minute(begin, minute.last, reset=sample.time == begin)
        minute.add(sample)
    if minute is not None and minute.changed:
        yield minute.sample()


class _Minute:
    """The samples of one minute, after what held before it."""

    def __init__(self, begin: float, held: Numbers, *, reset: bool) -> None:
        self.begin = begin
        self.last = held
        self.changed = False
        self._low = self._high = () if reset else held

    def add(self, sample: Sample) -> None:
        """Add one; if there are more numbers now, or fewer, low and high begin anew."""
        low, high = sample.low or sample.numbers, sample.high or sample.numbers
        self.changed = self.changed or not self.last == low == high == sample.numbers
        self.last = sample.numbers
        reshaped = len(low) != len(self._low)
        self._low = low if reshaped else _folded(min, self._low, low)
        self._high = high if reshaped else _folded(max, self._high, high)

    def sample(self) -> Sample:
        return Sample(self.begin, self.last, MINUTE_SECONDS, self._low, self._high)


def _folded(fold: Callable[[int, int], int], numbers: Numbers, others: Numbers) -> Numbers:
    return tuple(
        [
            other if one is None else one if other is None else fold(one, other)
            for one, other in zip(numbers, others, strict=True)
        ]
    )


def pack_minutes(samples: Iterable[Sample], begin: float) -> bytes:
    """Pack what `by_minute` gave; raises ValueError as `Packer.add` does.

    After the last numbers of a minute follow a mask of those that had others too, and of each how
    far its low is below the last and its high above; without a last the low, and the high above it.
    """
    body = bytearray()
    period = _period_of(MINUTE_SECONDS)
    at = _milliseconds(begin) - period
    before: Numbers = ()
    for sample in samples:
        time, numbers = _milliseconds(sample.time), sample.numbers
        body += _encoded(time - at, period, numbers, before)
        at, before = time, numbers
        mask, ranges = 0, bytearray()
        rows = zip(numbers, sample.low, sample.high, strict=True)
        for index, (last, low, high) in enumerate(rows):
            if low is None or high is None or low == last == high:
                continue
            mask |= 1 << index
            _append(ranges, _zigzag(low) if last is None else last - low)
            _append(ranges, high - (low if last is None else last))
        _append(body, mask)
        body += ranges
    return bytes(body)


def unpack_minutes(body: bytes, begin: float) -> Iterator[Sample]:
    """Yield the minutes of a body, as `unpack` does samples."""
    reader = _Reader(body, begin, MINUTE_SECONDS)
    while reader.advance():
        low, high = reader.ranges()
        yield Sample(reader.at / 1000, reader.numbers, MINUTE_SECONDS, low, high)


def _period_of(seconds: float) -> int:
    return max(1, _milliseconds(seconds))


def _milliseconds(seconds: float) -> int:
    try:
        return round(seconds * 1000)
    except (OverflowError, ValueError):
        raise ValueError(f"{seconds} is no instant") from None


def _encoded(step: int, period: int, numbers: Numbers, before: Numbers) -> bytes:
    """Return the bytes of a sample, ``step`` milliseconds after one with the numbers ``before``."""
    count = len(numbers)
    head, reshaped = 0, count != len(before)
    if reshaped:
        head, before = _RESHAPED, _reshaped(before, count)
    mask, bit = 0, 1
    deltas = bytearray()
    for number, old in zip(numbers, before, strict=True):
        if number != old:
            mask |= bit
            if number is None:
                deltas.append(0)
            else:
                delta = _checked(number) if old is None else _checked(number) - old
                _append(deltas, delta << 1 if delta >= 0 else ~(delta << 1))
        bit <<= 1
    head |= (mask & _MASK) << _MASK_SHIFT
    if step == period and mask <= _MASK and not reshaped:
        deltas.insert(0, head)
        return bytes(deltas)
    extras = bytearray([0])
    if step != period:
        periods, beyond = divmod(step, period)
        is_irregular = beyond or periods < 0
        head |= _IRREGULAR if is_irregular else _PERIODS
        _append(extras, _zigzag(step - period) if is_irregular else periods)
    if mask > _MASK:
        head |= _WIDE
        _append(extras, mask >> _MASK_BITS)
    if reshaped:
        _append(extras, count)
    extras[0] = head
    return bytes(extras + deltas)


def _reshaped(numbers: Numbers, count: int) -> Numbers:
    """Return as many numbers; those that come are missing at first."""
    if count > MOST_NUMBERS:
        raise ValueError(f"{count} numbers in a sample are more than {MOST_NUMBERS}")
    return numbers[:count] + (None,) * (count - len(numbers))


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else ~(number << 1)


def _unzigzag(code: int) -> int:
    return ~(code >> 1) if code & 1 else code >> 1


def _append(out: bytearray, code: int) -> None:
    while code > 127:
        out.append(code & 127 | 128)
        code >>= 7
    out.append(code)


def _checked(number: int) -> int:
    if -_LIMIT <= number < _LIMIT:
        return number
    raise ValueError("a number is beyond 64 bits")


class _Reader:
    """Reads samples; methods raise ValueError."""

    def __init__(self, body: bytes, begin: float, period: float) -> None:
        self._body = body
        self._position = 0
        self._period = _period_of(period)
        self.at = _milliseconds(begin) - self._period
        self.numbers: Numbers = ()

    def advance(self) -> bool:
        """Read a sample, which then stands in ``at`` and ``numbers``; False after the last."""
        if self._position == len(self._body):
            return False
        head = self._body[self._position]
        self._position += 1
        time, step = head & _TIME, self._period
        if time == _PERIODS:
            step *= self._code()
        elif time == _IRREGULAR:
            step += _unzigzag(self._code())
        elif time != _REGULAR:
            raise ValueError("a sample has a time of an unknown form")
        mask = head >> _MASK_SHIFT & _MASK
        if head & _WIDE:
            mask |= self._code(MOST_NUMBERS) << _MASK_BITS
        if head & _RESHAPED:
            self.numbers = _reshaped(self.numbers, self._code())
        if mask >> len(self.numbers):
            raise ValueError("a number has changed that there is not")
        if mask:
            self.numbers = self._changed(self.numbers, mask)
        self.at += step
        return True

    def _changed(self, before: Numbers, mask: int) -> Numbers:
        numbers = list(before)
        index = 0
        while mask:
            if mask & 1:
                code, old = self._code(), numbers[index]
                if old is None:
                    numbers[index] = _checked(_unzigzag(code))
                else:
                    numbers[index] = _checked(old + _unzigzag(code)) if code else None
            mask >>= 1
            index += 1
        return tuple(numbers)

    def ranges(self) -> tuple[Numbers, Numbers]:
        """Read low and high of a minute."""
        mask = self._code(MOST_NUMBERS)
        if not mask:
            return self.numbers, self.numbers
        if mask >> len(self.numbers):
            raise ValueError("a number has a range that there is not")
        low, high = list(self.numbers), list(self.numbers)
        for index, last in enumerate(self.numbers):
            if mask >> index & 1:
                below, above = self._code(), self._code()
                least = _unzigzag(below) if last is None else last - below
                low[index] = _checked(least)
                high[index] = _checked((least if last is None else last) + above)
        return tuple(low), tuple(high)

    def _code(self, most_bits: int = _MOST_BITS) -> int:
        body, position = self._body, self._position
        code = shift = 0
        while True:
            if position >= len(body) or shift > most_bits:
                raise ValueError("a number is cut off or too long")
            byte = body[position]
            position += 1
            code |= (byte & 127) << shift
            if byte < 128:
                self._position = position
                return code
            shift += 7


# -- a row of `recent` ----------------------------------------------------------------------------

# A count, the targets in order, where the bytes of each begin, and then these bytes; so those of
# one target are found without reading the others.

_COUNT = struct.Struct("=I")


def pack_batch(parts: Mapping[int, bytes | bytearray]) -> bytes:
    """Return a row of what each target appends, by its number."""
    order = sorted(parts)
    begins = [0, *accumulate([len(parts[target]) for target in order])][:-1]
    count = len(order)
    numbers = struct.pack(f"=I{2 * count}I", count, *order, *begins)
    return numbers + b"".join([parts[target] for target in order])


def part_of(body: bytes, target: int) -> bytes:
    """Return what one target has appended; raises MalformedError."""
    order, begins, data = _split(body)
    index = bisect_left(order, target)
    if index == len(order) or order[index] != target:
        return b""
    end = begins[index + 1] if index + 1 < len(begins) else len(data)
    return bytes(data[begins[index] : end])


def parts_of(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield what each target has appended; raises MalformedError."""
    order, begins, data = _split(body)
    for target, begin, end in zip(order, begins, [*begins[1:], len(data)], strict=True):
        yield target, bytes(data[begin:end])


def _split(body: bytes) -> tuple[memoryview, memoryview, memoryview]:
    view = memoryview(body)
    try:
        (count,) = _COUNT.unpack_from(body)
        middle = _COUNT.size * (1 + count)
        end = middle + _COUNT.size * count
        order, begins = (view[_COUNT.size : middle], view[middle:end])
        return order.cast("I"), begins.cast("I"), view[end:]
    except (struct.error, TypeError):
        raise MalformedError("a batch of samples is damaged") from None
