"""The pages: fleet, target and health, rendered on the server.

They work without scripts; with them they refresh themselves, and a target has a chart.
"""

from collections.abc import Callable

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute, Mount, Route

from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.pages.answering import Answering
from autoscaler.daemon.pages.fleet import fleet_page
from autoscaler.daemon.pages.health import health_page
from autoscaler.daemon.pages.static_files import StaticFiles
from autoscaler.daemon.pages.target import target_page, unknown_page


class _Rest(Convertor[str]):
    """The rest of a path, whatever it holds: that of Starlette ends at a line's end."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return it as it is."""
        return value


register_url_convertor("rest", _Rest())


def routes(views: Callable[[], Views | None]) -> list[BaseRoute]:
    """Return the routes of the pages; ``views`` returns None while the daemon starts."""
    answering = Answering(views)
    return [
        Route("/", answering.page(fleet_page)),
        Route("/targets/{namespace}/{kind}/{name:rest}", answering.page(target_page)),
        Route("/targets{key:rest}", answering.page(unknown_page)),
        Route("/health", answering.page(health_page)),
        Mount("/static", StaticFiles()),
    ]
