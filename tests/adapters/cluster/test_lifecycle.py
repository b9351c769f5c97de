"""What happens to pods when a count changes."""

from datetime import datetime

from tests.adapters.cluster import manifests
from tests.adapters.cluster.cluster import ClusterUnderTest, Json, eventually


def _pods(cluster: ClusterUnderTest, namespace: str, name: str) -> list[Json]:
    reply = cluster.get(manifests.pods(namespace), labelSelector=f"app={name}")
    assert reply.status == 200
    items: list[Json] = reply.body["items"]
    return items


def _ready(pod: Json) -> Json | None:
    conditions = pod["status"].get("conditions") or []
    found = [condition for condition in conditions if condition["type"] == "Ready"]
    return found[0] if found and found[0]["status"] == "True" else None


def test_pods_follow_the_count_up_and_down(cluster: ClusterUnderTest, namespace: str) -> None:
    """Scaling up makes pods that become ready later; scaling down removes pods; status follows."""
    workload = manifests.deployment("web", 1)
    # The control plane's kubelet reads this; the stand-in has a delay of its own.
    workload["spec"]["template"]["metadata"]["annotations"] = {"kubelet.test/ready-after": "1.5"}
    cluster.create(manifests.deployments(namespace), workload)
    path = f"{manifests.deployments(namespace)}/web"

    cluster.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    pods = eventually(
        lambda: _pods(cluster, namespace, "web"),
        lambda pods: len(pods) == 3 and all(map(_ready, pods)),
    )
    for pod in pods:
        ready = _ready(pod)
        assert ready is not None
        assert pod["status"]["phase"] == "Running"
        began, became = pod["metadata"]["creationTimestamp"], ready["lastTransitionTime"]
        assert began <= pod["status"]["startTime"] <= became
        # By the server's clock, in whole seconds, however late somebody looks.
        took = datetime.fromisoformat(became) - datetime.fromisoformat(began)
        assert took.total_seconds() >= 1
        container = pod["spec"]["containers"][0]
        assert container["resources"]["requests"] == {"cpu": "250m", "memory": "64Mi"}
    eventually(
        lambda: cluster.get(path).body["status"],
        lambda status: status.get("readyReplicas") == 3,
    )
    assert cluster.get(f"{path}/scale").body["status"]["replicas"] == 3

    cluster.patch(f"{path}/scale", {"spec": {"replicas": 1}})
    eventually(lambda: len(_pods(cluster, namespace, "web")), lambda count: count == 1)
    eventually(
        lambda: cluster.get(f"{path}/scale").body["status"]["replicas"], lambda count: count == 1
    )


def test_a_deleted_pod_is_replaced(cluster: ClusterUnderTest, namespace: str) -> None:
    """The count is kept: another pod takes the place of one that was deleted."""
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 1))
    [first] = eventually(lambda: _pods(cluster, namespace, "web"), lambda pods: len(pods) == 1)
    name = first["metadata"]["name"]
    reply = cluster.request("DELETE", f"{manifests.pods(namespace)}/{name}")
    assert reply.status == 200
    eventually(
        lambda: [pod["metadata"]["name"] for pod in _pods(cluster, namespace, "web")],
        lambda names: len(names) == 1 and names != [name],
    )
