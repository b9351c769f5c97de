"""Others who scale the same workload: another autoscaler, and somebody by hand."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from os import environ
from pathlib import Path

import pytest

from tests.adapters.watches import others
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import Line, write_config
from tests.endtoend.demand import Document, RunningDaemon, running, target
from tests.endtoend.rights import service_account


def test_a_target_that_an_hpa_controls_is_refused_until_that_is_gone(
    document: Document,
    environment: Mapping[str, str],
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
) -> None:
    """The reason names the other, the other target is scaled meanwhile, a plan tells what else."""
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    others.create(admin_api, namespace, others.autoscaler("keda-hpa-a", of="a"))
    document = document | {"targets": [target(namespace, "a"), target(namespace, "b")]}
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with running(file, environment) as daemon:
        daemon.wait_for_write(b, 4)
        refused = daemon.first_sync(a)
        assert (refused["outcome"], refused["state"]) == ("blocked", "controlled")
        assert refused["message"].startswith(
            'stays at 1 replica: HorizontalPodAutoscaler "keda-hpa-a" controls this target too'
        )
        plan = subprocess.run(
            [sys.executable, "-m", "autoscaler", "plan", "-c", str(file), "--explain", a],
            env=environ | dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert plan.returncode == 0
        assert (
            "would scale 1 -> 4 replicas: demand above target: 4/1 per replica, but "
            'HorizontalPodAutoscaler "keda-hpa-a" controls it: the daemon leaves it alone'
        ) in plan.stdout
        assert all(line.get("write") is None for line in daemon.daemon.syncs(a))
        admin_api.delete(f"{others.path_of(namespace)}/keda-hpa-a")
        daemon.wait_for_write(a, 4)


def test_a_change_by_hand_is_told_with_its_manager_and_three_reversals_hold(
    document: Document,
    environment: Mapping[str, str],
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
) -> None:
    """Somebody sets 1 replica whenever we set 4: after the third time we write no more."""
    a = f"{namespace}/Deployment/a"
    path = f"{workloads.collection('Deployment', namespace)}/a?fieldManager=stubborn-pipeline"
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:
        for time in range(1, 4):
            daemon.daemon.wait_for(
                f"write {time}",
                lambda _, time=time: (  # type: ignore[misc] # bound now
                    len([one for one in daemon.daemon.syncs(a) if one.get("write")]) >= time
                ),
            )
            admin_api.patch(path, {"spec": {"replicas": 1}})
            line = daemon.wait_for("replicas_changed_by_other", time)
            assert (line["before"], line["after"]) == (4, 1)
            assert line["manager"] == "stubborn-pipeline"
        held = daemon.daemon.wait_for("the hold", lambda line: "held_until" in line)
        assert "since others undo our changes" in held["message"]
        assert len([one for one in daemon.daemon.syncs(a) if one.get("write")]) == 3
        # The page takes a sync in after the log.
        wait_until("the page", lambda: 'reason="ReplicasContested"' in daemon.page("/metrics"))


@pytest.fixture
def elsewhere(
    control_plane: ControlPlane, admin_api: Api, namespace: str, tmp_path: Path
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Make a namespace for a second installation; give its name and its daemon's environment."""
    name = f"{namespace}-elsewhere"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    with service_account(admin_api, name) as token:
        kubeconfig = control_plane.write_kubeconfig(tmp_path / "elsewhere.kubeconfig", token)
        yield name, {"KUBECONFIG": str(kubeconfig)}
    admin_api.delete(f"/api/v1/namespaces/{name}")


def installed(document: Document, namespace: str, most: int) -> Document:
    """Return a configuration of one target with a Lease in a namespace, and another maximum."""
    election = {"enabled": True, "namespace": namespace}
    targets = [one | {"maxReplicas": most} for one in document["targets"]]
    return document | {"leaderElection": election, "targets": targets}


def held(daemon: RunningDaemon) -> list[Line]:
    """Return the lines so far of syncs at which the daemon held."""
    return [line for line in daemon.events("sync") if "held_until" in line]


def decisions(daemon: RunningDaemon) -> float:
    """Return how many decisions the daemon has made."""
    return sum(
        map(float, re.findall(r"autoscaler_decisions_total{.*} (.*)", daemon.page("/metrics")))
    )


def test_two_installations_on_one_target_tell_of_each_other_and_one_holds(
    document: Document,
    environment: Mapping[str, str],
    elsewhere: tuple[str, Mapping[str, str]],
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
) -> None:
    """Each leads by a Lease in its own namespace; one wants four replicas, one two at most."""
    a = f"{namespace}/Deployment/a"
    other, environment_there = elsewhere
    here = write_config(tmp_path / "here.yaml", installed(document, namespace, 10))
    there = write_config(tmp_path / "there.yaml", installed(document, other, 2))
    with running(here, environment) as up, running(there, environment_there) as down:
        for daemon in (up, down):
            line = daemon.wait_for("replicas_changed_by_other")
            assert line["manager"] == "autoscaler"
            assert line["message"].startswith(
                "another autoscaler, with another Lease than ours or with none, set the replicas"
            )
        wait_until("one holds", lambda: held(up) or held(down), timeout=60)
        holds = up if held(up) else down
        path = f"{workloads.collection('Deployment', namespace)}/a"
        left = admin_api.get(path)["metadata"]["generation"]
        decided = decisions(holds)
        wait_until("more syncs", lambda: decisions(holds) >= decided + 4, timeout=60)
        assert "since others undo our changes" in held(holds)[0]["message"]
        assert 'reason="ReplicasContested"' in holds.page("/metrics")
        assert admin_api.get(path)["metadata"]["generation"] == left
        written = [line for line in holds.daemon.syncs(a) if line.get("write") == "written"]
        assert len(written) == 3
