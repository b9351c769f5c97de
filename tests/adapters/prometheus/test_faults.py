"""Failures: each has its cause and is over by the deadline, and some are tried again."""

import socket
import threading
import time
from socket import socketpair

import pytest
from urllib3.util.ssltransport import SSLTransport

from autoscaler.transport import Observer
from autoscaler.transport.deadline import RequestSocket
from autoscaler.transport.network_errors import Kind
from autoscaler.transport.retries import FailureKind
from tests.adapters.prometheus.reading import (
    Observed,
    answered,
    ask,
    failed,
    failure_of,
    network_sentence,
    query,
    query_threads,
    reading,
)
from tests.narrowing import assert_parts
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ORDERS, ScriptedServer, Step, answer, error, vector
from tests.worlds.waiting import wait_until

# A deadline is met if the call returns this much after it, on a machine that does other things.
SLACK_SECONDS = 3.0
HTML = "<html><head><title>502 Bad\nGateway</title></head><body>" + "<p>sorry</p>" * 999
OTHER, WRONG_QUERY = FailureKind.OTHER, FailureKind.WRONG_QUERY


LOGIN = "https://u:p@login.test/start?state=s3cret"
UNREADABLE = answer(b"no gzip", headers={"Content-Encoding": "gzip"})


def redirect(location: str) -> Step:
    return answer("", "302 Found", {"Location": location})


FINAL: list[tuple[Step, int, FailureKind, list[str]]] = [
    (
        answer(error("bad_data", "1:5: parse error:\n x"), "400 Bad Request"),
        *(400, WRONG_QUERY, ["(bad_data): 1:5: parse error: x"]),
    ),
    (
        answer(error("execution", "many-to-many"), "422 Unprocessable Entity"),
        *(422, WRONG_QUERY, ["(execution): many-to-many"]),
    ),
    (
        answer(error("internal", "head is gone"), "500 Internal Server Error"),
        *(500, OTHER, ["{}", "500", "(internal): head is gone"]),
    ),
    (answer("none", "401 Unauthorized"), 401, OTHER, ["{}", "401 Unauthorized", ": none"]),
    (
        answer("<h1>404</h1> page not found", "404 Not Found"),
        *(404, OTHER, ["{}", "/api/v1/query", "404 Not Found", ": 404 page not found"]),
    ),
    (redirect(LOGIN), 0, OTHER, ["{}", " https://login.test/start ", "302"]),
    (redirect("/login?state=s3cret"), 0, OTHER, ["{}", " /login ", "302"]),
    (redirect("/"), 0, OTHER, ["{}", " / ", "302"]),
    (answer("", "302 Found"), 0, OTHER, ["{}", " nowhere ", "302"]),
    (redirect("http://[bad"), 0, OTHER, ["{}", " nowhere ", "302"]),
    (answer("", "204 No Content"), 204, OTHER, ["{}", "204 No Content"]),
    (answer("<!DOCTYPE html>\n<p>Log in"), 0, OTHER, ["{}", ": <!DOCTYPE html> <p>Log in"]),
    (answer(error("bad_data", "odd proxy")), 0, WRONG_QUERY, ["(bad_data): odd proxy"]),
    (
        answer(vector({"metric": {}, "histogram": [1.0, {"count": "1"}]})),
        *(0, WRONG_QUERY, ["histogram_quantile", "histogram_sum", "histogram_count"]),
    ),
    (answer([]), 0, OTHER, ["{}", "JSON", "object"]),
    (answer({"status": "success"}), 0, OTHER, ["{}", "data.resultType"]),
    (
        faults.speak(b"SSH-2.0-OpenSSH_9.2\r\n"),
        *(0, OTHER, [network_sentence(Kind.NOT_HTTP, "{}")]),
    ),
    (UNREADABLE, 0, OTHER, [network_sentence(Kind.UNDECODABLE, "{}")]),
    # Only gzip was asked for.
    *(
        (answer(headers={"Content-Encoding": encoding}), 0, OTHER, ["{}", f" {encoding},"])
        for encoding in ("deflate", "br", "gzip, gzip")
    ),
]


SLOW = network_sentence(Kind.TIMEOUT, "{}", within="within 0.3 s")
TRANSIENT: list[tuple[Step, int, FailureKind, list[str]]] = [
    (answer("slow down", "429 Too Many Requests"), 429, OTHER, ["{}", ": slow down"]),
    (answer("late", "408 Request Timeout"), 408, OTHER, ["{}", ": late"]),
    (answer(HTML, "502 Bad Gateway"), 502, OTHER, ["{}", ": 502 Bad Gateway"]),
    (answer("late", "504 Gateway Timeout"), 504, OTHER, ["{}", ": late"]),
    (
        answer(error("unavailable", "no service"), "503 Service Unavailable"),
        *(503, OTHER, ["{}", "(unavailable): no service"]),
    ),
    (
        answer(error("timeout", "query timed out"), "503 Service Unavailable"),
        *(503, FailureKind.SLOW, ["(timeout): query timed out"]),
    ),
    (
        answer(error("unavailable", "TSDB not ready"), "500 Internal Server Error"),
        *(500, OTHER, ["{}", "(unavailable): TSDB not ready"]),
    ),
    (faults.hang_up, 0, OTHER, [network_sentence(Kind.CLOSED, "{}")]),
    (faults.reset, 0, OTHER, [network_sentence(Kind.RESET, "{}")]),
    (faults.break_off, 0, OTHER, [network_sentence(Kind.BROKEN_OFF, "{}")]),
    (answer('{"status":"succ'), 0, OTHER, ["{}", "JSON"]),
    (answer(""), 0, OTHER, ["{}", "empty"]),
    *(
        (step, 0, FailureKind.SLOW, [SLOW])
        for step in (faults.hang, faults.drip("body", 0.05), faults.drip("head", 0.05))
    ),
]


@pytest.mark.parametrize(
    ("is_transient", "step", "status", "kind", "parts"),
    [*((True, *row) for row in TRANSIENT), *((False, *row) for row in FINAL)],
)
def test_only_a_transient_failure_is_tried_again(
    is_transient: bool, step: Step, status: int, kind: FailureKind, parts: list[str]
) -> None:
    """The message is the same each time: without the number of tries and the time left.

    A query is at fault where Prometheus says so, and not for a proxy or a login page.
    """
    # Only a server that is too slow on purpose runs into the shorter time-out.
    timeout = 0.3 if parts == [SLOW] else 10.0
    messages: list[str] = []
    with ScriptedServer(step) as server:
        begin = time.monotonic()
        observer = Observed([], messages)
        failure = failure_of(server.url, within=2.0, timeout=timeout, observer=observer)
        assert time.monotonic() - begin < 2.0 + SLACK_SECONDS
        if is_transient:
            # A request may be read after it was given up.
            wait_until("requests read", lambda: len(server.received) >= 2)
        else:
            assert len(server.received) == 1
    assert (failure.status, failure.kind, failure.transient) == (status, kind, is_transient)
    assert_parts(failure, *(part.format(f"Prometheus at {server.url}") for part in parts))
    assert set(messages) == ({failure.message} if is_transient else set())
    assert "s3cret" not in failure.message
    assert "u:p" not in failure.message


def test_the_failure_before_each_retry_is_observed() -> None:
    messages: list[str] = []
    busy = answer("busy", "503 Service Unavailable")
    with ScriptedServer(busy, faults.hang_up, answer()) as server:
        assert ask(server.url, "x", observer=Observed([], messages)) == ORDERS
    first, second = messages
    assert_parts(first, server.url, "503", "busy")
    assert second == network_sentence(Kind.CLOSED, f"Prometheus at {server.url}")


def test_a_request_cut_short_by_the_deadline_was_not_answered_in_time() -> None:
    """The time that was left differs from sync to sync, and is in no text."""
    with ScriptedServer(faults.hang) as server:
        failure = failure_of(server.url, within=0.5, timeout=10)
    assert failure.kind is FailureKind.CUT_SHORT
    subject = f"Prometheus at {server.url}"
    assert failure.message == network_sentence(Kind.TIMEOUT, subject, within="in time")


def test_a_host_that_does_not_resolve_is_named_within_the_deadline() -> None:
    begin = time.monotonic()
    failure = failure_of("http://prometheus.invalid:9090", within=1.0)
    assert time.monotonic() - begin < 1.0 + SLACK_SECONDS
    # A resolver that is itself out of reach gives no answer in time.
    assert failure.kind in {FailureKind.ABSENT, FailureKind.CUT_SHORT, FailureKind.SLOW}
    assert_parts(failure, "prometheus.invalid")


def test_a_host_that_does_not_answer_costs_the_time_out() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.settimeout(0)
            client.connect_ex(("127.0.0.1", port))
        failure = failure_of(f"http://127.0.0.1:{port}", within=3.0, timeout=0.3)
        for client in waiting:
            client.close()
    subject = f"Prometheus at http://127.0.0.1:{port}"
    sentence = network_sentence(Kind.CONNECT_TIMEOUT, subject, within="within 0.")
    assert_parts(failure, sentence)


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
        failure = failure_of(server.url, within=20.0)
        assert time.monotonic() - begin < 10.0
        assert len(server.received) == 1
    assert (failure.status, failure.retry_after) == (503, 120.0)
    assert_parts(failure, "busy (")


def test_a_deadline_that_has_passed_costs_no_request() -> None:
    with ScriptedServer(answer()) as server:
        failure = failure_of(server.url, within=-1.0)
        assert (failure.kind, server.received) == (FailureKind.CUT_SHORT, [])


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
        assert_parts(failed(query(reader, within=60)), "stopping", server.url)
        assert time.monotonic() - begin < SLACK_SECONDS
    for thread in query_threads():
        thread.join(timeout=5)


def test_a_connection_that_another_request_uses_by_now_is_left_alone() -> None:
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
    with ScriptedServer(faults.drip(part, 0.05)) as server:
        monkeypatch.setenv("https_proxy", server.url)
        with reading(url or server.url) as reader:
            failed(query(reader, within=0.5))
            wait_until("thread ended", lambda: not query_threads())


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
