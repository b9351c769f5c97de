"""The application below /api/v1, with FastAPI: its endpoints, and the OpenAPI document."""

import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from secrets import token_hex
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from autoscaler import __version__, clock
from autoscaler.rendering import answers
from autoscaler.rendering.chart import Chart
from autoscaler.web.answering import PROBLEM_TYPE, AnswerPool, Page, tag_of
from autoscaler.web.api import PREFIX, endpoints
from autoscaler.web.api.requests import (
    STARTING,
    AgreementParameters,
    ChartParameters,
    ExplanationParameters,
    HistoryParameters,
    Parameters,
    ProblemError,
    TargetsParameters,
    answer_with_problems,
)
from autoscaler.web.site import ShownViews, Views

_TARGET = "/targets/{namespace}/{kind}/{name}"
_RESPONSES: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the ETag of If-None-Match."},
    "default": {
        "model": answers.ProblemDetails,
        "description": "Why the request is not answered.",
    },
}


def _key(
    namespace: Annotated[str, Path(description="The target's namespace.")],
    kind: Annotated[str, Path(description="Its kind; KIND.GROUP if not of the usual group.")],
    name: Annotated[str, Path(description="Its name.")],
) -> str:
    return f"{namespace}/{kind}/{name}"


def _key_in(
    cluster: Annotated[str, Path(description="The name of the target's cluster.")],
    key: Annotated[str, Depends(_key)],
) -> str:
    return f"{cluster}/{key}"


HistoryQuery = Annotated[HistoryParameters, Query()]
ChartQuery = Annotated[ChartParameters, Query()]
ExplanationQuery = Annotated[ExplanationParameters, Query()]
AgreementQuery = Annotated[AgreementParameters, Query()]
Nothing = Annotated[Parameters, Query()]


def make(views: ShownViews) -> ASGIApp:
    """Return the application."""
    app = FastAPI(
        title="autoscaler",
        version=__version__,
        description=_DESCRIPTION,
        servers=[{"url": PREFIX}],
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # The document describes the configuration file, not the internal form.
        separate_input_output_schemas=False,
        responses=_RESPONSES,
    )
    answer_with_problems(app)
    answer = _ApiAnswers(views)
    _of_the_daemon(app, answer)
    _of_all_targets(app, answer)
    _of_a_target(app, answer, _TARGET, "", _key)
    # With `clusters` the cluster's name comes first.
    _of_a_target(app, answer, f"/clusters/{{cluster}}{_TARGET}", "cluster_", _key_in)
    once = cache(partial(_document, app))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request, _: Nothing) -> Response:
        return await answer.always(request, once)

    return app


class _ApiAnswers:
    """Answers with the result of a function of the views and a Unix time."""

    def __init__(self, views: ShownViews) -> None:
        self._views = views
        self._answering = AnswerPool()
        self._process = token_hex(8)

    async def __call__(
        self,
        request: Request,
        make: Callable[[Views, float], answers.AnswerModel | Iterable[bytes]],
        key: Callable[[Views], tuple[object, ...]] | None = None,
        *,
        large: bool = False,
    ) -> Response:
        """Return the result, with an ETag of its content.

        With a ``key`` the ETag changes only after a sync, or with the key. A ``large`` result is
        streamed.
        """

        def page() -> Page:
            views = self._views()
            if views is None:
                raise ProblemError(503, STARTING)
            shown = key and (self._process, views.states.version, key(views))
            made = make(views, clock.wall())
            body = [made.encoded(), b"\n"] if isinstance(made, answers.AnswerModel) else made
            if shown:
                return _page(body, repr(shown).encode(), large=large)
            whole = b"".join(body)
            return _page([whole], whole)

        return await self._answering.answer(request, page)

    async def always(self, request: Request, make: Callable[[], bytes]) -> Response:
        """Return a result that needs no views."""
        return await self._answering.answer(request, lambda: _page([made := make()], made))


def _page(body: Iterable[bytes], tagged: bytes, *, large: bool = False) -> Page:
    headers = {"Cache-Control": "no-cache", "ETag": tag_of(tagged)}
    return Page(200, "application/json", body, large=large, streamed=large, headers=headers)


def _of_the_daemon(app: FastAPI, answer: _ApiAnswers) -> None:
    @app.get("/targets", response_model=answers.TargetList)
    async def targets(request: Request, query: Annotated[TargetsParameters, Query()]) -> Response:
        """List the state of each target, as of its last sync, in the order of the configuration.

        Without `limit` all targets are streamed.
        """
        return await answer(
            request,
            partial(endpoints.targets, query),
            lambda views: (query, views.health.components(), views.leaders()),
            large=True,
        )

    @app.get("/fleet", response_model=answers.FleetTotals)
    async def fleet(request: Request, _: Nothing) -> Response:
        """Return the sums over all targets."""
        return await answer(
            request,
            endpoints.fleet,
            lambda views: ("fleet", views.health.ready, views.leaders()),
        )

    @app.get("/health", response_model=answers.DaemonHealth)
    async def health(request: Request, _: Nothing) -> Response:
        """Return the state of the daemon: its components, its breakers and its record."""
        return await answer(request, endpoints.health)


def _of_all_targets(app: FastAPI, answer: _ApiAnswers) -> None:
    @app.get("/changes", response_model=answers.ChangeList)
    async def changes(request: Request, query: HistoryQuery) -> Response:
        """List the changes of some or all targets, the last first."""
        return await answer(request, partial(endpoints.changes, query))

    @app.get("/decisions", response_model=answers.DecisionList)
    async def decisions(request: Request, query: HistoryQuery) -> Response:
        """List the decisions that changed something, in full, the last first."""
        return await answer(request, partial(endpoints.decisions, query))

    @app.get("/agreement", response_model=answers.AgreementList)
    async def agreement(request: Request, query: AgreementQuery) -> Response:
        """Return the agreement of targets in shadow with their HPAs, and causes of differences."""
        return await answer(request, partial(endpoints.agreement, query))


def _of_a_target(app: FastAPI, answer: _ApiAnswers, path: str, name: str, key_of: Any) -> None:
    """Add the endpoints of one target; ``key_of`` returns its key from the path."""
    of_key = Depends(key_of)

    @app.get(path, name=f"{name}target", response_model=answers.TargetDetail)
    async def target(request: Request, _: Nothing, key: str = of_key) -> Response:
        """Return a target: its state, the configuration in force, and its schedules."""
        return await answer(request, partial(endpoints.one_target, key))

    @app.get(f"{path}/chart", name=f"{name}chart", response_model=Chart)
    async def chart(request: Request, query: ChartQuery, key: str = of_key) -> Response:
        """Return a target over time: counts, bounds, states, and its metrics."""
        return await answer(request, partial(endpoints.chart, key, query))

    @app.get(f"{path}/explanation", name=f"{name}explanation", response_model=answers.Explanation)
    async def explanation(request: Request, query: ExplanationQuery, key: str = of_key) -> Response:
        """Explain the decision in force for a target at an instant."""
        return await answer(request, partial(endpoints.explanation, key, query))


# -- the document --------------------------------------------------------------------------------

_DESCRIPTION = (
    "How the targets of a daemon stand, what it has decided, and why. Read-only. Times are RFC "
    "3339 in UTC; missing values are null or absent."
)
_HISTORIES: dict[str, Any] = {
    "get": {
        "operationId": "histories",
        "summary": "Histories",
        "description": "What each target remembers, for `autoscaler plan`: a header, then a line "
        "for each target. The format depends on the version of the daemon.",
        "responses": {
            status: {"description": text, "content": {kind: {"schema": {"type": "string"}}}}
            for status, text, kind in (
                ("200", "Lines of JSON.", "application/x-ndjson"),
                ("503", "The daemon starts.", "text/plain"),
            )
        },
    }
}


def _document(app: FastAPI) -> bytes:
    made = app.openapi()
    for path in made["paths"].values():
        problem = path["get"]["responses"]["default"]
        problem["content"] = {PROBLEM_TYPE: problem["content"].pop("application/json")}
    made["paths"]["/histories"] = _HISTORIES
    return json.dumps(made).encode() + b"\n"
