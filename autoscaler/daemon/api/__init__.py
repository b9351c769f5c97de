"""The API below /api/v1: read-only JSON, described by an OpenAPI document."""

from collections.abc import Callable

from starlette.routing import BaseRoute

from autoscaler.daemon.exposition.views import Views


def routes(views: Callable[[], Views | None]) -> list[BaseRoute]:  # noqa: ARG001
    """Return the routes of the API; ``views`` returns None while the daemon starts."""
    return []
