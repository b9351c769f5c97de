"""One daemon and one Prometheus for two control planes, in which workloads have equal names."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import requests
import yaml

from tests.worlds import objects
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess, Document, running, target
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

DESCRIBED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


@pytest.fixture(scope="module")
def other_plane() -> Iterator[ControlPlane]:
    """Start a second control plane, in which no controller acts."""
    with if_available():
        plane = ControlPlane(controllers=())
    with plane:
        yield plane


@pytest.fixture
def other(world: World, other_plane: ControlPlane) -> Iterator[World]:
    """Give the same namespace in the second one."""
    with other_plane.api() as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": world.namespace}})
        yield replace(world, plane=other_plane, api=api)


def want(world: World, cluster: str, replicas: int) -> None:
    labels = {"cluster": cluster, "namespace": world.namespace, "deployment": "web"}
    world.exporter.set(world.metric, labels, replicas)
    world.prometheus.wait_for(f'{world.metric}{{cluster="{cluster}"}} == {replicas}')


def document(eu: World, us: World, clusters: tuple[str, ...] = ("eu", "us")) -> Document:
    """Return a configuration of one target for these clusters."""
    metric: Document = {
        "describedObject": DESCRIBED,
        "metric": {"name": "demand"},
        "target": {"type": "AverageValue", "averageValue": 1},
    }
    web = target(eu.namespace, "web", {"type": "Object", "object": metric})
    planes = {"eu": eu.plane, "us": us.plane}
    return eu.document(
        {**web, "clusters": list(clusters)},
        leaderElection={"enabled": True, "namespace": eu.namespace},
        clusters=[
            {
                "name": name,
                "kubeconfig": str(planes[name].kubeconfig),
                "seriesLabels": {"cluster": f"{name}-1"},
            }
            for name in clusters
        ],
    )


def key(world: World, cluster: str) -> str:
    return f"{cluster}/{world.key('web')}"


def wait_replicas(daemon: DaemonProcess, world: World, cluster: str, replicas: int) -> None:
    """Wait until `web` of a cluster has so many replicas, by a write of the daemon."""
    daemon.wait_write(key(world, cluster), replicas)
    assert world.replicas("web") == replicas


def on_grid(daemon: DaemonProcess, cluster: str, seconds: int) -> bool:
    """Return whether a cluster is synced every second for some time; it is looked at ten times."""
    seen = set[float]()
    for _ in range(seconds * 10):
        seen.add(daemon.metric("autoscaler_target_last_success_timestamp_seconds", cluster=cluster))
        time.sleep(0.1)
    times = sorted(seen)
    gaps = [after - before for before, after in pairwise(times)]
    return len(times) >= seconds - 1 and max(gaps) < 1.5


def test_workloads_of_equal_names_in_two_clusters_are_scaled_apart(
    world: World, other: World
) -> None:
    for plane in (world, other):
        plane.deploy("web", paused=True)
    want(world, "eu-1", 3)
    want(world, "us-1", 5)
    with world.running(document(world, other)) as daemon:
        wait_replicas(daemon, world, "eu", 3)
        wait_replicas(daemon, other, "us", 5)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases/autoscaler"
        holders = [item.api.get(lease)["spec"]["holderIdentity"] for item in (world, other)]
        process = holders[0].removesuffix("/eu")
        assert holders == [f"{process}/eu", f"{process}/us"]
        assert yaml.safe_load(daemon.page("/api/v1/health"))["leaders"] == [
            {"cluster": cluster, "leading": True, "holder": process, "url": None}
            for cluster in ("eu", "us")
        ]
        assert daemon.metric("autoscaler_target_desired_replicas", cluster="us") == 5
        url = f"http://{daemon.address}/api/v1/clusters/us/targets"
        state = requests.get(f"{url}/{world.key('web')}", timeout=10).json()["state"]
        assert (state["cluster"], state["target"]) == ("us", key(world, "us"))
        assert "us/" in daemon.page(f"/targets/{key(world, 'us')}")

        other.plane.stop_apiserver()
        want(world, "eu-1", 4)
        wait_replicas(daemon, world, "eu", 4)
        assert on_grid(daemon, "eu", 6)
        answer = requests.get(f"http://{daemon.address}/readyz", timeout=10)
        assert answer.status_code == 200, answer.text
        want(world, "us-1", 6)
        other.plane.start_apiserver()
        wait_replicas(daemon, other, "us", 6)

        daemon.write(document(world, other, ("eu",)) | {"stateDirectory": None})
        daemon.wait_event("target_removed")
        want(world, "eu-1", 6)
        wait_replicas(daemon, world, "eu", 6)
        health = requests.get(f"http://{daemon.address}/readyz", timeout=10).json()
        names = {item["name"] for item in health["components"]}
        assert {"kubernetes/eu", "leadership/eu"} <= names
        assert not [name for name in names if name.endswith("/us")]
        daemon.write(document(world, other))
        daemon.wait_event("target_added")
        other.set_by_hand("web", 1)
        wait_until("6 replicas", lambda: other.replicas("web") == 6)


POLICY_SECONDS = 15
UP_BY_TWO = {"type": "Pods", "value": 2, "periodSeconds": POLICY_SECONDS}


def leaders(daemon: DaemonProcess) -> dict[str, str]:
    """Return the leader of each cluster as a daemon shows it, without the random part."""
    answer = requests.get(f"http://{daemon.address}/api/v1/health", timeout=10).json()
    return {item["cluster"]: item["holder"].partition("_")[0] for item in answer["leaders"]}


def test_a_standby_takes_both_clusters_over(world: World, other: World) -> None:
    """It leads both within seconds, and keeps to the rates of the daemon that led them.

    Both daemons show the same leader.  It takes 45 s.
    """
    for plane in (world, other):
        plane.deploy("web", paused=True)
    want(world, "eu-1", 1)
    want(world, "us-1", 1)
    both = document(world, other)
    (web,) = both["targets"]
    both["targets"] = [{**web, "behavior": {"scaleUp": {"policies": [UP_BY_TWO]}}}]
    times = {"leaseDuration": "10s", "renewDeadline": "7s", "retryPeriod": "500ms"}

    def path(name: str) -> Path:
        election = {**both["leaderElection"], **times, "identity": name}
        return world.write({**both, "leaderElection": election}, name)

    def wait_leaders(daemon: DaemonProcess, name: str) -> None:
        expected = {"eu": name, "us": name}
        wait_until(f"leaders {expected}", lambda: leaders(daemon) == expected, timeout=20)

    with running(path("a"), world.environment) as first:
        wait_leaders(first, "a")
        # A process without state does not know what others wrote in the period before.
        time.sleep(POLICY_SECONDS + 1)
        with running(path("b"), world.environment) as second:
            second.wait_event("started")
            wait_leaders(second, "a")
            want(world, "eu-1", 10)
            want(world, "us-1", 10)
            wait_replicas(first, world, "eu", 3)
            wait_replicas(first, other, "us", 3)
            written = stopped = time.monotonic()
            first.stop()
            wait_leaders(second, "b")
            assert time.monotonic() - stopped < 3
            for plane, cluster in ((world, "eu"), (other, "us")):
                second.wait_write(key(plane, cluster), 5)
                assert POLICY_SECONDS - 2 < time.monotonic() - written < POLICY_SECONDS + 5
            assert not [line for line in second.lines if "by_other" in line["event"]]


def test_each_cluster_has_its_own_objects(world: World, other: World) -> None:
    for plane in (world, other):
        objects.install(plane.api)
        plane.deploy("web", paused=True)
    want(world, "eu-1", 3)
    want(world, "us-1", 5)
    settings = {"enabled": True, "quotas": {"syncPeriod": "1s"}}
    both = document(world, other) | {"objects": settings, "targets": []}
    teams = [objects.Team(plane, world.namespace) for plane in (world, other)]
    with world.running(both) as daemon:
        for team in teams:
            team.create("web")
        # The same PromQL reads the series of each cluster.
        wait_replicas(daemon, world, "eu", 3)
        wait_replicas(daemon, other, "us", 5)
        teams[0].patch("web", metrics=teams[0].spec("web", promql="sum(")["metrics"])
        teams[0].wait_ready("web", "False", "Invalid")
        want(world, "us-1", 6)
        wait_replicas(daemon, other, "us", 6)
        teams[1].wait_ready("web", "True")
