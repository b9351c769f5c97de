"""A row of `recent`: what each target of one batch appends to its samples.

It is a count, the targets in order, where the bytes of each begin, and then these bytes; so those
of one target are found without reading the others.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from autoscaler.adapters.sqlite_files import MalformedError

_COUNT = struct.Struct("=I")


def pack_batch(parts: Mapping[int, bytes | bytearray]) -> bytes:
    """Write what was appended, by the ids of the targets."""
    order = sorted(parts)
    begins = []
    position = 0
    for target in order:
        begins.append(position)
        position += len(parts[target])
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
    ends = [*begins[1:], len(data)]
    for target, begin, end in zip(order, begins, ends, strict=True):
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
