"""A namespace that no target needs any more is forgotten; when it returns it is listed anew."""

from collections import deque
from dataclasses import replace

from autoscaler.adapters.cluster import WatchedCluster
from autoscaler.adapters.cluster.reflector import WatchState
from autoscaler.core.observation import Scale, Unavailable, Unchecked
from tests.adapters.watches.targets import (
    BROKEN,
    FORBIDDEN,
    SHOP,
    SLOW,
    TILL,
    WEB,
    Watch,
    await_scale,
    watching,
)
from tests.worlds.cluster.cluster import eventually
from tests.worlds.cluster.others import HAND_MADE, autoscaler, await_controller
from tests.worlds.cluster.watch_script import Script, deployment, gone, listed

ONCE = replace(SLOW, longest_pause=60, refused_pause=60, refusal_confirmed_after=0.0, trusted=60.0)
"""What is refused is believed at once, and not tried again during a test."""


def last_known(watched: WatchedCluster, namespace: str) -> str | None:
    """Return who controlled the object when that could be checked last, which it cannot be now."""
    seen = watched.cached_controller(namespace, WEB)
    assert isinstance(seen, Unchecked), seen
    return seen.known


def is_awaited(watched: WatchedCluster, namespace: str) -> bool:
    """Tell whether a namespace's HorizontalPodAutoscalers are waited for."""
    seen = watched.cached_scale(namespace, WEB)
    return isinstance(seen, Unavailable) and "is not there yet" in seen.message


def test_what_was_known_of_it_is_forgotten(watch: Watch) -> None:
    """Until the new list comes, it is waited for; nobody is named who was there once."""
    by_hand = listed("9", autoscaler("by-hand"))
    server, watched, _ = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[FORBIDDEN, by_hand])
    assert watched.cached_controller("shop", WEB) == HAND_MADE
    watched.set_targets([TILL])
    assert last_known(watched, "shop") is None
    server.autoscalers.lists = deque([BROKEN])
    watched.set_targets([SHOP, TILL])
    assert is_awaited(watched, "shop")
    assert last_known(watched, "shop") is None
    assert not is_awaited(watched, "till")
    server.autoscalers.lists = deque([listed("11")])
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert watched.cached_controller("shop", WEB) is None


def test_where_all_are_watched_at_once_it_is_known_on_its_return(watch: Watch) -> None:
    """The watch of all namespaces saw it all the time; nothing is listed anew."""
    server, watched, _ = watch(
        targets=[SHOP, TILL], pace=ONCE, autoscalers=[listed("9", autoscaler("by-hand"))]
    )
    watched.set_targets([TILL])
    watched.set_targets([SHOP, TILL])
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    assert watched.cached_controller("shop", WEB) == HAND_MADE
    assert server.autoscalers.count("list") == 1


def test_when_all_at_once_are_refused_later_each_namespace_is_listed_anew(watch: Watch) -> None:
    """What the last list of all had stands until then; what is gone since is forgotten."""
    server, watched, _ = watch(
        targets=[SHOP, TILL], pace=ONCE, autoscalers=[listed("9", autoscaler("by-hand"))]
    )
    eventually(lambda: server.autoscalers.count("watch"), bool)
    server.autoscalers.lists = deque([FORBIDDEN, BROKEN])
    server.autoscalers.send(gone())
    eventually(lambda: is_awaited(watched, "shop"), bool)
    assert last_known(watched, "shop") == HAND_MADE
    server.autoscalers.lists = deque([listed("11")])
    await_controller(watched, "shop", WEB, None)
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))


def test_when_they_are_refused_altogether_the_last_list_of_all_stands(watch: Watch) -> None:
    """Whoever may list them no more goes on with what was there, as not to write is safe."""
    server, watched, _ = watch(
        targets=[SHOP, TILL], pace=ONCE, autoscalers=[listed("9", autoscaler("by-hand"))]
    )
    eventually(lambda: server.autoscalers.count("watch"), bool)
    server.autoscalers.lists = deque([FORBIDDEN])
    server.autoscalers.send(gone())
    eventually(lambda: server.autoscalers.count("list"), lambda count: count == 4)
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Scale))
    assert last_known(watched, "shop") == HAND_MADE


def test_a_namespace_is_waited_for_from_the_refusal_of_all_on(script: Script) -> None:
    """Also in the moment after the refusal, when its own watch has not been begun."""
    server, api = script(listed("7", deployment("7", 1)))
    server.autoscalers.lists = deque([listed("9", more="next"), FORBIDDEN, BROKEN])
    server.autoscalers.page_gate.clear()
    with watching(api, [SHOP, TILL], pace=ONCE, synced=False) as watched:
        scopes = watched._autoscaler_watches
        (every,) = scopes.watches()
        with scopes._lock:
            # Its thread has to wait for the lock before it can begin the others.
            server.autoscalers.page_gate.set()
            eventually(lambda: every.state, lambda state: state is WatchState.REFUSED)
            assert is_awaited(watched, "shop")


def test_that_it_is_refused_again_is_told_again(watch: Watch) -> None:
    """What was said of it long ago is about another time."""

    def of_the_shop() -> list[str]:
        return [note for note in notes if "HorizontalPodAutoscaler" in note and '"shop"' in note]

    _, watched, notes = watch(targets=[SHOP, TILL], pace=ONCE, autoscalers=[FORBIDDEN])
    (note,) = eventually(of_the_shop, bool)
    watched.set_targets([TILL])
    watched.set_targets([SHOP, TILL])
    eventually(of_the_shop, lambda told: told == [note, note])
