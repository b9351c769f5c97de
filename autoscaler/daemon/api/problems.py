"""Errors as problems of RFC 9457, `application/problem+json`: sentences, never a traceback."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from autoscaler.core.text import printable
from autoscaler.daemon.api.parameters import RIGHT
from autoscaler.record.rows import RecordError

MEDIA_TYPE = "application/problem+json"
STARTING = "the daemon starts, and has not read its targets yet"

_TITLES = {
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_RETRY_SECONDS = "3"
_LONGEST_VALUE = 100


class Parameter(NamedTuple):
    """A parameter that cannot be: its name, the value that was sent, and what would be right."""

    name: str
    value: str
    problem: str


class ProblemError(Exception):
    """A request that is not answered as asked; the text is the sentence that says why.

    ``suggestions`` are keys of targets that may have been meant.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        parameters: Sequence[Parameter] = (),
        suggestions: Sequence[str] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.parameters = parameters
        self.suggestions = suggestions


def bad(*parameters: Parameter) -> ProblemError:
    """Return the error of parameters that cannot be."""
    detail = "; ".join(f'{one.name} is "{one.value}", and {one.problem}' for one in parameters)
    return ProblemError(400, detail, parameters=parameters)


def answer_with_problems(app: FastAPI) -> None:
    """Let an application answer every error with a problem."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RecordError, _unreadable)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _fault)


def _response(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Response:
    body = {"type": "about:blank", "title": _TITLES[status], "status": status, "detail": detail}
    sent = {"Cache-Control": "no-store", **(headers or {})}
    if status == 503:
        sent["Retry-After"] = _RETRY_SECONDS
    return Response(json.dumps({**body, **(more or {})}) + "\n", status, sent, MEDIA_TYPE)


async def _problem(_: Request, error: Any) -> Response:
    more: dict[str, object] = {}
    if error.parameters:
        more["parameters"] = [one._asdict() for one in error.parameters]
    if error.suggestions:
        more["suggestions"] = list(error.suggestions)
    return _response(error.status, str(error), more=more)


async def _invalid(request: Request, error: Any) -> Response:
    return await _problem(request, bad(*_parameters(error)))


def _parameters(error: RequestValidationError) -> Iterator[Parameter]:
    for one in error.errors():
        name = printable(str(one["loc"][1]), _LONGEST_VALUE)
        value = printable(str(one["input"]), _LONGEST_VALUE)
        if one["type"] == "extra_forbidden":
            yield Parameter(name, value, "there is no such parameter")
        else:
            yield Parameter(name, value, f"must be {RIGHT[name]}")


async def _unreadable(_: Request, error: Exception) -> Response:
    return _response(503, f"the record cannot be read: {error}")


async def _http(_: Request, error: Any) -> Response:
    if error.status_code == 405:
        return _response(405, "only GET and HEAD are answered", {"Allow": "GET, HEAD"})
    return _response(404, "there is no such page; /api/v1/openapi.json lists those that there are")


async def _fault(_: Request, __: Exception) -> Response:
    # The application around this one reports it.
    return _response(500, "a fault; the log has it")
