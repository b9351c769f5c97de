"""How long a cache is trusted that gets no events, and what happens instead."""

from dataclasses import replace

from autoscaler import clock
from autoscaler.core.observation import Scale, Unavailable
from tests.adapters.cluster.cluster import eventually
from tests.adapters.cluster.scripted import Answer, failure
from tests.adapters.watches.scripted import RESET, Script, bookmark, deployment, listed
from tests.adapters.watches.targets import (
    QUICK,
    SLOW,
    await_count,
    await_pods,
    await_scale,
    deployment_ref,
    names,
    scale_of,
    target,
    watching,
)

WEB = deployment_ref("web")


def test_a_silent_cut_is_noticed(script: Script) -> None:
    """A connection that says nothing beyond the watch's own end is given up, and resumed."""
    server, api = script(listed("7", deployment("7", 1)))
    pace = replace(QUICK, shortest_watch=1, longest_watch=1, grace=0.5, trusted=60.0)
    began = clock.monotonic()
    with watching(api, [target("shop", "web")], pace=pace) as watched:
        server.send(bookmark("8"))
        # The server never ends the watch, as if its packets were lost.
        eventually(lambda: server.count("watch 8"), bool, 10)
        assert clock.monotonic() - began >= 1.5
        assert scale_of(watched, "shop", "web").spec_replicas == 1


def test_a_watch_that_stays_broken_is_not_trusted(script: Script) -> None:
    """After the time of trust the reason is given with the instant; then a list, not a watch."""
    server, api = script(listed("7", deployment("7", 1)), listed("9", deployment("9", 6)))
    server.heads.extend([Answer(), *[failure(500, "InternalError", "no leader")] * 200])
    pace = replace(SLOW, trusted=4.0, longest_pause=0.2)
    with watching(api, [target("shop", "web")], pace=pace) as watched:
        server.lists = type(server.lists)([failure(500, "InternalError", "no leader")])
        server.send(RESET)
        assert isinstance(watched.cached_scale("shop", WEB), Scale)
        seen = await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Unavailable))
        assert isinstance(seen, Unavailable)
        before, _, after = seen.message.partition(" is broken since ")
        assert before == 'the watch of Deployment.apps in namespace "shop"'
        assert after[10] == "T"
        assert after.endswith(
            f"the API server {server.url} answered 500 (InternalError): no leader"
        )
        server.heads.clear()
        server.lists = type(server.lists)([listed("9", deployment("9", 6))])
        await_count(watched, 6)


def test_a_mirror_that_is_listed_anew_for_long_is_not_trusted(script: Script) -> None:
    """While a list goes on no event comes in, so the time of trust runs from its begin."""
    first = listed("8", deployment("8", 1), more="next")
    server, api = script(listed("7", deployment("7", 1)), first, listed("9", deployment("9", 6)))
    with watching(api, [target("shop", "web")], pace=replace(SLOW, trusted=1.0)) as watched:
        server.page_gate.clear()
        watched.set_targets([target("shop", "web"), target("shop", "new")])
        eventually(lambda: server.count("list next"), bool)
        seen = await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, Unavailable))
        assert isinstance(seen, Unavailable)
        assert seen.message.endswith(": it is being listed anew")
        server.page_gate.set()
        await_count(watched, 6)


def test_pods_of_a_broken_watch_are_listed_directly(script: Script) -> None:
    """After seconds, not a minute: nothing guards a decision that groups by an old list."""
    pod = {
        "metadata": {"namespace": "shop", "name": "a", "labels": {"app": "web"}},
        "status": {"phase": "Running"},
    }
    server, api = script(listed("7", pod))
    server.heads.extend([Answer(), *[failure(500, "InternalError", "no leader")] * 200])
    pace = replace(SLOW, pods_trusted=4.0, longest_pause=0.2)
    with watching(api, [], pace=pace) as watched:
        asked = ("shop", "app=web")
        await_pods(watched, *asked, lambda pods: names(pods) == ["a"])
        server.send(RESET)
        assert watched.cached_pods(*asked) is not None
        eventually(lambda: watched.cached_pods(*asked), lambda pods: pods is None)
        assert isinstance(watched.pods(*asked, clock.monotonic() + 20), tuple)
        assert watched.cached_pods(*asked) is None
        server.heads.clear()
        await_pods(watched, *asked, lambda pods: names(pods) == ["a"])
