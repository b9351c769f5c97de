"""The daemon as a pod runs it: its service account's mount, no kubeconfig, a Lease."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.adapters.watches import others
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import DEMAND, Document, running, target
from tests.endtoend.rights import ACCOUNT, Rights

MOUNTED = """
run=$(readlink -f /var/run)
mount -t tmpfs tmpfs "$run"
mkdir -p "$run/secrets/kubernetes.io/serviceaccount"
mount --bind "$0" "$run/secrets/kubernetes.io/serviceaccount"
exec "$@"
"""
"""Gives what it runs the folder $0 where the kubelet mounts it, and no other process."""


@pytest.mark.parametrize("rights", [Rights.CLUSTER, Rights.NAMESPACED])
def test_the_service_account_does_every_job(
    document: Document,
    control_plane: ControlPlane,
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
    service_account_token: str,
) -> None:
    """It holds the Lease, scales, tells an Event, and leaves alone what an HPA controls.

    It may do no more than the manifests allow, in the whole cluster or in the targets' namespace.
    """
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "token").write_text(service_account_token)
    (mount / "ca.crt").write_text(control_plane.ca_file.read_text())
    (mount / "namespace").write_text(namespace)
    address = urlsplit(control_plane.url)
    pod = {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
        "KUBECONFIG": "/nonexistent",
    }
    others.create(admin_api, namespace, others.autoscaler("b", of="b"))
    targets = [target(namespace, "a"), target(namespace, "b")]
    file = write_config(
        tmp_path / "autoscaler.yaml",
        document | {"targets": targets, "leaderElection": {"enabled": True}},
    )
    within = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", MOUNTED, str(mount))
    a, b = (f"{namespace}/Deployment/{name}" for name in "ab")
    with running(file, pod, within) as daemon:
        daemon.wait_for_write(a, DEMAND)
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        assert [lease["metadata"]["name"] for lease in admin_api.get(leases)["items"]] == [ACCOUNT]
        wait_until(
            "an Event tells it", lambda: "SuccessfulRescale" in reasons(admin_api, namespace)
        )
        assert daemon.first_sync(b)["outcome"] == "blocked"
        assert daemon.daemon.syncs(b)[-1]["outcome"] == "blocked"
        admin_api.delete(f"{others.path_of(namespace)}/b")
        daemon.wait_for_write(b, DEMAND)
    assert not daemon.events("not_watched")
    assert not [line for line in daemon.events("events") if line["level"] == "warning"]


def reasons(api: Api, namespace: str) -> set[str]:
    """Return the reasons of the Events that there are."""
    events = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return {event["reason"] for event in events["items"]}
