"""The pages: fleet, target and health, rendered on the server.

They work without scripts; with them they refresh themselves, and a target has a chart.
"""

from collections.abc import Callable

from starlette.routing import BaseRoute, Mount, Route

from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.pages.answering import Answering
from autoscaler.daemon.pages.fleet import fleet
from autoscaler.daemon.pages.health import health
from autoscaler.daemon.pages.static_files import StaticFiles
from autoscaler.daemon.pages.target import target


def routes(views: Callable[[], Views | None]) -> list[BaseRoute]:
    """Return the routes of the pages; ``views`` returns None while the daemon starts."""
    answering = Answering(views)
    return [
        Route("/", answering.page(fleet)),
        Route("/targets/{namespace}/{kind}/{name:path}", answering.page(target)),
        Route("/health", answering.page(health)),
        Mount("/static", StaticFiles()),
    ]
