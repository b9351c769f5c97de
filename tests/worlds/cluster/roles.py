"""The rights of the user "limited", granted by roles."""

from autoscaler import clock
from autoscaler.kubernetes import Api
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually
from tests.worlds.controlplane.api import Api as AdminApi
from tests.worlds.controlplane.api import Json

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READ_SCALES: Json = {
    "apiGroups": ["apps"],
    "resources": ["deployments/scale"],
    "verbs": ["get", "update"],
}
AUTOSCALERS: Json = {
    "apiGroups": ["autoscaling"],
    "resources": ["horizontalpodautoscalers"],
    "verbs": ["list", "watch"],
}
WATCH: Json = {
    "apiGroups": ["apps", ""],
    "resources": ["deployments", "pods"],
    "verbs": ["list", "watch"],
}


def grant(
    cluster: ClusterUnderTest | AdminApi,
    namespace: str,
    name: str,
    *rules: Json,
    user: str = "limited",
) -> None:
    """Give a user a role in a namespace, or a cluster role where it is empty."""
    path = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
    cluster.create(f"{path}roles", {"metadata": {"name": name}, "rules": rules})
    kind = "Role" if namespace else "ClusterRole"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    cluster.create(f"{path}rolebindings", binding)


def await_granted(api: Api, path: str) -> None:
    """Wait until the authorizer has learnt of a role."""
    eventually(lambda: isinstance(api.once("GET", path, clock.monotonic() + 5), dict), bool)
