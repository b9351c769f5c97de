"""The parameters of requests, and how a wrong one is told what would be right."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from autoscaler.core.text import instant_of
from autoscaler.rendering.verdict import State

USUAL_LIMIT, MOST_LIMIT = 100, 1000
USUAL_POINTS, FEWEST_POINTS, MOST_POINTS = 1000, 8, 2000
_LONGEST_TEXT = 1000
_INSTANT = (
    "an instant with its time zone, such as 2026-11-22T03:12:00Z or 2026-11-22T04:12:00+01:00"
)

RIGHT = {
    "limit": f"a whole number from 1 to {MOST_LIMIT}",
    "continue": "what `continue` of the page before was",
    "state": f"one of {', '.join(State)}",
    "search": f"of at most {_LONGEST_TEXT} characters",
    "target": "NAMESPACE/KIND/NAME, at most 100 times",
    "from": _INSTANT,
    "to": _INSTANT,
    "at": _INSTANT,
    "points": f"a whole number from {FEWEST_POINTS} to {MOST_POINTS}",
    "lastChange": "true or false",
}
"""What each parameter must be."""


def _instant(text: object) -> float:
    # An unquoted "+" of an offset arrives as a blank.
    instant = instant_of(str(text).replace(" ", "+"))
    if instant is None or instant < 0:
        raise ValueError(f"must be {_INSTANT}")
    return instant


Instant = Annotated[
    float, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Limit = Annotated[int, Field(ge=1, le=MOST_LIMIT)]
Text = Annotated[str, Field(max_length=_LONGEST_TEXT)]


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TargetsParameters(_Parameters):
    """Which targets."""

    limit: Limit | None = Field(None, description="The most targets of a page. Default: all.")
    continue_: Text | None = Field(
        None, alias="continue", description="`continue` of the page before."
    )
    state: list[State] = Field(
        [], description="Only targets in this state; several times for several states."
    )
    search: Text = Field(
        "", description="Only targets whose key has all of these words, in either case."
    )


class _Period(_Parameters):
    from_: Instant | None = Field(
        None, alias="from", description="The first instant. Default: the beginning of the record."
    )
    to: Instant | None = Field(None, description="The instant after the last one. Default: now.")


class HistoryParameters(_Period):
    """Which changes."""

    target: list[Text] = Field(
        [],
        max_length=100,
        description="Only this target (NAMESPACE/KIND/NAME); several times for several targets.",
    )
    limit: Limit = Field(USUAL_LIMIT, description="The most entries of a page.")
    continue_: Text | None = Field(
        None, alias="continue", description="`continue` of the page before."
    )


class ChartParameters(_Period):
    """Which time, and how finely."""

    from_: Instant | None = Field(
        None, alias="from", description="The first instant. Default: an hour before `to`."
    )
    points: Annotated[int, Field(ge=FEWEST_POINTS, le=MOST_POINTS)] = Field(
        USUAL_POINTS, description="The most instants of the chart."
    )


class ExplanationParameters(_Parameters):
    """Which instant."""

    at: Instant | None = Field(None, description="The instant to explain. Default: now.")
    last_change: bool = Field(
        default=False,
        alias="lastChange",
        description="Explain when the count was last changed, by us or by others, up to `at`.",
    )


class NoParameters(_Parameters):
    """There are none."""


Targets = Annotated[TargetsParameters, Query()]
HistoryQuery = Annotated[HistoryParameters, Query()]
ChartQuery = Annotated[ChartParameters, Query()]
ExplanationQuery = Annotated[ExplanationParameters, Query()]
Nothing = Annotated[NoParameters, Query()]
