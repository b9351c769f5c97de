"""The API over HTTP/1.1 on loopback: keep-alive connections, watches as chunked streams."""

import hmac
import json
import secrets
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import yaml

from autoscaler import clock
from autoscaler.demo.apiserver.controllers import Controllers
from autoscaler.demo.apiserver.store import ObjectStore, StatusError, UnknownPathError
from autoscaler.demo.apiserver.verbs import ApiAnswer, Verbs, WatchEvents, parse

_MOST_BYTES = 3 * 1024 * 1024


class ApiServer(ThreadingHTTPServer):
    """Serves a store, to whoever has the token, until `close`; every connection has a thread."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, store: ObjectStore, token: str) -> None:
        self.verbs = Verbs(store)
        self.authorization = f"Bearer {token}".encode()
        self.closing = threading.Event()
        self.connections: set[socket.socket] = set()
        self._store = store
        super().__init__(("127.0.0.1", 0), _ApiHandler)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """End all watches and connections and join their threads."""
        self.closing.set()
        self._store.wake()
        self.shutdown()
        for connection in self.connections.copy():
            # The peer may have closed it already.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _ApiHandler(BaseHTTPRequestHandler):
    server: ApiServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def handle(self) -> None:
        # A client that disconnects is not a fault of the server.
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing: the clients see the answers."""

    def do_GET(self) -> None:
        try:
            answer = self._answer()
        except StatusError as refused:
            self._send(refused.code, "application/json", _dump(refused.status))
        except UnknownPathError:
            self._send(404, "text/plain; charset=utf-8", b"404 page not found\n")
        else:
            if isinstance(answer, ApiAnswer):
                self._send(answer.code, "application/json", _dump(answer.body))
            else:
                self._stream(answer)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base's naming

    def _answer(self) -> ApiAnswer | WatchEvents:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BYTES:
            self.close_connection = True
            raise StatusError(413, "RequestEntityTooLarge", f"limit is {_MOST_BYTES}")
        body = self.rfile.read(length)
        authorization = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(authorization, self.server.authorization):
            raise StatusError(401, "Unauthorized", "Unauthorized")
        content_type = self.headers.get("Content-Type") or "application/json"
        request = parse(self.command, self.path, content_type, body)
        return self.server.verbs.handle(request, self._going)

    def _going(self) -> bool:
        """Return whether neither the server nor the client has hung up."""
        if self.server.closing.is_set():
            return False
        try:
            # Not through TLS, which cannot peek, nor by select(), which takes no file above 1,023.
            peeked = socket.socket.recv(self.connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        return peeked != b""

    def _send(self, code: int, content_type: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _stream(self, events: WatchEvents) -> None:
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


_IDLE_SECONDS = 1.0


class StandInCluster:
    """A cluster in this process, for a `with` statement.

    ``ready_after`` is the seconds that a pod takes to become ready; ``kept_changes`` is how many
    changes a watch can be behind before it expires.  ``token`` is who may do everything.
    """

    def __init__(self, *, ready_after: float = 0.0, kept_changes: int = 4096) -> None:
        self.token = secrets.token_urlsafe(24)
        self.store = ObjectStore(kept_changes)
        self._controllers = Controllers(self.store, ready_after)
        self._server = ApiServer(self.store, self.token)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), name="stand-in-api"),
            threading.Thread(target=self._control, name="stand-in-controllers"),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.close()
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self._server.url

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this cluster, readable by its owner only, and return its path."""
        name = "demo"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def _control(self) -> None:
        """Run the controllers after every change and whenever a pod becomes ready."""
        while not self._stopping.is_set():
            version = self.store.version
            due = self._controllers.step(clock.monotonic(), clock.wall())
            if self.store.version == version:
                wait = _IDLE_SECONDS if due is None else max(0.0, due - clock.monotonic())
                self.store.wait_beyond(version, min(wait, _IDLE_SECONDS))
