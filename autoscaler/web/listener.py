"""One HTTP listener, which no client can hold up or use up: uvicorn with limits."""

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
"""How long the request line and the headers may be together."""

_BACKLOG = 128
"""The most clients that wait to be accepted; asyncio may accept all before it closes one."""
_CLOSE_SECONDS = 1
"""How long the end waits for connections that are closed."""
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"
    b"the request line and the headers exceed %d bytes\n" % MOST_HEAD_BYTES
)


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """How connections are encrypted."""

    context: Callable[[], ssl.SSLContext]
    """Returns the certificate and the rest, for each handshake; called by any thread."""
    certificate_refused: Callable[[str], None]
    """Is called with the address of a client whose certificate is not accepted."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What connections may take; all but the tests leave it as it is."""

    most_connections: int = MOST_CONNECTIONS
    most_seconds: float = 10.0
    """How long one connection may last, its request and its answer together."""
    most_head_seconds: float = 3.0
    """How much of it the request line and the headers may take."""


class ListenError(Exception):
    """The address cannot be listened on; the text is a sentence for the operator."""


class Listener:
    """Serves an application on a thread with an event loop, one request on each connection.

    As many connections are open at once as the ``limits`` say.  One more takes the place of one
    that has not sent its head, or was sent its answer; without such a one it is closed without an
    answer.  `MOST_OF_ONE_CLIENT` of one address are answered at once; one more waits for its turn.
    With ``tls`` the handshake is a part of the head.  ``setting`` is the key that holds the
    address.  ``on_fault`` is called with what is raised outside of the application.  An empty host
    means all addresses, port 0 any free port.  Raises ListenError where the address cannot be
    listened on.
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
        # Its workers are daemon threads as it is: no page keeps the process from its end.
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End everything, answers under way included, within about a second."""
        with suppress(RuntimeError):  # the loop is closed already
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
    """Waits for its end without polling: an idle listener takes no CPU.

    Nothing is left to the environment or to uvicorn's own log.
    """

    def __init__(self, app: ASGIApp, connection: object) -> None:
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", connection),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL,  # the application reports faults itself
            access_log=False,
            workers=1,
            proxy_headers=False,
            server_header=False,
            date_header=False,  # the application's: uvicorn's is of the last tick
            headers=[("Connection", "close")],
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        super().__init__(config)
        self._ended = asyncio.Event()

    async def main_loop(self) -> None:
        """Wait for `end`."""
        await self.on_tick(0)  # makes the headers of all answers
        await self._ended.wait()

    def end(self) -> None:
        """End everything; must be called by the event loop."""
        self.force_exit = self.should_exit = True
        self._ended.set()


class _Connection(H11Protocol):
    """A connection that carries one request; all methods are called by the event loop."""

    def __init__(self, limits: ConnectionLimits, tls: ListenerTls | None, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._limits = limits
        self._head_seconds = min(limits.most_head_seconds, limits.most_seconds)
        self._tls = tls
        self._handshake: asyncio.Task[None] | None = None
        self._is_ready = tls is None
        self._early = b""
        """What came with the last message of the handshake."""
        self._head = bytearray()
        self.asked = False
        """Whether its whole head was read; until then it may give way to another."""
        self.has_begun = False
        """Whether anything of it is read; until then it waits for others of its address."""
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
        """Begin, or wait for another of this address to end; one that is idle is cut for it."""
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
        """Let the connection begin that waits longest for one of its address to end."""
        waiting = [listener for listener in self._others() if listener.address == self.address]
        waiting = [listener for listener in waiting if not listener.has_begun]
        if self.has_begun and waiting:
            min(waiting, key=lambda other: other.begun)._begin()  # noqa: SLF001 - its own class

    @property
    def gives_way(self) -> bool:
        """Whether it may be cut for another: it has asked nothing, or was sent its answer."""
        is_sent = self.transport.is_closing() and not self._socket.get_write_buffer_size()
        return not self.asked or is_sent

    async def _encrypt(self, tls: ListenerTls) -> None:
        """Continue encrypted, within the time for the head; otherwise disconnect the client."""
        encrypted: asyncio.Transport | None = None
        try:
            context = await run_in_threadpool(tls.context)
            if not self._socket.is_closing():
                encrypted = await self.loop.start_tls(
                    *(self._socket, self, context),
                    server_side=True,
                    ssl_handshake_timeout=2 * self._head_seconds,  # `shutdown` is called before
                    ssl_shutdown_timeout=_CLOSE_SECONDS,
                )
        except OSError as error:  # as all of TLS
            if isinstance(error, ssl.SSLCertVerificationError):
                tls.certificate_refused(self.address)
        finally:
            if abandoned := encrypted is None or self._socket.is_closing():
                # asyncio does not always tell of the end of one without a handshake.
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
        """Hand on the head once it is whole, and nothing that follows it."""
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

        TLS has no such half of a connection.
        """
        return self.asked and self._tls is None

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._timer.cancel()
        if self in self.connections:
            super().connection_lost(exc)
            self._let_another_begin()

    def shutdown(self) -> None:
        """Cut the connection, whatever is being answered on it."""
        self.was_cut = True
        self._socket.abort()


def _make_room(among: Iterable[_Connection]) -> bool:
    """Cut the oldest idle one of the address that has most of them; return False without any."""
    idle = [connection for connection in among if connection.gives_way]
    if not idle:
        return False
    held = Counter(connection.address for connection in idle)
    # A client with a single connection, as a probe, keeps it while another has several.
    max(idle, key=lambda connection: (held[connection.address], -connection.begun)).shutdown()
    return True
