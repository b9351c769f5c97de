"""What goes wrong on the way: a sentence for each, tried again, within the deadline."""

import socket
import threading
import time
from socket import socketpair

import pytest
from urllib3.util.ssltransport import SSLTransport

from autoscaler.transport import Observer
from autoscaler.transport.deadline import RequestSocket
from tests.adapters.prometheus.reading import (
    Observed,
    answered,
    ask,
    failed,
    query,
    query_threads,
    reading,
)
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ORDERS, ScriptedServer, Step, answer, error
from tests.worlds.waiting import wait_until

# A deadline is met if the call returns this much after it, on a machine that does other things.
SLACK_SECONDS = 3.0
HTML = "<html><head><title>502 Bad\nGateway</title></head><body>" + "<p>sorry</p>" * 999


TRANSIENT: list[tuple[Step, str]] = [
    (
        answer("slow down", "429 Too Many Requests"),
        "{} answered HTTP 429 Too Many Requests: slow down",
    ),
    (answer(HTML, "502 Bad Gateway"), "{} answered HTTP 502 Bad Gateway: 502 Bad Gateway"),
    (
        answer(error("unavailable", "Service Unavailable"), "503 Service Unavailable"),
        "{} answered HTTP 503 Service Unavailable (unavailable): Service Unavailable",
    ),
    (
        answer(error("timeout", "query timed out"), "503 Service Unavailable"),
        "Prometheus gave the query up (timeout): query timed out",
    ),
    (
        answer(error("unavailable", "TSDB not ready"), "500 Internal Server Error"),
        "{} answered HTTP 500 Internal Server Error (unavailable): TSDB not ready",
    ),
    (faults.hang_up, "{} closed the connection without an answer"),
    (faults.reset, "{} reset the connection"),
    (faults.break_off, "{} broke off in the middle of its answer"),
    (answer('{"status":"succ'), "{} sent JSON that breaks off"),
    (answer(""), "{} sent an empty answer"),
    (faults.hang, "{} did not answer within 0.3 s"),
    (faults.drip("body", 0.05), "{} did not answer within 0.3 s"),
    (faults.drip("head", 0.05), "{} did not answer within 0.3 s"),
]


@pytest.mark.parametrize(("step", "sentence"), TRANSIENT)
def test_what_may_pass_is_tried_again_until_the_deadline(step: Step, sentence: str) -> None:
    """It is told by the same words each time.

    Neither how often it was tried nor how much time the deadline left is told.
    """
    # Only a server that is too slow on purpose runs into the shorter time-out.
    timeout = 0.3 if "within 0.3 s" in sentence else 10.0
    with ScriptedServer(step) as server:
        begin = time.monotonic()
        message = failed(ask(server.url, "x", within=2.0, timeout=timeout))
        assert time.monotonic() - begin < 2.0 + SLACK_SECONDS
        assert message == sentence.format(f"Prometheus at {server.url}")
        # A request may be read after it was given up.
        wait_until("the requests are read", lambda: len(server.received) >= 2)


def test_each_retry_is_told_with_the_failure_before_it() -> None:
    told: list[str] = []
    busy = answer("busy", "503 Service Unavailable")
    with ScriptedServer(busy, faults.hang_up, answer()) as server:
        assert ask(server.url, "x", observer=Observed([], told)) == ORDERS
        subject = f"Prometheus at {server.url}"
    assert told == [
        f"{subject} answered HTTP 503 Service Unavailable: busy",
        f"{subject} closed the connection without an answer",
    ]


def test_a_request_that_the_deadline_cut_short_was_not_answered_in_time() -> None:
    """What was left of the time-out differs from sync to sync, and stands in no text."""
    with ScriptedServer(faults.hang) as server:
        message = failed(ask(server.url, "x", within=0.5, timeout=10))
        assert message == f"Prometheus at {server.url} did not answer in time"


def test_a_host_that_does_not_resolve_is_named_within_the_deadline() -> None:
    begin = time.monotonic()
    message = failed(ask("http://prometheus.invalid:9090", "x", within=1.0))
    assert time.monotonic() - begin < 1.0 + SLACK_SECONDS
    # A resolver that is itself out of reach does not even say that.
    assert "the name prometheus.invalid does not resolve" in message or "within" in message


def test_a_host_that_does_not_answer_costs_the_time_out() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for text in waiting:
            text.settimeout(0)
            text.connect_ex(("127.0.0.1", port))
        message = failed(ask(f"http://127.0.0.1:{port}", "x", within=3.0, timeout=0.3))
        for text in waiting:
            text.close()
    assert "did not accept a connection within 0." in message


def test_a_server_that_asks_to_wait_is_not_asked_earlier() -> None:
    busy = answer("busy", "429 Too Many Requests", {"Retry-After": "1"})
    with ScriptedServer(busy, answer()) as server:
        begin = time.monotonic()
        assert ask(server.url, "x") == ORDERS
        assert time.monotonic() - begin >= 1.0
        assert len(server.received) == 2


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    busy = answer("busy", "503 Service Unavailable", {"Retry-After": "120"})
    with ScriptedServer(busy) as server:
        begin = time.monotonic()
        message = failed(ask(server.url, "x", within=20.0))
        assert time.monotonic() - begin < 10.0
        assert len(server.received) == 1
    assert message.endswith("busy (it asks to wait longer than there is time)")


def test_a_deadline_that_has_passed_costs_no_request() -> None:
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", within=-1.0))
        assert message == "there was no time left to ask Prometheus"
        assert server.received == []


def test_a_stop_waits_for_no_answer() -> None:
    stop = threading.Event()

    def stop_and_hang(peer: faults.Peer) -> None:
        stop.set()
        faults.hang(peer)
        faults.hang_up(peer)

    with (
        ScriptedServer(stop_and_hang) as server,
        reading(server.url, stop=stop, timeout=60) as reader,
    ):
        begin = time.monotonic()
        message = failed(query(reader, within=60))
        assert time.monotonic() - begin < SLACK_SECONDS
        assert message == f"stopping: Prometheus at {server.url} is not waited for"
    for thread in query_threads():
        thread.join(timeout=5)


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
