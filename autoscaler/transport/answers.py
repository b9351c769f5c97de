"""Answers of servers: received, split and parsed within limits for each and for all together."""

import json
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Self

import urllib3

from autoscaler import clock
from autoscaler.transport.redaction import Redactor

MIB = 1 << 20
_CHUNK_BYTES = 65_536
_SMALL_BYTES = MIB // 4
"""A body of up to this size is received without a reservation."""
_SMALL_PARSED, _MOST_OF_AN_ERROR = MIB, 4 * MIB
_KEPT_PART = 2
"""The memory of a parsed answer that is kept, as a part of the memory for parsing it."""
_EARLIER_SECONDS, _EARLIER_PART = 0.5, 0.2
"""How long before a request's end, in seconds and as a part of it, the wait for memory ends, so
that the message names it."""
_POLL_SECONDS = 0.02
"""How soon a waiting thread notices that memory was released, in seconds."""

# Upper bounds in bytes of what json.loads creates for each: CPython 3.11 to 3.13.
_OF_A_LIST, _OF_AN_OBJECT, _OF_A_PAIR, _OF_AN_ELEMENT = 88, 120, 100, 64
_OF_A_BYTE = _OF_AN_OBJECT + 2 * 4
# One wide character widens all characters of its string: from U+0100 on 2 bytes each, from U+10000
# on 4. First their start bytes in UTF-8, then as escapes.
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")
_WIDE_ESCAPE, _WIDEST_ESCAPE = re.compile(rb"\\u(?!00)"), re.compile(rb"\\u[dD][89abAB]")


class BodyTooLargeError(Exception):
    """The body is larger than allowed; the rest was not received."""


class UnexpectedEncoding(Exception):  # noqa: N818 - as above
    """The body has a content encoding that was not requested; it was not received."""


class LineTooLong(urllib3.exceptions.HTTPError):
    """A line is longer than allowed; the rest was not received."""


class DocumentTooLargeError(Exception):
    """The parsed document would take more memory than allowed."""


class NoMemory(Exception):  # noqa: N818 - what happened
    """No memory became available for an answer in time; the message is a sentence."""


# -- a body ----------------------------------------------------------------------------------------


def check_encoding(response: urllib3.BaseHTTPResponse, asked_for: str = "") -> None:
    """Close and raise UnexpectedEncoding for an encoding that was not requested (a bomb)."""
    encoding = response.headers.get("Content-Encoding", "").strip()
    if encoding.lower() not in {"", "identity", asked_for}:
        response.close()
        raise UnexpectedEncoding(
            f"an answer in the content encoding {encoding}, which was not asked for"
        )


def read_body(
    response: urllib3.BaseHTTPResponse,
    until: float,
    most_bytes: int,
    *,
    encoding: str = "",
    on_size: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Return the whole body, decompressed if it has the requested ``encoding``.

    ``until`` is by `clock.monotonic`. ``on_size`` is called with the number of bytes received so
    far, and may raise. Raises TooLarge, UnexpectedEncoding, and the exceptions of urllib3.
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
    """Yield a body as it arrives, decompressed if ``decode`` is set; raises as `read_body`."""
    size = 0
    # read1 returns what has arrived; read would wait for a whole chunk of a slow body.
    while chunk := response.read1(_CHUNK_BYTES, decode_content=decode):
        size += len(chunk)
        if size > most_bytes:
            raise BodyTooLargeError(f"more than {most_bytes >> 20} MiB")
        if clock.monotonic() >= until:
            raise urllib3.exceptions.TimeoutError("the answer is not complete")
        yield chunk


def lines_of(chunks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a body without line ends, including the last; raises LineTooLong."""
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
            raise LineTooLong(f"a line of more than {most_bytes >> 20} MiB")
    if size:
        yield b"".join(parts)


def parse(body: bytes, most: int) -> object:
    """Return a parsed JSON body; raises TooMuch above ``most`` bytes, or as json.loads."""
    # A short body cannot exceed it.
    if len(body) * _OF_A_BYTE > most:
        _check_memory(memory_of(body), most)
    document: object = json.loads(body)
    return document


def error_object(body: bytes) -> dict[str, object]:
    """Return the JSON object of an error answer; empty if the body is anything else."""
    with suppress(DocumentTooLargeError, ValueError, RecursionError):
        document = parse(body, _MOST_OF_AN_ERROR)
        return document if isinstance(document, dict) else {}
    return {}


def _check_memory(size: int, most: int) -> None:
    if size > most:
        raise DocumentTooLargeError(f"JSON that takes more than {most >> 20} MiB of memory")


def memory_of(body: bytes) -> int:
    """Return an upper bound on the memory of a parsed JSON body: up to fifty times its size."""
    of_text = of_strings = 1
    if not body.isascii():
        of_text = of_strings = 4 if _WIDEST.search(body) else 2 if _WIDE.search(body) else 1
    if b"\\u" in body:
        escaped = 4 if _WIDEST_ESCAPE.search(body) else 2 if _WIDE_ESCAPE.search(body) else 1
        of_strings = max(of_text, escaped)
    return (
        (of_text + of_strings) * len(body)
        + _OF_A_LIST * body.count(b"[")
        + _OF_AN_OBJECT * body.count(b"{")
        + _OF_A_PAIR * body.count(b":")
        + _OF_AN_ELEMENT * body.count(b",")
    )


# -- the memory of all -----------------------------------------------------------------------------


class Reservation:
    """Bytes of a budget, until they are released."""

    def __init__(self, size: int, returned: "deque[int]") -> None:
        self.size = size
        self._returned = returned

    def shrink(self, size: int = 0) -> None:
        """Release all but ``size`` bytes; a second call changes nothing."""
        self._returned.append(max(0, self.size - size))
        self.size = min(self.size, size)


class Budget:
    """Bytes for many threads; a reservation above ``small`` leaves ``kept_for_small`` to others."""

    def __init__(self, total: int, *, small: int = 0, kept_for_small: int = 0) -> None:
        self.most = total - kept_for_small
        """The largest reservation."""
        self._total = total
        self._small = small
        self._used = 0
        self._lock = threading.Lock()
        # A finalizer may run on any thread at any point, so it must not take the lock.
        self._returned: deque[int] = deque()

    def reserve(self, size: int, until: float) -> Reservation | None:
        """Reserve bytes, wait for them until an instant, and return None if there are too few."""
        limit = self._total if size <= self._small else self.most
        while size <= limit:
            with self._lock:
                while self._returned:
                    self._used -= self._returned.popleft()
                if self._used + size <= limit:
                    self._used += size
                    return Reservation(size, self._returned)
            left = until - clock.monotonic()
            if left <= 0:
                break
            threading.Event().wait(min(left, _POLL_SECONDS))
        return None


class AnswerMemory:
    """Memory for a server's answers: ``at_once`` of ``most_bytes`` received, then ``parsed``."""

    def __init__(
        self, most_bytes: int, parsed: int, *, at_once: int = 3, kept_for_small: int | None = None
    ) -> None:
        self.most_bytes = most_bytes
        self.received = Budget(at_once * most_bytes)
        kept = parsed // 5 if kept_for_small is None else kept_for_small
        self.parsed = Budget(parsed, small=_SMALL_PARSED, kept_for_small=kept)


def is_success(status: int) -> bool:
    """Return whether an HTTP status means success."""
    return 200 <= status <= 299


class Answer:
    """A complete answer without our credentials; its memory is released when it is freed.

    ``until`` is the end of its request, ``seconds`` the time limit of that. It waits for memory
    until shortly before the end.
    """

    def __init__(self, memory: AnswerMemory, until: float, seconds: float) -> None:
        self.status, self.body = 0, b""
        self.headers: Mapping[str, str] = {}
        self.unread: BodyTooLargeError | UnexpectedEncoding | NoMemory | None = None
        """Why there is no body."""
        self._memory = memory
        self._until = until
        self._memory_until = until - min(_EARLIER_SECONDS, seconds * _EARLIER_PART)
        self._received: Reservation | None = None
        self._parsed: Reservation | None = None

    def __del__(self) -> None:
        self._give_back()

    def _give_back(self) -> None:
        for reservation in (self._received, self._parsed):
            if reservation is not None:
                reservation.shrink()

    def receive(
        self, response: urllib3.BaseHTTPResponse, redactor: Redactor, *, encoding: str = ""
    ) -> Self:
        """Receive the body in the requested ``encoding`` and return the answer; raises RAISED."""
        self.status, self.headers = response.status, response.headers
        most = self._memory.most_bytes
        try:
            body = read_body(
                response, self._until, most, encoding=encoding, on_size=self._make_room
            )
        except (UnexpectedEncoding, BodyTooLargeError, NoMemory) as error:
            # The traceback would refer to this object.
            self.unread = error.with_traceback(None)
            self._give_back()
            return self
        hide = redactor.data if is_success(self.status) else redactor.error_body
        self.body = hide(body)
        return self

    def _make_room(self, size: int) -> None:
        """Reserve the maximum as soon as more bytes than in a small answer have arrived."""
        if size > _SMALL_BYTES and self._received is None:
            what = f"an answer of more than {_SMALL_BYTES >> 10} KiB"
            self._received = self._reserve(self._memory.received, self._memory.most_bytes, what)

    def parse(self, body: bytes) -> object:
        """Return a parsed JSON body; raises TooMuch, NoMemory, ValueError or RecursionError."""
        size, budget = memory_of(body), self._memory.parsed
        _check_memory(size, budget.most)
        self._parsed = self._reserve(budget, size, "an answer to be parsed")
        document: object = json.loads(body)
        return document

    def keep(self, kept: object) -> None:
        """Keep the memory of a value from the document until that value is freed."""
        if self._parsed is not None:
            self._parsed.shrink(self._parsed.size // _KEPT_PART)
            weakref.finalize(kept, self._parsed.shrink).atexit = False
            self._parsed = None

    def _reserve(self, budget: Budget, size: int, what: str) -> Reservation:
        if (reservation := budget.reserve(size, self._memory_until)) is None:
            why = "because of other large answers"
            raise NoMemory(f"there was no memory in time for {what}, {why}")
        return reservation
