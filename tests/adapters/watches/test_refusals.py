"""Refusals of what could be watched: an API server that has just started does not mean them."""

from collections import deque
from dataclasses import replace
from functools import partial

import pytest

from autoscaler import clock
from tests.adapters.cluster.cluster import eventually
from tests.adapters.cluster.scripted import Answer, failure
from tests.adapters.watches.scripted import END, Script, deployment, event, listed
from tests.adapters.watches.targets import (
    SLOW,
    await_count,
    await_scale,
    scale_of,
    target,
    watching,
)

FORBIDDEN = failure(403, "Forbidden", "deployments is forbidden: its roles are not loaded yet")
UNKNOWN = failure(404, "NotFound", "the server could not find the requested resource")


@pytest.mark.parametrize("refusal", [FORBIDDEN, UNKNOWN], ids=["403", "404"])
def test_a_refusal_that_passes_is_not_believed(script: Script, refusal: Answer) -> None:
    """What is at hand stays so, nobody is told, and the watch goes on without a list."""
    server, api = script(listed("7", deployment("7", 1)))
    notes: list[str] = []
    pace = replace(SLOW, refusal_confirmed_after=60.0)
    with watching(api, [target("shop", "web")], pace=pace, notes=notes) as watched:
        # Only a watch that was open has something to believe in.
        for watched_by in (server, server.autoscalers):
            eventually(partial(watched_by.count, "watch"), bool)
        server.heads.extend([refusal, refusal, refusal])
        server.send(event("MODIFIED", deployment("9", 2)), END)
        eventually(lambda: server.count("watch 9"), lambda count: count >= 4)
        assert scale_of(watched, "shop", "web").spec_replicas == 2
        server.send(event("MODIFIED", deployment("10", 3)))
        await_count(watched, 3)
        assert server.count("list") == 1
    assert notes == []


def test_a_refusal_that_lasts_is_believed(script: Script) -> None:
    """The scale is then to be read, and one note says so."""
    server, api = script(listed("7", deployment("7", 1)))
    notes: list[str] = []
    pace = replace(SLOW, refusal_confirmed_after=0.3, longest_pause=60, refused_pause=60)
    with watching(api, [target("shop", "web")], pace=pace, notes=notes) as watched:
        eventually(lambda: server.count("watch"), bool)
        began = clock.monotonic()
        server.heads.extend([FORBIDDEN] * 100)
        server.send(END)
        await_scale(watched, "shop", "web", lambda seen: seen is None)
        assert clock.monotonic() - began >= pace.refusal_confirmed_after
    assert len(notes) == 1
    assert "its roles are not loaded yet): their scales are read one by one" in notes[0]


def test_a_refusal_at_the_start_is_tried_again_soon_at_first(script: Script) -> None:
    """It is believed at once; the pauses after it double up to minutes."""
    server, api = script(listed("7", deployment("7", 1)))
    server.autoscalers.lists = deque([FORBIDDEN, FORBIDDEN, listed("9")])
    pace = replace(SLOW, longest_pause=0.1, refused_pause=300.0)
    with watching(api, [target("shop", "web")], pace=pace):
        eventually(lambda: server.autoscalers.count("watch"), bool)
        assert server.autoscalers.count("list") == 3
