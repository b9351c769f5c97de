"""The parameters of requests, the tokens of pages, and errors as problems."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from autoscaler.core.classification import State
from autoscaler.core.text import instant_of, printable
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.answers import BadParameter
from autoscaler.web.answering import PROBLEM_TYPE, RETRY_LATER, BusyError, problem_of

USUAL_LIMIT, MOST_LIMIT = 100, 1000
USUAL_POINTS, FEWEST_POINTS, MOST_POINTS = 1000, 8, 2000
_LONGEST_TEXT = 1000
_INSTANT = (
    "an instant with its time zone, such as 2026-11-22T03:12:00Z or 2026-11-22T04:12:00+01:00"
)

RIGHT = {
    "limit": f"a whole number from 1 to {MOST_LIMIT}",
    "continue": "the `continue` value of the previous page",
    "state": f"one of {', '.join(State)}",
    "cluster": "the name of a cluster (at most 100 values)",
    "search": f"of at most {_LONGEST_TEXT} characters",
    "target": "NAMESPACE/KIND/NAME (at most 100 values)",
    "from": _INSTANT,
    "to": _INSTANT,
    "at": _INSTANT,
    "since": _INSTANT,
    "points": f"a whole number from {FEWEST_POINTS} to {MOST_POINTS}",
    "lastChange": "true or false",
}
"""The valid form of each parameter."""


def _instant(text: object) -> float:
    # An unquoted "+" of an offset arrives as a space.
    instant = instant_of(str(text).replace(" ", "+"))
    if instant is None or instant < 0:
        raise ValueError(f"must be {_INSTANT}")
    return instant


Instant = Annotated[
    float, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Limit = Annotated[int, Field(ge=1, le=MOST_LIMIT)]
Text = Annotated[str, Field(max_length=_LONGEST_TEXT)]
Continue = Annotated[
    Text | None, Field(alias="continue", description="`continue` of the page before.")
]


class Parameters(BaseModel):
    """The parameters of an endpoint without any; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TargetsParameters(Parameters):
    """Parameters that select targets."""

    limit: Limit | None = Field(None, description="The most targets of a page. Default: all.")
    continue_: Continue = None
    state: list[State] = Field(
        [], description="Only targets in this state; several times for several states."
    )
    cluster: list[Text] = Field(
        [],
        max_length=100,
        description="With `clusters`, only targets in this one; several times for several.",
    )
    search: Text = Field(
        "", description="Only targets whose key has all of these words, in either case."
    )


class _Period(Parameters):
    from_: Instant | None = Field(
        None, alias="from", description="The first instant. Default: the beginning of the record."
    )
    to: Instant | None = Field(None, description="The instant after the last one. Default: now.")


class HistoryParameters(_Period):
    """Parameters that select changes."""

    target: list[Text] = Field(
        [],
        max_length=100,
        description="Only this target (NAMESPACE/KIND/NAME); several times for several targets.",
    )
    limit: Limit = Field(USUAL_LIMIT, description="The most entries of a page.")
    continue_: Continue = None


class ChartParameters(_Period):
    """The time of a chart, and its resolution."""

    from_: Instant | None = Field(
        None, alias="from", description="The first instant. Default: an hour before `to`."
    )
    points: Annotated[int, Field(ge=FEWEST_POINTS, le=MOST_POINTS)] = Field(
        USUAL_POINTS, description="The most instants of the chart."
    )


class ExplanationParameters(Parameters):
    """The instant of an explanation."""

    at: Instant | None = Field(None, description="The instant to explain. Default: now.")
    last_change: bool = Field(
        default=False,
        alias="lastChange",
        description="Explain the last change of the count by any client, up to `at`.",
    )


class AgreementParameters(Parameters):
    """The targets, and the start of the period."""

    target: list[Text] = Field(
        [],
        max_length=100,
        description="Only this target (NAMESPACE/KIND/NAME); several times for several targets. "
        "Default: all that are in shadow.",
    )
    since: Instant | None = Field(None, description="The first instant. Default: a week ago.")


# -- problems ------------------------------------------------------------------------------------

STARTING = "the daemon is starting, and has not read its targets yet"
_LONGEST_VALUE = 100


class ProblemError(Exception):
    """A request that cannot be answered; ``more`` are fields of `ProblemDetails`."""

    def __init__(self, status: int, detail: str, **more: Sequence[object]) -> None:
        super().__init__(detail)
        self.problem = problem_of(status, detail, **more)


def bad(*parameters: tuple[str, str, str]) -> ProblemError:
    """Return the error for parameters: their names, values and valid forms."""
    wrong = [BadParameter(name=name, value=value, problem=why) for name, value, why in parameters]
    detail = "; ".join(
        f'{parameter.name} is "{parameter.value}", and {parameter.problem}' for parameter in wrong
    )
    return ProblemError(400, detail, parameters=wrong)


def answer_with_problems(app: FastAPI) -> None:
    """Let an application answer every error with a problem."""
    problems: Mapping[type[Exception], Callable[[Any], ProblemError]] = {
        ProblemError: lambda error: error,
        BusyError: lambda error: ProblemError(503, str(error)),
        RequestValidationError: lambda error: bad(*_parameters(error)),
        RecordError: lambda error: ProblemError(503, f"the record cannot be read: {error}"),
        HTTPException: _of_http,
        # The application around this one reports it.
        Exception: lambda _: ProblemError(500, "internal error; see the log"),
    }

    def answered(made_of: Callable[[Any], ProblemError]) -> Any:
        async def answer(_: Request, error: Any) -> Response:
            problem = made_of(error).problem
            headers = {"Cache-Control": "no-store"}
            if problem.status == 405:
                headers["Allow"] = "GET, HEAD"
            if problem.status == 503:
                headers |= RETRY_LATER
            return Response(problem.encoded() + b"\n", problem.status, headers, PROBLEM_TYPE)

        return answer

    for kind, made_of in problems.items():
        app.add_exception_handler(kind, answered(made_of))


def _parameters(error: RequestValidationError) -> Iterator[tuple[str, str, str]]:
    for problem in error.errors():
        name = printable(str(problem["loc"][1]), _LONGEST_VALUE)
        value = printable(str(problem["input"]), _LONGEST_VALUE)
        unknown = problem["type"] == "extra_forbidden"
        yield name, value, "there is no such parameter" if unknown else f"must be {RIGHT[name]}"


def _of_http(error: HTTPException) -> ProblemError:
    if error.status_code == 405:
        return ProblemError(405, "only GET and HEAD are answered")
    there_are = "/api/v1/openapi.json lists those that there are"
    return ProblemError(404, f"there is no such page; {there_are}")


# -- tokens --------------------------------------------------------------------------------------

_LARGEST = 2**63 - 1
"""The largest row number of the record; SQLite accepts no larger one."""


def token_of(of: str, *place: int | str) -> str:
    """Return the token of a position in a kind of list."""
    text = json.dumps([of, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_after(token: str | None, of: str, *kinds: type) -> list[int | str] | None:
    """Return the position of a token; None without one. Raises ProblemError."""
    if not token:
        return None
    try:
        place = json.loads(base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
    except (ValueError, RecursionError):
        place = None
    if (
        type(place) is not list
        or [type(part) for part in place] != [str, *kinds]
        or place[0] != of
        or not all(0 <= part <= _LARGEST for part in place if type(part) is int)
    ):
        shown = printable(token, _LONGEST_VALUE)
        raise bad(("continue", shown, f"must be {RIGHT['continue']}"))
    return list(place[1:])
