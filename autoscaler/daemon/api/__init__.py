"""The API below /api/v1: read-only JSON, described by an OpenAPI document."""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from autoscaler.daemon.exposition.views import Views

PREFIX = "/api/v1"
TARGETS = f"{PREFIX}/targets"
ONLY_HEAD = "autoscaler.only_head"
"""In the scope of a request whose body is not wanted."""

ShownViews = Callable[[], Views | None]


def routes(views: ShownViews) -> list[BaseRoute]:
    """Return the routes of the API; ``views`` returns None while the daemon starts."""
    return [Mount(PREFIX, _Api(views))]


class _Api:
    """The API, made at its first request: a daemon that nobody asks does without its memory."""

    def __init__(self, views: ShownViews) -> None:
        self._views = views
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.  HEAD is GET, whose body the listener leaves out."""
        if self._made is None:
            self._made = await run_in_threadpool(_make, self._views)
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET", ONLY_HEAD: True}
        await self._made(scope, receive, send)


def _make(views: ShownViews) -> ASGIApp:
    from autoscaler.daemon.api.application import make  # noqa: PLC0415

    return make(views)
