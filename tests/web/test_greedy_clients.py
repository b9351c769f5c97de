"""Clients of the listener that hold it up or take much of it: the others are answered.

What they can make it hold in memory is measured of a process of its own.
"""

import multiprocessing
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from multiprocessing.connection import Connection

import pytest

from autoscaler import clock
from autoscaler.telemetry.health import Health
from autoscaler.web.answering import Page
from autoscaler.web.listener import MOST_CONNECTIONS, MOST_OF_ONE_CLIENT, ConnectionLimits, Listener
from benchmarks.processes import status
from tests.telemetry.results import many, metrics_of
from tests.web.test_listener import HOST, Slow, connections, get, listening, site_of
from tests.worlds.waiting import wait_until


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_client_that_sends_nothing_more_is_cut_while_others_are_answered(sent: bytes) -> None:
    """The head takes so long and no longer, however it drips."""
    begun = clock.monotonic()
    with (
        listening(limits=ConnectionLimits(most_seconds=20.0, most_head_seconds=1.0)) as listener,
        socket.create_connection((HOST, listener.port), timeout=20) as slow,
    ):
        slow.sendall(sent)
        ended = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not ended.wait(0.05):
                    slow.sendall(b"x")

        dripping = threading.Thread(target=drip)
        if sent:
            dripping.start()
        assert get(listener, "/livez")[0].status == 200
        with suppress(ConnectionResetError):
            assert slow.recv(1) == b""
        took = clock.monotonic() - begun
        ended.set()
        if sent:
            dripping.join()
        assert 0.9 < took < 15


def test_a_client_that_does_not_read_is_cut() -> None:
    """A page that does not fit into the buffers of the sockets is not waited for."""
    answering = threading.Event()

    def huge(*_: str) -> Page:
        answering.set()
        return Page(200, "text/plain", [b"x" * (32 << 20)])

    with (
        listening(huge, limits=ConnectionLimits(most_seconds=0.5)) as listener,
        socket.create_connection((HOST, listener.port), timeout=20) as deaf,
    ):
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answering.wait(20)
        wait_until("it is cut", lambda: listener.connections == 0)


def test_answers_are_bounded_and_come_free_again() -> None:
    """A third one is closed without an answer; when the first two are over there is room."""
    slow = Slow()
    with (
        listening(slow, limits=ConnectionLimits(most_connections=2)) as listener,
        ExitStack() as held,
    ):
        clients = connections(held, listener.port, HOST, 2)
        for client in clients:
            client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.asked.acquire(timeout=20)
        assert slow.asked.acquire(timeout=20)
        assert not answered(listener)
        slow.release.set()
        wait_until("both are over", lambda: listener.connections == 0)
        assert answered(listener)


def test_a_head_is_bounded_as_a_whole() -> None:
    """16 KiB of request line and headers are read; a byte more, wherever it is, is a 431."""
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


def test_one_client_is_answered_so_often_at_once_and_then_one_after_the_other() -> None:
    """A browser that asks for more than its share loses nothing; others are answered meanwhile."""
    slow = Slow()
    with listening(slow) as listener, ExitStack() as held:
        clients = []
        for number in range(MOST_OF_ONE_CLIENT + 2):
            clients += connections(held, listener.port, HOST, 1)
            clients[-1].sendall(b"GET /slow HTTP/1.0\r\n\r\n")
            assert number >= MOST_OF_ONE_CLIENT or slow.asked.acquire(timeout=20)
        (other,) = connections(held, listener.port, "127.0.0.2", 1)
        other.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        assert not slow.asked.acquire(timeout=0.2)
        slow.release.set()
        assert all(client.recv(100).startswith(b"HTTP/1.1 200 ") for client in clients)


@pytest.mark.parametrize("addresses", [1, 6])
def test_idle_clients_give_way_to_probes(addresses: int) -> None:
    """However many connections others open and say nothing on, every probe is answered."""
    with listening() as listener, ExitStack() as held:
        for number in range(2, 2 + addresses):
            connections(held, listener.port, f"127.0.0.{number}", 2 * MOST_CONNECTIONS // addresses)
        assert all(answered(listener) for _ in range(50))


def test_who_has_one_connection_stays_while_another_has_several() -> None:
    """The oldest gives way of the address that has most, not the oldest of all."""
    with listening(limits=ConnectionLimits(most_connections=4)) as listener, ExitStack() as held:
        (probe,) = connections(held, listener.port, HOST, 1)
        greedy = connections(held, listener.port, "127.0.0.2", 9)
        assert greedy[0].recv(1) == b""
        probe.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert probe.recv(4) == b"HTTP"


def test_a_client_with_all_its_connections_loses_its_own() -> None:
    """There is room for others, but not for more of the same address."""
    with listening() as listener, ExitStack() as held:
        own = connections(held, listener.port, HOST, MOST_OF_ONE_CLIENT)
        assert answered(listener)
        assert own[0].recv(1) == b""
        own[1].sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert own[1].recv(4) == b"HTTP"


def test_probes_are_answered_while_nobody_reads_the_large_pages() -> None:
    """Few large pages are sent at once; a further one is a 503, which frees its connection."""

    def large(path: str, _accept: str) -> Page:
        if path == "/livez":
            return Page(200, "text/plain", [b"ok"])
        return Page(200, "text/plain", [b"x" * (16 << 20)], large=True)

    with (
        listening(large, limits=ConnectionLimits(most_seconds=20.0)) as listener,
        ExitStack() as held,
    ):
        deaf = [
            client
            for number in range(2, 6)
            for client in connections(held, listener.port, f"127.0.0.{number}", MOST_OF_ONE_CLIENT)
        ]
        for client in deaf:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        statuses = Counter(client.recv(12)[-3:] for client in deaf)
        assert statuses == {b"200": 3, b"503": 29}
        assert all(answered(listener) for _ in range(10))


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


def serve(targets: int, told: Connection) -> None:
    """Listen, with so many targets on the pages, until the other side is closed."""
    site = site_of(Health(), metrics_of(*many(targets)))
    with listening(site) as listener, suppress(EOFError):
        told.send(listener.port)
        told.recv()


@contextmanager
def grows_less_than(most: int, targets: int = 0) -> Iterator[list[socket.socket]]:
    """Give clients of a process whose pages show so many targets; it must not grow by more."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(targets, theirs))
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
    """Clients that send megabytes of headers, on all connections that they get, change little."""
    head = b"GET /livez HTTP/1.1\r\n" + (b"X: " + b"x" * 65_000 + b"\r\n") * 99 + b"\r\n"

    def flood(client: socket.socket) -> None:
        with suppress(OSError):
            client.sendall(head)

    with grows_less_than(_LITTLE) as clients, ThreadPoolExecutor(len(clients)) as flooding:
        list(flooding.map(flood, clients))


def test_pages_that_nobody_reads_take_little_memory() -> None:
    """However many clients ask for a page of 10 MiB and do not read it, three of it are held."""
    with grows_less_than(_THREE_PAGES, 5_000) as clients:
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        for client in clients:
            client.recv(1)
