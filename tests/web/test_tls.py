"""The listener with TLS: certificates of both sides, rotation, and clients that are slow or odd."""

import json
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from autoscaler import clock
from autoscaler.config.settings import REQUIRED, WebTls
from autoscaler.daemon.listeners import tls_contexts
from autoscaler.web.access import AccessGuard
from autoscaler.web.answering import Page
from autoscaler.web.listener import MOST_OF_ONE_CLIENT, ConnectionLimits, Listener, ListenerTls
from tests.web.test_listener import HOST, connections, listening
from tests.worlds.certificates import KeyPair, of_loopback
from tests.worlds.waiting import wait_until

GUARDED = "/api/v1/histories"


class Served(NamedTuple):
    """A listener, and what it has told."""

    listener: Listener
    server: KeyPair
    told: list[tuple[bool, str]]
    refused: list[str]

    def client(self, shown: KeyPair | None = None, **settings: Any) -> ssl.SSLContext:
        """Return the TLS of a client that trusts the server's certificate."""
        context = ssl.create_default_context(cafile=self.server.certificate)
        for name, value in settings.items():
            setattr(context, name, value)
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return context

    def get(self, path: str = "/livez", context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
        context = context or self.client()
        port = self.listener.port
        with closing(HTTPSConnection(HOST, port, timeout=20, context=context)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()


@contextmanager
def serving(
    tls: WebTls,
    answer: Callable[[str, str], Page] | None = None,
    limits: ConnectionLimits | None = None,
) -> Iterator[Served]:
    """Serve by TLS; nothing is left at the end, and nothing was a fault."""
    told: list[tuple[bool, str]] = []
    refused: list[str] = []
    guarded = partial(
        AccessGuard,
        credentials=None,
        needs_certificate=tls.client_auth_type == REQUIRED,
        with_metrics=True,
        sign_in_failed=lambda *_: None,
    )
    contexts = tls_contexts(tls, lambda *args: told.append(args))
    by_tls = ListenerTls(contexts.current, refused.append)
    pair = KeyPair(tls.cert_file, tls.key_file)
    with listening(answer, tls=by_tls, guard=guarded, limits=limits) as listener:
        yield Served(listener, pair, told, refused)


@pytest.fixture
def pair(tmp_path: Path) -> KeyPair:
    return of_loopback(tmp_path, "server")


def tls_of(pair: KeyPair, **more: Any) -> WebTls:
    return WebTls.model_construct(cert_file=pair.certificate, key_file=pair.key, **more)


def test_pages_are_served_by_tls(pair: KeyPair) -> None:
    """A client that trusts the certificate gets them, one that does not gets nothing."""
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
def test_old_versions_are_refused(
    pair: KeyPair, least: Any, version: ssl.TLSVersion, answered: int | None
) -> None:
    """The oldest that is spoken is a setting."""
    with serving(tls_of(pair, min_version=least)) as served:
        context = served.client(minimum_version=version, maximum_version=version)
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        if answered:
            assert served.get(context=context)[0] == answered
        else:
            with pytest.raises(OSError, match=r"(?i)protocol|version|eof"):
                served.get(context=context)
        assert served.get()[0] == 200


def test_certificates_of_clients(pair: KeyPair, tmp_path: Path) -> None:
    """Who needs one and shows none is told so; probes are answered; a wrong one gets no answer."""
    known, unknown = of_loopback(tmp_path, "known"), of_loopback(tmp_path, "unknown")
    expired = of_loopback(tmp_path, "expired", days=-1)
    authorities = tmp_path / "authorities"
    authorities.write_bytes(known.certificate.read_bytes() + expired.certificate.read_bytes())
    tls = tls_of(pair, client_auth_type=REQUIRED, client_ca_file=authorities)
    with serving(tls) as served:
        assert served.get("/livez")[0] == 200
        status, body = served.get(GUARDED)
        assert status == 403
        assert "a client certificate is needed" in json.loads(body)["detail"]
        # The page itself: the daemon has not started.
        assert served.get(GUARDED, served.client(known))[0] == 503
        for wrong in (unknown, expired):
            with pytest.raises(OSError, match=r"(?i)alert|eof|reset|aborted|closed"):
                served.get(GUARDED, served.client(wrong))
        wait_until("both are told", lambda: served.refused == [HOST, HOST])
        assert served.get(GUARDED, served.client(known))[0] == 503


def rotate(old: KeyPair, new: KeyPair) -> None:
    """Put a new pair in the place of an old one."""
    for there, here in ((old.certificate, new.certificate), (old.key, new.key)):
        shutil.copy(here, there.with_suffix(".new"))
        there.with_suffix(".new").replace(there)


def test_a_new_certificate_is_shown_at_the_next_handshake(pair: KeyPair, tmp_path: Path) -> None:
    """While its files are broken or do not fit the old one is, and why is told once."""
    new = of_loopback(tmp_path, "new")
    with serving(tls_of(pair)) as served:
        trusts_old, trusts_new = served.client(), ssl.create_default_context(cafile=new.certificate)
        assert served.get(context=trusts_old)[0] == 200
        pair.certificate.write_bytes(new.certificate.read_bytes())
        for _ in range(3):
            assert served.get(context=trusts_old)[0] == 200
        ((ok, sentence),) = served.told
        assert not ok
        assert f"{pair.key} is not the key of the certificate" in sentence
        rotate(pair, new)
        assert served.get(context=trusts_new)[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            served.get(context=trusts_old)
        assert [ok for ok, _ in served.told] == [False, True]


def test_who_vouches_for_clients_rotates_too(pair: KeyPair, tmp_path: Path) -> None:
    """An authority that is taken away counts no more."""
    before, after = of_loopback(tmp_path, "before"), of_loopback(tmp_path, "after")
    authorities = tmp_path / "authorities"
    shutil.copy(before.certificate, authorities)
    tls = tls_of(pair, client_auth_type=REQUIRED, client_ca_file=authorities)
    with serving(tls) as served:
        assert served.get(GUARDED, served.client(before))[0] == 503
        shutil.copy(after.certificate, authorities)
        assert served.get(GUARDED, served.client(after))[0] == 503
        with pytest.raises(OSError, match=r"(?i)alert|eof|reset|aborted|closed"):
            served.get(GUARDED, served.client(before))


JUNK = [
    b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01",
    b"\x16\x03\x01\xff\xff" * 9,
    b"\0",
]


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_tls_is_cut_and_harms_nothing(pair: KeyPair, junk: bytes) -> None:
    """Plain HTTP too; and who stops in the middle has as long as for a head."""
    with serving(tls_of(pair), limits=ConnectionLimits(most_head_seconds=0.5)) as served:
        with socket.create_connection((HOST, served.listener.port), timeout=20) as client:
            client.sendall(junk)
            begun = clock.monotonic()
            with suppress(ConnectionError):
                while client.recv(100):
                    """An alert, perhaps."""
            assert clock.monotonic() - begun < 5
        assert served.get()[0] == 200
        wait_until("it is gone", lambda: served.listener.connections == 0)


def test_handshake_and_head_together_have_the_time_of_a_head(pair: KeyPair) -> None:
    """Who says nothing after the handshake is cut as well; others are answered meanwhile."""
    with serving(
        tls_of(pair), limits=ConnectionLimits(most_seconds=20.0, most_head_seconds=1.0)
    ) as served:
        raw = socket.create_connection((HOST, served.listener.port), timeout=20)
        begun = clock.monotonic()
        with served.client().wrap_socket(raw, server_hostname=HOST) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\nHo")
            assert served.get()[0] == 200
            with suppress(ConnectionError, ssl.SSLEOFError):
                assert client.recv(100) == b""
        assert 0.5 < clock.monotonic() - begun < 10


def test_connections_without_a_handshake_give_way(pair: KeyPair) -> None:
    """They count as others do, and a client with all of its places taken by them is answered."""
    with serving(tls_of(pair)) as served, ExitStack() as held:
        connections(held, served.listener.port, HOST, MOST_OF_ONE_CLIENT)
        wait_until("all wait", lambda: served.listener.connections == MOST_OF_ONE_CLIENT)
        for _ in range(3):
            assert served.get()[0] == 200


def test_connections_that_were_answered_give_way(pair: KeyPair) -> None:
    """Also while their clients do not say goodbye, as TLS has it."""
    with serving(tls_of(pair)) as served, ExitStack() as held:
        for raw in connections(held, served.listener.port, HOST, MOST_OF_ONE_CLIENT):
            client = served.client().wrap_socket(raw, server_hostname=HOST)
            held.enter_context(client).sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65_536)
        assert served.listener.connections == MOST_OF_ONE_CLIENT
        assert served.get()[0] == 200


def test_a_browser_gets_all_parts_of_a_page(pair: KeyPair) -> None:
    """Six connections at a time, each for one request, from one address; nobody is cut."""

    def answer(path: str, _accept: str) -> Page:
        return Page(200, "text/plain", [path.encode() * 5_000])

    with serving(tls_of(pair), answer) as served, ThreadPoolExecutor(6) as browser:
        context = served.client()
        paths = [f"/static/{number}" for number in range(60)]
        answers = list(browser.map(lambda path: served.get(path, context), paths))
    assert answers == [(200, path.encode() * 5_000) for path in paths]


def test_it_closes_at_once_in_the_middle_of_handshakes(pair: KeyPair) -> None:
    """The threads are gone, as `serving` sees."""
    with ExitStack() as held, serving(tls_of(pair)) as served:
        connections(held, served.listener.port, HOST, 4)[0].sendall(b"\x16\x03\x01")
        wait_until("all are accepted", lambda: served.listener.connections == 4)
