"""Other autoscalers that may not be listed at the start: an API server may not mean that."""

from collections import deque
from dataclasses import replace
from datetime import datetime

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Api, WatchedCluster, watch_scopes
from autoscaler.core.observation import Scale, Unavailable, Unchecked
from tests.adapters.cluster.cluster import ClusterUnderTest, eventually
from tests.adapters.cluster.clusters import fresh_namespace
from tests.adapters.cluster.scripted import Answer, failure
from tests.adapters.watches.others import HAND_MADE, autoscaler, await_controller, create, path_of
from tests.adapters.watches.rights import AUTOSCALERS, WATCH, await_granted, grant
from tests.adapters.watches.scripted import Script, WatchScript, deployment, listed
from tests.adapters.watches.targets import SLOW, await_scale, deployment_ref, target, watching

WEB = deployment_ref("web")
SHOP, TILL = target("shop", "web"), target("till", "web")
FORBIDDEN = failure(403, "Forbidden", "horizontalpodautoscalers is forbidden")
UNKNOWN = failure(404, "NotFound", "the server could not find the requested resource")
BROKEN = failure(500, "InternalError", "no leader")
INSTEAD = "a target that one of them controls is refused there only if that was seen before"
NAME = 'HorizontalPodAutoscaler.autoscaling in namespace "shop"'
GRACE = 0.6
DOUBTFUL = replace(
    SLOW, longest_pause=0.1, refused_pause=300.0, first_refusal_confirmed_after=GRACE
)
"""What is refused at the start is believed after a moment."""
LASTING = replace(DOUBTFUL, first_refusal_confirmed_after=60.0)
"""It is not believed during a test."""


def refused_as(server: WatchScript, *answers: Answer) -> None:
    """Answer lists of HorizontalPodAutoscalers in turn, the last one for good."""
    server.autoscalers.lists = deque(answers)


def is_blocked(watched: WatchedCluster, namespace: str = "shop") -> bool:
    """Tell whether nothing is decided there, since an API server may have just started."""
    seen = watched.cached_scale(namespace, WEB)
    return isinstance(seen, Unavailable) and "nothing is decided here before" in seen.message


@pytest.mark.parametrize("refusal", [FORBIDDEN, UNKNOWN], ids=["403", "404"])
def test_a_refusal_that_passes_lets_nothing_be_decided(script: Script, refusal: Answer) -> None:
    """From the start until the list there is no scale; nobody is told; the HPA is then known."""
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, *[refusal] * 6, listed("9", autoscaler("by-hand")))
    notes: list[str] = []
    with watching(api, [SHOP], pace=LASTING, notes=notes, synced=False) as watched:
        until = clock.monotonic() + 20
        while isinstance(watched.cached_scale("shop", WEB), Unavailable):
            assert clock.monotonic() < until
        assert watched.cached_controller("shop", WEB) == HAND_MADE
        assert isinstance(watched.cached_scale("shop", WEB), Scale)
    assert notes == []


def test_the_reason_names_the_refusal_and_when_it_is_believed(script: Script) -> None:
    """An operator can tell it from a broken list, and knows how long it blocks at most."""
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, FORBIDDEN)
    # Also after the time for which a broken watch is trusted.
    with watching(api, [SHOP], pace=replace(LASTING, trusted=0.0), synced=False) as watched:
        began = clock.wall()
        eventually(lambda: is_blocked(watched), bool)
        seen = watched.cached_scale("shop", WEB)
        assert isinstance(seen, Unavailable)
        sentence, at = seen.message.rsplit(" ", 1)
        assert sentence == (
            f"the list of {NAME} is not there yet: horizontalpodautoscalers is forbidden; an API "
            "server that has just started may refuse it for a moment, so unless it is listed "
            "nothing is decided here before"
        )
        assert (
            abs(
                datetime.fromisoformat(at).timestamp()
                - began
                - LASTING.first_refusal_confirmed_after
            )
            < 3
        )
        assert watched.cached_controller("shop", WEB) == Unchecked(
            "horizontalpodautoscalers is forbidden"
        )


def test_a_refusal_that_lasts_is_believed_and_told(script: Script) -> None:
    """After the stated time, not later than the try that is due then; the note is as ever."""
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, FORBIDDEN)
    notes: list[str] = []
    pace = replace(DOUBTFUL, longest_pause=30.0)
    began = clock.monotonic()
    with watching(api, [SHOP], pace=pace, notes=notes, synced=False) as watched:
        eventually(lambda: is_blocked(watched), bool)
        assert notes == []
        await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
        assert GRACE <= clock.monotonic() - began < GRACE + 2
        assert notes == [
            f"{NAME} cannot be watched (horizontalpodautoscalers is forbidden): {INSTEAD}"
        ]
        assert watched.cached_controller("shop", WEB) == Unchecked(
            "horizontalpodautoscalers is forbidden"
        )


def test_a_server_that_is_gone_in_between_may_be_a_new_one(script: Script) -> None:
    """The time begins again with the first refusal after any other failure."""
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, FORBIDDEN)
    with watching(api, [SHOP], pace=DOUBTFUL, synced=False) as watched:
        eventually(lambda: is_blocked(watched), bool)
        refused_as(server, BROKEN)
        eventually(lambda: is_blocked(watched), lambda blocked: not blocked)
        until = clock.monotonic() + GRACE
        eventually(clock.monotonic, lambda now: now >= until)
        refused_as(server, FORBIDDEN)
        began = clock.monotonic()
        await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
        assert clock.monotonic() - began >= GRACE


def test_scales_that_may_not_be_watched_are_read_at_once(script: Script) -> None:
    """Of all that is refused at the start only other autoscalers are waited for."""
    _, api = script(failure(403, "Forbidden", "deployments is forbidden"))
    notes: list[str] = []
    with watching(api, [SHOP], pace=LASTING, notes=notes) as watched:
        assert watched.cached_scale("shop", WEB) is None
        assert [note.partition(" cannot")[0] for note in notes] == [
            'Deployment.apps in namespace "shop"'
        ]


def test_whoever_may_list_them_by_namespace_does_not_wait(
    lone_cluster: ClusterUnderTest, limited: Api, shop: str
) -> None:
    """While all at once are refused, and that is not believed, each namespace is asked already."""
    with fresh_namespace(lone_cluster, "watches") as other:
        for namespace in (shop, other):
            grant(lone_cluster, namespace, "watch", WATCH, AUTOSCALERS)
            await_granted(limited, path_of(namespace))
            create(lone_cluster, namespace, autoscaler("by-hand"))
        targets = [target(shop, "web"), target(other, "web")]
        with watching(limited, targets, pace=LASTING) as watched:
            for namespace in (shop, other):
                assert watched.cached_controller(namespace, WEB) == HAND_MADE
            assert isinstance(watched.cached_scale(shop, WEB), Scale)


def test_all_at_once_and_each_namespace_are_doubted_together(script: Script) -> None:
    """Where nothing may be listed, the wait is one, not one after the other."""
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, FORBIDDEN)
    notes: list[str] = []
    pace = replace(DOUBTFUL, first_refusal_confirmed_after=2.0, longest_pause=30.0)
    began = clock.monotonic()
    with watching(api, [SHOP, TILL], pace=pace, notes=notes, synced=False) as watched:
        eventually(lambda: is_blocked(watched, "till"), bool)
        await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
        assert 2.0 <= clock.monotonic() - began < 3.8
        eventually(lambda: len(notes), lambda count: count >= 3)


def test_namespaces_beyond_the_most_wait_for_all_at_once(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no watch of their own; that they are not watched is told once it is certain."""
    monkeypatch.setattr(watch_scopes, "_MOST_WATCHES", 1)
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, FORBIDDEN)
    notes: list[str] = []
    with watching(api, [SHOP, TILL], pace=DOUBTFUL, notes=notes, synced=False) as watched:
        eventually(lambda: is_blocked(watched, "till"), bool)
        assert notes == []
        await_scale(watched, "till", WEB, lambda seen: "not found" in str(seen))
        eventually(lambda: [note for note in notes if "1 more are not watched" in note], bool)


def test_all_at_once_takes_over_when_the_roles_are_there(script: Script) -> None:
    """One list serves all; the watches that were begun for each namespace end."""
    server, api = script(listed("7", deployment("7", 1)))
    refused_as(server, *[FORBIDDEN] * 9, listed("9", autoscaler("by-hand")))
    with watching(api, [SHOP, TILL], pace=LASTING, synced=False) as watched:
        await_controller(watched, "shop", WEB, HAND_MADE)
        eventually(watched._autoscaler_watches.watches, lambda some: len(some) == 1)
