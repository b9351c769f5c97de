"""Objects in the cluster are targets: teams create, change, break and delete them."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import objects
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, ApiError
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import Document
from tests.worlds.objects import Team
from tests.worlds.service_account import service_account
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

WITHIN = 2.0
"""The most seconds until a change of an object is in force."""


@pytest.fixture
def environment(
    control_plane: ControlPlane, admin_api: Api, namespace: str, tmp_path: Path
) -> Iterator[Mapping[str, str]]:
    """Give the environment of a daemon with the rights to objects."""
    objects.install(admin_api)
    with service_account(admin_api, namespace, change=objects.rights_to_objects) as token:
        yield {"KUBECONFIG": str(control_plane.write_kubeconfig(tmp_path / "kubeconfig", token))}


@pytest.fixture
def team(world: World) -> Team:
    """Return a team whose demand is 4 replicas, with a Deployment `a`."""
    team = Team(world, world.namespace)
    team.want(4)
    world.deploy("a")
    return team


def settings(world: World, **more: object) -> Document:
    """Return a configuration without targets, for the objects of this test."""
    quotas: dict[str, Any] = {"syncPeriod": "1s"}
    own = {"enabled": True, "namespaces": {"names": [world.namespace]}, "quotas": quotas}
    return world.document(objects=own | more)


def test_an_object_is_a_target_within_two_seconds_until_it_is_deleted(
    world: World, team: Team
) -> None:
    a = world.key("a")
    with world.running(settings(world)) as daemon:
        team.create("a")
        begun = time.monotonic()
        daemon.wait_event("target_added")
        daemon.wait_write(a, 4)
        assert time.monotonic() - begun < WITHIN
        team.patch("a", maxReplicas=3)
        begun = time.monotonic()
        daemon.wait_write(a, 3)
        assert time.monotonic() - begun < WITHIN
        team.delete("a")
        assert daemon.wait_event("target_removed")["target"] == a
    assert world.replicas("a") == 3


def test_the_first_decision_on_a_new_namespace_has_its_scale(world: World, team: Team) -> None:
    quotas = {"syncPeriod": "30s"}
    with world.running(settings(world, quotas=quotas)) as daemon:
        team.create("a")
        begun = time.monotonic()
        daemon.wait_write(world.key("a"), 4)
        assert time.monotonic() - begun < 2 * WITHIN
        assert [line["outcome"] for line in daemon.syncs(world.key("a"))] == ["ok"]


def test_an_invalid_object_affects_only_itself(world: World, team: Team) -> None:
    world.deploy("b")
    with world.running(settings(world)) as daemon:
        team.create("a")
        daemon.wait_write(world.key("a"), 4)
        team.create("b", team.spec("b", promql="sum("))
        assert daemon.wait_event("object_refused")["reason"] == "Invalid"
        team.wait_ready("b", "False", "Invalid")
        team.wait_ready("a", "True")
        assert not daemon.syncs(world.key("b"))
        team.patch("b", metrics=team.spec("b")["metrics"])
        daemon.wait_write(world.key("b"), 4)
        team.wait_ready("b", "True")


def test_a_workload_belongs_to_the_file_then_to_the_older_object(world: World, team: Team) -> None:
    for name in ("b", "c"):
        world.deploy(name)
    document = settings(world) | {"targets": [world.target("b")]}
    with world.running(document) as daemon:
        team.create("of-the-file", team.spec("b"))
        team.create("older", team.spec("c"))
        daemon.wait_write(world.key("c"), 4)
        team.create("newer", team.spec("c"))
        for name in ("of-the-file", "newer"):
            team.wait_ready(name, "False", "WorkloadConflict")
        assert '"older"' in team.condition("newer")["message"]
        team.delete("older")
        team.wait_ready("newer", "True")


def test_a_team_reads_no_series_of_another(world: World, team: Team) -> None:
    with objects.other_namespace(world) as name:
        other = Team(world, name)
        other.want(9)
        with world.running(settings(world)) as daemon:
            # Without the limit the sum would be 13; its own matcher does not widen it either.
            team.create("a", team.spec("a", promql=f'sum({world.metric}{{namespace=~".*"}})'))
            daemon.wait_write(world.key("a"), 4)
            foreign = f'sum({world.metric}{{namespace="{name}"}})'
            team.patch("a", metrics=team.spec("a", promql=foreign)["metrics"])
            daemon.wait("a failure", lambda: daemon.syncs(world.key("a"))[-1]["outcome"] != "ok")
            lifted = settings(world, unrestrictedNamespaces=[world.namespace])
            daemon.write(lifted)
            daemon.wait_write(world.key("a"), 9)


def test_quotas_limit_a_namespace(world: World, team: Team) -> None:
    for name in ("b", "c"):
        world.deploy(name)
    quotas = {"objects": 1, "queries": 1, "maxReplicas": 10, "syncPeriod": "1s"}
    with world.running(settings(world, quotas=quotas)) as daemon:
        team.create("large", team.spec("b", maxReplicas=11))
        team.wait_ready("large", "False", "QuotaExceeded")
        team.create("a")
        daemon.wait_write(world.key("a"), 4)
        team.create("second", team.spec("c"))
        team.wait_ready("second", "False", "QuotaExceeded")
        daemon.write(settings(world, quotas=quotas | {"objects": 2}))
        # It asks the same query.
        daemon.wait_write(world.key("c"), 4)
        team.patch("second", metrics=team.spec("c", promql=f"2 * {world.metric}")["metrics"])
        team.wait_ready("second", "False", "QuotaExceeded")


def test_histories_of_objects_outlive_a_kill(world: World, team: Team, tmp_path: Path) -> None:
    document = settings(world) | {"stateDirectory": str(tmp_path / "state")}
    team.create("a", team.spec("a", behavior={"scaleDown": {"stabilizationWindowSeconds": 600}}))
    with world.start(document) as daemon:
        daemon.wait_write(world.key("a"), 4)
        team.wait_ready("a", "True")
        daemon.kill()
    team.want(1)
    with world.running(document) as daemon:

        def state() -> str:
            targets = json.loads(daemon.page("/api/v1/targets"))["targets"]
            return str(targets[0]["state"]) if targets else ""

        wait_until("the window counts", lambda: state() == "stabilizing")
        assert world.replicas("a") == 4
        assert team.condition("a", "ScalingActive")["status"] == "True"


def test_objects_outlive_the_removal_of_their_kind(
    world: World, team: Team, admin_api: Api
) -> None:
    with world.running(settings(world)) as daemon:
        team.create("a")
        daemon.wait_write(world.key("a"), 4)
        objects.uninstall(admin_api)
        daemon.wait_event("target_removed")
        objects.install(admin_api)
        team.want(6)
        team.create("a")
        daemon.wait_write(world.key("a"), 6)


def test_a_standby_takes_over_the_objects(world: World, team: Team) -> None:
    election = {"enabled": True, "namespace": world.namespace, "leaseDuration": "3s"}
    election |= {"renewDeadline": "2s", "retryPeriod": "500ms"}
    document = settings(world) | {"leaderElection": election}
    team.create("a")
    with world.start(document) as leader:
        leader.wait_write(world.key("a"), 4)
        with world.running(document) as standby:
            leader.kill()
            team.want(5)
            standby.wait_write(world.key("a"), 5)
            wait_until("the status", lambda: team.status("a").get("desiredReplicas") == 5)


def test_a_daemon_without_the_kind_scales_the_targets_of_files(
    world: World, team: Team, admin_api: Api
) -> None:
    objects.uninstall(admin_api)
    document = settings(world) | {"targets": [world.target("a")]}
    with world.running(document) as daemon:
        daemon.wait_write(world.key("a"), 4)
        assert daemon.wait_event("not_watched")
        world.deploy("b")
        objects.install(admin_api)
        team.create("b")
        daemon.wait_write(world.key("b"), 4)


def test_an_invalid_file_does_not_stop_the_objects(world: World, team: Team) -> None:
    with world.running(settings(world)) as daemon:
        team.create("a")
        daemon.wait_write(world.key("a"), 4)
        daemon.file.write_text("targets: [")
        daemon.wait_event("reload_failed")
        team.patch("a", maxReplicas=2)
        daemon.wait_write(world.key("a"), 2)
        assert daemon.component("reload")["ok"] is False
        daemon.write(settings(world))
        wait_until("the file is read", lambda: daemon.component("reload")["ok"])


def test_two_teams_own_their_objects_with_the_role_edit(
    world: World, team: Team, admin_api: Api
) -> None:
    team.want(4)
    with (
        objects.other_namespace(world) as other,
        objects.team_account(world, world.namespace) as a,
        objects.team_account(world, other) as b,
    ):
        admin_api.create(
            f"/apis/apps/v1/namespaces/{other}/deployments", workloads.deployment("b", 1)
        )
        b.want(2)
        # The aggregated roles take a moment.
        wait_until("the right to create", lambda: allowed(lambda: a.create("a")))
        wait_until("the right to create", lambda: allowed(lambda: b.create("b")))
        assert not allowed(lambda: dataclasses.replace(a, namespace=other).create("a"))
        assert not allowed(lambda: a.world.api.patch(f"{a.path('a')}/status", {"status": {}}))
        names = {"names": [world.namespace, other]}
        with world.running(settings(world, namespaces=names)) as daemon:
            daemon.wait_write(world.key("a"), 4)
            daemon.wait_write(f"{other}/Deployment/b", 2)
            # What one team breaks does not stop the other.
            b.patch("b", metrics=b.spec("b", promql="sum(")["metrics"])
            b.wait_ready("b", "False", "Invalid")
            a.patch("a", maxReplicas=3)
            daemon.wait_write(world.key("a"), 3)
            a.delete("a")
            b.patch("b", metrics=b.spec("b")["metrics"])
            b.wait_ready("b", "True")


def allowed(call: Callable[[], object]) -> bool:
    """Return whether the API server permits a call."""
    try:
        call()
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


def test_namespaces_are_selected_by_their_labels(world: World, team: Team) -> None:
    labels = {"namespaces": {"selector": {"matchLabels": {"kubernetes.io/metadata.name": "none"}}}}
    with world.running(settings(world, **labels)) as daemon:
        team.create("a")
        own = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
        daemon.write(settings(world, namespaces={"selector": own}))
        daemon.wait_write(world.key("a"), 4)
        daemon.write(settings(world, **labels))
        assert daemon.wait_event("target_removed")["target"] == world.key("a")


def test_objects_outlive_a_restart_of_the_api_server(
    world: World, team: Team, control_plane: ControlPlane
) -> None:
    team.create("a")
    with world.running(settings(world)) as daemon:
        daemon.wait_write(world.key("a"), 4)
        control_plane.restart_apiserver()
        team.want(6)
        daemon.wait_write(world.key("a"), 6)
        team.patch("a", maxReplicas=5)
        daemon.wait_write(world.key("a"), 5)
        assert not daemon.events("target_removed")
