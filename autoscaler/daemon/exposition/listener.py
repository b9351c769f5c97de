"""One HTTP listener for a few pages, which no client can hold up or use up."""

import errno
import socket
import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any, NamedTuple, Self

from prometheus_client.exposition import gzip_accepted

from autoscaler import clock
from autoscaler.daemon.exposition.site import Page

MOST_CONNECTIONS = 32
MOST_OF_ONE_CLIENT = 8
"""So many connections may come from one address, so that no client keeps the probes out."""
MOST_SECONDS = 10.0
"""How long one connection may last, its request and its answer together."""

_CHECK_SECONDS = 0.1
"""How often it is looked for connections that lasted too long, and for the order to close."""
_CLOSE_SECONDS = 1.0
# The quickest level: it makes the page of 10,000 targets twenty times smaller as well.
_LEVEL, _GZIP = 1, 31

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Answer = Callable[[str, str], Page]
"""Gives the page of a path, and of an Accept header."""


class ListenError(Exception):
    """The address cannot be listened on; the text is a sentence for the operator."""


class Listener:
    """Answers GET and HEAD, one thread for each connection and one request on each.

    At most ``most_connections`` are open at once, `MOST_OF_ONE_CLIENT` of one address; further ones
    are closed without an answer.  None lasts longer than ``most_seconds``.  ``on_fault`` is told
    what a page raised.  Raises ListenError where the address cannot be listened on; an empty host
    means all addresses, port 0 any free port.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answer: Answer,
        on_fault: Callable[[BaseException], None],
        *,
        most_connections: int = MOST_CONNECTIONS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self._server = _Server(
            _listening(host, port), answer, on_fault, most_connections, most_seconds
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_CHECK_SECONDS,), name="http", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        number: int = self._server.socket.getsockname()[1]
        return number

    def close(self) -> None:
        """End everything, what is being answered included, within about a second."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.end_connections()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        if host:
            family, *_, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            return socket.create_server(address[:2], family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except (OSError, UnicodeError) as error:
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise ListenError(f"cannot listen on {shown} (listen): {_reason(error)}") from None


class _Visit(NamedTuple):
    """A connection that is open: of which address, until when at most, and who answers."""

    client: str
    until: float
    thread: threading.Thread


class _Server(TCPServer):
    """Accepts connections, gives each a thread, and cuts those that last too long."""

    def __init__(
        self,
        listening: socket.socket,
        answer: Answer,
        on_fault: Callable[[BaseException], None],
        most_connections: int,
        most_seconds: float,
    ) -> None:
        self._answer = answer
        self._on_fault = on_fault
        self._most_connections = most_connections
        self._most_seconds = most_seconds
        self._lock = threading.Lock()
        self._open: dict[socket.socket, _Visit] = {}
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        # A client that is gone again before it is accepted must not be waited for.
        self.socket.settimeout(_CHECK_SECONDS)
        self._pause = threading.Event()

    def page(self, path: str, accept: str, *, compress: bool) -> tuple[Page, list[bytes]]:
        """Return the page of a path, and its whole body; a defect of it ends nothing else.

        A large one is compressed while it is made, if the client takes it so.
        """
        try:
            page = self._answer(path, accept)
            body = _compressed(page.body) if compress and page.large else list(page.body)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            self._on_fault(error)
            body = [b"a fault; the log has it\n"]
            page = Page(500, "text/plain; charset=utf-8", body)
        return page, body

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; without a file descriptor to spare, try again in a while."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._pause.wait(_CHECK_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Take a connection unless there are too many, of all clients or of this one."""
        with self._lock:
            of_it = sum(one.client == client_address[0] for one in self._open.values())
            return len(self._open) < self._most_connections and of_it < MOST_OF_ONE_CLIENT

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread of its own."""
        thread = threading.Thread(
            target=self._carry_out, args=(request, client_address), name="http-answer", daemon=True
        )
        with self._lock:
            until = clock.monotonic() + self._most_seconds
            self._open[request] = _Visit(client_address[0], until, thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread to spare
            self._forget(request)

    def service_actions(self) -> None:
        """Cut the connections that lasted too long; called several times a second."""
        now = clock.monotonic()
        with self._lock:
            late = [one for one, visit in self._open.items() if visit.until <= now]
        for one in late:
            _cut(one)

    def end_connections(self) -> None:
        """Cut all connections, and wait a moment for their threads."""
        with self._lock:
            connections = dict(self._open)
        for one in connections:
            _cut(one)
        until = clock.monotonic() + _CLOSE_SECONDS
        for visit in connections.values():
            visit.thread.join(max(0.0, until - clock.monotonic()))

    def _carry_out(self, request: socket.socket, client_address: object) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            """The client is gone, or was cut."""
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        self.shutdown_request(request)
        with self._lock:
            del self._open[request]


def _cut(connection: socket.socket) -> None:
    """End a connection under the thread that serves it, which notices at once."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One request: HTTP/1.0 closes the connection after it."""

    server: _Server

    def do_GET(self) -> None:
        """Answer with the page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self._answer(with_body=False)

    def version_string(self) -> str:
        """Name the server without versions, which are nobody's business."""
        return "autoscaler"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log no requests."""

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        # A header may be folded over several lines.
        accept = " ".join(self.headers.get("Accept", "").split())
        compress = gzip_accepted(self.headers.get("Accept-Encoding", ""))
        page, body = self.server.page(path, accept, compress=compress)
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(sum(map(len, body))))
        self.send_header("Cache-Control", "no-store")
        if compress and page.large:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        for part in body if with_body else ():
            self.wfile.write(part)


def _compressed(parts: Iterable[bytes]) -> list[bytes]:
    deflate = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return [*(deflate.compress(part) for part in parts), deflate.flush()]


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return "the name does not resolve"
    return {
        errno.EADDRINUSE: "another process listens there already",
        errno.EACCES: "the permission is missing; ports below 1024 need CAP_NET_BIND_SERVICE",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }.get(error.errno or 0, error.strerror or type(error).__name__)
