"""Certificates of a kubeconfig that are replaced while requests go on."""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Failure, connect
from autoscaler.adapters.cluster.objects import JsonObject
from tests.adapters.prometheus.certificates import KeyPair, self_signed
from tests.controlplane.binaries import ControlPlaneUnavailable
from tests.controlplane.credentials import kubeconfig
from tests.controlplane.fixtures import unavailable
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Trusting:
    """A control plane that knows its users by their certificates."""

    plane: ControlPlane
    authority: Path
    """Whom it trusts; it looks at the file whenever that changes."""

    def trust(self, pair: KeyPair) -> None:
        """Trust another one, and no longer the last, some time from now."""
        part = self.authority.with_suffix(".part")
        part.write_text(pair.certificate.read_text())
        part.rename(self.authority)

    def trusts(self, pair: KeyPair) -> bool:
        """Whether it does by now."""
        answer = requests.get(
            f"{self.plane.url}/api",
            cert=(str(pair.certificate), str(pair.key)),
            verify=str(self.plane.ca_file),
            timeout=10,
        )
        return answer.status_code == 200


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    """Start a control plane that trusts somebody."""
    folder = tmp_path_factory.mktemp("trusting")
    authority = self_signed(folder, "nobody").certificate
    try:
        plane = ControlPlane(controllers=(), apiserver_flags=[f"--client-ca-file={authority}"])
    except ControlPlaneUnavailable as reason:
        unavailable(reason)
    with plane:
        yield Trusting(plane, authority)


def write(path: Path, server: str, authority: JsonObject, user: Mapping[str, str]) -> None:
    """Write a kubeconfig."""
    path.write_text(kubeconfig({"server": server, **authority}, user))


def data(path: Path) -> str:
    """Return a file as a kubeconfig holds it."""
    return base64.b64encode(path.read_bytes()).decode()


def as_data(path: Path, plane: ControlPlane, pair: KeyPair) -> None:
    """Write the user's certificate into the kubeconfig."""
    user = {"client-certificate-data": data(pair.certificate), "client-key-data": data(pair.key)}
    write(path, plane.url, {"certificate-authority": str(plane.ca_file)}, user)


def as_files(path: Path, plane: ControlPlane, pair: KeyPair) -> None:
    """Write the user's certificate to files that the kubeconfig names."""
    files = {"client-certificate": path.with_suffix(".crt"), "client-key": path.with_suffix(".key")}
    files["client-certificate"].write_bytes(pair.certificate.read_bytes())
    files["client-key"].write_bytes(pair.key.read_bytes())
    user = {key: str(file) for key, file in files.items()}
    write(path, plane.url, {"certificate-authority": str(plane.ca_file)}, user)


def whoami(api: Api) -> str:
    """Return who we are to the API server, which must answer."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    kind: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.once("POST", path, clock.monotonic() + 10, body=kind)
    assert not isinstance(answer, Failure), answer
    status = answer["status"]
    assert isinstance(status, dict)
    return str(status["userInfo"]["username"])


@pytest.mark.parametrize("written", [as_data, as_files])
def test_a_client_certificate_is_read_again_when_it_is_rejected(
    trusting: Trusting, tmp_path: Path, written: Callable[[Path, ControlPlane, KeyPair], None]
) -> None:
    """A kept connection shows the old one for as long as it lasts; no request fails for it."""
    old, new = (self_signed(tmp_path, name, "system:masters") for name in ("old", "new"))
    kubeconfig = tmp_path / "kubeconfig"
    written(kubeconfig, trusting.plane, old)
    trusting.trust(old)
    wait_until("the server trusts it", lambda: trusting.trusts(old))
    with connect(kubeconfig) as api:
        assert whoami(api) == "old"
        written(kubeconfig, trusting.plane, new)
        assert whoami(api) == "old"
        trusting.trust(new)
        wait_until("the server wants the new certificate", lambda: whoami(api) == "new")


def test_an_authority_is_read_again_when_the_server_is_not_trusted(
    trusting: Trusting, tmp_path: Path
) -> None:
    """Once the kubeconfig holds the authority of the server's certificate, requests go on."""
    plane, kubeconfig = trusting.plane, tmp_path / "kubeconfig"
    user = {"token": plane.admin_token}
    other = self_signed(tmp_path, "other").certificate
    write(kubeconfig, plane.url, {"certificate-authority-data": data(other)}, user)
    with connect(kubeconfig) as api:
        write(kubeconfig, plane.url, {"certificate-authority-data": data(plane.ca_file)}, user)
        assert whoami(api) == "admin"


def test_a_server_that_had_to_prove_itself_still_has_to(trusting: Trusting, tmp_path: Path) -> None:
    """Leaving the check out takes a restart, which warns of it."""
    plane, kubeconfig = trusting.plane, tmp_path / "kubeconfig"
    user = {"token": plane.admin_token}
    other = data(self_signed(tmp_path, "other").certificate)
    write(kubeconfig, plane.url, {"certificate-authority-data": other}, user)
    with connect(kubeconfig) as api:
        write(kubeconfig, plane.url, {"insecure-skip-tls-verify": True}, user)
        answer = api.once("GET", "/api", clock.monotonic() + 10)
    assert isinstance(answer, Failure)
    assert "CERTIFICATE_VERIFY_FAILED" in answer.message


def test_what_stays_rejected_is_told(trusting: Trusting, tmp_path: Path) -> None:
    """A certificate that the server does not know, and no other one to be had."""
    kubeconfig = tmp_path / "kubeconfig"
    as_data(kubeconfig, trusting.plane, self_signed(tmp_path, "stranger", "system:masters"))
    with connect(kubeconfig) as api:
        answer = api.once("GET", "/api", clock.monotonic() + 10)
    assert isinstance(answer, Failure)
    assert answer.status == 401
    assert answer.message == (
        f"the API server {trusting.plane.url} does not accept the credentials of "
        f'context "main" of {kubeconfig}: Unauthorized'
    )
