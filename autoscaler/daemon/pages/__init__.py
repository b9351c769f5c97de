"""The pages: fleet, target and health, rendered on the server.

They work without scripts; with them they refresh themselves, and a target has a chart.
"""

from collections.abc import Callable

from starlette.routing import BaseRoute, Mount, Route

from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.pages.answering import Answering
from autoscaler.daemon.pages.fleet import fleet_page
from autoscaler.daemon.pages.health import health_page
from autoscaler.daemon.pages.static_files import StaticFiles
from autoscaler.daemon.pages.target import target_page


def routes(views: Callable[[], Views | None]) -> list[BaseRoute]:
    """Return the routes of the pages; ``views`` returns None while the daemon starts."""
    answering = Answering(views)
    return [
        Route("/", answering.page(fleet_page)),
        Route("/targets/{namespace}/{kind}/{name:path}", answering.page(target_page)),
        Route("/health", answering.page(health_page)),
        Mount("/static", StaticFiles()),
    ]
