"""One HTTP listener for a few pages, which no client can hold up or use up."""

import errno
import socket
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self

from prometheus_client.exposition import gzip_accepted

from autoscaler import clock
from autoscaler.daemon.exposition.site import Page, text_page

MOST_CONNECTIONS = 32
MOST_OF_ONE_CLIENT = 8
"""So many connections may come from one address."""
MOST_SECONDS = 10.0
"""How long one connection may last, its request and its answer together."""
MOST_HEAD_SECONDS = 3.0
"""How much of it the request line and the headers may take."""
MOST_HEAD_BYTES = 16 << 10
"""How long the request line and the headers may be together."""
MOST_LARGE_PAGES = 3
"""So many are made or sent at once: one that its client does not read stays in memory."""

_CHECK_SECONDS = 0.1
"""How often connections that lasted too long, and the order to close, are looked for."""
_CLOSE_SECONDS = 1.0
"""How long the end waits for the threads of connections."""
# The quickest level: it makes the page of 10,000 targets twenty times smaller as well.
_LEVEL, _GZIP = 1, 31

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Answer = Callable[[str, str], Page]
"""Returns the page of a path, for an Accept header."""


class ListenError(Exception):
    """The address cannot be listened on; the text is a sentence for the operator."""


class Listener:
    """Answers GET and HEAD, one thread for each connection and one request on each.

    At most ``most_connections`` are open at once, `MOST_OF_ONE_CLIENT` of one address.  One more
    takes the place of one that has not sent its head; without such a one it is closed without an
    answer.  None lasts longer than ``most_seconds``, nor takes longer than ``most_head_seconds``
    to send its head.  ``on_fault`` is called with what a page raised.  Raises ListenError where
    the address cannot be listened on; an empty host means all addresses, port 0 any free port.
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
        most_head_seconds: float = MOST_HEAD_SECONDS,
    ) -> None:
        connections = _OpenConnections(most_connections, most_seconds, most_head_seconds)
        self._server = _Server(_listening(host, port), answer, on_fault, connections)
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
        """End everything, answers under way included, within about a second."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.connections.end()

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


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return "the name does not resolve"
    return {
        errno.EADDRINUSE: "another process listens there already",
        errno.EACCES: "the permission is missing; ports below 1024 need CAP_NET_BIND_SERVICE",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }.get(error.errno or 0, error.strerror or type(error).__name__)


@dataclass(slots=True)
class _Connection:
    """An open connection: its client's address, since when it is open, and when it is cut."""

    client: str
    begun: float
    until: float
    asked: bool = False
    """Whether its whole head was read; until then it may give way to another."""
    cut: bool = False


class _OpenConnections:
    """The open connections and their limits; any thread may call."""

    def __init__(self, most: int, most_seconds: float, most_head_seconds: float) -> None:
        self._most = most
        self._seconds = most_seconds
        self._head_seconds = min(most_head_seconds, most_seconds)
        self._changed = threading.Condition()
        self._open: dict[socket.socket, _Connection] = {}

    def admit(self, client: str) -> bool:
        """Return whether another connection of an address may be opened.

        Where there are too many, of all addresses or of this one, one that has not sent its head
        is cut for it.
        """
        with self._changed:
            staying = {one: known for one, known in self._open.items() if not known.cut}
            own = {one: known for one, known in staying.items() if known.client == client}
            if len(own) >= MOST_OF_ONE_CLIENT:
                return _make_room(own)
            return len(staying) < self._most or _make_room(staying)

    def add(self, connection: socket.socket, client: str) -> None:
        """Add a connection that was opened."""
        now = clock.monotonic()
        with self._changed:
            self._open[connection] = _Connection(client, now, now + self._head_seconds)

    def asked(self, connection: socket.socket) -> bool:
        """Note that its whole head was read; return False if it was cut before."""
        with self._changed:
            known = self._open[connection]
            known.asked = True
            known.until = known.begun + self._seconds
            return not known.cut

    def remove(self, connection: socket.socket) -> None:
        """Remove a connection that was closed."""
        with self._changed:
            self._open.pop(connection, None)
            self._changed.notify_all()

    def cut_late(self) -> None:
        """Cut those that lasted too long."""
        now = clock.monotonic()
        with self._changed:
            for connection, known in self._open.items():
                if known.until <= now:
                    _cut(connection, known)

    def end(self) -> None:
        """Cut all, and wait a moment until they are closed."""
        with self._changed:
            for connection, known in self._open.items():
                _cut(connection, known)
            self._changed.wait_for(lambda: not self._open, _CLOSE_SECONDS)


def _make_room(among: dict[socket.socket, _Connection]) -> bool:
    """Cut the oldest idle one of the address that has most of them; return False without any."""
    idle = [(one, known) for one, known in among.items() if not known.asked]
    if not idle:
        return False
    held = Counter(known.client for _, known in idle)
    # A client with a single one, as a probe, keeps it while another has several.
    _cut(*max(idle, key=lambda each: (held[each[1].client], -each[1].begun)))
    return True


def _cut(connection: socket.socket, known: _Connection) -> None:
    """End a connection under the thread that serves it, which notices at once."""
    known.cut = True
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingMixIn, TCPServer):
    """Accepts connections, gives each a thread, and cuts those that last too long."""

    daemon_threads = True

    def __init__(
        self,
        listening: socket.socket,
        answer: Answer,
        on_fault: Callable[[BaseException], None],
        connections: _OpenConnections,
    ) -> None:
        self.connections = connections
        self._answer = answer
        self.on_fault = on_fault
        self._large_pages = threading.BoundedSemaphore(MOST_LARGE_PAGES)
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        # A client that is gone again before it is accepted must not be waited for.
        self.socket.settimeout(_CHECK_SECONDS)
        self._pause = threading.Event()

    def page(
        self, path: str, accept: str, sending: ExitStack, *, compress: bool
    ) -> tuple[Page, Iterable[bytes]]:
        """Return the page of a path, and its whole body unless that is streamed.

        What it raises is a 500, and ends nothing else.  A large one is compressed while it is
        made if ``compress``; it counts until the end of ``sending``, and is a 503 while there are
        too many of them.
        """
        try:
            page = self._answer(path, accept)
            if page.large and not self._has_room(sending):
                page = text_page(503, "too many clients are being sent this page")
            body = _compressed(page.body) if compress and page.large else page.body
            return page, body if page.streamed else list(body)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            self.on_fault(error)
            page = text_page(500, "a fault; the log has it")
            return page, list(page.body)

    def _has_room(self, sending: ExitStack) -> bool:
        if not self._large_pages.acquire(blocking=False):
            return False
        sending.callback(self._large_pages.release)
        return True

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; without a file descriptor to spare, try again in a while."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._pause.wait(_CHECK_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Return whether a connection may stay."""
        return self.connections.admit(client_address[0])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread of its own; without one to spare, the base class closes it."""
        self.connections.add(request, client_address[0])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        super().shutdown_request(request)
        self.connections.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Report a defect; a client that is gone or was cut, and a lack of threads, are none."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError | RuntimeError):
            self.on_fault(error)

    def service_actions(self) -> None:
        """Cut the connections that lasted too long; called several times a second."""
        self.connections.cut_late()


class _Head:
    """The request line and the headers as they are read; readline raises HTTPException beyond."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = MOST_HEAD_BYTES
        self.close = file.close

    def readline(self, limit: int) -> bytes:
        """Return the next line, or so many bytes of it."""
        line = self._file.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException(f"the request line and the headers exceed {MOST_HEAD_BYTES} bytes")
        return line


class _Handler(BaseHTTPRequestHandler):
    """One request: HTTP/1.0 closes the connection after it."""

    server: _Server

    def setup(self) -> None:
        """Read no more than a head."""
        super().setup()
        self.rfile = _Head(self.rfile)  # type: ignore[assignment] # all of it that is used

    def handle_one_request(self) -> None:
        """Answer; of the headers the library says by itself that they are too long."""
        try:
            super().handle_one_request()
        except HTTPException as error:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, explain=str(error))

    def do_GET(self) -> None:
        """Answer with the page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self._answer(with_body=False)

    def version_string(self) -> str:
        """Name the server without versions."""
        return "autoscaler"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log no requests."""

    def _answer(self, *, with_body: bool) -> None:
        if not self.server.connections.asked(self.connection):
            return
        path = self.path.partition("?")[0]
        # A header may be folded over several lines.
        accept = " ".join(self.headers.get("Accept", "").split())
        compress = gzip_accepted(self.headers.get("Accept-Encoding", ""))
        with ExitStack() as sending:
            page, body = self.server.page(path, accept, sending, compress=compress)
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            if isinstance(body, list):
                self.send_header("Content-Length", str(sum(map(len, body))))
            self.send_header("Cache-Control", "no-store")
            if compress and page.large:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self._send(body if with_body else ())

    def _send(self, body: Iterable[bytes]) -> None:
        """Send a body; one that fails while it is made ends early, which its reader can tell."""
        try:
            for part in body:
                self.wfile.write(part)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect of one page ends nothing else
            self.server.on_fault(error)


def _compressed(parts: Iterable[bytes]) -> Iterator[bytes]:
    deflate = zlib.compressobj(_LEVEL, wbits=_GZIP)
    for part in parts:
        yield deflate.compress(part)
    yield deflate.flush()
