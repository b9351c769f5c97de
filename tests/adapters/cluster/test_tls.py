"""What only a server with TLS can prove: in-cluster configuration, and whom we trust."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError, Pods, connect
from autoscaler.core.observation import Unavailable
from tests.worlds.controlplane.server import ControlPlane


@pytest.fixture
def service_account(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Lay out token and certificate as the kubelet mounts them, and set its variables."""
    address = urlsplit(control_plane.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    (tmp_path / "ca.crt").write_text(control_plane.ca_file.read_text())
    (tmp_path / "token").write_text(control_plane.admin_token)
    return tmp_path


def test_the_service_account_is_used_and_its_token_rotates(
    control_plane: ControlPlane, service_account: Path
) -> None:
    """Without any other configuration a pod is its service account; a new token is taken up."""
    token = service_account / "token"
    token.write_text("expired")
    with connect(service_account=service_account) as api:
        pods = Pods(api)
        refused = pods.pods("default", "app=none", clock.monotonic() + 5)
        assert refused == Unavailable(
            f"the API server {control_plane.url} does not accept the credentials of "
            "the service account of this pod: Unauthorized"
        )
        token.write_text(control_plane.admin_token + "\n")
        assert pods.pods("default", "app=none", clock.monotonic() + 5) == ()


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A kubeconfig without certificate authority means the system's: no request is sent."""
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path.write_text(yaml.safe_dump(config))
    with connect(path) as api:
        answer = Pods(api).pods("default", "app=none", clock.monotonic() + 5)
    assert isinstance(answer, Unavailable)
    assert answer.message.startswith(f"TLS with the API server {control_plane.url} failed: ")
    assert "CERTIFICATE_VERIFY_FAILED" in answer.message
    assert "tries" not in answer.message


def test_verification_can_be_switched_off_without_a_warning_per_request(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The field insecure-skip-tls-verify works; a warning would be an error here."""
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    del cluster["certificate-authority"]
    cluster["insecure-skip-tls-verify"] = True
    path.write_text(yaml.safe_dump(config))
    with connect(path) as api:
        assert Pods(api).pods("default", "app=none", clock.monotonic() + 5) == ()


def test_a_service_account_without_certificate_is_told(service_account: Path) -> None:
    """What is missing of the mount is named."""
    (service_account / "ca.crt").unlink()
    with pytest.raises(ConnectError, match=r"^the in-cluster configuration cannot be used: "):
        connect(service_account=service_account)
