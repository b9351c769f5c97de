"""A proxy of TCP connections that can hold back what it carries, or cut it."""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.worlds.proxies.http import Proxy
from tests.worlds.waiting import wait_until

_BLOCK = 65_536


class TcpProxy(Proxy):
    """Passes bytes between 127.0.0.1 and a server, whatever they mean."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname, parts.port
        self._scheme = parts.scheme
        self._passing = asyncio.Event()
        self._passing.set()
        self._cut = False
        self._held = self._answered = 0
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself does not hold them
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def hold(self) -> None:
        """Let no byte through; sent bytes and connections are kept."""
        self._held = self._answered = 0
        self._do(self._passing.clear)

    def wait_held(self, blocks: int) -> None:
        """Wait until bytes of this many blocks are held back."""
        wait_until(f"{blocks} blocks are kept", lambda: self._held >= blocks)

    def wait_answered(self, blocks: int) -> None:
        """Wait until this many blocks of the server's answers were let through."""
        wait_until(f"{blocks} blocks were answered", lambda: self._answered >= blocks)

    def release(self) -> None:
        """Let through what was kept, and all that follows."""
        self._do(self._passing.set)

    def cut(self) -> None:
        """End all connections, and each new one at once."""
        self._do(self._abort)

    def mend(self) -> None:
        self._cut = False

    def _do(self, act: Any) -> None:
        async def call() -> None:
            act()

        self._run(call())

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_BLOCK)
        self.port = self._listener.sockets[0].getsockname()[1]

    def _abort(self) -> None:
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        await super()._end()
        self._abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self._cut:
                await self._exchange(reader, writer)
        except OSError:
            """The server is not there."""
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(self._host, self._port, limit=_BLOCK)
        self._writers.add(to_server)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, to_server, answers=False))
                pumps.create_task(self._pump(server, writer, answers=True))
        finally:
            to_server.transport.abort()
            self._writers.discard(to_server)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(OSError):
            while block := await source.read(_BLOCK):
                self._held += not self._passing.is_set()
                await self._passing.wait()
                sink.write(block)
                await sink.drain()
                self._answered += answers
            await self._passing.wait()
        with suppress(OSError):
            # Both sides end together, but nothing that was kept is lost.
            sink.write_eof()
