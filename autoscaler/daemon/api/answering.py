"""Answers requests: on worker threads, few at a time, with what lets a client keep an answer."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from functools import partial
from hashlib import blake2b
from secrets import token_hex

import anyio
from prometheus_client.exposition import gzip_accepted
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from autoscaler import clock
from autoscaler.daemon.api import ONLY_HEAD
from autoscaler.daemon.api.problems import STARTING, ProblemError
from autoscaler.daemon.exposition.application import MOST_LARGE_PAGES
from autoscaler.daemon.exposition.compression import compressed
from autoscaler.daemon.exposition.views import Views

MOST_AT_ONCE = 2
"""So many answers are made at once; further requests wait."""
MOST_WAIT_SECONDS = 5.0

_WORTH_COMPRESSING = 1000
_JSON = "application/json"

Make = Callable[[Views, float], object]
"""Makes an answer at a Unix time: bytes, or what `json` writes."""
Parts = Callable[[Views, float], Iterator[bytes]]


class Answering:
    """Answers with what is made of the views; they are None while the daemon starts."""

    def __init__(self, views: Callable[[], Views | None]) -> None:
        self._views = views
        self._room = anyio.Semaphore(MOST_AT_ONCE)
        self._streams = threading.BoundedSemaphore(MOST_LARGE_PAGES)
        self._one_part_at_a_time = threading.Lock()
        self._process = token_hex(8)

    async def answer(self, request: Request, make: Make) -> Response:
        """Return an answer; its ETag is of its content."""
        return await self._in_turn(partial(self._whole, request, make))

    async def answer_always(self, request: Request, make: Callable[[], bytes]) -> Response:
        """Return an answer that needs no views."""
        return await self._in_turn(lambda: _sent(request, make()))

    async def answer_as_of_syncs(self, request: Request, make: Make, *key: object) -> Response:
        """Return an answer that is another one only after a sync, or if ``key`` is another."""
        tag = self.tag_of_syncs(*key)
        if _is_known(request, tag):
            return _not_modified(tag)
        return await self._in_turn(partial(self._whole, request, make, tag))

    async def stream(self, request: Request, parts: Parts, *key: object) -> Response:
        """Return an answer as of syncs that is sent while it is made."""
        tag = self.tag_of_syncs(*key)
        if _is_known(request, tag):
            return _not_modified(tag)
        views = self.views()
        if not self._streams.acquire(blocking=False):
            raise ProblemError(503, "too many clients are being sent this page")
        body, headers = self._in_parts(partial(parts, views, clock.wall())), _headers(tag)
        if request.scope.get(ONLY_HEAD):
            body = iter(())
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            body, headers["Content-Encoding"] = compressed(body), "gzip"
        return _Stream(body, headers, self._streams.release)

    def views(self) -> Views:
        """Return the views; raises ProblemError while the daemon starts."""
        views = self._views()
        if views is None:
            raise ProblemError(503, STARTING)
        return views

    def tag_of_syncs(self, *key: object) -> str:
        """Return the ETag of what changes with syncs, and with ``key``."""
        version = self.views().states.version
        return tag_of(repr((self._process, version, key)).encode())

    async def _in_turn(self, make: Callable[[], Response]) -> Response:
        try:
            with anyio.fail_after(MOST_WAIT_SECONDS):
                await self._room.acquire()
        except TimeoutError:
            raise ProblemError(503, "too many requests are being answered") from None
        try:
            return await run_in_threadpool(make)
        finally:
            self._room.release()

    def _whole(self, request: Request, make: Make, tag: str = "") -> Response:
        made = make(self.views(), clock.wall())
        return _sent(request, made if isinstance(made, bytes) else encoded(made), tag)

    def _in_parts(self, make: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
        parts: Iterator[bytes] | None = None
        while True:
            with self._one_part_at_a_time:  # so that several lists do not take all of the processor
                parts = make() if parts is None else parts
                part = next(parts, None)
            if part is None:
                return
            yield part


class _Stream(StreamingResponse):
    def __init__(
        self, body: Iterable[bytes], headers: dict[str, str], end: Callable[[], None]
    ) -> None:
        super().__init__(body, 200, headers, _JSON)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


def _sent(request: Request, body: bytes, tag: str = "") -> Response:
    """Return a response, unless the client has the body; its ETag is of that unless told."""
    tag = tag or tag_of(body)
    if _is_known(request, tag):
        return _not_modified(tag)
    headers = _headers(tag)
    accepted = request.headers.get("accept-encoding", "")
    if len(body) >= _WORTH_COMPRESSING and gzip_accepted(accepted):
        body, headers["Content-Encoding"] = b"".join(compressed([body])), "gzip"
    return Response(body, 200, headers, _JSON)


def encoded(value: object) -> bytes:
    """Write an answer; it is ASCII, whatever its texts hold."""
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def listed(name: str, entries: Iterable[str], token: str | None, **more: object) -> bytes:
    """Write a page of entries, which are JSON, one on each line; ``more`` stands after them."""
    lines = ",\n".join(entries)
    rest = json.dumps(more | {"continue": token})[1:]
    return f'{{"{name}": [\n{lines}\n], {rest}\n'.encode()


def tag_of(content: bytes) -> str:
    """Return a weak ETag: compressed it is the same."""
    return f'W/"{blake2b(content, digest_size=12).hexdigest()}"'


def _is_known(request: Request, tag: str) -> bool:
    """Return whether the client has it, by the weak comparison of RFC 9110, 13.1.2."""
    known = request.headers.get("if-none-match", "")
    tags = [one.strip().removeprefix("W/") for one in known.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags


def _not_modified(tag: str) -> Response:
    return Response(status_code=304, headers=_headers(tag))


def _headers(tag: str) -> dict[str, str]:
    return {
        "Cache-Control": "no-cache",
        "Date": formatdate(clock.wall(), usegmt=True),
        "ETag": tag,
        "Vary": "Accept-Encoding",
    }
