"""Pytest plugin: a service account with just the rights of the README."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane

LEAST_RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
WATCH_RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
]


@pytest.fixture
def may_watch() -> bool:
    """Tell whether the daemon may watch; a test may say that it may only read."""
    return True


@pytest.fixture
def environment(
    control_plane: ControlPlane, admin_api: Api, namespace: str, tmp_path: Path, *, may_watch: bool
) -> Mapping[str, str]:
    """Return the environment of a daemon that may do in the namespace what it must, no more."""
    rules = [*LEAST_RULES, *(WATCH_RULES if may_watch else [])]
    admin_api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
        {"metadata": {"name": "autoscaler"}, "rules": rules},
    )
    admin_api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": "autoscaler"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "autoscaler",
            },
            "subjects": [{"kind": "User", "name": "autoscaler"}],
        },
    )
    kubeconfig = control_plane.write_kubeconfig(
        tmp_path / "kubeconfig", control_plane.token_for("autoscaler")
    )
    return {"KUBECONFIG": str(kubeconfig)}
