"""Pytest plugin: scripted API servers; the world of a daemon that is the service account."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tenacity import wait_exponential_jitter

from autoscaler.transport import retries
from tests.worlds.cluster.connecting import Starter
from tests.worlds.cluster.faults import Script
from tests.worlds.cluster.scripted import ScriptedServer
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import Rights, service_account
from tests.worlds.world import World


@pytest.fixture
def rights() -> Rights:
    """Return the rights of the daemon; a test may override them."""
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


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    """Start API servers that play answers as the test asks for them, and end them after it."""
    with Starter(tmp_path) as starter:
        yield lambda *answers, **options: starter.start(ScriptedServer(*answers), **options)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try requests again after some milliseconds."""
    backoff = wait_exponential_jitter(multiplier=0.01, max=0.1, jitter=0.01)
    monkeypatch.setattr(retries, "_BACKOFF", backoff)


@pytest.fixture
def world(
    control_plane: ControlPlane,
    admin_api: Api,
    namespace: str,
    environment: Mapping[str, str],
    prometheus_server: PrometheusServer,
    prometheus_exporter: Exporter,
    tmp_path: Path,
) -> World:
    """Give a namespace of the real control plane, watched by the Prometheus of all tests."""
    return World(
        control_plane,
        admin_api,
        namespace,
        environment,
        prometheus_server,
        prometheus_exporter,
        tmp_path,
    )
