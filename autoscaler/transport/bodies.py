"""The body of a response: received, split into lines and parsed within limits."""

import json
import re
from collections.abc import Callable, Iterable, Iterator

import urllib3

from autoscaler import clock

_CHUNK_BYTES = 65_536

# An upper bound in bytes on what json.loads makes of each: CPython 3.11 to 3.13.
_OF_A_LIST, _OF_AN_OBJECT, _OF_A_PAIR, _OF_AN_ELEMENT = 88, 120, 100, 64
_OF_A_BYTE = _OF_AN_OBJECT + 2 * 4
# One character makes all others of its string as wide as it is: from U+0100 on 2 bytes, from
# U+10000 on 4.  First as they begin in UTF-8, then as escapes.
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")
_WIDE_ESCAPE, _WIDEST_ESCAPE = re.compile(rb"\\u(?!00)"), re.compile(rb"\\u[dD][89abAB]")


class TooLarge(Exception):  # noqa: N818 - what the answer is
    """The body is larger than allowed; the rest was not received."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"more than {most_bytes >> 20} MiB")


class UnexpectedEncoding(Exception):  # noqa: N818 - as above
    """The body has a content encoding that was not asked for; it was not received."""

    def __init__(self, encoding: str) -> None:
        super().__init__(f"an answer in the content encoding {encoding}, which was not asked for")


class LineTooLong(urllib3.exceptions.HTTPError):
    """A line is longer than allowed; the rest was not received."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"a line of more than {most_bytes >> 20} MiB")


class TooMuch(Exception):  # noqa: N818 - as above
    """The parsed document would take more memory than allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(f"JSON that takes more than {most >> 20} MiB of memory")


def check_encoding(response: urllib3.BaseHTTPResponse, asked_for: str = "") -> None:
    """Raise UnexpectedEncoding, and close the connection, unless it is none or the one asked for.

    A kilobyte may decompress to a megabyte.
    """
    encoding = response.headers.get("Content-Encoding", "").strip()
    if encoding.lower() not in {"", "identity", asked_for}:
        response.close()
        raise UnexpectedEncoding(encoding)


def read_body(
    response: urllib3.BaseHTTPResponse,
    until: float,
    most_bytes: int,
    *,
    encoding: str = "",
    on_size: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Return the whole body, decompressed if it has the ``encoding`` that was asked for.

    ``until`` is an instant of `autoscaler.clock.monotonic`.  ``on_size`` is called with the bytes
    received so far and may raise to give the body up.  The connection is closed unless the body was
    read to its end.

    Raises TooLarge, UnexpectedEncoding, and what urllib3 raises; its TimeoutError at ``until``.
    """
    check_encoding(response, encoding)
    chunks: list[bytes] = []
    size = 0
    try:
        for chunk in chunks_of(response, until, most_bytes, decode=bool(encoding)):
            chunks.append(chunk)
            size += len(chunk)
            on_size(size)
    except BaseException:
        response.close()
        raise
    return b"".join(chunks)


def chunks_of(
    response: urllib3.BaseHTTPResponse, until: float, most_bytes: int, *, decode: bool
) -> Iterator[bytes]:
    """Yield a body as it arrives, decompressed if ``decode`` says so; raises as `read_body`."""
    size = 0
    # read1 returns what has arrived; read would wait for a whole chunk of a slow body.
    while chunk := response.read1(_CHUNK_BYTES, decode_content=decode):
        size += len(chunk)
        if size > most_bytes:
            raise TooLarge(most_bytes)
        if clock.monotonic() >= until:
            raise urllib3.exceptions.TimeoutError("the answer is not complete")
        yield chunk


def lines_of(chunks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a body without their ends, then what follows the last line end, if any.

    Raises LineTooLong for a line of more than ``most_bytes``.
    """
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        if lines:
            yield b"".join(parts)
            yield from lines[:-1]
            parts, size = [lines[-1]], len(lines[-1])
        if size > most_bytes:
            raise LineTooLong(most_bytes)
    if size:
        yield b"".join(parts)


def parse(body: bytes, most: int) -> object:
    """Return a parsed JSON body, which takes at most ``most`` bytes of memory.

    Raises TooMuch before it parses, and ValueError or RecursionError for what is no JSON.
    """
    # A short body cannot take that much.
    if len(body) * _OF_A_BYTE > most and memory_of(body) > most:
        raise TooMuch(most)
    document: object = json.loads(body)
    return document


def memory_of(body: bytes) -> int:
    """Return an upper bound on the bytes that parsing a JSON body takes, without the body itself.

    `[[],[],…` takes fifty times its own size.  For what servers really send the bound is 1.5 to
    2 times what it takes.
    """
    of_text = _width(body)
    of_strings = max(of_text, _escaped_width(body))
    return (
        (of_text + of_strings) * len(body)
        + _OF_A_LIST * body.count(b"[")
        + _OF_AN_OBJECT * body.count(b"{")
        + _OF_A_PAIR * body.count(b":")
        + _OF_AN_ELEMENT * body.count(b",")
    )


def _width(body: bytes) -> int:
    """Return the bytes per character of the decoded body."""
    if body.isascii():
        return 1
    return 4 if _WIDEST.search(body) else 2 if _WIDE.search(body) else 1


def _escaped_width(body: bytes) -> int:
    """Return the bytes per character of a string with the widest escape of the body."""
    if b"\\u" not in body:
        return 1
    return 4 if _WIDEST_ESCAPE.search(body) else 2 if _WIDE_ESCAPE.search(body) else 1
