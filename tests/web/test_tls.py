"""The listener with TLS: certificates of both sides, rotation, and clients that are slow or odd."""

import json
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoscaler.config.settings import REQUIRED, WebTls
from autoscaler.daemon.listeners import tls_contexts
from autoscaler.web.access import AccessGuard
from autoscaler.web.answering import Page
from autoscaler.web.listener import MOST_OF_ONE_CLIENT, ConnectionLimits, Listener, ListenerTls
from tests.narrowing import known as present
from tests.web.test_listener import HOST, connections, get, listening
from tests.worlds.certificates import KeyPair, of_loopback
from tests.worlds.waiting import wait_until

GUARDED = "/api/v1/histories"
REFUSED = r"(?i)alert|eof|reset|aborted|closed|broken pipe"


@dataclass
class Served:
    """A listener, and what it has reported; without a pair it speaks no TLS."""

    listener: Listener
    server: KeyPair | None = None
    reports: list[tuple[bool, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def client(self, shown: KeyPair | None = None, **settings: Any) -> ssl.SSLContext:
        """Return the TLS of a client that trusts the server's certificate."""
        context = ssl.create_default_context(cafile=present(self.server).certificate)
        for name, value in settings.items():
            setattr(context, name, value)
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return context

    def secured(self, raw: socket.socket) -> socket.socket:
        """Return a connection after its handshake."""
        plain = self.server is None
        return raw if plain else self.client().wrap_socket(raw, server_hostname=HOST)

    def connect(self) -> socket.socket:
        return self.secured(socket.create_connection((HOST, self.listener.port), timeout=20))

    def get(self, path: str = "/livez", context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
        context = context if context or self.server is None else self.client()
        response, body = get(self.listener, path, context=context)
        return response.status, body


@contextmanager
def serving(
    tls: WebTls,
    answer: Callable[[str, str], Page] | None = None,
    limits: ConnectionLimits | None = None,
) -> Iterator[Served]:
    """Serve by TLS; nothing is left at the end, and nothing was a fault."""
    reports: list[tuple[bool, str]] = []
    refused: list[str] = []
    guarded = partial(
        AccessGuard,
        credentials=None,
        needs_certificate=tls.client_auth_type == REQUIRED,
        with_metrics=True,
        sign_in_failed=lambda *_: None,
    )
    contexts = tls_contexts(tls, lambda *args: reports.append(args))
    by_tls = ListenerTls(contexts.current, refused.append)
    pair = KeyPair(tls.cert_file, tls.key_file)
    with listening(answer, tls=by_tls, guard=guarded, limits=limits) as listener:
        yield Served(listener, pair, reports, refused)


@pytest.fixture
def pair(tmp_path: Path) -> KeyPair:
    return of_loopback(tmp_path, "server")


def tls_of(pair: KeyPair, **more: Any) -> WebTls:
    return WebTls.model_construct(cert_file=pair.certificate, key_file=pair.key, **more)


def test_only_clients_that_trust_the_certificate_get_pages(pair: KeyPair) -> None:
    with serving(tls_of(pair)) as served:
        assert served.get() == (200, b"ok\n")
        assert served.get("/metrics")[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            served.get(context=ssl.create_default_context())


@pytest.mark.parametrize(
    ("least", "version", "answered"),
    [
        ("TLS12", ssl.TLSVersion.TLSv1_1, None),
        ("TLS12", ssl.TLSVersion.TLSv1_2, 200),
        ("TLS12", ssl.TLSVersion.TLSv1_3, 200),
        ("TLS13", ssl.TLSVersion.TLSv1_2, None),
        ("TLS13", ssl.TLSVersion.TLSv1_3, 200),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_versions_below_the_setting_are_refused(
    pair: KeyPair, least: Any, version: ssl.TLSVersion, answered: int | None
) -> None:
    with serving(tls_of(pair, min_version=least)) as served:
        context = served.client(minimum_version=version, maximum_version=version)
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        if answered:
            assert served.get(context=context)[0] == answered
        else:
            with pytest.raises(OSError, match=r"(?i)protocol|version|eof"):
                served.get(context=context)
        assert served.get()[0] == 200


def test_only_clients_with_a_trusted_certificate_get_guarded_pages(
    pair: KeyPair, tmp_path: Path
) -> None:
    known, unknown = of_loopback(tmp_path, "known"), of_loopback(tmp_path, "unknown")
    expired = of_loopback(tmp_path, "expired", days=-1)
    authorities = tmp_path / "authorities"
    authorities.write_bytes(known.certificate.read_bytes() + expired.certificate.read_bytes())
    tls = tls_of(pair, client_auth_type=REQUIRED, client_ca_file=authorities)
    with serving(tls) as served:
        assert served.get("/livez")[0] == 200
        status, body = served.get(GUARDED)
        assert (status, "certificate" in json.loads(body)["detail"]) == (403, True)
        # The page itself: the daemon has not started.
        assert served.get(GUARDED, served.client(known))[0] == 503
        for wrong in (unknown, expired):
            with pytest.raises(OSError, match=REFUSED):
                served.get(GUARDED, served.client(wrong))
        wait_until("both reported", lambda: served.refused == [HOST, HOST])
        assert served.get(GUARDED, served.client(known))[0] == 503
        # Another authority takes its place.
        shutil.copy(unknown.certificate, authorities)
        assert served.get(GUARDED, served.client(unknown))[0] == 503
        with pytest.raises(OSError, match=REFUSED):
            served.get(GUARDED, served.client(known))


def rotate(old: KeyPair, new: KeyPair) -> None:
    """Put a new pair in the place of an old one."""
    for there, here in ((old.certificate, new.certificate), (old.key, new.key)):
        shutil.copy(here, there.with_suffix(".new"))
        there.with_suffix(".new").replace(there)


def test_a_new_certificate_is_shown_at_the_next_handshake(pair: KeyPair, tmp_path: Path) -> None:
    new = of_loopback(tmp_path, "new")
    with serving(tls_of(pair)) as served:
        trusts_old, trusts_new = served.client(), ssl.create_default_context(cafile=new.certificate)
        assert served.get(context=trusts_old)[0] == 200
        pair.certificate.write_bytes(new.certificate.read_bytes())
        for _ in range(3):
            assert served.get(context=trusts_old)[0] == 200
        ((ok, message),) = served.reports
        assert not ok
        assert str(pair.key) in message
        rotate(pair, new)
        assert served.get(context=trusts_new)[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            served.get(context=trusts_old)
        assert [ok for ok, _ in served.reports] == [False, True]


def test_connections_that_were_answered_give_way(pair: KeyPair) -> None:
    with serving(tls_of(pair)) as served, ExitStack() as held:
        for raw in connections(held, served.listener.port, HOST, MOST_OF_ONE_CLIENT):
            client = held.enter_context(served.secured(raw))
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65_536)
        assert served.listener.connections == MOST_OF_ONE_CLIENT
        assert served.get()[0] == 200


def test_a_browser_gets_all_parts_of_a_page(pair: KeyPair) -> None:
    def answer(path: str, _accept: str) -> Page:
        return Page(200, "text/plain", [path.encode() * 5_000])

    with serving(tls_of(pair), answer) as served, ThreadPoolExecutor(6) as browser:
        context = served.client()
        paths = [f"/static/{number}" for number in range(60)]
        answers = list(browser.map(lambda path: served.get(path, context), paths))
    assert answers == [(200, path.encode() * 5_000) for path in paths]


def test_the_listener_closes_at_once_in_the_middle_of_handshakes(pair: KeyPair) -> None:
    with ExitStack() as held, serving(tls_of(pair)) as served:
        connections(held, served.listener.port, HOST, 4)[0].sendall(b"\x16\x03\x01")
        wait_until("all are accepted", lambda: served.listener.connections == 4)
