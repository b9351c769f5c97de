"""A server that does what a script says: the faults that no healthy Prometheus shows."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from autoscaler.core.series import QueryResult, Series
from tests.worlds.cluster.localserver import LocalHandler, LocalServer, reset_connection
from tests.worlds.proxies.wire import head_of

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
    return {"status": "error", "errorType": kind, "error": text}


def vector(*result: object, **more: object) -> dict[str, object]:
    """Return a success whose result may have any shape."""
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


@dataclass(frozen=True)
class Received:
    """One request as it arrived; ``target`` is what follows the method."""

    method: str
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
    """Answer in full; other values than text or bytes are sent as JSON."""
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    content = text if isinstance(text, bytes) else text.encode()

    def step(peer: Peer) -> None:
        peer.socket.sendall(
            head_of(status, {"Content-Length": str(len(content)), **(headers or {})})
        )
        peer.socket.sendall(content)

    return step


def echo(status: str) -> Step:
    """Answer with the headers and the target of the request, as careless error pages do."""

    def step(peer: Peer) -> None:
        said = f"{peer.received.target} {dict(peer.received.headers)}"
        answer(said, status)(peer)

    return step


def hang(peer: Peer) -> None:
    peer.stopping.wait()


def hang_up(peer: Peer) -> None:
    peer.socket.shutdown(socket.SHUT_RDWR)


def reset(peer: Peer) -> None:
    """Send half of an answer, then a TCP reset."""
    peer.socket.sendall(head_of("200 OK", {"Content-Length": "1000"}) + b'{"status":')
    reset_connection(peer.socket)


def break_off(peer: Peer) -> None:
    """Send half of an answer, then close in order."""
    peer.socket.sendall(head_of("200 OK", {"Content-Length": "1000"}) + b'{"status":')


def drip(where: str, every_seconds: float) -> Step:
    """Send the head or the body byte by byte, each well within any time-out, without an end."""
    head = head_of("200 OK", {"Content-Length": "100000"})
    begin = {"head": b"HTTP/1.1 200 OK\r\nX-Slow: ", "body": head}[where]
    return endless(begin, b" ", every_seconds)


def endless(begin: bytes, block: bytes, every_seconds: float = 0.0) -> Step:
    """Send a beginning, and then a block again and again, as long as it is taken."""

    def step(peer: Peer) -> None:
        with suppress(OSError):
            peer.socket.sendall(begin)
            while not peer.stopping.wait(every_seconds):
                peer.socket.sendall(block)

    return step


def speak(raw: bytes) -> Step:
    """Send bytes that need be no HTTP."""
    return lambda peer: peer.socket.sendall(raw)


class ScriptedServer(LocalServer):
    """Serves on a free port of 127.0.0.1: request n gets step n, later ones the last step."""

    def __init__(self, *script: Step) -> None:
        self._script = script
        self._lock = threading.Lock()
        self.received: list[Received] = []
        self.connections = 0
        super().__init__(_Handler)

    def connected(self) -> None:
        with self._lock:
            self.connections += 1

    def next_step(self, request: Received) -> Step:
        """Note a request, and return what becomes of it."""
        with self._lock:
            self.received.append(request)
            return self._script[min(len(self.received), len(self._script)) - 1]


class _Handler(LocalHandler):
    server: ScriptedServer
    timeout = 5.0

    def handle(self) -> None:
        self.server.connected()
        # The client hangs up, or the connection is reset by the script.
        with suppress(OSError):
            while (request := self._read()) is not None:
                step = self.server.next_step(request)
                step(Peer(self.connection, self.server.closing, request))
                if step in {hang, reset, break_off}:
                    return

    def _read(self) -> Received | None:
        line = self.rfile.readline(65_537)
        if not line.strip():
            return None
        headers: dict[str, str] = {}
        while header := self.rfile.readline(65_537).strip():
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.title()] = value.strip()
        body = self.rfile.read(int(headers.get("Content-Length", "0")))
        method, target = line.decode("latin-1").split()[:2]
        return Received(method, target, headers, body)
