"""The API over HTTP/1.1 on loopback: keep-alive connections, watches as chunked streams."""

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from autoscaler.demo.apiserver import status
from autoscaler.demo.apiserver.access import Access
from autoscaler.demo.apiserver.objects import KubeObject
from autoscaler.demo.apiserver.registry import Registry
from autoscaler.demo.apiserver.requests import Request, parse
from autoscaler.demo.apiserver.store import ObjectStore
from autoscaler.demo.apiserver.verbs import Verbs, WatchAnswer

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-stand-in",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_HEALTH = ("/healthz", "/livez", "/readyz")
_MAX_BODY = 3 * 1024 * 1024


class ApiServer(ThreadingHTTPServer):
    """Serves a store until `close`; every connection has a thread."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, store: ObjectStore, access: Access, address: tuple[str, int]) -> None:
        self.store = store
        self.registry = Registry(store)
        self.verbs = Verbs(store, self.registry)
        self.access = access
        self.closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """End all watches and connections and join their threads."""
        self.closing.set()
        self.store.wake()
        self.shutdown()
        with self._lock:
            for connection in self._connections:
                # The peer may have closed it already.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def opened(self, connection: socket.socket) -> None:
        """Remember a connection, so that `close` ends it."""
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self._lock:
            self._connections.discard(connection)


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    _discovery: ClassVar = ("/api", "/apis")

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def handle(self) -> None:
        # A client that goes away in the middle is no fault of the server.
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        self.server.closed(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing: the clients see the answers."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base's naming

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY:
            self.close_connection = True
            error = status.ApiError(413, "RequestEntityTooLarge", "limit is 3145728")
            self._send_json(413, error.status)
            return
        body = self.rfile.read(length)
        content_type = self.headers.get("Content-Type") or "application/json"
        request = parse(self.command, self.path, content_type, body)
        try:
            user = self.server.access.authenticate(self.headers.get("Authorization"))
            self.server.access.authorize(user, request)
            self._answer(request)
        except status.ApiError as error:
            self._send_json(error.code, error.status)
        except status.NoSuchPath:
            self._send(404, "text/plain; charset=utf-8", b"404 page not found\n")

    def _answer(self, request: Request) -> None:
        if request.plural and request.group is not None:
            answer = self.server.verbs.handle(request, self._going)
            if isinstance(answer, WatchAnswer):
                self._stream(answer.events)
            else:
                self._send_json(answer.code, answer.body)
            return
        path = request.path.rstrip("/")
        if path in _HEALTH or path == "/version" or path.startswith(self._discovery):
            if request.method != "GET":
                raise status.method_not_allowed()
            if path in _HEALTH:
                self._send(200, "text/plain; charset=utf-8", b"ok")
            else:
                found = VERSION if path == "/version" else self.server.registry.discover(path)
                self._send_json(200, found)
            return
        raise status.NoSuchPath

    def _going(self) -> bool:
        """Return whether neither the server nor the client has hung up."""
        if self.server.closing.is_set():
            return False
        readable, _, _ = select.select([self.connection], [], [], 0)
        return not (readable and self.connection.recv(1, socket.MSG_PEEK) == b"")

    def _send_json(self, code: int, body: KubeObject) -> None:
        self._send(code, "application/json", _dump(body))

    def _send(self, code: int, content_type: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _stream(self, events: Iterator[KubeObject | None]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for event in events:
            if event is not None:
                line = _dump(event)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


def _dump(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"
