"""`/targets`: how each target stands, or those that are asked for."""

from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response

from autoscaler.daemon.api.answering import Answering
from autoscaler.daemon.api.parameters import TargetsParameters
from autoscaler.daemon.api.tokens import place_after, token_of
from autoscaler.daemon.exposition.site import component_json
from autoscaler.daemon.exposition.target_list import target_list
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.daemon.exposition.views import Views
from autoscaler.rendering.verdict import State

_LIST = "targets"


async def targets(answering: Answering, request: Request, asked: TargetsParameters) -> Response:
    """Answer with the targets that are asked for."""
    place = place_after(asked.continue_, _LIST, int, str)
    components = answering.views().health.components()

    def parts(views: Views, now: float) -> Iterator[bytes]:
        not_ok = [component_json(one) for one in components if not one.ok]
        found, token = _page(views.states.known(), place, asked)
        return target_list(found, now, not_ok, token)

    return await answering.stream(request, parts, asked, components)


def _page(
    known: Sequence[Known], place: Sequence[int | str] | None, asked: TargetsParameters
) -> tuple[list[Known], str | None]:
    """Return a page of targets, and the token of the next one if there is one."""
    words, states = asked.search.casefold().split(), frozenset(asked.state)
    found: list[Known] = []
    for index in range(_begin(known, place), len(known)):
        one = known[index]
        if _is_asked_for(one, states, words):
            if len(found) == asked.limit:
                return found, token_of(_LIST, index, one.target.key)
            found.append(one)
    return found, None


def _begin(known: Sequence[Known], place: Sequence[int | str] | None) -> int:
    """Return where a page begins: at a target, or where that was if it is no longer there."""
    if place is None:
        return 0
    index, key = place
    found = (number for number, one in enumerate(known) if one.target.key == key)
    return next(found, int(index))


def _is_asked_for(one: Known, states: frozenset[State], words: Sequence[str]) -> bool:
    if states and (one.state or State.UNKNOWN) not in states:
        return False
    key = one.target.key.casefold() if words else ""
    return all(word in key for word in words)
