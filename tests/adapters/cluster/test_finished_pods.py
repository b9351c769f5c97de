"""Pods in a terminal phase count nowhere, whether they are listed or watched (semantics 6.19)."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.kubernetes import Pods, connect
from autoscaler.kubernetes.api import JsonObject
from autoscaler.kubernetes.pods import PodCache
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.prometheus.faults import ScriptedServer, answer

COUNTED = ("Pending", "Running", "Unknown")
FINISHED = ("Succeeded", "Failed")


def pod(name: str, phase: object) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app"}]},
        "status": {"phase": phase},
    }


PODS = [pod(phase.lower(), phase) for phase in (*COUNTED, *FINISHED)]
NAMES = sorted(phase.lower() for phase in COUNTED)


def watched(pods: Iterable[JsonObject]) -> PodCache:
    cache = PodCache("shop", lambda: {"shop": frozenset({"app=web"})}, lambda _: None)
    cache.begin()
    cache.add(list(pods))
    cache.commit("1")
    return cache


def names(cache: PodCache) -> list[str] | None:
    found = cache.pods("shop", "app=web")
    return None if found is None else [each.name for each in found]


def test_a_list_has_no_finished_pods(tmp_path: Path) -> None:
    """Neither one of a Job that is done, nor one that was evicted."""
    listed = {"metadata": {"resourceVersion": "5"}, "items": PODS}
    with ScriptedServer(answer(listed)) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig({"server": server.url}, {"token": "x"}))
        with connect(path) as api:
            found = Pods(api).pods("shop", "app=web", clock.monotonic() + 20)
    assert isinstance(found, tuple), found
    assert sorted(each.name for each in found) == NAMES


def test_a_watch_has_no_finished_pods() -> None:
    """They are not in the cache, which keeps nothing of them."""
    cache = watched(PODS)
    assert names(cache) == NAMES
    assert cache._namespaces["shop"].matched.keys() == set(NAMES)


@pytest.mark.parametrize("phase", FINISHED)
def test_a_pod_that_finishes_leaves(phase: str) -> None:
    """And what happens to it then changes nothing."""
    cache = watched([pod("a", "Running"), pod("b", "Running")])
    assert names(cache) == ["a", "b"]
    cache.apply("MODIFIED", pod("b", phase), "2")
    assert names(cache) == ["a"]
    cache.apply("MODIFIED", pod("b", phase), "3")
    cache.apply("DELETED", pod("b", phase), "4")
    assert names(cache) == ["a"]
    cache.apply("ADDED", pod("b", "Pending"), "5")
    assert names(cache) == ["a", "b"]


def test_a_pod_that_cannot_be_read_is_still_reported() -> None:
    """It is not known whether it counts: the pods are listed directly, which says what is wrong."""
    broken = pod("b", "Succeeded")
    broken["metadata"]["labels"] = {"app": "web"}
    broken["status"]["startTime"] = "yesterday"
    assert names(watched([pod("a", "Running"), broken])) is None
