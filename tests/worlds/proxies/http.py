"""A proxy between a client and a real HTTP server, on which tests play faults."""

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.process import free_port
from tests.worlds.proxies.wire import Request, read_request

T = TypeVar("T")

_BLOCK = 65_536
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Exchange:
    """One request that a fault has taken over; `over` is set when the fault ends."""

    request: Request
    client: asyncio.StreamWriter
    over: asyncio.Event
    link: "_Link"

    async def forward(self, request: Request) -> None:
        """Have the real server answer a request, to the client."""
        await self.link.forward(request)

    async def fetch(self) -> tuple[bytes, bytes]:
        """Return head and body of the real server's answer, the body as it is."""
        request = self.request.with_header("Accept-Encoding", "identity").as_http_1_0()
        reader, writer = await self.link.reach()
        try:
            writer.write(request.raw())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.transport.abort()
        return head, body

    def reset(self) -> None:
        self.link.reset()


Fault = Callable[[Exchange], Coroutine[Any, Any, None]]
Concerns = Callable[[Request], bool]


def everything(_: Request) -> bool:
    return True


@dataclass(eq=False)
class Playing:
    """A fault while it lasts, and the requests that met it."""

    fault: Fault
    concerns: Concerns
    over: asyncio.Event
    met: list[Request] = field(default_factory=list)


class Proxy:
    """Something on 127.0.0.1 that runs in a loop, in a thread of its own, while its block lasts.

    At the end every task of the loop is cancelled and awaited.
    """

    def __init__(self) -> None:
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve_until_stopped, name="proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _serve_until_stopped(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._stop.wait())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        """Close the listener, once all that it has accepted is served."""
        if self._listener is not None:
            for listening in self._listener.sockets:
                self._loop.remove_reader(listening)
            for _ in range(3):  # the turns from accepting a connection to serving it
                await asyncio.sleep(0)
            self._listener.close()
            self._listener = None


class FaultProxy(Proxy):
    """Listens on 127.0.0.1 and passes everything on, but for what a fault takes over.

    To clients it speaks plain HTTP, or TLS with a ``certificate`` (certificate and key), and then
    wants a certificate of ``clients``, if given; to the server, whatever ``upstream`` says,
    trusting ``ca_file``.  Every connection has one of its own to the server.
    """

    def __init__(
        self,
        upstream: str,
        *,
        ca_file: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        clients: Path | None = None,
    ) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream)
        self._trust = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._tls = None if certificate is None else _server_tls(certificate, clients)
        self.port = free_port()
        self._faults: list[Playing] = []
        self._links: set[_Link] = set()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def write_kubeconfig(self, path: Path, **user: object) -> Path:
        """Write a kubeconfig that leads through it, for a user with these fields."""
        path.touch(mode=0o600)
        path.write_text(kubeconfig({"server": self.url}, user))
        return path

    @contextmanager
    def playing(self, fault: Fault, concerns: Concerns = everything) -> Iterator[Playing]:
        """Play a fault on the requests that it concerns; of several the latest comes first."""
        playing = Playing(fault, concerns, asyncio.Event())
        self._faults = [playing, *self._faults]
        try:
            yield playing
        finally:
            self._faults = [fault for fault in self._faults if fault is not playing]
            self._loop.call_soon_threadsafe(playing.over.set)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse connections, and cut those that there are."""
        self._run(self._end())
        try:
            yield
        finally:
            self._run(self._listen())

    @contextmanager
    def showing(self, certificate: tuple[Path, Path]) -> Iterator[None]:
        """Show another certificate, to new connections; those that there are, are cut."""
        usual = self._tls
        try:
            self._listen_with(_server_tls(certificate, None))
            yield
        finally:
            self._listen_with(usual)

    def _listen_with(self, tls: ssl.SSLContext | None) -> None:
        self._run(self._end())
        self._tls = tls
        self._run(self._listen())

    def cut(self, concerns: Concerns = everything) -> int:
        """Reset the connections whose last request is concerned; return how many."""
        return self._run(self._each(concerns, _Link.reset))

    def silence(self, concerns: Concerns = everything) -> int:
        """Let no byte more through to the connections whose last request is concerned.

        They stay open, as after a firewall on the way has forgotten them.  Returns how many.
        """
        return self._run(self._each(concerns, _Link.silence))

    def met_by(self, request: Request) -> Playing | None:
        """Return the fault that takes a request over, if any does."""
        for playing in self._faults:
            if playing.concerns(request):
                playing.met.append(request)
                return playing
        return None

    async def reach(self) -> _Streams:
        host, port = self._upstream.hostname, self._upstream.port
        return await asyncio.open_connection(host, port, ssl=self._trust, limit=_BLOCK)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._tls, limit=_BLOCK
        )

    async def _end(self) -> None:
        await super()._end()
        links = list(self._links)
        for link in links:
            link.reset()
        await asyncio.gather(*(link.ended for link in links), return_exceptions=True)

    async def _each(self, concerns: Concerns, act: "Callable[[_Link], None]") -> int:
        links = [link for link in self._links if link.last is not None and concerns(link.last)]
        for link in links:
            act(link)
        return len(links)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        link.ended.add_done_callback(lambda _: self._links.discard(link))


class _Link:
    """A client's connection, and the one to the server that belongs to it.

    Request after request is answered, until either side has enough; `ended` is when all is closed.
    """

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        self.last: Request | None = None
        self.reach = proxy.reach
        self._met_by = proxy.met_by
        self._reader = reader
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._silent = False
        self._pumping: asyncio.Task[None] | None = None
        self._serving = asyncio.ensure_future(self._serve())
        self.ended = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        """Close what is open when nothing more is served, however that ended."""
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._serving
        finally:
            if self._pumping is not None:
                self._pumping.cancel()
                await asyncio.wait([self._pumping])
            if self._server is not None:
                self._server.transport.abort()
            self._client.close()
            with suppress(OSError):
                await self._client.wait_closed()

    async def _serve(self) -> None:
        while (request := await read_request(self._reader)) is not None:
            self.last = request
            playing = self._met_by(request)
            if playing is None:
                await self.forward(request)
            else:
                await playing.fault(Exchange(request, self._client, playing.over, self))

    async def forward(self, request: Request) -> None:
        """Have the server answer a request."""
        if self._server is None:
            reader, self._server = await self.reach()
            self._pumping = asyncio.ensure_future(self._pump(reader))
        self._server.write(request.raw())
        await self._server.drain()

    async def _pump(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while block := await reader.read(_BLOCK):
                if not self._silent:
                    self._client.write(block)
                    await self._client.drain()
        if not self._silent:
            self._client.close()

    def silence(self) -> None:
        """Let no byte through to the client any more."""
        self._silent = True

    def reset(self) -> None:
        # Where the client has gone there is no socket, and under TLS no transport that has one.
        closing = self._client.is_closing()
        connection: socket.socket | None = (
            None if closing else self._client.get_extra_info("socket")
        )
        if connection is not None:
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._client.transport.abort()
        self._serving.cancel()


def _server_tls(certificate: tuple[Path, Path], clients: Path | None) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    if clients is not None:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(clients)
    return tls
