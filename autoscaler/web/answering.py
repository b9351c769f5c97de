"""Answers requests: on worker threads, few at a time, compressed, and in parts if large."""

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import blake2b
from http import HTTPStatus
from typing import Any

import anyio
from prometheus_client.exposition import gzip_accepted
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from autoscaler import clock
from autoscaler.rendering.answers import ProblemDetails

MOST_AT_ONCE = 2
"""The most answers of a kind that are made at once; further requests wait."""
MOST_WAIT_SECONDS = 5.0
MOST_LARGE = 3
"""The most answers that are made or sent at once: an unread answer stays in memory."""
RETRY_LATER = {"Retry-After": "3"}
"""The header of a refusal while the daemon starts, or is overloaded."""
ONLY_HEAD = "autoscaler.only_head"
"""Set in the scope of a HEAD request, which is handled as GET."""

_WORTH_COMPRESSING = 1000
_USUAL_LEVEL = 6
_OF_LARGE = 1
"""The fastest level also makes the list of 10,000 targets twenty times smaller."""
_GZIP = 31


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a request."""

    status: int
    content_type: str
    body: Iterable[bytes]
    """Its parts, which may be created only while they are sent."""
    large: bool = False
    """Whether only few of its kind are made or sent at once."""
    streamed: bool = False
    """Whether a large one is streamed, without its length, and never in memory as a whole."""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Cache-Control": "no-store"})


PROBLEM_TYPE = "application/problem+json"


def problem_of(status: int, detail: str, **more: Any) -> ProblemDetails:
    """Return a problem of RFC 9457: a sentence, never a traceback."""
    title = HTTPStatus(status).phrase
    return ProblemDetails(type="about:blank", title=title, status=status, detail=detail, **more)


class BusyError(Exception):
    """There is no room for another answer; the text is the sentence for the client."""


class AnswerPool:
    """Makes at most ``most_at_once`` answers at once; a request waits for a limited time."""

    def __init__(
        self, most_at_once: int = MOST_AT_ONCE, wait_seconds: float = MOST_WAIT_SECONDS
    ) -> None:
        self._room = anyio.Semaphore(most_at_once)
        self._wait_seconds = wait_seconds
        self._large = threading.BoundedSemaphore(MOST_LARGE)
        self._one_part_at_a_time = threading.Lock()

    async def answer(self, request: Request, make: Callable[[], Page]) -> Response:
        """Return the result of a worker thread; raises BusyError, and what ``make`` raises."""
        try:
            with anyio.fail_after(self._wait_seconds):
                await self._room.acquire()
        except TimeoutError:
            raise BusyError("too many requests are being answered") from None
        sending = ExitStack()
        try:
            return await run_in_threadpool(self._response, request, make, sending)
        except BaseException:
            sending.close()
            raise
        finally:
            self._room.release()

    def _response(self, request: Request, make: Callable[[], Page], sending: ExitStack) -> Response:
        page = make()
        headers = {"Date": formatdate(clock.wall(), usegmt=True), "Vary": "Accept-Encoding"}
        headers |= page.headers
        if _is_known(request, headers.get("ETag")):
            return Response(status_code=304, headers=headers)
        if page.large:
            if not self._large.acquire(blocking=False):
                raise BusyError("too many clients are being sent this page")
            sending.callback(self._large.release)
        headers["Content-Type"] = page.content_type
        whole = b"" if page.large else b"".join(page.body)
        body: Iterable[bytes] = page.body if page.large else [whole]
        worth = page.large or len(whole) >= _WORTH_COMPRESSING
        if worth and gzip_accepted(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = _compressed(body, _OF_LARGE if page.large else _USUAL_LEVEL)
        with_body = request.method == "GET" and not request.scope.get(ONLY_HEAD)
        if page.streamed:
            parts = self._in_turn(body) if with_body else ()
            return _SentAnswer(sending, parts, page.status, headers)
        made = list(body)
        headers["Content-Length"] = str(sum(map(len, made)))
        if not with_body:
            made = []
        if page.large:
            return _SentAnswer(sending, _each(made), page.status, headers)
        return Response(b"".join(made), page.status, headers)

    def _in_turn(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Make one part at a time, so that several pages do not take the whole processor."""
        made = iter(parts)
        while True:
            with self._one_part_at_a_time:
                part = next(made, None)
            if part is None:
                return
            yield part


class _SentAnswer(StreamingResponse):
    """Closes the stack after it was sent."""

    def __init__(self, sending: ExitStack, *response: Any) -> None:
        super().__init__(*response)
        self._sending = sending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._sending:
            await super().__call__(scope, receive, send)


async def _each(parts: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts that exist; no thread is needed."""
    for part in parts:
        yield part
        await asyncio.sleep(0)


def _compressed(parts: Iterable[bytes], level: int) -> Iterator[bytes]:
    """Yield the parts of a page as one gzip stream."""
    deflate = zlib.compressobj(level, wbits=_GZIP)
    for part in parts:
        if packed := deflate.compress(part):
            yield packed
    yield deflate.flush()


def tag_of(content: bytes) -> str:
    """Return a weak ETag: it is the same for the compressed answer."""
    return f'W/"{blake2b(content, digest_size=12).hexdigest()}"'


def _is_known(request: Request, tag: str | None) -> bool:
    """Return whether the client has it, by the weak comparison of RFC 9110, 13.1.2."""
    known = request.headers.get("if-none-match", "")
    tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
    return tag is not None and ("*" in tags or tag.removeprefix("W/") in tags)
