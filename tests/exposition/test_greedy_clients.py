"""Clients of the listener that hold it up or take much of it: the others are answered."""

import socket
import threading
from contextlib import ExitStack, suppress

import pytest

from autoscaler import clock
from autoscaler.daemon.exposition.listener import MOST_CONNECTIONS
from autoscaler.daemon.exposition.site import Page
from tests.controlplane.waiting import wait_until
from tests.exposition.test_listener import HOST, get, listening, threads


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX: "])
def test_a_client_that_sends_nothing_more_is_cut_while_others_are_answered(sent: bytes) -> None:
    """A connection lasts so long and no longer, however it drips."""
    begun = clock.monotonic()
    with (
        listening(most_seconds=2.5) as listener,
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
        assert 2.4 < took < 15


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
        deaf.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert answering.wait(20)
        wait_until("it is cut", lambda: len(threads()) == 1)


def test_connections_are_bounded_and_come_free_again() -> None:
    """A third one is closed without an answer; when the first two are cut there is room."""
    with (
        listening(most_connections=2, most_seconds=5.0) as listener,
        ExitStack() as held,
    ):
        for _ in range(2):
            held.enter_context(socket.create_connection((HOST, listener.port), timeout=20))
        wait_until("both are held", lambda: len(threads()) == 3)
        with pytest.raises((ConnectionError, OSError)):
            get(listener, "/livez")
        wait_until("both are cut", lambda: len(threads()) == 1)
        assert get(listener, "/livez")[0].status == 200


def test_one_client_does_not_keep_the_others_out() -> None:
    """However many connections it opens and says nothing on, the probe of another is answered."""
    with listening() as listener, ExitStack() as held:
        for _ in range(2 * MOST_CONNECTIONS):
            one = socket.create_connection(
                (HOST, listener.port), timeout=20, source_address=("127.0.0.2", 0)
            )
            held.enter_context(one)
        wait_until("it has all that it gets", lambda: len(threads()) > 1)
        for _ in range(3):
            assert get(listener, "/livez")[0].status == 200
