"""An HTTP server that answers as a test tells it to, once for each request, faults included."""

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import yaml

from tests.contract.cluster import Json

GREETING = "scripted-token"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets.  ``fault`` happens instead of, or in the middle of, the answer."""

    status: int = 200
    body: Json | bytes = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    """reset: no answer; cut: half the body; hang: silence; drip: a byte now and then."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    authorization: str
    body: Json


def failure(code: int, reason: str, message: str, **details: object) -> Answer:
    """Answer with a Status."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    return Answer(code, status)


def scale(replicas: int, version: str = "7", status_replicas: int = 1) -> Answer:
    """Answer with a Scale."""
    return Answer(
        body={
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": version},
            "spec": {"replicas": replicas},
            "status": {"replicas": status_replicas, "selector": "app=web"},
        }
    )


class ScriptedServer(ThreadingHTTPServer):
    """Gives the answers in turn; the last one stands for all that follow."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        self._answers = deque(answers)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def methods(self) -> list[str]:
        """The methods of the requests so far."""
        return [asked.method for asked in self.asked]

    def write_kubeconfig(self, path: Path, **user: object) -> Path:
        """Write a kubeconfig for it, whose user has a token unless it is said to have others."""
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": user or {"token": GREETING}}],
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "main",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def next_answer(self, asked: Asked) -> Answer:
        """Note a request and return what it gets."""
        with self._lock:
            self.asked.append(asked)
            return self._answers.popleft() if len(self._answers) > 1 else self._answers[0]

    def opened(self, connection: socket.socket) -> None:
        """Remember a connection, so that the end of the server is its end too."""
        self._connections.add(connection)


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing."""

    def do_GET(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(
            self.command,
            self.path,
            self.headers.get("Authorization", ""),
            json.loads(raw) if raw else {},
        )
        answer = self.server.next_answer(asked)
        if answer.fault == "hang":
            self.server.closing.wait()
        if answer.fault in {"reset", "hang"}:
            self._reset()
        else:
            self._send(answer)

    do_PUT = do_GET  # noqa: N815 - the base's naming

    def _send(self, answer: Answer) -> None:
        is_text = isinstance(answer.body, bytes)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/html" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.fault == "cut":
            self.wfile.write(body[: len(body) // 2])
            self._reset()
        elif answer.fault == "drip":
            for position in range(len(body)):
                self.wfile.write(body[position : position + 1])
                if self.server.closing.wait(0.1):
                    return
        else:
            self.wfile.write(body)

    def _reset(self) -> None:
        """End the connection by RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
