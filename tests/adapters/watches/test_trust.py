"""How long a cache is trusted that gets no events, and what happens instead."""

import re
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.kubernetes import Api, watched_cluster
from tests.adapters.watches.targets import (
    BROKEN,
    QUICK,
    SLOW,
    WEB,
    Watch,
    await_count,
    await_pods,
    await_scale,
    has_count,
    names,
    scale_of,
    target,
    watching,
)
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.cluster.others import autoscaler
from tests.worlds.cluster.scripted import Answer
from tests.worlds.cluster.watch_script import RESET, bookmark, deployment, listed
from tests.worlds.controlplane.server import ControlPlane

STOOD_STILL = "suspended for .*: .* cluster"
LISTED = "have been listed"
NOT_LISTED = "FailedGetScale: .* suspended for "
"""Parts of what the operator reads, as patterns, which docs/contributing/faults.md quotes."""


def test_a_silent_cut_is_noticed(watch: Watch) -> None:
    pace = replace(QUICK, shortest_watch=1, longest_watch=1, grace=0.5, trusted=60.0)
    began = clock.monotonic()
    server, watched, _ = watch(pace=pace)
    server.send(bookmark("8"))
    # The server never ends the watch, as if its packets were lost.
    eventually(lambda: server.count("watch 8"), bool, 10)
    assert clock.monotonic() - began >= 1.5
    assert scale_of(watched, "shop", "web").spec_replicas == 1


def test_a_watch_that_stays_broken_is_not_trusted(watch: Watch) -> None:
    pace = replace(SLOW, trusted=4.0, longest_pause=0.2)
    server, watched, _ = watch(
        listed("7", deployment("7", 1)),
        listed("9", deployment("9", 6)),
        pace=pace,
        heads=[Answer(), *[BROKEN] * 200],
    )
    server.lists = deque([BROKEN])
    server.send(RESET)
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    seen = await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, ReadFailure))
    assert_parts(seen, 'Deployment.apps in namespace "shop"', server.url, "500 (InternalError)")
    since = datetime.fromisoformat(re.findall(r"\d{4}-\d\d-\d\dT[0-9:]+Z", str(seen))[0])
    assert abs(since.timestamp() - clock.wall()) < 60
    server.heads.clear()
    server.lists = deque([listed("9", deployment("9", 6))])
    await_count(watched, 6)


def test_a_cache_that_is_listed_anew_for_long_is_not_trusted(watch: Watch) -> None:
    """During a list no event arrives, so the time of trust runs from its begin."""
    first = listed("8", deployment("8", 1), more="next")
    server, watched, _ = watch(
        listed("7", deployment("7", 1)),
        first,
        listed("9", deployment("9", 6)),
        pace=replace(SLOW, trusted=1.0),
    )
    server.page_gate.clear()
    watched.set_targets([target("shop", "web"), target("shop", "new")])
    eventually(lambda: server.count("list next"), bool)
    seen = await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, ReadFailure))
    assert_parts(seen, 'Deployment.apps in namespace "shop"')
    server.page_gate.set()
    await_count(watched, 6)


def test_pods_of_a_broken_watch_are_listed_directly(watch: Watch) -> None:
    pod = {
        "metadata": {"namespace": "shop", "name": "a", "labels": {"app": "web"}},
        "status": {"phase": "Running"},
    }
    pace = replace(SLOW, pods_trusted=4.0, longest_pause=0.2)
    server, watched, _ = watch(
        listed("7", pod), targets=[], pace=pace, heads=[Answer(), *[BROKEN] * 200]
    )
    asked = ("shop", "app=web")
    await_pods(watched, *asked, lambda pods: names(pods) == ["a"])
    server.send(RESET)
    assert watched.cached_pods(*asked) is not None
    eventually(lambda: watched.cached_pods(*asked), lambda pods: pods is None)
    assert isinstance(watched.list_pods(*asked, clock.monotonic() + 20), tuple)
    assert watched.cached_pods(*asked) is None
    server.heads.clear()
    await_pods(watched, *asked, lambda pods: names(pods) == ["a"])


@dataclass
class StoppedClock:
    """The clock of a suspended process, which a test sets."""

    now: float = 1000.0


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> StoppedClock:
    steady = StoppedClock()
    monkeypatch.setattr(clock, "steady", lambda: steady.now)
    return steady


def test_after_a_suspension_no_scale_counts_before_the_next_list(
    watch: Watch, stopped: StoppedClock
) -> None:
    again = listed("8", deployment("8", 8), more="next")
    server, watched, notes = watch(
        listed("7", deployment("7", 8)), again, listed("9", deployment("9", 10))
    )
    watched.attend()
    stopped.now += 4.0
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    server.page_gate.clear()
    stopped.now += 18.0
    seen = watched.cached_scale("shop", WEB)
    message = instance(ReadFailure, seen).message
    assert re.match(NOT_LISTED, f"FailedGetScale: {message}")
    assert message.endswith(" 18 s")
    watched.wait_current(clock.monotonic() + 0.05)
    assert isinstance(watched.cached_scale("shop", WEB), ReadFailure)
    server.page_gate.set()
    watched.wait_current(clock.monotonic() + 20.0)
    seen = watched.cached_scale("shop", WEB)
    assert isinstance(seen, Scale)
    assert seen.spec_replicas == 10
    suspension, recovery = notes
    assert re.search(STOOD_STILL, suspension)
    assert recovery.startswith("good: ")
    assert_parts(recovery, LISTED)


def test_after_a_suspension_pods_are_listed_directly(watch: Watch, stopped: StoppedClock) -> None:
    server, watched, _ = watch(
        listed("7", deployment("7", 8)), targets=[target("shop", "web", pods=True)]
    )
    watched.attend()
    await_pods(watched, "shop", "app=web", lambda pods: pods == ())
    server.lists = deque([BROKEN])
    stopped.now += 18.0
    assert watched.cached_pods("shop", "app=web") is None
    assert isinstance(watched.cached_scale("shop", WEB), ReadFailure)
    assert watched._selectors() == {"shop": frozenset({"app=web"})}
    server.lists = deque([listed("9", deployment("9", 8))])
    await_pods(watched, "shop", "app=web", lambda pods: pods == ())


def test_after_a_suspension_the_other_autoscalers_are_listed_anew(
    watch: Watch, stopped: StoppedClock
) -> None:
    """One that was made meanwhile controls the target: nothing is decided before that is known."""
    rival = listed("3", autoscaler("rival"))
    server, watched, _ = watch(autoscalers=[listed("1"), listed("3", more="next"), rival])
    watched.attend()
    server.autoscalers.page_gate.clear()
    stopped.now += 3600.0
    watched.wait_current(clock.monotonic() + 0.5)
    seen = watched.cached_scale("shop", WEB)
    assert_parts(instance(ReadFailure, seen), "HorizontalPodAutoscaler.autoscaling")
    server.autoscalers.page_gate.set()
    watched.wait_current(clock.monotonic() + 20.0)
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    assert watched.cached_controller("shop", WEB) == 'HorizontalPodAutoscaler "rival"'


def test_a_list_that_keeps_failing_after_a_suspension_does_not_delay_syncs(
    watch: Watch, stopped: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for in the first seconds; later only its own targets are blocked."""
    monkeypatch.setattr(watched_cluster, "LISTED_WITHIN_SECONDS", 0.1, raising=False)
    server, watched, _ = watch(listed("7", deployment("7", 8)))
    watched.attend()
    server.lists = deque([BROKEN])
    stopped.now += 18.0
    begun = clock.monotonic()
    for _ in range(3):
        watched.wait_current(clock.monotonic() + 3.0)
    assert clock.monotonic() - begun < 3.0
    assert isinstance(watched.cached_scale("shop", WEB), ReadFailure)


def test_a_restart_of_the_api_server_loses_nothing(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """Cached objects stay, then count as old, and follow again once the server is back."""
    with watching(lone_api, [target(shop, "web", pods=True)]) as watched:
        assert scale_of(watched, shop, "web").spec_replicas == 3
        await_pods(watched, shop, "app=web", lambda pods: not pods)
        lone_plane.stop_apiserver(grace=0)
        assert scale_of(watched, shop, "web").spec_replicas == 3
        await_scale(watched, shop, "web", lambda seen: isinstance(seen, ReadFailure))
        assert watched.cached_pods(shop, "app=web") is None
        lone_plane.start_apiserver()
        lone_cluster.patch(f"{manifests.deployments(shop)}/web/scale", {"spec": {"replicas": 5}})
        lone_cluster.create(manifests.pods(shop), manifests.pod("p", {"app": "web"}))
        await_scale(watched, shop, "web", partial(has_count, 5))
        await_pods(watched, shop, "app=web", lambda pods: names(pods) == ["p"])


def test_a_short_restart_is_not_noticed_by_readers(
    lone_plane: ControlPlane, lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    with watching(lone_api, [target(shop, "web")], pace=replace(QUICK, trusted=60.0)) as watched:
        lone_plane.restart_apiserver(grace=0)
        assert scale_of(watched, shop, "web").spec_replicas == 3
        lone_cluster.patch(f"{manifests.deployments(shop)}/web/scale", {"spec": {"replicas": 5}})
        await_scale(watched, shop, "web", partial(has_count, 5))
