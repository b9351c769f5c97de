"""The pages: fleet, target, health and agreement, rendered on the server.

They work without scripts; with scripts they refresh themselves, and a target has a chart.
"""

import math
from collections.abc import Callable
from typing import Any

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from autoscaler import clock
from autoscaler.web.answering import AnswerPool, Page
from autoscaler.web.pages.agreement import agreement_page
from autoscaler.web.pages.fleet import fleet_page
from autoscaler.web.pages.frame import StaticFiles, starting
from autoscaler.web.pages.health import health_page
from autoscaler.web.pages.target import target_page
from autoscaler.web.site import ShownViews, Views


class _PathRest(PathConvertor):
    """The rest of a path, including line ends, where Starlette's converter stops."""

    regex = "(?s:.*)"


register_url_convertor("rest", _PathRest())


def routes(views: ShownViews) -> list[BaseRoute]:
    """Return the routes of the pages."""
    # As many wait for their turn as the listener admits.
    answering = AnswerPool(wait_seconds=math.inf)

    def page(make: Callable[[Views, Request, float], Page]) -> Any:
        def made(request: Request) -> Page:
            shown, now = views(), clock.wall()
            return starting(now) if shown is None else make(shown, request, now)

        async def answer(request: Request) -> Response:
            return await answering.answer(request, lambda: made(request))

        return answer

    return [
        Route("/", page(fleet_page)),
        Route("/targets/{namespace}/{kind}/{name:rest}", page(target_page)),
        Route("/health", page(health_page)),
        Route("/agreement", page(agreement_page)),
        Mount("/static", StaticFiles()),
    ]
