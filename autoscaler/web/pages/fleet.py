"""The page of all targets: problems first; search, filters and order are in its URL."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.requests import Request

from autoscaler.core.classification import State
from autoscaler.rendering.answers import LeaderState
from autoscaler.rendering.wording import STATE_WORDS
from autoscaler.telemetry.target_states import TargetFacts
from autoscaler.web.answering import Page
from autoscaler.web.pages.frame import ListChoice, page, part_of
from autoscaler.web.site import Views

_RANKS = {word: rank for rank, word in enumerate(STATE_WORDS)}


@dataclass(frozen=True, slots=True)
class Choice(ListChoice):
    """The selected targets, and their order."""

    cluster: str = ""
    state: str = ""
    sort: str = "problems"


class ClusterTotals(NamedTuple):
    """A row of the table of clusters: sums over its targets with a known count."""

    name: str
    targets: int
    failing: int
    current: int
    desired: int
    leader: LeaderState | None
    """None without leader election."""


def _of_clusters(
    rows: Sequence[TargetFacts],
    names: Sequence[str],
    leaders: Sequence[LeaderState] | None,
) -> list[ClusterTotals]:
    """Return the sums of each cluster, in the order of the configuration."""
    led = {leader.cluster: leader for leader in leaders or ()}
    by_name = defaultdict[str, list[TargetFacts]](list)
    for row in rows:
        by_name[row.target.cluster].append(row)
    return [_totals(name, by_name[name], led.get(name)) for name in names]


def _totals(name: str, rows: Sequence[TargetFacts], leader: LeaderState | None) -> ClusterTotals:
    decisions = [row.last.decision for row in rows if row.last is not None]
    known = [decision for decision in decisions if decision.current is not None]
    return ClusterTotals(
        name,
        len(rows),
        sum(row.state is State.FAILING for row in rows),
        sum(decision.current or 0 for decision in known),
        sum(decision.desired for decision in known),
        leader,
    )


def _current(row: TargetFacts) -> int:
    """Return its count; an unknown one sorts below all others."""
    current = None if row.last is None else row.last.decision.current
    return -1 if current is None else current


_ORDERS: Mapping[str, Callable[[TargetFacts], Any]] = {
    "problems": lambda row: (_RANKS[row.state], row.target.key),
    "name": lambda row: row.target.key,
    "replicas": lambda row: (_current(row), row.target.key),
    "since": lambda row: (math.inf if row.since is None else -row.since, row.target.key),
}
"""By name; with `-` before it in reverse."""

_SORTS = (*_ORDERS, *(f"-{order}" for order in _ORDERS))
_RIGHT = {
    "state": (tuple(STATE_WORDS), f"one of {', '.join(STATE_WORDS)}"),
    "sort": (_SORTS, f"one of {', '.join(_ORDERS)}, also with a - before it"),
}


def fleet_page(views: Views, request: Request, now: float) -> Page:
    """Make the page."""
    clusters = [name for name in views.config().connections if name]
    named = f"one of {', '.join(clusters)}" if clusters else "left out: there is one"
    right = {"cluster": (clusters, named), **_RIGHT}
    choice, wrong = Choice.read(request.query_params, right)
    rows = views.states.known()
    found = [
        row
        for row in rows
        if choice.cluster in {"", row.target.cluster} and choice.finds(row.target.key)
    ]
    counts = Counter[str](row.state.value for row in found)
    chosen = _chosen(found, choice)
    part = part_of(chosen, choice.page)
    return page(
        "fleet.html",
        views,
        now,
        current="fleet",
        choice=choice,
        wrong=wrong,
        words=STATE_WORDS,
        counts=counts,
        total=len(rows),
        clusters=_of_clusters(rows, clusters, views.leader_states()),
        found=len(found),
        chosen=len(chosen),
        part=part,
        file=str(views.config().path) if not rows else "",
    )


def _chosen(found: Sequence[TargetFacts], choice: Choice) -> list[TargetFacts]:
    """Return the targets of the selected state in the selected order."""
    order = choice.sort.removeprefix("-")
    of_state = (row for row in found if choice.state in {"", row.state})
    return sorted(of_state, key=_ORDERS[order], reverse=choice.sort != order)
