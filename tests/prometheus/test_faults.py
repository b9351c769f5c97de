"""What goes wrong on the way: a sentence for each, tried again or not, within the deadline."""

import re
import socket
import threading
import time

import pytest

from autoscaler import clock
from autoscaler.core.series import Answer, Series
from tests.controlplane.process import free_port
from tests.prometheus import faults
from tests.prometheus.faults import VECTOR, ScriptedServer, Step, answer
from tests.prometheus.reading import answered, ask, failed, reading

# A deadline is met if the call returns this much after it, on a machine that does other things.
SLACK_SECONDS = 1.0
HTML = "<html><head><title>502 Bad\nGateway</title></head><body>" + "<p>sorry</p>" * 999
FOLLOWED_NOT = "redirects are not followed; the URL should name the final address"
HISTOGRAMS = (
    "the query returns native histograms, which are no numbers; histogram_quantile,"
    " histogram_sum and histogram_count make numbers of them"
)
ORDERS = Answer([Series({"queue": "orders"}, 42.0, 1700000000.5)])


def error(kind: str, text: str) -> dict[str, object]:
    """Return an error of Prometheus' own format."""
    return {"status": "error", "errorType": kind, "error": text}


def vector(*result: object, **more: object) -> dict[str, object]:
    """Return a success whose result may have any shape."""
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


FINAL: list[tuple[str, Step, str]] = [
    (
        "bad_data",
        answer(error("bad_data", "1:5: parse error:\n x"), "400 Bad Request"),
        "Prometheus refused the query (bad_data): 1:5: parse error: x",
    ),
    (
        "execution",
        answer(error("execution", "many-to-many"), "422 Unprocessable Entity"),
        "Prometheus could not execute the query (execution): many-to-many",
    ),
    (
        "internal",
        answer(error("internal", "head is gone"), "500 Internal Server Error"),
        "{} answered HTTP 500 Internal Server Error (internal): head is gone",
    ),
    (
        "unauthorized",
        answer("Unauthorized", "401 Unauthorized"),
        "{} did not accept the credentials, or wants some (HTTP 401 Unauthorized): Unauthorized",
    ),
    ("forbidden", answer("", "403 Forbidden"), "{} answered HTTP 403 Forbidden"),
    (
        "not found",
        answer("<h1>404</h1> page not found", "404 Not Found"),
        "{} has no /api/v1/query (HTTP 404 Not Found): is it the right URL?: 404 page not found",
    ),
    (
        "redirect",
        answer("", "302 Found", {"Location": "https://u:p@login.test/start?state=s3cret"}),
        f"{{}} redirects to https://login.test/start (HTTP 302): {FOLLOWED_NOT}",
    ),
    (
        "odd redirect",
        answer("", "301 Moved Permanently", {"Location": "http://[bad"}),
        f"{{}} redirects to nowhere (HTTP 301): {FOLLOWED_NOT}",
    ),
    ("no content", answer("", "204 No Content"), "{} answered HTTP 204 No Content"),
    (
        "login page",
        answer("<!DOCTYPE html>\n<p>Log in"),
        "{} sent an answer that is no JSON, it starts: <!DOCTYPE html> <p>Log in",
    ),
    (
        "error with status 200",
        answer(error("bad_data", "odd proxy")),
        "Prometheus refused the query (bad_data): odd proxy",
    ),
    (
        "matrix",
        answer({"status": "success", "data": {"resultType": "matrix", "result": []}}),
        "the query returns a matrix; a query must return an instant vector or a scalar",
    ),
    (
        "native histogram",
        answer(vector({"metric": {}, "histogram": [1.0, {"count": "1"}]})),
        HISTOGRAMS,
    ),
    (
        "no object",
        answer([]),
        "{} sent an answer that is not Prometheus' format: the JSON is no object",
    ),
    (
        "no data",
        answer({"status": "success"}),
        "{} sent an answer that is not Prometheus' format: data.resultType is missing",
    ),
    (
        "not HTTP",
        faults.speak(b"SSH-2.0-OpenSSH_9.2\r\n"),
        "{} answered what is not HTTP",
    ),
    (
        "corrupt gzip",
        answer(b"no gzip", headers={"Content-Encoding": "gzip"}),
        "{} sent an answer that cannot be decompressed",
    ),
]


@pytest.mark.parametrize(
    ("step", "sentence"), [case[1:] for case in FINAL], ids=[case[0] for case in FINAL]
)
def test_final(step: Step, sentence: str) -> None:
    """What another try cannot mend is asked once and told in a sentence."""
    with ScriptedServer(step) as server:
        message = failed(ask(server.url, "x"))
        assert message == sentence.format(f"Prometheus at {server.url}")
        assert len(server.received) == 1


@pytest.mark.parametrize(
    "element",
    [
        {"metric": {}, "value": [1.0]},
        {"metric": {}, "value": [1.0, "many"]},
        {"metric": {}, "value": [1.0, 2.0]},
        {"metric": {}, "value": "12"},
        {"metric": {}},
        {"value": [1.0, "2"]},
        {"metric": {"pod": ["a"]}, "value": [1.0, "2"]},
        {"metric": [], "value": [1.0, "2"]},
        {"metric": {}, "value": [None, "2"]},
        ["metric", "value"],
        "text",
        None,
    ],
)
def test_misshapen(element: object) -> None:
    """An element of any other shape fails the whole answer: no sample is guessed or dropped."""
    good = {"metric": {}, "value": [1.0, "2"]}
    with ScriptedServer(answer(vector(good, element))) as server:
        message = failed(ask(server.url, "x"))
    assert message.endswith("not Prometheus' format: the result is no vector of floats")


TRANSIENT: list[tuple[str, Step, str]] = [
    (
        "429",
        answer("slow down", "429 Too Many Requests"),
        "{} answered HTTP 429 Too Many Requests: slow down",
    ),
    ("502", answer(HTML, "502 Bad Gateway"), "{} answered HTTP 502 Bad Gateway: 502 Bad Gateway"),
    (
        "503",
        answer(error("unavailable", "Service Unavailable"), "503 Service Unavailable"),
        "{} answered HTTP 503 Service Unavailable (unavailable): Service Unavailable",
    ),
    (
        "query time-out",
        answer(error("timeout", "query timed out"), "503 Service Unavailable"),
        "Prometheus gave the query up (timeout): query timed out",
    ),
    (
        "500 of the moment",
        answer(error("unavailable", "TSDB not ready"), "500 Internal Server Error"),
        "{} answered HTTP 500 Internal Server Error (unavailable): TSDB not ready",
    ),
    ("hang up", faults.hang_up, "{} closed the connection without an answer"),
    ("reset", faults.reset, "{} reset the connection"),
    ("broken off", faults.break_off, "{} broke off in the middle of its answer"),
    ("cut JSON", answer('{"status":"succ'), "{} sent JSON that breaks off after 15 bytes"),
    ("nothing", answer(""), "{} sent an empty answer"),
    ("hang", faults.hang, "{} did not answer within 0.3 s"),
    ("slow body", faults.drip("body", 0.05), "{} did not answer within 0.3 s"),
    ("slow head", faults.drip("head", 0.05), "{} did not answer within 0.3 s"),
]
transient = pytest.mark.parametrize(
    ("step", "sentence"), [case[1:] for case in TRANSIENT], ids=[case[0] for case in TRANSIENT]
)


def timeout_of(sentence: str) -> float:
    """Return a time-out that only a server that is too slow on purpose runs into."""
    return 0.3 if "within 0.3 s" in sentence else 10.0


@transient
def test_transient(step: Step, sentence: str) -> None:
    """What may pass is asked again, and the answer then counts as if nothing had been."""
    with ScriptedServer(step, step, answer()) as server:
        assert ask(server.url, "x", timeout_seconds=timeout_of(sentence)) == ORDERS
        assert len(server.received) >= 3


@transient
def test_deadline(step: Step, sentence: str) -> None:
    """What does not pass ends at the deadline, with the reason and the number of tries."""
    with ScriptedServer(step) as server:
        begin = time.monotonic()
        message = failed(ask(server.url, "x", within=1.5, timeout_seconds=timeout_of(sentence)))
        assert time.monotonic() - begin < 1.5 + SLACK_SECONDS
        told = re.fullmatch(r"(.*) \((\d+) tries\)", message)
        assert told, message
        assert told[1] == sentence.format(f"Prometheus at {server.url}")
        # The last request may be given up before it is read.
        assert 2 <= len(server.received) <= int(told[2]) <= len(server.received) + 1


def test_slow_body_leaves_nothing_behind() -> None:
    """An answer that drips is hung up on: neither its thread nor its connection stays."""
    with ScriptedServer(faults.drip("body", 0.02)) as server:
        failed(ask(server.url, "x", within=0.7, timeout_seconds=0.3))
        threads = [one for one in threading.enumerate() if one.name == "prometheus-query"]
        for thread in threads:
            thread.join(timeout=5)
        assert [thread for thread in threads if thread.is_alive()] == []


def test_refused() -> None:
    """A port where nobody listens is tried again and named."""
    url = f"http://127.0.0.1:{free_port()}"
    message = failed(ask(url, "x", within=1.0))
    assert message.startswith(f"Prometheus at {url} refused the connection (")


def test_unknown_name() -> None:
    """A host that does not resolve is told as such, within the deadline."""
    begin = time.monotonic()
    message = failed(ask("http://prometheus.invalid:9090", "x", within=1.0))
    assert time.monotonic() - begin < 1.0 + SLACK_SECONDS
    # A resolver that is itself out of reach does not even say that.
    assert "the name prometheus.invalid does not resolve" in message or "within" in message


def test_no_connection_accepted() -> None:
    """A host that does not answer to SYN costs no more than the time-out."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.settimeout(0)
            one.connect_ex(("127.0.0.1", port))
        message = failed(ask(f"http://127.0.0.1:{port}", "x", within=1.0, timeout_seconds=0.3))
        for one in waiting:
            one.close()
    assert "did not accept a connection within 0." in message


def test_retry_after() -> None:
    """A server that asks to wait is not asked again earlier."""
    busy = answer("busy", "429 Too Many Requests", {"Retry-After": "1"})
    with ScriptedServer(busy, answer()) as server:
        begin = time.monotonic()
        assert ask(server.url, "x") == ORDERS
        assert time.monotonic() - begin >= 1.0
        assert len(server.received) == 2


def test_retry_after_the_deadline() -> None:
    """A server that asks to wait longer than there is time is not asked again, nor waited for."""
    busy = answer("busy", "503 Service Unavailable", {"Retry-After": "120"})
    with ScriptedServer(busy) as server:
        begin = time.monotonic()
        message = failed(ask(server.url, "x", within=20.0))
        assert time.monotonic() - begin < 10.0
        assert len(server.received) == 1
    assert message.endswith("busy (it asks to wait 120 s, longer than there is time)")


def test_no_time_at_all() -> None:
    """A deadline that has passed costs no request."""
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", within=-1.0))
        assert message == "there was no time left to ask Prometheus"
        assert server.received == []


def test_last_try_cut_short() -> None:
    """A last try that only the deadline ends does not hide the reason that came before."""
    busy = answer("busy", "503 Service Unavailable")
    with ScriptedServer(busy, faults.hang) as server:
        message = failed(ask(server.url, "x", within=1.5, timeout_seconds=10))
        assert message == (
            f"Prometheus at {server.url} answered HTTP 503 Service Unavailable: busy (2 tries)"
        )


def test_stop_ends_the_wait() -> None:
    """A stop of the daemon ends the wait before the next try."""
    stop = threading.Event()
    busy = answer("busy", "503 Service Unavailable", {"Retry-After": "30"})

    def stop_and_answer(peer: faults.Peer) -> None:
        threading.Timer(0.2, stop.set).start()
        busy(peer)

    with ScriptedServer(stop_and_answer) as server, reading(server.url, stop=stop) as reader:
        begin = time.monotonic()
        message = failed(reader.query("x", clock.monotonic() + 60))
        assert time.monotonic() - begin < 10.0
        assert "busy" in message
        assert len(server.received) == 1


def test_success() -> None:
    """The scripted server's answer is read as a real one's, over one connection for all."""
    with ScriptedServer(answer()) as server, reading(server.url) as reader:
        for _ in range(5):
            assert reader.query("x", clock.monotonic() + 10) == ORDERS
        assert (len(server.received), server.connections) == (5, 1)


def test_request() -> None:
    """The query is sent in the body only; the user's parameters and headers beside it."""
    with ScriptedServer(answer()) as server:
        answered(
            ask(
                f"{server.url}/prom/",
                'a{b="ü"} + 1',
                headers={"X-Scope-OrgID": "shop"},
                query_parameters={"dedup": ("true",), "match": ("a", "b")},
            )
        )
        (received,) = server.received
    assert received.target == "/prom/api/v1/query?dedup=true&match=a&match=b"
    assert received.body == b"query=a%7Bb%3D%22%C3%BC%22%7D+%2B+1"
    assert received.headers["X-Scope-Orgid"] == "shop"
    assert received.headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_partial_answer() -> None:
    """Warnings are kept with the answer; infos, in either place, say nothing of completeness."""
    partial = vector(
        *VECTOR["data"]["result"],  # type: ignore[index]  # the shape is ours
        warnings=["store 2: gone", "PromQL info: metric might not be a counter"],
        infos=["PromQL info: metric might not be a counter"],
    )
    with ScriptedServer(answer(partial)) as server:
        outcome = answered(ask(server.url, "x"))
    assert outcome.series == ORDERS.series
    assert outcome.warnings == ("store 2: gone",)


def test_too_large() -> None:
    """An answer beyond the bound is given up while it comes, not held in memory."""
    with ScriptedServer(answer(b" " * (3 << 20))) as server:
        with reading(server.url, most_bytes=2 << 20) as reader:
            message = failed(reader.query("x", clock.monotonic() + 10))
        assert message.endswith("sent more than 2 MiB: the query should aggregate")
        assert len(server.received) == 1
