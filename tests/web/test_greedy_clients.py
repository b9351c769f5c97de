"""Clients of the listener that hold it up or take much of it: the others are answered."""

import socket
import threading
from collections import Counter
from contextlib import ExitStack, suppress
from http.client import HTTPException

import pytest

from autoscaler import clock
from autoscaler.web.answering import Page
from autoscaler.web.listener import MOST_CONNECTIONS, MOST_OF_ONE_CLIENT, Listener
from tests.web.test_listener import HOST, get, listening
from tests.worlds.waiting import wait_until


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_client_that_sends_nothing_more_is_cut_while_others_are_answered(sent: bytes) -> None:
    """The head takes so long and no longer, however it drips."""
    begun = clock.monotonic()
    with (
        listening(most_seconds=20.0, most_head_seconds=1.0) as listener,
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
        listening(huge, most_seconds=0.5) as listener,
        socket.create_connection((HOST, listener.port), timeout=20) as deaf,
    ):
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answering.wait(20)
        wait_until("it is cut", lambda: listener.connections == 0)


def test_answers_are_bounded_and_come_free_again() -> None:
    """A third one is closed without an answer; when the first two are over there is room."""
    asked, release = threading.Semaphore(0), threading.Event()

    def slow(path: str, _accept: str) -> Page:
        if path == "/slow":
            asked.release()
            release.wait(20)
        return Page(200, "text/plain", [b"well"])

    with listening(slow, most_connections=2) as listener, ExitStack() as held:
        clients = connections(held, listener, HOST, 2)
        for client in clients:
            client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert asked.acquire(timeout=20)
        assert asked.acquire(timeout=20)
        assert not answered(listener)
        release.set()
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
    release, asked = threading.Event(), threading.Semaphore(0)

    def slow(path: str, _accept: str) -> Page:
        if path == "/slow":
            asked.release()
            release.wait(20)
        return Page(200, "text/plain", [b"done"])

    with listening(slow) as listener, ExitStack() as held:
        clients = []
        for number in range(MOST_OF_ONE_CLIENT + 2):
            clients += connections(held, listener, HOST, 1)
            clients[-1].sendall(b"GET /slow HTTP/1.0\r\n\r\n")
            assert number >= MOST_OF_ONE_CLIENT or asked.acquire(timeout=20)
        (other,) = connections(held, listener, "127.0.0.2", 1)
        other.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        assert not asked.acquire(timeout=0.2)
        release.set()
        assert all(client.recv(100).startswith(b"HTTP/1.1 200 ") for client in clients)


@pytest.mark.parametrize("addresses", [1, 6])
def test_idle_clients_give_way_to_probes(addresses: int) -> None:
    """However many connections others open and say nothing on, every probe is answered."""
    with listening() as listener, ExitStack() as held:
        for number in range(2, 2 + addresses):
            connections(held, listener, f"127.0.0.{number}", 2 * MOST_CONNECTIONS // addresses)
        assert all(answered(listener) for _ in range(50))


def test_who_has_one_connection_stays_while_another_has_several() -> None:
    """The oldest gives way of the address that has most, not the oldest of all."""
    with listening(most_connections=4) as listener, ExitStack() as held:
        (probe,) = connections(held, listener, HOST, 1)
        greedy = connections(held, listener, "127.0.0.2", 9)
        assert greedy[0].recv(1) == b""
        probe.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert probe.recv(4) == b"HTTP"


def test_a_client_with_all_its_connections_loses_its_own() -> None:
    """There is room for others, but not for more of the same address."""
    with listening() as listener, ExitStack() as held:
        own = connections(held, listener, HOST, MOST_OF_ONE_CLIENT)
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

    with listening(large, most_seconds=20.0) as listener, ExitStack() as held:
        deaf = [
            client
            for number in range(2, 6)
            for client in connections(held, listener, f"127.0.0.{number}", MOST_OF_ONE_CLIENT)
        ]
        for client in deaf:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        statuses = Counter(client.recv(12)[-3:] for client in deaf)
        assert statuses == {b"200": 3, b"503": 29}
        assert all(answered(listener) for _ in range(10))


def connections(
    held: ExitStack, listener: Listener, address: str, number: int
) -> list[socket.socket]:
    """Open connections from an address of the loopback network, until the end of ``held``."""
    return [
        held.enter_context(
            socket.create_connection((HOST, listener.port), timeout=20, source_address=(address, 0))
        )
        for _ in range(number)
    ]


def answered(listener: Listener) -> bool:
    """Tell whether a probe gets its answer."""
    try:
        return get(listener, "/livez")[0].status == 200
    except (OSError, HTTPException):
        return False


def sent(listener: Listener, request: bytes) -> bytes:
    """Send a request; return the beginning of the answer."""
    with ExitStack() as held:
        (client,) = connections(held, listener, HOST, 1)
        client.sendall(request)
        return client.recv(100)
