"""Whose socket is cut: that of the request that is not waited for, and nobody else's."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socketpair

import pytest
from urllib3.util.ssltransport import SSLTransport

from autoscaler.adapters.prometheus.reader import PrometheusReader
from autoscaler.core.series import QueryResult
from autoscaler.transport import Observer
from autoscaler.transport.deadline import RequestSocket
from tests.adapters.prometheus.reading import failed, query, query_threads, reading, settings
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ScriptedServer
from tests.worlds.waiting import wait_until

BODY = b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'


def test_a_connection_that_another_request_uses_by_now_is_left_alone() -> None:
    """The first has its answer and is busy with it for too long; the second waits for its own."""
    asked: list[object] = []
    read, go_on, cut = threading.Event(), threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.client_address)
            if len(asked) == 2:
                cut.wait(20)
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Waiting(Observer):
        def prometheus_request(self, server: str, status: str, seconds: float) -> None:  # noqa: ARG002
            if not read.is_set():
                read.set()
                go_on.wait(20)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        options = settings(f"http://127.0.0.1:{server.server_port}")
        reader = PrometheusReader(options, threading.Event(), observer=Waiting())

        def first() -> None:
            query(reader, "first", within=0.5)
            cut.set()

        thread = threading.Thread(target=first)
        thread.start()
        assert read.wait(20)
        answer = query(reader, "second", within=20)
        go_on.set()
        thread.join()
        server.shutdown()
        serving.join()
        reader.close()
    assert isinstance(answer, QueryResult)
    assert len(asked) == 2
    assert asked[0] == asked[1]


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
