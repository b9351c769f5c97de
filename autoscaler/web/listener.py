"""One HTTP listener, which no client can block or exhaust: uvicorn with limits."""

import asyncio
import errno
import logging
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from autoscaler.web.access import CERTIFICATE

MOST_CONNECTIONS = 32
MOST_OF_ONE_CLIENT = 8
"""The most connections from one address that are answered at once."""
MOST_HEAD_BYTES = 16 << 10
"""The most bytes of the request line and the headers together."""

_BACKLOG = 128
"""The most clients that wait to be accepted; asyncio may accept all before it closes one."""
_CLOSE_SECONDS = 1
"""The time limit for closing connections at the end, in seconds."""
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"
    b"the request line and the headers exceed %d bytes\n" % MOST_HEAD_BYTES
)


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The TLS settings of connections."""

    context: Callable[[], ssl.SSLContext]
    """Returns the certificate and the rest, for each handshake. Thread-safe."""
    certificate_refused: Callable[[str], None]
    """Called with the address of a client with a refused certificate."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections; only tests change them."""

    most_connections: int = MOST_CONNECTIONS
    most_seconds: float = 10.0
    """The time limit of a connection with its request and its answer, in seconds."""
    most_head_seconds: float = 3.0
    """The part of it for the request line and the headers."""


class ListenError(Exception):
    """The address cannot be used; the text is a sentence for the operator."""


class Listener:
    """Serves an application on a thread with an event loop, one request per connection.

    The number of open connections has a limit (``limits``). A further one replaces one that has not
    sent its head, or was sent its answer; without such a one it is closed without an answer. At
    most `MOST_OF_ONE_CLIENT` of one address are answered at once; further ones wait. With ``tls``
    the handshake counts as a part of the head. ``setting`` is the configuration key of the address.
    ``on_fault`` is called with exceptions outside of the application. An empty host means all
    addresses, port 0 any free port. Raises ListenError if the address cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        app: ASGIApp,
        on_fault: Callable[[BaseException], None],
        *,
        tls: ListenerTls | None = None,
        setting: str = "listen",
        limits: ConnectionLimits | None = None,
    ) -> None:
        limits = limits or ConnectionLimits()
        self._socket = _listening(host, port, setting)
        self.port: int = self._socket.getsockname()[1]
        self._on_fault = on_fault
        self._server = _UvicornServer(app, partial(_Connection, limits, tls))
        self._loop = asyncio.new_event_loop()
        # Its workers are daemon threads anyway: no page delays the end of the process.
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.server_state.connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End everything, including running answers, within about a second."""
        with suppress(RuntimeError):  # The loop is already closed.
            self._loop.call_soon_threadsafe(self._server.end)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._loop.set_exception_handler(self._report)
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve([self._socket]))

    def _report(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report a defect; a disconnected client and a lack of file descriptors are not defects."""
        error = context.get("exception")
        if error is not None and not isinstance(error, OSError):
            self._on_fault(error)


_REASONS = {
    errno.EADDRINUSE: "another process listens there already",
    errno.EACCES: "the permission is missing; ports below 1024 need CAP_NET_BIND_SERVICE",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


def _listening(host: str, port: int, setting: str) -> socket.socket:
    try:
        if host:
            family, *_, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            return socket.create_server(address[:2], family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except (socket.gaierror, UnicodeError):
        reason = "the name does not resolve"
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or type(error).__name__)
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    raise ListenError(f"cannot listen on {shown} ({setting}): {reason}")


class _UvicornServer(uvicorn.Server):
    """Waits for its end without polling: an idle listener takes no CPU time.

    It uses neither the environment nor uvicorn's own log.
    """

    def __init__(self, app: ASGIApp, connection: object) -> None:
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", connection),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL,  # The application reports faults itself.
            access_log=False,
            workers=1,
            proxy_headers=False,
            server_header=False,
            date_header=False,  # The application sets it: uvicorn's is of the last tick.
            headers=[("Connection", "close")],
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        super().__init__(config)
        self._ended = asyncio.Event()

    async def main_loop(self) -> None:
        """Wait for `end`."""
        await self.on_tick(0)  # This creates the headers of all answers.
        await self._ended.wait()

    def end(self) -> None:
        """End everything; only the event loop may call this."""
        self.force_exit = self.should_exit = True
        self._ended.set()


class _Connection(H11Protocol):
    """A connection that carries one request; only the event loop calls its methods."""

    def __init__(self, limits: ConnectionLimits, tls: ListenerTls | None, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._limits = limits
        self._head_seconds = min(limits.most_head_seconds, limits.most_seconds)
        self._tls = tls
        self._handshake: asyncio.Task[None] | None = None
        self._is_ready = tls is None
        self._early = b""
        """The data that arrived with the last message of the handshake."""
        self._head = bytearray()
        self.asked = False
        """Whether its whole head was read; until then another connection may replace it."""
        self.has_begun = False
        """Whether any of it is read; until then it waits for others of its address."""
        self.was_cut = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, if there is room for another connection of this address."""
        super().connection_made(transport)
        self._socket = transport
        self.address = self.client[0] if self.client else ""
        self.begun = self.loop.time()
        self._timer = self.loop.call_later(self._head_seconds, self.shutdown)
        self._admit()

    def _others(self) -> list["_Connection"]:
        others = cast("set[_Connection]", self.connections) - {self}
        return [other for other in others if not other.was_cut]

    def _admit(self) -> None:
        """Begin, or wait for another of this address to end; an idle one is closed for it."""
        others = self._others()
        own = [other for other in others if other.address == self.address and other.has_begun]
        if len(own) >= MOST_OF_ONE_CLIENT and _make_room(own):
            self._begin()
        elif len(others) >= self._limits.most_connections and not _make_room(others):
            self.shutdown()
        elif len(own) < MOST_OF_ONE_CLIENT:
            self._begin()
        else:
            self._socket.pause_reading()

    def _begin(self) -> None:
        self.has_begun = True
        if self._tls is None:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()
            self._handshake = self.loop.create_task(self._encrypt(self._tls))

    def _let_another_begin(self) -> None:
        """Let the connection begin that has waited longest for another of its address to end."""
        waiting = [listener for listener in self._others() if listener.address == self.address]
        waiting = [listener for listener in waiting if not listener.has_begun]
        if self.has_begun and waiting:
            min(waiting, key=lambda other: other.begun)._begin()  # noqa: SLF001 - its own class

    @property
    def gives_way(self) -> bool:
        """Whether another may replace it: it has sent no request, or was sent its answer."""
        is_sent = self.transport.is_closing() and not self._socket.get_write_buffer_size()
        return not self.asked or is_sent

    async def _encrypt(self, tls: ListenerTls) -> None:
        """Continue with TLS, within the time for the head; otherwise disconnect the client."""
        encrypted: asyncio.Transport | None = None
        try:
            context = await run_in_threadpool(tls.context)
            if not self._socket.is_closing():
                encrypted = await self.loop.start_tls(
                    *(self._socket, self, context),
                    server_side=True,
                    ssl_handshake_timeout=2 * self._head_seconds,  # `shutdown` was called before.
                    ssl_shutdown_timeout=_CLOSE_SECONDS,
                )
        except OSError as error:  # As for all of TLS.
            if isinstance(error, ssl.SSLCertVerificationError):
                tls.certificate_refused(self.address)
        finally:
            if abandoned := encrypted is None or self._socket.is_closing():
                # asyncio does not always report the end of a connection without a handshake.
                self.shutdown()
                self.connection_lost(None)
        if abandoned or encrypted is None:
            return
        self.app_state = {CERTIFICATE: bool(encrypted.get_extra_info("peercert"))}
        super().connection_made(encrypted)
        self._is_ready = True
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """Pass on the head when it is complete, and nothing after it."""
        if not self._is_ready:
            self._early += data[: MOST_HEAD_BYTES + 1]
            return
        if self.asked:
            return
        searched = max(len(self._head) - 2, 0)
        self._head += data[: MOST_HEAD_BYTES + 1]
        found = _END_OF_HEAD.search(self._head, searched)
        size = found.end() if found else len(self._head)
        if size > MOST_HEAD_BYTES:
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
        elif found:
            self.asked = True
            self._timer.cancel()
            self._timer = self.loop.call_at(self.begun + self._limits.most_seconds, self.shutdown)
            super().data_received(bytes(self._head[:size]))
            self._head.clear()

    def eof_received(self) -> bool:  # type: ignore[override] # as asyncio.Protocol has it
        """Return whether to stay open: a client may end its side and wait for the answer.

        TLS has no half-closed connections.
        """
        return self.asked and self._tls is None

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._timer.cancel()
        if self in self.connections:
            super().connection_lost(exc)
            self._let_another_begin()

    def shutdown(self) -> None:
        """Close the connection, even during an answer."""
        self.was_cut = True
        self._socket.abort()


def _make_room(among: Iterable[_Connection]) -> bool:
    """Close the oldest idle one of the address with the most; return False without any."""
    idle = [connection for connection in among if connection.gives_way]
    if not idle:
        return False
    held = Counter(connection.address for connection in idle)
    # A client with a single connection, such as a probe, keeps it while another has several.
    max(idle, key=lambda connection: (held[connection.address], -connection.begun)).shutdown()
    return True
