"""The page of all targets: what is wrong first; a search, filters and orders, in its address."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.pages.answering import Html, frame
from autoscaler.daemon.pages.sparkline import Sparkline, sparklines
from autoscaler.daemon.pages.state_words import AT_MAXIMUM, WORDS, word
from autoscaler.daemon.pages.templating import render
from autoscaler.record.changes import is_at_maximum
from autoscaler.rendering.verdict import State, verdict

PAGE_SIZE = 100
_LONGEST_SEARCH = 200
_NOT_SYNCED = "it was not synced yet since the daemon started, or since its metrics were changed"

_RANKS = {one: rank for rank, one in enumerate(WORDS)}
_LAST = math.inf


class _Row(NamedTuple):
    """A target as it is filtered and sorted."""

    known: Known
    key: str
    state: State
    at_maximum: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address asks for: which targets, in which order."""

    search: str = ""
    state: str = ""
    sort: str = "problems"
    page: int = 1

    def link(self, **changed: object) -> str:
        """Return the address of another choice; the first page unless told."""
        asked: dict[str, object] = {"q": self.search, "state": self.state, "sort": self.sort}
        asked |= changed
        usual = {"q": "", "state": "", "sort": "problems", "page": 1}
        query = urlencode({key: one for key, one in asked.items() if one != usual[key]})
        return f"/?{query}" if query else "/"


@dataclass(frozen=True, slots=True)
class Line:
    """What the page shows of one target."""

    known: Known
    state: State
    word: str
    message: str
    at_maximum: bool
    current: int | None
    desired: int | None
    minimum: int
    maximum: int
    sparkline: Sparkline | None


_ORDERS: Mapping[str, Callable[[_Row], Any]] = {
    "problems": lambda row: (_RANKS[row.state], not row.at_maximum, row.key),
    "name": lambda row: row.key,
    "replicas": lambda row: (_current(row.known, -1), row.key),
    "since": lambda row: (_LAST if row.known.since is None else -row.known.since, row.key),
}
"""By name; with a `-` before it it is the other way round."""


def fleet_page(views: Views, request: Request, now: float) -> Html:
    """Make the page, or its table if `part=table` asks for that."""
    choice = _choice(request.query_params)
    rows = [_row(one) for one in views.states.known()]
    found = _found(rows, choice.search)
    counts = Counter[str](row.state.value for row in found)
    counts[AT_MAXIMUM] = sum(row.at_maximum for row in found)
    chosen = [row for row in found if not choice.state or _is_in(row, choice.state)]
    order = choice.sort.removeprefix("-")
    chosen.sort(key=_ORDERS[order], reverse=choice.sort != order)
    pages = max(1, math.ceil(len(chosen) / PAGE_SIZE))
    page = min(choice.page, pages)
    shown = chosen[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    text = render(
        "fleet.html",
        choice=choice,
        words=WORDS,
        at_maximum=AT_MAXIMUM,
        counts=counts,
        total=len(rows),
        found=len(found),
        chosen=len(chosen),
        first=(page - 1) * PAGE_SIZE + 1,
        page=page,
        pages=pages,
        lines=_lines(shown, views, now),
        recorded=views.record is not None,
        file=str(views.config().path) if not rows else "",
        **frame(views, now, "fleet"),
    )
    return Html(text)


def _choice(query: QueryParams) -> Choice:
    """Read the address; what it does not know is as if it was not there."""
    state, sort, page = query.get("state", ""), query.get("sort", ""), query.get("page", "")
    known = state in WORDS or state == AT_MAXIMUM
    return Choice(
        printable(query.get("q", "").strip(), _LONGEST_SEARCH),
        state if known else "",
        sort if sort.removeprefix("-") in _ORDERS else "problems",
        max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) < 8 else 1,
    )


def _row(known: Known) -> _Row:
    last = known.last
    at_maximum = last is not None and is_at_maximum(last.decision)
    return _Row(known, known.target.key, known.state or State.UNKNOWN, at_maximum)


def _found(rows: Sequence[_Row], search: str) -> list[_Row]:
    words = search.casefold().split()
    if not words:
        return list(rows)
    return [row for row in rows if all(one in row.key.casefold() for one in words)]


def _is_in(row: _Row, state: str) -> bool:
    return row.at_maximum if state == AT_MAXIMUM else row.state == state


def _current(known: Known, missing: int) -> int:
    current = None if known.last is None else known.last.decision.current
    return missing if current is None else current


def _lines(rows: Sequence[_Row], views: Views, now: float) -> list[Line]:
    keys = [row.key for row in rows]
    drawn = {} if views.record is None or not keys else sparklines(views.record, keys, now)
    return [_line(row, drawn.get(row.key)) for row in rows]


def _line(row: _Row, sparkline: Sparkline | None) -> Line:
    known, last = row.known, row.known.last
    state = word(row.state)
    if last is None:
        spec = known.target.spec
        return Line(
            *(known, row.state, state, _NOT_SYNCED, False, None, None),
            *(spec.min_replicas, spec.max_replicas, sparkline),
        )
    decision = last.decision
    current = decision.current
    return Line(
        known,
        row.state,
        state,
        printable(verdict(last), LONGEST_SENTENCE),
        row.at_maximum,
        current,
        None if current is None else decision.desired,
        decision.min_replicas,
        decision.max_replicas,
        sparkline,
    )
