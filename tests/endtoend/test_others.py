"""Others who scale the same workload: another autoscaler, and somebody by hand."""

import subprocess
import sys
from collections.abc import Mapping
from os import environ
from pathlib import Path

from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import Document, running, target


def autoscalers(namespace: str) -> str:
    """Return the path of a namespace's HorizontalPodAutoscalers."""
    return f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"


def test_a_target_that_an_hpa_controls_is_refused_until_that_is_gone(
    document: Document,
    environment: Mapping[str, str],
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
) -> None:
    """The reason names the other, the other target is scaled meanwhile, a plan says the same."""
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "keda-hpa-a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "minReplicas": 1,
            "maxReplicas": 1,
        },
    }
    admin_api.create(autoscalers(namespace), hpa)
    document = document | {"targets": [target(namespace, "a"), target(namespace, "b")]}
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with running(file, environment) as daemon:
        daemon.wait_for_write(b, 4)
        refused = daemon.daemon.syncs(a)[0]
        assert (refused["outcome"], refused["message"]) == (
            "blocked",
            "stays at 1 replicas: another autoscaler controls it",
        )
        assert 'HorizontalPodAutoscaler "keda-hpa-a"' in refused["warnings"][0]
        plan = subprocess.run(
            [sys.executable, "-m", "autoscaler", "plan", "-c", str(file), "--explain", a],
            env=environ | dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert 'HorizontalPodAutoscaler "keda-hpa-a" controls this target too' in plan.stdout
        assert all(line.get("write") is None for line in daemon.daemon.syncs(a))
        admin_api.delete(f"{autoscalers(namespace)}/keda-hpa-a")
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
        assert "since others undo our writes" in held["message"]
        assert len([one for one in daemon.daemon.syncs(a) if one.get("write")]) == 3
        assert 'reason="ReplicasContested"' in daemon.page("/metrics")
