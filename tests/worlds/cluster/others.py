"""Others who scale: HorizontalPodAutoscalers, and clients that set the replicas."""

from autoscaler.core.spec import ScaleTargetRef
from autoscaler.kubernetes import WatchedCluster
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.controlplane.api import MERGE_PATCH, Api, Json

HAND_MADE = 'HorizontalPodAutoscaler "by-hand"'
APPLY = "application/apply-patch+yaml"


def path_of(namespace: str) -> str:
    return f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"


def autoscaler(
    name: str, kind: str = "Deployment", of: str = "web", version: str = "apps/v1"
) -> Json:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": "5"},
        "spec": {
            "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": of},
            "minReplicas": 1,
            "maxReplicas": 3,
        },
    }


def create(cluster: ClusterUnderTest | Api, namespace: str, body: Json) -> None:
    metadata = {name: body["metadata"][name] for name in body["metadata"].keys() - {"namespace"}}
    metadata.pop("resourceVersion", None)
    cluster.create(path_of(namespace), body | {"metadata": metadata})


def await_controller(
    watched: WatchedCluster, namespace: str, ref: ScaleTargetRef, words: str | None
) -> None:
    """Wait until the cached controller has this description."""
    eventually(lambda: watched.cached_controller(namespace, ref), lambda seen: seen == words)


def set_count(
    cluster: ClusterUnderTest, path: str, count: int, manager: str, kind: str = MERGE_PATCH
) -> None:
    """Set spec.replicas as a client of that name would."""
    body: Json = {"spec": {"replicas": count}}
    query = {"fieldManager": manager}
    if kind == APPLY:
        name = path.rpartition("/")[2]
        body |= {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
        query["force"] = "true"
    reply = cluster.request("PATCH", path, body, content_type=kind, query=query)
    assert reply.status == 200, reply
