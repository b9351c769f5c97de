"""Pytest plugin: the environment of a daemon that is the service account of config/kubernetes."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.endtoend.rights import Rights, service_account, target_rules, without_watches

WATCH_RULES = target_rules()
LEAST_RULES = without_watches(WATCH_RULES)


@pytest.fixture
def rights() -> Rights:
    """Tell which rights the daemon has; a test may want others."""
    return Rights.CLUSTER


@pytest.fixture
def service_account_token(admin_api: Api, namespace: str, rights: Rights) -> Iterator[str]:
    """Give the token of somebody who may do what the manifests allow, no more."""
    with service_account(admin_api, namespace, rights) as token:
        yield token


@pytest.fixture
def environment(
    control_plane: ControlPlane, service_account_token: str, tmp_path: Path
) -> Mapping[str, str]:
    """Give the environment of a daemon with that token."""
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig", service_account_token)
    return {"KUBECONFIG": str(kubeconfig)}
