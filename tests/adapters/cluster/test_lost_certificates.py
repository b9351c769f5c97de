"""Certificates that are gone, or that TLS refuses: the kubeconfig is read again."""

import ssl
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Failure, connect
from autoscaler.adapters.cluster.objects import JsonObject
from tests.adapters.cluster.localserver import LocalHandler, LocalServer
from tests.adapters.cluster.test_certificates import data, write
from tests.adapters.prometheus.certificates import KeyPair, self_signed
from tests.controlplane.credentials import kubeconfig
from tests.controlplane.server import ControlPlane


def ask(api: Api) -> object:
    """Send one request, on a connection of its own if there is none."""
    return api.once("GET", "/api", clock.monotonic() + 10)


@pytest.mark.parametrize("held", ["authority", "user"])
def test_what_a_kubeconfig_holds_survives_the_removal_of_temporary_files(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    """The client keeps certificates as files; without them it makes them again."""
    temporary, path = tmp_path / "temporary", tmp_path / "kubeconfig"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    authority: JsonObject = {"certificate-authority": str(control_plane.ca_file)}
    user = {"token": control_plane.admin_token}
    if held == "authority":
        authority = {"certificate-authority-data": data(control_plane.ca_file)}
    else:
        pair = self_signed(tmp_path, held)
        user |= {
            "client-certificate-data": data(pair.certificate),
            "client-key-data": data(pair.key),
        }
    write(path, control_plane.url, authority, user)
    with connect(path) as api:
        files = list(temporary.iterdir())
        assert files != []
        for file in files:
            file.unlink()
        assert not isinstance(ask(api), Failure)


def test_certificates_that_are_replaced_under_other_names(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The kubeconfig names new files, and the old ones are removed."""
    path, user = tmp_path / "kubeconfig", {"token": control_plane.admin_token}

    def name(version: int) -> Path:
        authority = tmp_path / f"authority-{version}.crt"
        authority.write_bytes(control_plane.ca_file.read_bytes())
        named: JsonObject = {"certificate-authority": str(authority)}
        write(path, control_plane.url, named, user)
        return authority

    old = name(1)
    with connect(path) as api:
        name(2)
        old.unlink()
        assert not isinstance(ask(api), Failure)


def test_a_certificate_that_is_gone_is_told(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Nothing was sent."""
    path, authority = tmp_path / "kubeconfig", tmp_path / "authority.crt"
    authority.write_bytes(control_plane.ca_file.read_bytes())
    user = {"token": control_plane.admin_token}
    write(path, control_plane.url, {"certificate-authority": str(authority)}, user)
    with connect(path) as api:
        authority.unlink()
        answer = ask(api)
    where = f"the API server {control_plane.url}"
    assert answer == Failure(
        f"a certificate or key for {where} is not there any more", transient=True, rejected=True
    )


def test_a_certificate_that_is_gone_for_a_moment(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Somebody removes the old one before the new one is written: it is tried again."""
    path, authority = tmp_path / "kubeconfig", tmp_path / "authority.crt"
    content = control_plane.ca_file.read_bytes()
    authority.write_bytes(content)
    user = {"token": control_plane.admin_token}
    write(path, control_plane.url, {"certificate-authority": str(authority)}, user)
    with connect(path) as api:
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
        """Begin TLS, and go on if the client is known."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.trusted.certificate)
        tls.load_cert_chain(self.own.certificate, self.own.key)
        tls.verify_mode = ssl.CERT_REQUIRED
        with suppress(OSError), tls.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)


class FrontHandler(LocalHandler):
    """Answers everything alike, each on a connection of its own."""

    def do_GET(self) -> None:  # noqa: N802 - the base's
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"{}")


def test_a_client_certificate_that_tls_refuses(tmp_path: Path) -> None:
    """The kubeconfig is read again for that as for a 401."""
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
