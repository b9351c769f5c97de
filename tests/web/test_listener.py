"""The listener: what it answers, and where it listens."""

import gzip
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from autoscaler import clock
from autoscaler.telemetry.health import REQUIRED, Component, Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web.answering import Page
from autoscaler.web.listener import ConnectionLimits, Listener, ListenError, ListenerTls
from autoscaler.web.site import Site, application
from tests.narrowing import assert_parts
from tests.telemetry.results import OPENMETRICS, many, metrics_of, result_of, target_of
from tests.worlds.waiting import wait_until

HOST = "127.0.0.1"


def site_of(health: Health, metrics: Metrics | None = None) -> Callable[[str, str], Page]:
    return Site(metrics or metrics_of(result_of(target_of()), health=health), health).page


@contextmanager
def listening(
    answer: Callable[[str, str], Page] | None = None,
    faults: list[BaseException] | None = None,
    host: str = HOST,
    routes: Sequence[BaseRoute] = (),
    tls: ListenerTls | None = None,
    guard: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    limits: ConnectionLimits | None = None,
) -> Iterator[Listener]:
    """Give a listener on a port of its own; no thread of it is left at the end."""
    seen: list[BaseException] = [] if faults is None else faults
    app = guard(application(answer or site_of(Health()), seen.append, routes))
    with Listener(host, 0, app, seen.append, tls=tls, limits=limits) as listener:
        yield listener
    if faults is None:
        assert seen == []
    wait_until("threads ended", lambda: not threads())


def threads() -> list[threading.Thread]:
    return [
        thread
        for thread in threading.enumerate()
        if thread.name == "http" or "AnyIO worker thread" in thread.name
    ]


def connections(held: ExitStack, port: int, address: str, number: int) -> list[socket.socket]:
    """Open connections from an address of the loopback network, until the end of ``held``."""
    return [
        held.enter_context(
            socket.create_connection((HOST, port), timeout=20, source_address=(address, 0))
        )
        for _ in range(number)
    ]


class Slow:
    """Answers `/slow` once it is released, and any other path at once."""

    def __init__(self) -> None:
        self.asked, self.release = threading.Semaphore(0), threading.Event()

    def __call__(self, path: str, _accept: str) -> Page:
        if path == "/slow":
            self.asked.release()
            self.release.wait(20)
        return Page(200, "text/plain", [b"well"])


def get(
    listener: Listener,
    path: str,
    method: str = "GET",
    host: str = HOST,
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> tuple[HTTPResponse, bytes]:
    """Return the answer of a listener, by TLS if there is a context."""
    secured = HTTPConnection if context is None else partial(HTTPSConnection, context=context)
    with closing(secured(host, listener.port, timeout=20)) as connection:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=sent)
        response = connection.getresponse()
        return response, response.read()


def test_only_known_paths_are_found() -> None:
    with listening() as listener:
        response, body = get(listener, "/metrics?name=x")
        assert response.status == 200
        assert b"\nautoscaler_target_current_replicas{" in body
        for path in ("/", "/favicon.ico", "/metrics/", "/livez/..", "/%2e%2e/etc/passwd"):
            assert get(listener, path)[0].status == 404


@pytest.mark.parametrize("path", ["/livez", "/healthz"])
def test_livez_fails_while_a_sync_hangs(path: str) -> None:
    health = Health()
    with listening(site_of(health)) as listener:
        response, body = get(listener, path)
        assert (response.status, body) == (200, b"ok\n")
        health.expect({"hung": -1.0})
        response, body = get(listener, path)
    assert response.status == 503
    assert re.search(rb" -1 s .* \d+ s\n", body)


def test_readyz_is_json_with_one_entry_for_each_component() -> None:
    health = Health()
    with listening(site_of(health)) as listener:
        response, body = get(listener, "/readyz")
        assert response.status == 503
        assert response.headers["Content-Type"] == "application/json"
        assert json.loads(body)["ready"] is False
        for name in REQUIRED:
            health.report(name, ok=True, message="well")
        health.report(Component.STATE, ok=False, message="caf\udce9: disk full")
        response, body = get(listener, "/readyz")
    assert response.status == 200
    document = json.loads(body)
    assert document["ready"] is True
    assert [component["name"] for component in document["components"]] == [*REQUIRED, "state"]
    state = document["components"][-1]
    assert state.pop("since").endswith("Z")
    assert state == {
        "name": "state",
        "ok": False,
        "required": False,
        "message": r"caf\udce9: disk full",
    }


def test_format_and_compression_follow_the_request() -> None:
    with listening(site_of(Health(), metrics_of(*many(50)))) as listener:
        plain, text = get(listener, "/metrics")
        assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert plain.headers["Content-Encoding"] is None
        packed, body = get(listener, "/metrics", Accept=OPENMETRICS, Accept_Encoding="gzip")
        assert packed.headers["Content-Type"].startswith("application/openmetrics-text")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert len(body) < len(text) / 5
        assert gzip.decompress(body).endswith(b"# EOF\n")
        tiny, _ = get(listener, "/livez", Accept_Encoding="gzip")
        assert tiny.headers["Content-Encoding"] is None


def test_head_has_the_length_and_methods_that_write_are_unknown() -> None:
    with listening() as listener:
        response, body = get(listener, "/metrics", "HEAD")
        assert (response.status, body) == (200, b"")
        assert int(response.headers["Content-Length"]) > 1000
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            assert get(listener, "/metrics", method)[0].status == 501


def test_each_answer_has_the_time_at_which_it_was_made() -> None:
    with listening() as listener:
        time.sleep(2)
        date = get(listener, "/livez")[0].headers["Date"]
    assert abs(parsedate_to_datetime(date).timestamp() - time.time()) < 1.5


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("rest", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0\r\n\r\n"])
def test_a_connection_carries_one_request(version: bytes, rest: bytes) -> None:
    with (
        listening() as listener,
        socket.create_connection((HOST, listener.port), timeout=20) as client,
    ):
        client.sendall(b"GET /livez HTTP/%s\r\nHost: x\r\n\r\n" % version + rest)
        client.shutdown(socket.SHUT_WR)
        head, _, body = b"".join(iter(lambda: client.recv(65_536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close" in head.lower()
    assert b"\r\nserver:" not in head.lower()
    assert body == b"ok\n"


def test_the_listener_closes_at_once_while_clients_are_connected() -> None:
    slow = Slow()
    app = application(slow, lambda _: None)
    listener = Listener(HOST, 0, app, lambda _: None)
    port = listener.port
    with ExitStack() as held:
        clients = connections(held, port, HOST, 5)
        clients[0].sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.asked.acquire(timeout=20)
        wait_until("all are accepted", lambda: listener.connections == 5)
        begun = clock.monotonic()
        closing_ = threading.Thread(target=listener.__exit__)
        closing_.start()
        assert clients[1].recv(1) == b""
        slow.release.set()
        closing_.join()
        assert clock.monotonic() - begun < 6
    with Listener(HOST, port, app, lambda _: None) as again:
        assert get(again, "/")[1] == b"well"
    wait_until("threads ended", lambda: not threads())


def test_the_text_of_a_fault_of_a_page_is_only_in_the_log() -> None:
    faults: list[BaseException] = []

    def answer(path: str, _accept: str) -> Page:
        if path == "/broken":
            raise ValueError("a secret")
        status: Any = object() if path == "/defect" else 200
        return Page(status, "text/plain", [b"well"])

    with listening(answer, faults) as listener:
        response, body = get(listener, "/broken")
        assert (response.status, b"secret" in body) == (500, False)
        with pytest.raises(HTTPException):
            get(listener, "/defect")
        assert get(listener, "/")[1] == b"well"
    assert [(type(fault), "secret" in str(fault)) for fault in faults] == [
        (ValueError, True),
        (KeyError, False),
    ]


@pytest.mark.parametrize(
    ("host", "shown", "reason"),
    [
        (HOST, HOST, "another process"),
        ("192.0.2.1", "192.0.2.1", "no such address"),
        ("2001:db8::1", "[2001:db8::1]", "no such address"),
        ("no..name", "no..name", "not resolve"),
    ],
)
def test_an_unusable_address_is_refused_with_its_setting(
    host: str, shown: str, reason: str
) -> None:
    with listening() as listener:
        port = listener.port
        with pytest.raises(ListenError) as raised:
            Listener(host, port, Starlette(), lambda _: None)
    assert_parts(raised.value, f"{shown}:{port} ", "(listen)", reason)


@pytest.mark.parametrize(("host", "clients"), [("", ["127.0.0.1", "::1"]), ("::1", ["::1"])])
def test_an_empty_host_listens_on_all_addresses(host: str, clients: list[str]) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listening(host=host) as listener:
        for client in clients:
            assert get(listener, "/livez", host=client)[0].status == 200
