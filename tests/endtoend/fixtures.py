"""Pytest plugin: a service account with just the rights of the README."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane

RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]


@pytest.fixture
def environment(
    control_plane: ControlPlane, admin_api: Api, namespace: str, tmp_path: Path
) -> Mapping[str, str]:
    """Return the environment of a daemon that may do in the namespace what it must, no more."""
    admin_api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
        {"metadata": {"name": "autoscaler"}, "rules": RULES},
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
