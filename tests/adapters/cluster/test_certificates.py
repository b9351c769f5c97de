"""Certificates of a kubeconfig that are replaced, gone or refused while requests go on."""

import base64
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from kubernetes.client import Configuration
from kubernetes.config import kube_config

from autoscaler import clock
from autoscaler.kubernetes import Api, Failure, memory_files
from autoscaler.kubernetes.api import JsonObject
from autoscaler.transport.retries import FailureKind
from tests.narrowing import assert_parts, instance
from tests.worlds.certificates import KeyPair, self_signed
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.localserver import LocalServer
from tests.worlds.cluster.scripted import Answer, AnsweringHandler
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Trusting:
    """A control plane that knows its users by their certificates."""

    plane: ControlPlane
    authority: Path
    """The certificates that it trusts; it reads the file again at every change."""

    def trust(self, pair: KeyPair) -> None:
        """Trust another one, and no longer the last; wait until the API server does."""
        part = self.authority.with_suffix(".part")
        part.write_text(pair.certificate.read_text())
        part.rename(self.authority)
        files, ca_file = (str(pair.certificate), str(pair.key)), str(self.plane.ca_file)
        ask = partial(requests.get, f"{self.plane.url}/api", cert=files, verify=ca_file, timeout=10)
        wait_until("certificate trusted", lambda: ask().ok)


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    folder = tmp_path_factory.mktemp("trusting")
    authority = self_signed(folder, "nobody").certificate
    with if_available():
        plane = ControlPlane(controllers=(), apiserver_flags=[f"--client-ca-file={authority}"])
    with plane:
        yield Trusting(plane, authority)


def write(path: Path, server: str, authority: JsonObject, user: Mapping[str, str]) -> None:
    path.write_text(kubeconfig({"server": server, **authority}, user))


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def as_data(path: Path, plane: ControlPlane, pair: KeyPair) -> None:
    user = {"client-certificate-data": data(pair.certificate), "client-key-data": data(pair.key)}
    write(path, plane.url, {"certificate-authority": str(plane.ca_file)}, user)


def as_files(path: Path, plane: ControlPlane, pair: KeyPair) -> None:
    files = {"client-certificate": path.with_suffix(".crt"), "client-key": path.with_suffix(".key")}
    files["client-certificate"].write_bytes(pair.certificate.read_bytes())
    files["client-key"].write_bytes(pair.key.read_bytes())
    user = {key: str(file) for key, file in files.items()}
    write(path, plane.url, {"certificate-authority": str(plane.ca_file)}, user)


def whoami(api: Api) -> Mapping[str, Any]:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    kind: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.once("POST", path, clock.monotonic() + 10, body=kind)
    assert not isinstance(answer, Failure), answer
    user: Mapping[str, Any] = answer["status"]["userInfo"]
    return user


@pytest.mark.parametrize("written", [as_data, as_files])
def test_a_client_certificate_is_read_again_when_it_is_rejected(
    trusting: Trusting, tmp_path: Path, written: Callable[[Path, ControlPlane, KeyPair], None]
) -> None:
    """A kept connection shows the old one for as long as it lasts; no request fails for it."""
    old, new = (self_signed(tmp_path, name, "system:masters") for name in ("old", "new"))
    kubeconfig = tmp_path / "kubeconfig"
    written(kubeconfig, trusting.plane, old)
    trusting.trust(old)
    with connect(kubeconfig) as api:
        assert whoami(api)["username"] == "old"
        written(kubeconfig, trusting.plane, new)
        assert whoami(api)["username"] == "old"
        trusting.trust(new)
        wait_until("new certificate used", lambda: whoami(api)["username"] == "new")


@pytest.mark.parametrize("verified", [True, False])
def test_an_authority_is_read_again_when_the_server_is_not_trusted(
    trusting: Trusting, tmp_path: Path, *, verified: bool
) -> None:
    plane, kubeconfig = trusting.plane, tmp_path / "kubeconfig"
    user = {"token": plane.admin_token}
    other = data(self_signed(tmp_path, "other").certificate)
    write(kubeconfig, plane.url, {"certificate-authority-data": other}, user)
    right: JsonObject = {"certificate-authority-data": data(plane.ca_file)}
    with connect(kubeconfig) as api:
        write(
            kubeconfig, plane.url, right if verified else {"insecure-skip-tls-verify": True}, user
        )
        if verified:
            assert whoami(api)["username"] == "admin"
            return
        answer = api.once("GET", "/api", clock.monotonic() + 10)
    assert isinstance(answer, Failure)
    assert "CERTIFICATE_VERIFY_FAILED" in answer.message


def test_nothing_of_a_kubeconfig_is_left_in_the_temporary_directory(
    trusting: Trusting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    kubeconfig = tmp_path / "kubeconfig"
    pair = self_signed(tmp_path, "me", "system:masters")
    user = {"client-certificate-data": data(pair.certificate), "client-key-data": data(pair.key)}
    authority: JsonObject = {"certificate-authority-data": data(trusting.plane.ca_file)}
    write(kubeconfig, trusting.plane.url, authority, user)
    trusting.trust(pair)
    with connect(kubeconfig) as api:
        assert whoami(api)["username"] == "me"
        assert list(temporary.iterdir()) == []


def test_only_the_last_certificates_and_those_in_use_stay_in_memory() -> None:
    """A plugin may renew its own every few minutes; the authority is read once."""
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    configuration = Configuration()
    memory_files.use_for(configuration)
    make: Callable[..., str] = kube_config._create_temp_file_with_content
    configuration.ssl_ca_cert = make("the authority")
    for number in range(100):
        path = make(f"number {number}", None, force_recreate=True)
        assert Path(path).read_text() == f"number {number}"
        assert make(f"number {number}") == path
    assert Path(str(configuration.ssl_ca_cert)).read_text() == "the authority"
    assert len(list(descriptors.iterdir())) <= before + 66


def ask(api: Api) -> object:
    """Send one request, on a new connection if there is none."""
    return api.once("GET", "/api", clock.monotonic() + 10)


@pytest.fixture
def named(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Api, Path]]:
    path = tmp_path / "kubeconfig"
    authority = name_authority(path, control_plane, "authority.crt")
    with connect(path) as api:
        yield api, authority


def name_authority(path: Path, plane: ControlPlane, name: str) -> Path:
    authority = path.with_name(name)
    authority.write_bytes(plane.ca_file.read_bytes())
    user = {"token": plane.admin_token}
    write(path, plane.url, {"certificate-authority": str(authority)}, user)
    return authority


def test_certificates_under_other_names_are_read_from_the_kubeconfig(
    control_plane: ControlPlane, named: tuple[Api, Path]
) -> None:
    api, old = named
    name_authority(old.with_name("kubeconfig"), control_plane, "another.crt")
    old.unlink()
    assert not isinstance(ask(api), Failure)


def test_a_missing_certificate_is_a_rejection_that_names_its_file(named: tuple[Api, Path]) -> None:
    api, authority = named
    authority.unlink()
    failed = instance(Failure, ask(api))
    assert (failed.transient, failed.kind) == (True, FailureKind.REJECTED)
    assert_parts(failed, api.server, api.origin, str(authority))


def test_a_request_waits_for_a_certificate_that_is_missing_for_a_moment(
    named: tuple[Api, Path],
) -> None:
    """Somebody removes the old one before the new one is written: it is tried again."""
    api, authority = named
    content = authority.read_bytes()
    authority.unlink()
    back = threading.Timer(0.3, authority.write_bytes, (content,))
    back.start()
    answer = api.get("/api", clock.monotonic() + 20)
    back.join()
    assert not isinstance(answer, Failure)


class Front(LocalServer):
    """Asks for a client certificate itself, before HTTP begins, and knows only ``trusted``."""

    def __init__(self, own: KeyPair, trusted: KeyPair) -> None:
        super().__init__(FrontHandler)
        self.own = own
        self.trusted = trusted

    def finish_request(self, request: Any, client_address: Any) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.trusted.certificate)
        tls.load_cert_chain(self.own.certificate, self.own.key)
        tls.verify_mode = ssl.CERT_REQUIRED
        with suppress(OSError), tls.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)


class FrontHandler(AnsweringHandler):
    def do_GET(self) -> None:  # noqa: N802 - the base's
        self.answer(Answer(headers={"Connection": "close"}))


def test_a_client_certificate_that_tls_refuses_is_read_again(tmp_path: Path) -> None:
    own, old, new = (self_signed(tmp_path, name) for name in ("localhost", "old", "new"))
    path = tmp_path / "kubeconfig"
    with Front(own, old) as front:
        url = front.url.replace("http://127.0.0.1", "https://localhost")
        cluster = {"server": url, "certificate-authority": str(own.certificate)}

        def show(pair: KeyPair) -> None:
            user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
            path.write_text(kubeconfig(cluster, user))

        show(old)
        with connect(path) as api:
            assert ask(api) == {}
            show(new)
            front.trusted = new
            answers = [ask(api) for _ in range(5)]
    assert answers[-1] == {}
