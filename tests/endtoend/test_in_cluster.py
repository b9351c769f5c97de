"""The daemon as a pod runs it: its service account's mount, no kubeconfig, a Lease."""

from urllib.parse import urlsplit

import pytest

from tests.worlds.cluster import others
from tests.worlds.daemon import Document, running
from tests.worlds.service_account import ACCOUNT, Rights
from tests.worlds.waiting import wait_until
from tests.worlds.world import DEMAND, World

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
    world: World, document: Document, service_account_token: str
) -> None:
    mount = world.folder / "mount"
    mount.mkdir()
    (mount / "token").write_text(service_account_token)
    (mount / "ca.crt").write_text(world.plane.ca_file.read_text())
    (mount / "namespace").write_text(world.namespace)
    address = urlsplit(world.plane.url)
    pod = {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
        "KUBECONFIG": "/nonexistent",
    }
    others.create(world.api, world.namespace, others.autoscaler("b", of="b"))
    document["targets"].append(world.target("b"))
    file = world.write(document | {"leaderElection": {"enabled": True}})
    within = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", MOUNTED, str(mount))
    a, b = map(world.key, "ab")
    with running(file, pod, within=within) as daemon:
        daemon.wait_write(a, DEMAND)
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases"
        assert [item["metadata"]["name"] for item in world.api.get(leases)["items"]] == [ACCOUNT]
        wait_until("the Event", lambda: "SuccessfulRescale" in reasons(world))
        assert daemon.first_sync(b)["controlled_by"]
        assert daemon.syncs(b)[-1]["controlled_by"]
        assert world.replicas("b") == 1
        world.api.delete(f"{others.path_of(world.namespace)}/b")
        daemon.wait_write(b, DEMAND)
    assert not daemon.events("not_watched")
    assert not [line for line in daemon.events("events") if line["level"] == "warning"]


def reasons(world: World) -> set[str]:
    events = world.api.get(f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
    return {event["reason"] for event in events["items"]}
