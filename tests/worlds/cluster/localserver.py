"""The base of the servers that tests script: they end at once, and log nothing."""

import socket
import struct
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.worlds.controlplane.credentials import kubeconfig

GREETING = "scripted-token"


class LocalServer(ThreadingHTTPServer):
    """A server on a port of 127.0.0.1, a free one unless told, for as long as its block lasts.

    ``closing`` is set when it ends; its connections end with it.
    """

    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(self, handler: type["LocalHandler"], port: int = 0) -> None:
        self.closing = threading.Event()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), handler)
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
        return f"http://127.0.0.1:{self.server_address[1]}"

    def write_kubeconfig(self, path: Path, **user: object) -> Path:
        """Write a kubeconfig for it; its user has a token unless other credentials are given."""
        path.write_text(kubeconfig({"server": self.url}, user or {"token": GREETING}))
        return path

    def opened(self, connection: socket.socket) -> None:
        """Remember a connection, so that the end of the server is its end too."""
        self._connections.add(connection)


class LocalHandler(BaseHTTPRequestHandler):
    """A connection that may end suddenly."""

    server: LocalServer
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

    def reset(self) -> None:
        reset_connection(self.connection)
        self.close_connection = True


def reset_connection(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
