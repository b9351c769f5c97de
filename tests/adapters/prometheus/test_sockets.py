"""Whose socket is cut: that of the request that is not waited for, and nobody else's."""

import threading
from socket import socketpair

import pytest
from urllib3.util.ssltransport import SSLTransport

from autoscaler.transport import Observer
from autoscaler.transport.deadline import RequestSocket
from tests.adapters.prometheus.reading import (
    answered,
    failed,
    query,
    query_threads,
    reading,
)
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ScriptedServer
from tests.worlds.waiting import wait_until


def test_a_connection_that_another_request_uses_by_now_is_left_alone() -> None:
    """The first has its answer and is busy with it for too long; the second waits for its own."""
    read, go_on, cut = threading.Event(), threading.Event(), threading.Event()

    def when_cut(peer: faults.Peer) -> None:
        cut.wait(20)
        faults.answer()(peer)

    class Waiting(Observer):
        def prometheus_request(self, server: str, status: str, seconds: float) -> None:  # noqa: ARG002
            if not read.is_set():
                read.set()
                go_on.wait(20)

    with (
        ScriptedServer(faults.answer(), when_cut) as server,
        reading(server.url, observer=Waiting()) as reader,
    ):

        def first() -> None:
            query(reader, within=0.5)
            cut.set()

        thread = threading.Thread(target=first)
        thread.start()
        assert read.wait(20)
        answered(query(reader, within=20))
        go_on.set()
        thread.join()
        assert (len(server.received), server.connections) == (2, 1)


@pytest.mark.parametrize(
    ("part", "url"), [("head", None), ("body", None), ("head", "https://prometheus.test")]
)
def test_an_answer_that_drips_leaves_no_thread_behind(
    part: str, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor that of a proxy, which is asked for a tunnel first."""
    with ScriptedServer(faults.drip(part, 0.05)) as server:
        monkeypatch.setenv("https_proxy", server.url)
        with reading(url or server.url) as reader:
            failed(query(reader, within=0.5))
            wait_until("its thread has ended", lambda: not query_threads())


def test_tls_within_the_tls_of_a_proxy_is_cut() -> None:
    """Such a connection is no socket, but has one."""
    ours, theirs = socketpair()
    with ours, theirs:
        transport = SSLTransport.__new__(SSLTransport)
        transport.socket = ours
        request = RequestSocket()
        request.use(transport)  # type: ignore[arg-type]  # as at run time
        request.cut()
        assert theirs.recv(1) == b""
