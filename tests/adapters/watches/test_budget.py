"""The caches of a cluster are bounded in bytes, whatever its API server sends."""

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import cast

import pytest

from autoscaler.kubernetes.api import Api, JsonObject
from autoscaler.kubernetes.autoscalers import AutoscalerCache
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.leases import Lease, LeaseCache
from autoscaler.kubernetes.pods import PodCache
from autoscaler.kubernetes.watch_requests import (
    Cache,
    ClusterBudget,
    OverBudgetError,
    WatchRequests,
    WatchTimings,
)
from tests.narrowing import instance
from tests.worlds.cluster import fleet
from tests.worlds.cluster.others import autoscaler

MOST = 1 << 20
SELECTOR = "app=web"


def metadata(name: str, **more: object) -> JsonObject:
    named = {"name": name, "namespace": "shop", "labels": {"app": "web"}}
    return named | {"resourceVersion": "7"} | more


def pod(name: str) -> JsonObject:
    containers = [{"name": "app", "resources": {"requests": {"cpu": "1"}}}, {"name": "proxy"}]
    return {"metadata": metadata(name), "spec": {"containers": containers}, "status": {}}


def lease(name: str) -> JsonObject:
    more = metadata(name, annotations={"note": "x" * 1000})
    return {"metadata": more, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}


def pods() -> PodCache:
    return PodCache("shop", lambda: {"shop": frozenset({SELECTOR})}, lambda _: None)


CACHES: list[tuple[Callable[[], Cache], Callable[[str], JsonObject]]] = [
    (pods, pod),
    (lambda: AutoscalerCache("shop"), autoscaler),
]
"""What makes a cache, and an object that it keeps."""


class EndlessServer:
    """Sends one page of 100 objects after the other; each page promises one more."""

    server = "hostile"

    def __init__(self, made: Callable[[str], JsonObject]) -> None:
        self._made = made
        self.pages = 0

    def once(self, *_: object, **__: object) -> JsonObject:
        self.pages += 1
        items = [self._made(f"o-{self.pages}-{number}") for number in range(100)]
        return {"items": items, "metadata": {"resourceVersion": "7", "continue": "more"}}


@pytest.mark.parametrize(("make", "made"), CACHES)
def test_a_list_without_an_end_is_given_up_and_nothing_of_it_is_kept(
    make: Callable[[], Cache], made: Callable[[str], JsonObject]
) -> None:
    cache, server = make(), EndlessServer(made)
    cache.budget = budget = ClusterBudget(MOST)
    cache.begin()
    cache.add([made("first")])
    cache.commit("1")
    before = budget.kept
    assert before > 0
    requests = WatchRequests(cast("Api", server), cache, WatchTimings())
    assert "1 MiB" in instance(Failure, requests.list_all("/x")).message
    assert server.pages < 200
    assert budget.kept == before
    cache.clear()
    assert budget.kept == 0 or isinstance(cache, AutoscalerCache)  # it outlives a refusal


@pytest.mark.parametrize(("make", "made"), CACHES)
def test_events_without_an_end_are_bounded(
    make: Callable[[], Cache], made: Callable[[str], JsonObject]
) -> None:
    cache = make()
    cache.budget = budget = ClusterBudget(MOST)
    cache.begin()
    cache.commit("1")
    added: list[str] = []

    def add_without_end() -> None:
        while True:
            cache.apply("ADDED", made(f"o-{len(added)}"), "2")
            added.append(f"o-{len(added)}")

    with pytest.raises(OverBudgetError):
        add_without_end()
    count = len(added)
    assert MOST // 4000 < count < MOST // 300
    full = budget.kept
    for number in range(count):
        cache.apply("MODIFIED", made(f"o-{number}"), "3")
    assert budget.kept == full
    for number in range(count):
        cache.apply("DELETED", made(f"o-{number}"), "4")
    assert budget.kept == 0


def test_caches_of_one_cluster_share_its_budget() -> None:
    budget, others = ClusterBudget(MOST), AutoscalerCache("shop")
    first, second = pods(), AutoscalerCache("shop")
    first.budget = second.budget = budget
    first.begin()
    with pytest.raises(OverBudgetError):
        first.add([pod(f"p-{number}") for number in range(100_000)])
    second.begin()
    with pytest.raises(OverBudgetError):
        second.add([autoscaler(f"a-{number}") for number in range(10)])
    others.begin()
    others.add([autoscaler("a")])


def test_a_lease_that_was_not_asked_for_is_not_kept() -> None:
    heard: list[Lease | None] = []
    cache = LeaseCache("shop", "autoscaler", heard.append)
    cache.begin()
    cache.add([lease("other"), lease("autoscaler")])
    cache.commit("1")
    cache.apply("ADDED", lease("another"), "2")
    assert [lease.document["metadata"]["name"] for lease in heard if lease] == ["autoscaler"]


def test_a_pod_with_names_that_no_server_accepts_is_malformed() -> None:
    cache = pods()
    cache.begin()
    huge = pod("a")
    huge["spec"]["containers"][0]["name"] = "x" * 1000
    cache.add([huge])
    cache.commit("1")
    assert cache.pods("shop", SELECTOR) is None


def test_events_beyond_a_burst_are_read_at_the_pace_of_the_cluster() -> None:
    budget = ClusterBudget(per_second=1.0, burst=3)
    rests = [budget.count_event() for _ in range(6)]
    assert rests[:3] == [0.0, 0.0, 0.0]
    assert rests[3:] == pytest.approx([1.0, 2.0, 3.0], abs=0.5)


def test_pods_that_nobody_selects_cost_nothing() -> None:
    cache = PodCache("shop", lambda: {"shop": frozenset({"app=x"})}, lambda _: None)
    cache.begin()
    for page in fleet.pages(10, 20):
        cache.add(page)
    cache.commit("1")
    assert cache.pods("shop", "app=x") == ()
    assert cache._namespaces["shop"].matched == {}


def test_a_pod_costs_little_memory(record_property: Callable[[str, object], None]) -> None:
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    kept, sent = map(int, done.stdout.split())
    record_property("bytes_per_pod", kept)
    print(f"{kept} bytes kept of {sent} sent for each pod")
    assert kept < 1000


_APPS = 100
_PODS_EACH = 20


def measure() -> tuple[int, int]:
    """Fill a cache, ask for each tuple once, and return the bytes kept and sent for a pod.

    In a process of its own: what other threads allocate would count.
    """
    selectors = frozenset(f"app=app-{app},env=prod" for app in range(_APPS))
    cache = PodCache("shop", lambda: {"shop": selectors}, lambda _: None)
    pages = [json.dumps(page).encode() for page in fleet.pages(_APPS, _PODS_EACH)]
    gc.collect()
    tracemalloc.start()
    cache.begin()
    for page in pages:
        cache.add(json.loads(page))
    cache.commit("1")
    for selector in selectors:
        pods = cache.pods("shop", selector)
        if pods is None or len(pods) != _PODS_EACH:
            raise RuntimeError(f"not all pods of {selector} are there: {pods}")
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    pods_in_all = _APPS * _PODS_EACH
    return kept // pods_in_all, sum(map(len, pages)) // pods_in_all


if __name__ == "__main__":
    print(*measure())
