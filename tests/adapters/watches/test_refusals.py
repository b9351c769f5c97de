"""Watches that are refused, for a moment or for good, and namespaces that go and return."""

from collections import deque
from dataclasses import replace
from datetime import datetime
from functools import partial

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale, UncheckedControl
from autoscaler.kubernetes import Api, WatchedCluster, watch_scopes
from autoscaler.kubernetes.autoscalers import AutoscalerCache
from autoscaler.kubernetes.reflector import Reflector, WatchState
from autoscaler.kubernetes.watch_requests import WatchTimings
from tests.adapters.watches.targets import (
    BROKEN,
    FORBIDDEN,
    REFUSED_WORDS,
    SHOP,
    SLOW,
    TILL,
    WEB,
    Watch,
    await_count,
    await_scale,
    scale_of,
    target,
    watching,
)
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.cluster.clusters import fresh_namespace
from tests.worlds.cluster.others import HAND_MADE, autoscaler, await_controller, create, path_of
from tests.worlds.cluster.roles import AUTOSCALERS, WATCH, await_granted, grant
from tests.worlds.cluster.scripted import Answer, failure
from tests.worlds.cluster.watch_script import (
    END,
    Script,
    WatchScript,
    deployment,
    event,
    gone,
    listed,
)

BY_HAND = listed("9", autoscaler("by-hand"))
UNKNOWN = failure(404, "NotFound", "could not find")
HPAS = "HorizontalPodAutoscaler.autoscaling"
NAME = f'{HPAS} in namespace "shop"'
GRACE = 0.6
DOUBTFUL = replace(
    SLOW, longest_pause=0.1, refused_pause=300.0, first_refusal_confirmed_after=GRACE
)
"""A refusal at the start is believed after a moment."""
LASTING = replace(DOUBTFUL, first_refusal_confirmed_after=60.0)
"""It is not believed during a test."""


def answer_hpas(server: WatchScript, *answers: Answer) -> None:
    """Answer lists of HorizontalPodAutoscalers in turn, the last one for good."""
    server.autoscalers.lists = deque(answers)


def is_blocked(watched: WatchedCluster, namespace: str = "shop") -> bool:
    """Return whether nothing is decided before a refusal is confirmed: the reason has the time."""
    watch = instance(Reflector, watched._autoscaler_watches.find(namespace))
    confirmed_at: str | None = watch.confirmed_at
    seen = watched.cached_scale(namespace, WEB)
    return confirmed_at is not None and confirmed_at in getattr(seen, "message", "")


@pytest.mark.parametrize("refusal", [FORBIDDEN, UNKNOWN], ids=["403", "404"])
def test_a_refusal_that_passes_lets_nothing_be_decided(watch: Watch, refusal: Answer) -> None:
    _, watched, notes = watch(pace=LASTING, synced=False, autoscalers=[*[refusal] * 6, BY_HAND])
    until = clock.monotonic() + 20
    while isinstance(watched.cached_scale("shop", WEB), ReadFailure):
        assert clock.monotonic() < until
    assert watched.cached_controller("shop", WEB) == HAND_MADE
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    assert notes == []


def test_the_reason_names_the_refusal_and_when_it_is_believed(watch: Watch) -> None:
    # Also after the time for which a broken watch is trusted.
    pace = replace(LASTING, trusted=0.0)
    _, watched, _ = watch(pace=pace, synced=False, autoscalers=[FORBIDDEN])
    began = clock.wall()
    eventually(lambda: is_blocked(watched), bool)
    seen = instance(ReadFailure, watched.cached_scale("shop", WEB))
    assert_parts(seen, NAME, REFUSED_WORDS)
    (first,) = watched._autoscaler_watches.watches()
    after = datetime.fromisoformat(first.confirmed_at or "").timestamp() - began
    assert abs(after - pace.first_refusal_confirmed_after) < 3
    assert watched.cached_controller("shop", WEB) == UncheckedControl(REFUSED_WORDS)


def test_a_lasting_first_refusal_is_believed_and_noted(watch: Watch) -> None:
    pace = replace(DOUBTFUL, longest_pause=30.0)
    began = clock.monotonic()
    _, watched, notes = watch(pace=pace, synced=False, autoscalers=[FORBIDDEN])
    eventually(lambda: is_blocked(watched), bool)
    assert notes == []
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert GRACE <= clock.monotonic() - began < GRACE + 2
    (note,) = notes
    assert_parts(note, NAME, REFUSED_WORDS, AutoscalerCache("shop").instead)
    assert watched.cached_controller("shop", WEB) == UncheckedControl(REFUSED_WORDS)


def test_a_server_that_is_gone_in_between_may_be_a_new_one(watch: Watch) -> None:
    """The time begins again with the first refusal after any other failure."""
    server, watched, _ = watch(pace=DOUBTFUL, synced=False, autoscalers=[FORBIDDEN])
    eventually(lambda: is_blocked(watched), bool)
    answer_hpas(server, BROKEN)
    eventually(lambda: is_blocked(watched), lambda blocked: not blocked)
    until = clock.monotonic() + GRACE
    eventually(clock.monotonic, lambda now: now >= until)
    answer_hpas(server, FORBIDDEN)
    began = clock.monotonic()
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert clock.monotonic() - began >= GRACE


def test_scales_that_may_not_be_watched_are_read_at_once(watch: Watch) -> None:
    _, watched, notes = watch(failure(403, "Forbidden", "deployments is forbidden"), pace=LASTING)
    assert watched.cached_scale("shop", WEB) is None
    (note,) = notes
    assert_parts(note, 'Deployment.apps in namespace "shop"')


def test_a_right_by_namespace_ends_the_wait(
    lone_cluster: ClusterUnderTest, limited: Api, shop: str
) -> None:
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


def test_all_at_once_and_each_namespace_are_doubted_together(watch: Watch) -> None:
    pace = replace(DOUBTFUL, first_refusal_confirmed_after=2.0, longest_pause=30.0)
    began = clock.monotonic()
    _, watched, notes = watch(
        targets=[SHOP, TILL], pace=pace, synced=False, autoscalers=[FORBIDDEN]
    )
    eventually(lambda: is_blocked(watched, "till"), bool)
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert 2.0 <= clock.monotonic() - began < 3.8
    eventually(lambda: len(notes), lambda count: count >= 3)


def test_namespaces_beyond_the_most_wait_for_all_at_once(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_scopes, "_MOST_WATCHES", 1)
    _, watched, notes = watch(
        targets=[SHOP, TILL], pace=DOUBTFUL, synced=False, autoscalers=[FORBIDDEN]
    )
    eventually(lambda: is_blocked(watched, "till"), bool)
    assert notes == []
    await_scale(watched, "till", WEB, lambda seen: "not found" in str(seen))
    eventually(lambda: [note for note in notes if f"{HPAS} in 1 " in note], bool)


@pytest.mark.parametrize("pace", [LASTING, replace(SLOW, refused_pause=0.1)])
def test_one_watch_of_all_takes_over_when_it_is_allowed(watch: Watch, pace: WatchTimings) -> None:
    _, watched, _ = watch(
        targets=[SHOP, TILL],
        pace=pace,
        synced=False,
        autoscalers=[*[FORBIDDEN] * 9, BY_HAND],
    )
    await_controller(watched, "shop", WEB, HAND_MADE)
    eventually(watched._autoscaler_watches.watches, lambda some: len(some) == 1)


NO_ROLES = failure(403, "Forbidden", "deployments is forbidden")


@pytest.mark.parametrize("refusal", [NO_ROLES, UNKNOWN], ids=["403", "404"])
def test_a_refusal_that_passes_is_not_believed(watch: Watch, refusal: Answer) -> None:
    pace = replace(SLOW, refusal_confirmed_after=60.0)
    server, watched, notes = watch(pace=pace)
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


def test_a_refusal_that_lasts_is_believed(watch: Watch) -> None:
    pace = replace(SLOW, refusal_confirmed_after=0.3, longest_pause=60, refused_pause=60)
    server, watched, notes = watch(pace=pace)
    eventually(lambda: server.count("watch"), bool)
    began = clock.monotonic()
    server.heads.extend([NO_ROLES] * 100)
    server.send(END)
    await_scale(watched, "shop", "web", lambda seen: seen is None)
    assert clock.monotonic() - began >= pace.refusal_confirmed_after
    (note,) = notes
    assert_parts(note, "Deployment.apps", "deployments is forbidden")


def test_a_refusal_at_the_start_is_tried_again_soon_at_first(watch: Watch) -> None:
    """It is believed at once; the pauses after it double up to minutes."""
    pace = replace(SLOW, longest_pause=0.1, refused_pause=300.0)
    server, _, _ = watch(pace=pace, autoscalers=[NO_ROLES, NO_ROLES, listed("9")])
    eventually(lambda: server.autoscalers.count("watch"), bool)
    assert server.autoscalers.count("list") == 3


ONCE = replace(SLOW, longest_pause=60, refused_pause=60, refusal_confirmed_after=0.0, trusted=60.0)
"""A refusal is believed at once, and not retried during a test."""


def last_known(watched: WatchedCluster, namespace: str) -> str | None:
    seen = instance(UncheckedControl, watched.cached_controller(namespace, WEB))
    return seen.known


def is_awaited(watched: WatchedCluster, namespace: str) -> bool:
    seen = watched.cached_scale(namespace, WEB)
    return isinstance(seen, ReadFailure) and HPAS in seen.message


def test_a_namespace_that_returns_is_listed_before_it_counts(watch: Watch) -> None:
    server, watched, _ = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[FORBIDDEN, BY_HAND])
    assert watched.cached_controller("shop", WEB) == HAND_MADE
    watched.set_targets([TILL])
    assert last_known(watched, "shop") is None
    answer_hpas(server, BROKEN)
    watched.set_targets([SHOP, TILL])
    assert is_awaited(watched, "shop")
    assert last_known(watched, "shop") is None
    assert not is_awaited(watched, "till")
    answer_hpas(server, listed("11"))
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert watched.cached_controller("shop", WEB) is None


def test_under_one_watch_of_all_a_returned_namespace_is_known_at_once(watch: Watch) -> None:
    server, watched, _ = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[BY_HAND])
    watched.set_targets([TILL])
    watched.set_targets([SHOP, TILL])
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    assert watched.cached_controller("shop", WEB) == HAND_MADE
    assert server.autoscalers.count("list") == 1


def test_when_all_at_once_are_refused_later_each_namespace_is_listed_anew(watch: Watch) -> None:
    """The last list of all applies until then; HPAs that are gone since are forgotten."""
    server, watched, _ = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[BY_HAND])
    eventually(lambda: server.autoscalers.count("watch"), bool)
    answer_hpas(server, FORBIDDEN, BROKEN)
    server.autoscalers.send(gone())
    eventually(lambda: is_awaited(watched, "shop"), bool)
    assert last_known(watched, "shop") == HAND_MADE
    answer_hpas(server, listed("11"))
    await_controller(watched, "shop", WEB, None)
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))


def test_when_all_lists_are_refused_the_last_list_applies(watch: Watch) -> None:
    server, watched, _ = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[BY_HAND])
    eventually(lambda: server.autoscalers.count("watch"), bool)
    answer_hpas(server, FORBIDDEN)
    server.autoscalers.send(gone())
    eventually(lambda: server.autoscalers.count("list"), lambda count: count == 4)
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert last_known(watched, "shop") == HAND_MADE


def test_a_namespace_is_waited_for_from_the_refusal_of_all_on(script: Script) -> None:
    server, api = script(listed("7", deployment("7", 1)))
    answer_hpas(server, listed("9", more="next"), FORBIDDEN, BROKEN)
    server.autoscalers.page_gate.clear()
    with watching(api, [SHOP, TILL], pace=ONCE, synced=False) as watched:
        scopes = watched._autoscaler_watches
        (every,) = scopes.watches()
        with scopes._lock:
            # Its thread has to wait for the lock before it can begin the others.
            server.autoscalers.page_gate.set()
            eventually(lambda: every.state, lambda state: state is WatchState.REFUSED)
            assert is_awaited(watched, "shop")


def test_a_new_refusal_of_a_returned_namespace_is_noted_again(watch: Watch) -> None:
    """An old note is about another time."""

    def of_the_shop() -> list[str]:
        return [note for note in notes if NAME in note]

    _, watched, notes = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[FORBIDDEN])
    (note,) = eventually(of_the_shop, bool)
    watched.set_targets([TILL])
    watched.set_targets([SHOP, TILL])
    eventually(of_the_shop, lambda refusals: refusals == [note, note])
