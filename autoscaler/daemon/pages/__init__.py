"""The pages: fleet, target and health, rendered on the server."""

from collections.abc import Callable

from starlette.routing import BaseRoute

from autoscaler.daemon.exposition.views import Views


def routes(views: Callable[[], Views | None]) -> list[BaseRoute]:  # noqa: ARG001
    """Return the routes of the pages; ``views`` returns None while the daemon starts."""
    return []
