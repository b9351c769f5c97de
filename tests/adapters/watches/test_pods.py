"""Pods at hand: those of known selectors, as a list would answer, in step with every change."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from autoscaler.adapters.cluster import Api, Pods, WatchedCluster
from autoscaler.adapters.cluster.pods import PodCache
from autoscaler.core.observation import ConditionStatus, Pod
from tests.adapters.watches.targets import (
    QUICK,
    await_pods,
    deployment_ref,
    names,
    scale_of,
    soon,
    target,
    watch_threads,
    watching,
)
from tests.worlds.cluster import fleet, manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually


def _are_ready(count: int, pods: tuple[Pod, ...]) -> bool:
    ready = [pod for pod in pods if pod.ready is ConditionStatus.TRUE and not pod.deleted]
    return len(ready) == len(pods) == count


def _await_equality(watched: WatchedCluster, pods: Pods, namespace: str, selector: str) -> None:
    """Wait until the pods at hand are those that a list answers: pods come and go."""
    eventually(
        lambda: (
            watched.cached_pods(namespace, selector),
            pods.pods(namespace, selector, soon()),
        ),
        lambda both: isinstance(both[0], tuple) and both[0] == both[1],
    )


def test_pods_follow_the_scale(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    """Scaled up, ready, scaled down: the pods at hand are those of the list, in its order."""
    path = f"{manifests.deployments(namespace)}/web"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 2))
    with watching(api, [target(namespace, "web", pods=True)]) as watched:
        assert scale_of(watched, namespace, "web").selector == "app=web"
        # The selector was known from the scale: the first list has the pods already.
        assert isinstance(watched.cached_pods(namespace, "app=web"), tuple)
        for count in (4, 1, 3):
            cluster.patch(f"{path}/scale", {"spec": {"replicas": count}})
            await_pods(watched, namespace, "app=web", partial(_are_ready, count))
            _await_equality(watched, Pods(api), namespace, "app=web")


def test_what_does_not_change_is_the_same_tuple(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """A tuple is made once for each change of a selector's pods."""
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web"}))
    with watching(api, [target(namespace, "web", pods=True)]) as watched:
        before = await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        ready = await_pods(
            watched, namespace, "app=web", lambda p: p[0].ready is ConditionStatus.TRUE
        )
        assert before is not None
        assert watched.cached_pods(namespace, "app=web") is ready
        # Another label changes nothing that a decision looks at.
        cluster.patch(f"{path}/a", {"metadata": {"labels": {"other": "x"}}})
        cluster.create(path, manifests.pod("b", {"app": "api"}))
        await_pods(watched, namespace, "app=api", lambda pods: names(pods) == ["b"])
        again = watched.cached_pods(namespace, "app=web")
        assert again == ready


def test_a_namespace_is_watched_when_it_is_asked_for(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """Nothing is watched for targets that need no pods; the first question begins a watch."""
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web", "tier": "x"}))
    pace = replace(QUICK, pods_trusted=60.0)
    with watching(api, [target(namespace, "web")], pace=pace) as watched:
        assert len(watch_threads()) == 1
        assert watched.cached_pods(namespace, "app=web,tier=x") is None
        await_pods(watched, namespace, "app=web,tier=x", lambda pods: names(pods) == ["a"])
        assert len(watch_threads()) == 2
        # Another selector needs a new list; the first one is answered all the time.
        assert watched.cached_pods(namespace, "tier") is None
        while watched.cached_pods(namespace, "tier") is None:
            assert isinstance(watched.cached_pods(namespace, "app=web,tier=x"), tuple)
        _await_equality(watched, Pods(api), namespace, "tier")


@pytest.mark.parametrize("selector", ["", "a in b", "size>3"])
def test_a_selector_that_is_not_understood_is_left_to_the_server(
    api: Api, namespace: str, selector: str
) -> None:
    """It is never at hand, and nothing is watched for it."""
    with watching(api, [target(namespace, "web")]) as watched:
        assert watched.cached_pods(namespace, selector) is None
        assert len(watch_threads()) == 1


def test_a_pod_whose_label_changes_moves(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """What stops matching leaves, what starts matching comes, what is deleted goes."""
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web"}))
    with watching(api, [target(namespace, "web", pods=True)]) as watched:
        await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        await_pods(watched, namespace, "app=api", lambda pods: not pods)
        cluster.patch(f"{path}/a", {"metadata": {"labels": {"app": "api"}}})
        await_pods(watched, namespace, "app=api", lambda pods: names(pods) == ["a"])
        assert watched.cached_pods(namespace, "app=web") == ()
        cluster.request("DELETE", f"{path}/a", {"gracePeriodSeconds": 0})
        await_pods(watched, namespace, "app=api", lambda pods: not pods)


def test_many_namespaces_share_a_watch(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    """With more than eight namespaces one watch of all pods serves them."""
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web"}))
    elsewhere = [f"elsewhere-{number}" for number in range(9)]
    targets = [target(name, "web", pods=True) for name in (namespace, *elsewhere)]
    with watching(api, targets) as watched:
        assert watch_threads() == ["watch Deployment.apps", "watch pods"]
        await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        await_pods(watched, "elsewhere-3", "app=web", lambda pods: not pods)
        assert watched.cached_scale(namespace, deployment_ref("web")) is not None
    assert watch_threads() == []


def test_a_ninth_namespace_joins_the_others(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    """Namespaces that are asked for one by one end up in one watch too, and none is missed."""
    cluster.create(manifests.pods(namespace), manifests.pod("a", {"app": "web"}))
    with watching(api, []) as watched:
        asked = [f"elsewhere-{number}" for number in range(9)]
        for name in [namespace, *asked]:
            watched.cached_pods(name, "app=web")
        eventually(watch_threads, lambda seen: seen == ["watch pods"])
        await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        for name in asked:
            await_pods(watched, name, "app=web", lambda pods: not pods)


def test_a_pod_costs_little_memory(record_property: Callable[[str, object], None]) -> None:
    """Of kilobytes of JSON less than one is kept for each pod; the figure is printed."""
    command = [sys.executable, "-m", "tests.adapters.watches.pod_memory"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    kept, sent = map(int, done.stdout.split())
    record_property("bytes_per_pod", kept)
    print(f"{kept} bytes kept of {sent} sent for each pod")
    assert kept < 1000


def test_pods_that_nobody_selects_cost_nothing() -> None:
    """They are dropped as they come in."""
    cache = PodCache("shop", lambda: {"shop": frozenset({"app=x"})}, lambda _: None)
    cache.begin()
    for page in fleet.pages(10, 20):
        cache.add(page)
    cache.commit("1")
    assert cache.pods("shop", "app=x") == ()
    assert cache._namespaces["shop"].matched == {}
