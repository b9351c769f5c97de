"""A server that does what a script says: the faults that no healthy Prometheus shows."""

import json
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from autoscaler.core.series import QueryResult, Series

VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [{"metric": {"queue": "orders"}, "value": [1700000000.5, "42"]}],
    },
}

ORDERS = QueryResult([Series({"queue": "orders"}, 42.0, 1700000000.5)])
"""What VECTOR is read as."""


def error(kind: str, text: str) -> dict[str, object]:
    """Return an error of Prometheus' own format."""
    return {"status": "error", "errorType": kind, "error": text}


def vector(*result: object, **more: object) -> dict[str, object]:
    """Return a success whose result may have any shape."""
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


@dataclass(frozen=True)
class Received:
    """One request as it arrived; ``target`` is what follows the method."""

    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Peer:
    """The connection on which a request came; ``stopping`` is set when the server ends."""

    socket: socket.socket
    stopping: threading.Event
    received: Received


Step = Callable[[Peer], None]


def answer(
    body: object = VECTOR, status: str = "200 OK", headers: Mapping[str, str] | None = None
) -> Step:
    """QueryResult in full; what is not text or bytes is sent as JSON."""
    content = _content(body)

    def step(peer: Peer) -> None:
        peer.socket.sendall(_head(status, {"Content-Length": str(len(content)), **(headers or {})}))
        peer.socket.sendall(content)

    return step


def echo(status: str) -> Step:
    """QueryResult with the headers and the target of the request, as careless error pages do."""

    def step(peer: Peer) -> None:
        said = f"{peer.received.target} {dict(peer.received.headers)}"
        answer(said, status)(peer)

    return step


def hang(peer: Peer) -> None:
    """Never answer."""
    peer.stopping.wait()


def hang_up(peer: Peer) -> None:
    """Close the connection without a word."""
    peer.socket.shutdown(socket.SHUT_RDWR)


def reset(peer: Peer) -> None:
    """Send half of an answer, then a TCP reset."""
    peer.socket.sendall(_head("200 OK", {"Content-Length": "1000"}) + b'{"status":')
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.socket.close()


def break_off(peer: Peer) -> None:
    """Send half of an answer, then close in order."""
    peer.socket.sendall(_head("200 OK", {"Content-Length": "1000"}) + b'{"status":')


def drip(where: str, every_seconds: float) -> Step:
    """Send the head or the body byte by byte, each well within any time-out, without an end."""

    def step(peer: Peer) -> None:
        if where == "head":
            peer.socket.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        else:
            peer.socket.sendall(_head("200 OK", {"Content-Length": "100000"}))
        try:
            while not peer.stopping.wait(every_seconds):
                peer.socket.sendall(b" ")
        except OSError:
            """The client had enough."""

    return step


def speak(raw: bytes) -> Step:
    """Send bytes that need be no HTTP."""
    return lambda peer: peer.socket.sendall(raw)


class ScriptedServer:
    """Serves on a free port of 127.0.0.1: request n gets step n, later ones the last step."""

    def __init__(self, *script: Step) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.received: list[Received] = []
        self.connections = 0
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self, request: Received) -> Step:
        with self._lock:
            self.received.append(request)
            return self._script[min(len(self.received), len(self._script)) - 1]

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        scripted = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 5.0

            def handle(self) -> None:
                with scripted._lock:
                    scripted.connections += 1
                try:
                    while (request := _read_request(self)) is not None:
                        step = scripted._next(request)
                        step(Peer(self.connection, scripted._stopping, request))
                        if step in {hang, reset, break_off}:
                            return
                except OSError:
                    """The client hung up, or the connection is reset by the script."""

        return Handler


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


def _read_request(handler: socketserver.StreamRequestHandler) -> Received | None:
    line = handler.rfile.readline(65_537)
    if not line.strip():
        return None
    headers: dict[str, str] = {}
    while header := handler.rfile.readline(65_537).strip():
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.title()] = value.strip()
    body = handler.rfile.read(int(headers.get("Content-Length", "0")))
    return Received(line.split()[1].decode("latin-1"), headers, body)


def _content(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _head(status: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1")
