"""The application below /api/v1, with FastAPI: its endpoints, and what each answers."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from autoscaler import __version__
from autoscaler.daemon.api import answers, daemon_state, history, instants
from autoscaler.daemon.api import targets as lists
from autoscaler.daemon.api.answering import Answering
from autoscaler.daemon.api.document import document
from autoscaler.daemon.api.one_target import one_target
from autoscaler.daemon.api.parameters import (
    ChartQuery,
    ExplanationQuery,
    HistoryQuery,
    Nothing,
    Targets,
)
from autoscaler.daemon.api.problems import answer_with_problems
from autoscaler.daemon.exposition.views import Views

_TARGET = "/targets/{namespace}/{kind}/{name}"
_NOT_MODIFIED: dict[str, Any] = {
    "description": "Nothing has changed since the ETag of If-None-Match."
}
_ERROR: dict[str, Any] = {
    "model": answers.Problem,
    "description": "Why the request is not answered.",
}


def _key(
    namespace: Annotated[str, Path(description="The target's namespace.")],
    kind: Annotated[str, Path(description="Its kind; KIND.GROUP if not of the usual group.")],
    name: Annotated[str, Path(description="Its name.")],
) -> str:
    return f"{namespace}/{kind}/{name}"


Key = Annotated[str, Depends(_key)]


def make(views: Callable[[], Views | None]) -> ASGIApp:
    """Return the application; ``views`` returns None while the daemon starts."""
    app = FastAPI(
        title="autoscaler",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # The configuration is described as it is written, and not as it is held.
        separate_input_output_schemas=False,
        responses={304: _NOT_MODIFIED, "default": _ERROR},
    )
    answer_with_problems(app)
    answering = Answering(views)
    _of_the_daemon(app, answering)
    _of_the_record(app, answering)
    _of_one_target(app, answering)
    _of_the_document(app, answering)
    return app


def _of_the_daemon(app: FastAPI, answering: Answering) -> None:
    @app.get("/targets", response_model=answers.TargetList)
    async def targets(request: Request, asked: Targets) -> Response:
        """List how each target stands, as of its last sync, in the order of the configuration.

        Without `limit` these are all targets, sent while they are made.
        """
        return await lists.targets(answering, request, asked)

    @app.get("/fleet", response_model=answers.Fleet)
    async def fleet(request: Request, _: Nothing) -> Response:
        """Sum up all targets."""
        key = (answering.views().health.ready, answering.views().leads())
        return await answering.answer_as_of_syncs(request, daemon_state.fleet, "fleet", *key)

    @app.get("/health", response_model=answers.Health)
    async def health(request: Request, _: Nothing) -> Response:
        """Show how the daemon itself stands: what it needs, its breakers and its record."""
        return await answering.answer(request, lambda views, _: daemon_state.health(views))


def _of_the_record(app: FastAPI, answering: Answering) -> None:
    @app.get("/changes", response_model=answers.ChangeList)
    async def changes(request: Request, asked: HistoryQuery) -> Response:
        """List what has changed, of all targets or of some, the last first."""
        return await answering.answer(
            request, lambda views, now: history.changes(views, asked, now)
        )

    @app.get("/decisions", response_model=answers.DecisionList)
    async def decisions(request: Request, asked: HistoryQuery) -> Response:
        """List the decisions in which something changed, in full, the last first."""
        return await answering.answer(
            request, lambda views, now: history.decisions(views, asked, now)
        )


def _of_one_target(app: FastAPI, answering: Answering) -> None:
    @app.get(_TARGET, response_model=answers.TargetDetail)
    async def target(request: Request, key: Key, _: Nothing) -> Response:
        """Show a target: its state, the configuration in force, and its schedules."""
        return await answering.answer(request, lambda views, now: one_target(views, key, now))

    @app.get(f"{_TARGET}/chart", response_model=answers.Chart)
    async def chart(request: Request, key: Key, asked: ChartQuery) -> Response:
        """Show a target over time: counts, bounds, what holds it, and its metrics."""
        return await answering.answer(
            request, lambda views, now: instants.chart(views, key, asked, now)
        )

    @app.get(f"{_TARGET}/explanation", response_model=answers.Explanation)
    async def explanation(request: Request, key: Key, asked: ExplanationQuery) -> Response:
        """Explain the decision that held for a target at an instant."""
        return await answering.answer(
            request, lambda views, now: instants.explanation(views, key, asked, now)
        )


def _of_the_document(app: FastAPI, answering: Answering) -> None:
    made: list[bytes] = []

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request, _: Nothing) -> Response:
        def make_once() -> bytes:
            if not made:
                made.append(document(app))
            return made[0]

        return await answering.answer_always(request, make_once)
