"""The page of all targets: what is wrong first; a search, filters and orders, in its address."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from autoscaler.adapters.record import DirectoryRecord
from autoscaler.core.classification import Mark, State
from autoscaler.core.text import printable
from autoscaler.record.rows import Change, RecordError
from autoscaler.rendering.wording import STATE_WORDS
from autoscaler.telemetry.target_states import NOT_SYNCED_YET, TargetFacts
from autoscaler.web.answering import Page
from autoscaler.web.pages.frame import ignored, page
from autoscaler.web.site import Views

# -- sparklines ------------------------------------------------------------------------------------

_DRAWN_SECONDS, _FEWEST_SECONDS = 3600.0, 60.0
WIDTH, HEIGHT = 120, 24
_EDGE = 2
"""So that a line at the border is not cut."""
_MOST_CHANGES = 5000
"""Of all targets of a page together; of what is older nothing is drawn."""

_Step = tuple[float, int | None]
"""A count from an instant on; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The path of an SVG from zero to the most, and the least and the most of what it shows."""

    path: str
    low: int
    high: int


def begin_of(record: DirectoryRecord | None, now: float) -> float:
    """Return when the pictures begin: an hour ago, or where a younger record does."""
    try:
        span = None if record is None else record.span()
    except RecordError:
        span = None
    earliest = now - _DRAWN_SECONDS
    return earliest if span is None else min(max(span[0], earliest), now - _FEWEST_SECONDS)


def title_of(begin: float, now: float) -> str:
    """Return what the time of the pictures is called."""
    minutes = math.ceil((now - begin) / 60)
    return "Last hour" if minutes >= _DRAWN_SECONDS / 60 else f"Last {minutes} min"


def sparklines(
    record: DirectoryRecord, targets: Collection[str], begin: float, now: float
) -> Mapping[str, Sparkline]:
    """Return the pictures of some targets, without those of which nothing is recorded."""
    try:
        changes = record.changes(targets, begin, now, limit=_MOST_CHANGES)
        since = changes[-1].time if len(changes) == _MOST_CHANGES else begin
        drawn, own_changes = {}, defaultdict[str, list[Change]](list)
        for change in reversed(changes):
            own_changes[change.target].append(change)
        for target in targets:
            own = own_changes[target]
            before = record.change_at(target, begin) if since == begin else None
            steps = _steps(record, target, [before, *own] if before else own, begin, now)
            if (made := _drawn(steps, begin, now)) is not None:
                drawn[target] = made
    except RecordError:
        return {}
    return drawn


def _steps(
    record: DirectoryRecord, target: str, changes: Sequence[Change], begin: float, end: float
) -> list[_Step]:
    """Return the counts in order, with what is not known while nothing was recorded."""
    steps: list[_Step] = [(max(change.time, begin), change.current) for change in changes]
    for lapse in record.lapses(target, begin, end) if steps else ():
        after = [count for time, count in steps if time <= lapse.end]
        inside = [step for step in steps if not lapse.begin <= step[0] < lapse.end]
        steps = [*inside, (max(lapse.begin, begin), None)]
        if lapse.end < end and after:
            steps.append((lapse.end, after[-1]))
        steps.sort(key=lambda one: one[0])
    return steps


def _drawn(steps: Sequence[_Step], begin: float, end: float) -> Sparkline | None:
    counts = [count for _, count in steps if count is not None]
    if not counts:
        return None
    low, high = min(counts), max(counts)

    def x(time: float) -> float:
        return round((time - begin) / (end - begin) * WIDTH, 1)

    def y(count: int) -> float:
        return round(HEIGHT - _EDGE - count / max(high, 1) * (HEIGHT - 2 * _EDGE), 1)

    parts: list[str] = []
    until = [*(time for time, _ in steps[1:]), end]
    drawing = False
    for (time, count), stop in zip(steps, until, strict=True):
        if count is None:
            drawing = False
            continue
        parts.append(f"V{y(count):g}" if drawing else f"M{x(time):g} {y(count):g}")
        parts.append(f"H{x(stop):g}")
        drawing = True
    return Sparkline("".join(parts), low, high)


# -- the page --------------------------------------------------------------------------------------

PAGE_SIZE = 100
AT_MAXIMUM = "at-maximum"
"""What a filter calls targets at their maximum that ask for more; their state is another word."""
_LONGEST_SEARCH = 200
_MOST_DIGITS = 8

_RANKS = {one: rank for rank, one in enumerate(STATE_WORDS)}


class _FleetRow(NamedTuple):
    """A target as it is filtered, sorted and shown."""

    known: TargetFacts
    key: str
    state: State
    at_maximum: bool

    @property
    def message(self) -> str:
        """Why it stands as it does."""
        return self.known.message if self.known.last is not None else f"it was {NOT_SYNCED_YET}"


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


_ORDERS: Mapping[str, Callable[[_FleetRow], Any]] = {
    "problems": lambda row: (_RANKS[row.state], not row.at_maximum, row.key),
    "name": lambda row: row.key,
    "replicas": lambda row: (_current(row), row.key),
    "since": lambda row: (math.inf if row.known.since is None else -row.known.since, row.key),
}
"""By name; with a `-` before it it is the other way round."""

_RIGHT = {
    "state": f"one of {', '.join((*STATE_WORDS, AT_MAXIMUM))}",
    "sort": f"one of {', '.join(_ORDERS)}, also with a - before it",
    "page": "the number of a page",
}


def fleet_page(views: Views, request: Request, now: float) -> Page:
    """Make the page."""
    choice, wrong = _choice(request.query_params)
    rows = [
        _FleetRow(one, one.target.key, one.state, Mark.AT_MAXIMUM in one.marks)
        for one in views.states.known()
    ]
    words = choice.search.casefold().split()
    found = [row for row in rows if all(word in row.key.casefold() for word in words)]
    counts = Counter[str](row.state.value for row in found)
    counts[AT_MAXIMUM] = sum(row.at_maximum for row in found)
    chosen = [row for row in found if _is_in(row, choice.state)]
    order = choice.sort.removeprefix("-")
    chosen.sort(key=_ORDERS[order], reverse=choice.sort != order)
    pages = max(1, math.ceil(len(chosen) / PAGE_SIZE))
    number = min(choice.page, pages)
    shown = chosen[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    begin, keys = begin_of(views.record, now), [row.key for row in shown]
    return page(
        "fleet.html",
        views,
        now,
        current="fleet",
        choice=choice,
        wrong=wrong,
        words=STATE_WORDS,
        at_maximum=AT_MAXIMUM,
        counts=counts,
        total=len(rows),
        found=len(found),
        chosen=len(chosen),
        first=(number - 1) * PAGE_SIZE + 1,
        page=number,
        pages=pages,
        rows=shown,
        sparklines=sparklines(views.record, keys, begin, now) if views.record and keys else {},
        sparkline_title=title_of(begin, now),
        recorded=views.record is not None,
        file=str(views.config().path) if not rows else "",
    )


def _choice(query: QueryParams) -> tuple[Choice, list[str]]:
    """Read the address.

    What it cannot choose is as if it was not there; for each such there is a sentence.
    """
    state, sort, number = query.get("state", ""), query.get("sort", ""), query.get("page", "")
    right = {
        "state": state in STATE_WORDS or state == AT_MAXIMUM,
        "sort": sort.removeprefix("-") in _ORDERS,
        "page": number.isascii() and number.isdecimal() and len(number) < _MOST_DIGITS,
    }
    choice = Choice(
        printable(query.get("q", "").strip(), _LONGEST_SEARCH),
        state if right["state"] else "",
        sort if right["sort"] else "problems",
        max(1, int(number)) if right["page"] else 1,
    )
    wrong = [key for key, is_right in right.items() if query.get(key) and not is_right]
    return choice, [ignored(key, query[key], _RIGHT[key]) for key in wrong]


def _is_in(row: _FleetRow, state: str) -> bool:
    return row.at_maximum if state == AT_MAXIMUM else state in {"", row.state}


def _current(row: _FleetRow) -> int:
    """Return its count, below all others if that is not known."""
    current = None if row.known.last is None else row.known.last.decision.current
    return -1 if current is None else current
