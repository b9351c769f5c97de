"""The ASGI application: answers GET and HEAD with pages, which are made on worker threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from email.utils import formatdate

from prometheus_client.exposition import gzip_accepted
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from autoscaler import clock
from autoscaler.daemon.exposition.compression import compressed
from autoscaler.daemon.exposition.site import HISTORIES, Page, text_page

MOST_LARGE_PAGES = 3
"""So many are made or sent at once: one that its client does not read stays in memory."""

Answer = Callable[[str, str], Page]
"""Returns the page of a path, for an Accept header."""


def application(
    answer: Answer, on_fault: Callable[[BaseException], None], routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Return the application: the ``routes``, and what ``answer`` returns for any other path.

    ``on_fault`` is called with what a page raises, which is a 500.
    """

    def fault(_: Request, error: Exception) -> Response:
        on_fault(error)
        return PlainTextResponse("a fault; the log has it\n", 500)

    async def other_method(_: Request, __: Exception) -> Response:
        return PlainTextResponse("only GET and HEAD are answered\n", 501)

    pages = _Pages(answer)
    # The histories are below the API's path, and not of it.
    own = [Route(path, pages, methods=["GET"]) for path in (HISTORIES, "/{path:path}")]
    return Starlette(
        routes=[own[0], *routes, own[1]],
        exception_handlers={405: other_method, Exception: fault},
    )


class _Pages:
    """Sends pages; a large one is a 503 while `MOST_LARGE_PAGES` are made or sent."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._large_pages = threading.BoundedSemaphore(MOST_LARGE_PAGES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with ExitStack() as sending:
            response = await run_in_threadpool(self._response, Request(scope), sending)
            await response(scope, receive, send)

    def _response(self, request: Request, sending: ExitStack) -> Response:
        """Return the answer with its whole body, unless that is streamed."""
        page = self._answer(request.scope["path"], request.headers.get("accept", ""))
        if page.large and not self._has_room(sending):
            page = text_page(503, "too many clients are being sent this page")
        headers = {
            "Content-Type": page.content_type,
            "Cache-Control": "no-store",
            "Date": formatdate(clock.wall(), usegmt=True),
        }
        body = page.body
        if page.large and gzip_accepted(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = compressed(body)
        with_body = request.method == "GET"
        if page.streamed:
            return StreamingResponse(body if with_body else (), page.status, headers)
        parts = list(body)
        headers["Content-Length"] = str(sum(map(len, parts)))
        return StreamingResponse(_each(parts if with_body else []), page.status, headers)

    def _has_room(self, sending: ExitStack) -> bool:
        if not self._large_pages.acquire(blocking=False):
            return False
        sending.callback(self._large_pages.release)
        return True


async def _each(parts: list[bytes]) -> AsyncIterator[bytes]:
    """Yield what is made already, and give others their turn; no thread is needed."""
    for part in parts:
        yield part
        await asyncio.sleep(0)
