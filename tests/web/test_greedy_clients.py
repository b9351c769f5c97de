"""Clients of the listener that hold it up or take much of it: the others are answered.

What they can make it hold in memory is measured of a process of its own.
"""

import multiprocessing
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.telemetry.health import Health
from autoscaler.web.answering import Page
from autoscaler.web.listener import MOST_CONNECTIONS, MOST_OF_ONE_CLIENT, ConnectionLimits, Listener
from benchmarks.processes import status
from tests.telemetry.results import many, metrics_of
from tests.web.test_listener import HOST, Slow, connections, get, listening, site_of
from tests.web.test_tls import Served, serving, tls_of
from tests.worlds.certificates import of_loopback
from tests.worlds.waiting import wait_until

Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture(params=["plain", "TLS"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Serve:
    """Return what serves with and without TLS."""

    @contextmanager
    def serving_plainly(limits: ConnectionLimits | None = None) -> Iterator[Served]:
        with listening(limits=limits) as listener:
            yield Served(listener)

    if request.param == "plain":
        return serving_plainly
    return partial(serving, tls_of(of_loopback(tmp_path, "server")))


@pytest.mark.parametrize("head", [b"", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_client_with_a_slow_head_is_cut_while_others_are_answered(
    serve: Serve, head: bytes
) -> None:
    limits, begun = ConnectionLimits(most_seconds=20.0, most_head_seconds=1.0), clock.monotonic()
    with serve(limits=limits) as served, served.connect() as slow:
        slow.sendall(head)
        assert served.get()[0] == 200
        slow.settimeout(0.05)
        with suppress(OSError):
            while clock.monotonic() - begun < 20:
                try:
                    assert slow.recv(1) == b""
                    break
                except TimeoutError:
                    slow.sendall(b"x" if head else b"")
        assert 0.9 < clock.monotonic() - begun < 15


JUNK = [
    b"\0",
    b"\x16\x03\x01",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\x16\x03\x01\xff\xff" * 9,
    b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(200)) + b"\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
]


def test_junk_is_cut_and_harms_nothing(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with serve(limits=ConnectionLimits(most_head_seconds=0.5)) as served:
        for junk in JUNK:
            raw = socket.create_connection((HOST, served.listener.port), timeout=20)
            begun = clock.monotonic()
            # The server may have closed it before all of the junk was sent.
            with raw as client, suppress(OSError):
                client.sendall(junk)
                while client.recv(65_536):
                    """An answer or an alert does not matter."""
            assert clock.monotonic() - begun < 5
        assert served.get()[0] == 200
        wait_until("all are gone", lambda: served.listener.connections == 0)
    assert caplog.records == []


def test_an_idle_connection_of_a_client_with_many_gives_way_to_its_next(serve: Serve) -> None:
    with serve() as served, ExitStack() as held:
        own = connections(held, served.listener.port, HOST, MOST_OF_ONE_CLIENT)
        wait_until("all wait", lambda: served.listener.connections == MOST_OF_ONE_CLIENT)
        assert [served.get()[0] for _ in range(3)] == [200] * 3
        assert own[0].recv(1) == b""
        answered_last = held.enter_context(served.secured(own[1]))
        answered_last.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answered_last.recv(4) == b"HTTP"


def test_a_client_that_does_not_read_is_cut() -> None:
    answering = threading.Event()

    def huge(*_: str) -> Page:
        answering.set()
        return Page(200, "text/plain", [b"x" * (32 << 20)])

    limits = ConnectionLimits(most_seconds=0.5)
    with listening(huge, limits=limits) as listener, ExitStack() as held:
        requesting(held, listener, "/")
        assert answering.wait(20)
        wait_until("it is cut", lambda: listener.connections == 0)


def test_a_request_beyond_the_limit_is_closed_until_others_end() -> None:
    slow = Slow()
    limits = ConnectionLimits(most_connections=2)
    with listening(slow, limits=limits) as listener, ExitStack() as held:
        for _ in range(2):
            requesting(held, listener, "/slow")
            assert slow.asked.acquire(timeout=20)
        assert not answered(listener)
        slow.release.set()
        wait_until("both are over", lambda: listener.connections == 0)
        assert answered(listener)


def test_a_head_is_bounded_as_a_whole() -> None:
    start, version, end = b"GET /livez?", b" HTTP/1.1\r\nHost: x", b"\r\n\r\n"
    room = 16 * 1024 - len(version) - len(end)
    header = b"\r\nX: " + b"x" * 195
    longest = start + b"x" * (room - len(start) - 50 * len(header)) + version + 50 * header
    with listening() as listener:
        assert sent(listener, longest + end).startswith(b"HTTP/1.1 200 ")
        for head in (
            longest + b"x" + end,
            start + b"x" * 17_000 + version + end,
            start + version + 80 * b"\r\nA: b" + b"\r\nX: " + b"x" * 17_000 + end,
        ):
            assert sent(listener, head).startswith(b"HTTP/1.1 431 ")


def test_requests_beyond_a_clients_share_wait_for_their_turn() -> None:
    slow = Slow()
    with listening(slow) as listener, ExitStack() as held:
        clients = []
        for number in range(MOST_OF_ONE_CLIENT + 2):
            clients.append(requesting(held, listener, "/slow"))
            assert number >= MOST_OF_ONE_CLIENT or slow.asked.acquire(timeout=20)
        other = requesting(held, listener, "/", "127.0.0.2")
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        assert not slow.asked.acquire(timeout=0.2)
        slow.release.set()
        assert all(client.recv(100).startswith(b"HTTP/1.1 200 ") for client in clients)


@pytest.mark.parametrize("addresses", [1, 6])
def test_idle_clients_give_way_to_probes(addresses: int) -> None:
    with listening() as listener, ExitStack() as held:
        for number in range(2, 2 + addresses):
            connections(held, listener.port, f"127.0.0.{number}", 2 * MOST_CONNECTIONS // addresses)
        assert all(answered(listener) for _ in range(50))


def test_of_several_clients_the_one_with_most_connections_gives_way() -> None:
    """The oldest gives way of the address that has most, not the oldest of all."""
    with listening(limits=ConnectionLimits(most_connections=4)) as listener, ExitStack() as held:
        (probe,) = connections(held, listener.port, HOST, 1)
        greedy = connections(held, listener.port, "127.0.0.2", 9)
        assert greedy[0].recv(1) == b""
        probe.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert probe.recv(4) == b"HTTP"


def test_probes_are_answered_while_nobody_reads_the_large_pages() -> None:
    def large(path: str, _accept: str) -> Page:
        if path == "/livez":
            return Page(200, "text/plain", [b"ok"])
        return Page(200, "text/plain", [b"x" * (16 << 20)], large=True)

    limits = ConnectionLimits(most_seconds=20.0)
    with listening(large, limits=limits) as listener, ExitStack() as held:
        deaf = [
            requesting(held, listener, "/metrics", f"127.0.0.{number}")
            for number in range(2, 6)
            for _ in range(MOST_OF_ONE_CLIENT)
        ]
        statuses = Counter(client.recv(12)[-3:] for client in deaf)
        assert statuses == {b"200": 3, b"503": 29}
        assert all(answered(listener) for _ in range(10))


def requesting(
    held: ExitStack, listener: Listener, path: str, address: str = HOST
) -> socket.socket:
    """Return a connection on which a page was asked for."""
    (client,) = connections(held, listener.port, address, 1)
    client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
    return client


def answered(listener: Listener) -> bool:
    try:
        return get(listener, "/livez")[0].status == 200
    except (OSError, HTTPException):
        return False


def sent(listener: Listener, request: bytes) -> bytes:
    with ExitStack() as held:
        (client,) = connections(held, listener.port, HOST, 1)
        client.sendall(request)
        return client.recv(100)


# -- memory ----------------------------------------------------------------------------------------

_LITTLE, _THREE_PAGES = 24 << 10, 64 << 10
"""In KiB."""
_ADDRESSES = [f"127.0.1.{number}" for number in (1, 2, 3, 4)]
"""From each of them come as many clients as are answered at once."""


def serve_many(targets: int, port: Connection) -> None:
    """Listen, with this number of targets on the pages, until the other side is closed."""
    site = site_of(Health(), metrics_of(*many(targets)))
    with listening(site) as listener, suppress(EOFError):
        port.send(listener.port)
        port.recv()


@contextmanager
def grows_less_than(most: int, targets: int = 0) -> Iterator[list[socket.socket]]:
    """Give clients of a process whose pages show targets; it must not grow by more."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_many, args=(targets, theirs))
    process.start()
    theirs.close()
    with ours, ExitStack() as held:
        port = ours.recv()
        before = status(process.pid or 0)["VmHWM"]
        yield [
            client
            for address in _ADDRESSES
            for client in connections(held, port, address, MOST_OF_ONE_CLIENT)
        ]
        grown = status(process.pid or 0)["VmHWM"] - before
    process.join()
    assert grown < most, f"{before >> 10} MiB grew by {grown >> 10} MiB"


def test_large_heads_take_no_memory() -> None:
    head = b"GET /livez HTTP/1.1\r\n" + (b"X: " + b"x" * 65_000 + b"\r\n") * 99 + b"\r\n"

    def flood(client: socket.socket) -> None:
        with suppress(OSError):
            client.sendall(head)

    with grows_less_than(_LITTLE) as clients, ThreadPoolExecutor(len(clients)) as flooding:
        list(flooding.map(flood, clients))


def test_pages_that_nobody_reads_take_little_memory() -> None:
    with grows_less_than(_THREE_PAGES, 5_000) as clients:
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        for client in clients:
            client.recv(1)
