"""Which pods a scale-down removes, by the ReplicaSet controller of a real control plane."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
import requests

from autoscaler.kubernetes.pods import DELETION_COST
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import MERGE_PATCH, Api, Json
from tests.worlds.daemon import Document, external, target
from tests.worlds.service_account import Rule, manifest, service_account
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

WORKLOADS, ROUNDS, PODS = 17, 6, 14
"""102 scale-downs, of fewer targets than the scale-down breaker watches."""
AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}

pytestmark = pytest.mark.usefixtures("kubelet")


def may_patch(rules: list[Rule]) -> list[Rule]:
    added: list[Rule] = manifest("components/pod-deletion-cost/clusterrole")["rules"]
    return rules + added


@pytest.fixture
def change() -> Callable[[list[Rule]], list[Rule]]:
    """Return the rights of the daemon from the manifests' rights."""
    return may_patch


@pytest.fixture
def service_account_token(
    admin_api: Api, namespace: str, change: Callable[[list[Rule]], list[Rule]]
) -> Iterator[str]:
    with service_account(admin_api, namespace, change=change) as token:
        yield token


@dataclass
class Fleet:
    """Deployments, a value of each pod, and a watch of the pods."""

    world: World
    pods: dict[str, set[str]] = field(default_factory=dict)
    """By Deployment: the names of its pods."""
    ever_chosen: set[str] = field(default_factory=set)
    """The pods that ever had a deletion cost."""
    costly: set[str] = field(default_factory=set)
    """The pods that have one."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def target(self, name: str) -> Document:
        metric = external("demand", 1, app=name)
        cost = {"podDeletionCost": f"sum by (namespace, pod) ({self.world.metric}_busy)"}
        more = {"maxReplicas": PODS, "behavior": AT_ONCE, "scaleDown": cost}
        return target(self.world.namespace, name, metric, **more)

    def set_values(self, values: Mapping[str, float], number: int) -> None:
        """Give pods their values; return when Prometheus has them."""
        labels = {"namespace": self.world.namespace}
        for pod, value in values.items():
            self.world.exporter.set(f"{self.world.metric}_busy", labels | {"pod": pod}, value)
        self.world.exporter.set(f"{self.world.metric}_round", {}, number)
        self.world.prometheus.wait_for(f"{self.world.metric}_round == {number}")

    def set_demand(self, name: str, count: int) -> None:
        self.world.exporter.set(self.world.metric, {"app": name}, count)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Follow the pods, and disturb them as busy clients do."""
        ended = threading.Event()
        path = workloads.collection("Pod", self.world.namespace)
        watches = [self.world.api.watch(path)]

        def follow() -> None:
            while not ended.is_set():
                version = ""
                # A watch that the server ends is resumed where it ended.
                with suppress(requests.RequestException):
                    for event in watches[-1]:
                        with self.lock:
                            self._take(event)
                        version = event["object"]["metadata"]["resourceVersion"]
                watches.append(self.world.api.watch(path, resourceVersion=version))

        def disturb() -> None:
            with self.world.plane.api() as api:
                for number in itertools.count():
                    if ended.wait(0.02):
                        return
                    touched = {"annotations": {"example.com/touched": str(number)}}
                    with self.lock:
                        every = sorted(set[str]().union(*self.pods.values()))
                    for name in every[number % 50 :][:1]:
                        api.respond(
                            "PATCH",
                            f"{path}/{name}",
                            {"metadata": touched},
                            content_type=MERGE_PATCH,
                        )

        threads = [threading.Thread(target=work, daemon=True) for work in (follow, disturb)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            watches[-1].cancel()
            for thread in threads:
                thread.join(10)

    def _take(self, event: Json) -> None:
        metadata = event["object"]["metadata"]
        name, app = metadata["name"], metadata["labels"]["app"]
        has_cost = DELETION_COST in metadata.get("annotations", {})
        is_gone = event["type"] == "DELETED" or "deletionTimestamp" in metadata
        (self.pods[app].discard if is_gone else self.pods[app].add)(name)
        self.ever_chosen |= {name} if has_cost else set()
        (self.costly.add if has_cost and not is_gone else self.costly.discard)(name)


def test_in_100_scale_downs_under_load_the_pods_with_the_lowest_values_go(world: World) -> None:
    """And no other pod ever has a deletion cost."""
    fleet, rng = Fleet(world), random.Random(33)  # noqa: S311 - the same test each time
    names = [f"w{number}" for number in range(WORKLOADS)]
    demand = dict.fromkeys(names, PODS)
    fleet.pods.update({name: set() for name in names})
    for name in names:
        world.deploy(name, PODS)
        fleet.set_demand(name, PODS)
    removed: set[str] = set()
    document = world.document(*map(fleet.target, names), tolerance=0, syncPeriod="2s")
    with fleet.watched():
        wait_until("all pods", lambda: sum(map(len, fleet.pods.values())) == WORKLOADS * PODS)
        for name in names:
            world.wait_pods(name, PODS)
        with world.start(document) as daemon:
            daemon.wait_event("started")
            for number in range(ROUNDS):
                every = [pod for pods in fleet.pods.values() for pod in sorted(pods)]
                values = dict(zip(every, rng.sample(range(10_000), len(every)), strict=True))
                fleet.set_values(values, number)
                expected = {}
                for name in names:
                    before = sorted(fleet.pods[name], key=values.__getitem__)
                    demand[name] -= rng.randint(1, 2)
                    expected[name] = set(before[len(before) - demand[name] :])
                    removed |= set(before) - expected[name]
                    fleet.set_demand(name, demand[name])
                wait_until(
                    f"the pods of round {number}",
                    lambda: {n: len(pods) for n, pods in fleet.pods.items()} == demand,
                )
                notes = [line for line in daemon.lines if "deletion costs" in line["message"]]
                assert (fleet.pods, notes) == (expected, []), (number, removed ^ fleet.ever_chosen)
            wait_until("no deletion costs", lambda: not fleet.costly)
            assert daemon.stop() == 0
    assert fleet.ever_chosen == removed


@pytest.mark.parametrize("change", [lambda rules: rules], ids=["without-the-right"])
def test_without_the_right_to_patch_pods_the_scale_is_written_all_the_same(world: World) -> None:
    fleet = Fleet(world)
    world.deploy("web", 4)
    pods = world.wait_pods("web", 4)
    fleet.set_values({pod: float(number) for number, pod in enumerate(pods)}, 0)
    fleet.set_demand("web", 4)
    world.prometheus.wait_for(world.metric)
    with world.start(world.document(fleet.target("web"))) as daemon:
        daemon.wait_event("started")
        fleet.set_demand("web", 2)
        daemon.wait_write(world.key("web"), 2)
        world.wait_pods("web", 2)
        noted = daemon.wait_for("a note", lambda line: "deletion costs" in str(line.get("message")))
        assert "cannot patch" in noted["message"]
        assert daemon.stop() == 0
