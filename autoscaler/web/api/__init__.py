"""The API below /api/v1: read-only JSON, described by an OpenAPI document."""

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from autoscaler.web.answering import ONLY_HEAD
from autoscaler.web.site import ShownViews

PREFIX = "/api/v1"


def routes(views: ShownViews) -> list[BaseRoute]:
    """Return the routes of the API."""
    return [Mount(PREFIX, _LazyApi(views))]


class _LazyApi:
    """The API, created at its first request, so that it costs no memory until it is used."""

    def __init__(self, views: ShownViews) -> None:
        self._views = views
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. HEAD is handled as GET; the listener omits the body."""
        if self._made is None:
            self._made = await run_in_threadpool(_make, self._views)
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET", ONLY_HEAD: True}
        await self._made(scope, receive, send)


def _make(views: ShownViews) -> ASGIApp:
    from autoscaler.web.api.application import make  # noqa: PLC0415

    return make(views)
