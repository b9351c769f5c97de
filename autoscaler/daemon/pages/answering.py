"""Answers requests for pages: on worker threads, few at a time."""

import gzip
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.to_thread import run_sync
from prometheus_client.exposition import gzip_accepted
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from autoscaler import clock
from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.health import ComponentState
from autoscaler.daemon.pages.templating import render

MOST_AT_ONCE = 2
"""So many pages are made at once; further requests wait, as many as the listener admits."""

_HEADERS = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
_GZIP_LEVEL = 6
_STARTS_AGAIN_SECONDS = "3"


@dataclass(frozen=True, slots=True)
class Html:
    """A page that is to be sent."""

    text: str
    status: int = 200


Page = Callable[[Views, Request, float], Html]
"""Makes a page, or the part of it that a script asks for, at a Unix time."""


class Answering:
    """Makes handlers of pages."""

    def __init__(self, views: Callable[[], Views | None]) -> None:
        self._views = views
        self._room = anyio.CapacityLimiter(MOST_AT_ONCE)

    def page(self, make: Page) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a page."""

        async def handle(request: Request) -> Response:
            return await run_sync(partial(self._response, make, request), limiter=self._room)

        return handle

    def _response(self, make: Page, request: Request) -> Response:
        views, now = self._views(), clock.wall()
        page = starting(now) if views is None else make(views, request, now)
        body, headers = page.text.encode(errors="replace"), dict(_HEADERS)
        if page.status == 503:
            headers["Retry-After"] = _STARTS_AGAIN_SECONDS
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            body, headers["Content-Encoding"] = gzip.compress(body, _GZIP_LEVEL), "gzip"
        return HTMLResponse(body, page.status, headers)


def starting(now: float) -> Html:
    """Return the page while the daemon starts."""
    text = render(
        "message.html",
        title="The daemon starts",
        sentences=["It has not read its targets yet. This page shows them once it has."],
        suggestions=(),
        refresh=True,
        **frame(None, now, ""),
    )
    return Html(text, 503)


def not_found(views: Views, now: float, sentence: str, suggestions: tuple[str, ...]) -> Html:
    """Return the page in place of one that there is not; ``suggestions`` are keys of targets."""
    text = render(
        "message.html",
        title="There is no such page",
        sentences=[sentence],
        suggestions=suggestions,
        refresh=False,
        **frame(views, now, ""),
    )
    return Html(text, 404)


def frame(views: Views | None, now: float, current: str) -> dict[str, object]:
    """Return what the frame of every page shows; ``current`` is the page in its navigation."""
    not_ok: list[ComponentState] = []
    stands_by = False
    if views is not None:
        not_ok = [one for one in views.health.components() if not one.ok]
        stands_by = views.leads() is False
    return {"now": now, "current": current, "not_ok": not_ok, "stands_by": stands_by}
