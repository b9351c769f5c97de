"""Several clusters in one sync: each is read and written by itself (semantics 8.12)."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.core.writes import SkippedWrite, SkippedWriteReason
from autoscaler.sync.calls import ClusterCalls
from autoscaler.sync.ports import Ports
from autoscaler.sync.run import Syncer
from tests.worlds.memory import T0, Memory, answer, external

WEB = external("shop", "web")
EU, US = replace(WEB, cluster="eu"), replace(WEB, cluster="us")


def world(eu: int = 2) -> Memory:
    """Return a world of a Prometheus and of the scales of the cluster eu."""
    return Memory(answers={"queue": answer(90.0)}, scales={"shop/web": Scale(eu, eu, "app=web")})


def cluster(replicas: int) -> Memory:
    return Memory(scales={"shop/web": Scale(replicas, replicas, "app=web")})


def syncer(ports: Ports) -> Syncer:
    return Syncer(Flags(), ports, threading.Event())


def of_both(eu: Memory, us: Memory) -> Ports:
    """Return the ports of two clusters and one Prometheus."""
    return replace(eu.world(), clusters={"eu": eu, "us": us})


@contextmanager
def syncing(ports: Ports, eu: Memory, *targets: Target) -> Iterator[None]:
    """Sync targets in a thread; give the time after the first write in eu, however slow us is."""
    written = threading.Event()
    eu.on_write = lambda _: written.set()
    with syncer(ports) as made:
        running = threading.Thread(target=made.sync, args=(targets, T0, 20.0))
        running.start()
        assert written.wait(5), "the target of the other cluster waited"
        yield
        running.join(20)


def sync(ports: Ports, *targets: Target) -> None:
    with syncer(ports) as made:
        made.sync(targets, T0, 10.0)


def decided(world: Memory) -> Mapping[str, int]:
    return {result.target.key: result.decision.desired for result in world.results}


def test_workloads_of_equal_names_are_scaled_each_in_its_cluster() -> None:
    eu, us = world(), cluster(1)
    sync(of_both(eu, us), EU, US)
    assert (eu.written, us.written) == ([("shop/web", 3)], [("shop/web", 3)])
    assert eu.queried == ["queue"]
    assert decided(eu) == {"eu/shop/Deployment/web": 3, "us/shop/Deployment/web": 3}


@pytest.mark.parametrize(("where", "listed"), [("us", False), ("eu", True)])
def test_equal_selectors_in_two_clusters_share_no_pod(where: str, listed: bool) -> None:
    eu, us = world(), cluster(2)
    for memory in (eu, us):
        memory.scales["shop/api"] = memory.scales["shop/web"]
    sync(of_both(eu, us), EU, replace(external("shop", "api"), cluster=where))
    assert bool(eu.listed + us.listed) is listed


def test_only_the_cluster_that_is_led_is_written() -> None:
    eu, us = world(), cluster(2)
    eu.leads = False
    sync(of_both(eu, us), EU, US)
    assert (eu.written, us.written) == ([], [("shop/web", 3)])
    writes = {result.target.cluster: result.write for result in eu.results}
    assert writes["eu"] == SkippedWrite(SkippedWriteReason.NOT_LEADING)


@dataclass
class Hanging(Memory):
    """A cluster whose calls end with the test."""

    freed: threading.Event = field(default_factory=threading.Event)
    calls: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def read_scale(self, *_: object) -> ReadFailure:
        self.calls.release()
        self.freed.wait(30)
        return ReadFailure("no answer")


def test_a_cluster_that_hangs_costs_only_its_own_targets_time() -> None:
    """More of its calls wait than it has threads; the others' targets are written meanwhile."""
    eu, us = world(), Hanging()
    stuck = [replace(external("shop", f"a{number}"), cluster="us") for number in range(60)]
    with syncing(of_both(eu, us), eu, *stuck, EU):
        assert us.calls.acquire(timeout=5)
        us.freed.set()
    outcomes = {result.target.key: result.decision.scale for result in eu.results}
    assert sum(isinstance(outcome, ReadFailure) for outcome in outcomes.values()) == len(stuck)


def test_only_the_targets_of_a_cluster_wait_for_its_new_list() -> None:
    eu, us, listed = world(), cluster(2), threading.Event()

    def wait(_deadline: float) -> None:
        listed.wait(30)

    us.wait = wait
    with syncing(of_both(eu, us), eu, US, EU):
        assert not us.written
        listed.set()
    assert us.written


@pytest.mark.parametrize(("clusters", "threads"), [(1, 24), (8, 24), (50, 3), (400, 2)])
def test_the_threads_of_all_clusters_are_bounded(clusters: int, threads: int) -> None:
    stop, freed = threading.Event(), threading.Event()
    calls = ClusterCalls(stop, {str(number): 1000.0 for number in range(clusters)})
    begun = threading.Semaphore(0)

    def call() -> None:
        begun.release()
        freed.wait(10)

    for group in range(60):
        calls.reads["0"].submit((0, 0.0), str(group), call)
    assert all(begun.acquire(timeout=5) for _ in range(threads))
    assert not begun.acquire(timeout=0.05)
    freed.set()
    stop.set()
    calls.close()


def test_a_change_of_the_clusters_keeps_the_threads_of_the_others() -> None:
    calls = ClusterCalls(threading.Event(), {"eu": 10.0, "us": 10.0})
    writes = calls.writes["eu"]
    calls.change({"eu": 5.0, "ap": 7.0})
    assert calls.writes["eu"] is writes
    assert calls.writes["ap"].submit((0, 0.0), "shop", lambda: 1).result(5) == 1
    with pytest.raises(KeyError):
        calls.reads["us"]
    calls.close()
