"""The socket of a request in hand, so that whoever waits no longer for it can end it."""

import socket
import threading
from contextlib import suppress
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import HTTPResponse

_current = threading.local()


class InHand:
    """One request's socket, from when its answer is awaited until others may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False

    def begin(self) -> None:
        """Take in the requests that this thread sends from now on."""
        _current.request = self

    def end(self) -> None:
        """Take in no more."""
        _current.request = None

    def takes(self, sock: socket.socket | None) -> None:
        """Take in the socket on which an answer is awaited; None once it is not ours any more."""
        with self._lock:
            self._socket = sock
            if self._over:
                self._end()

    def cut(self) -> None:
        """End the request: its thread notices at once, however its header drips.

        One that has no socket yet ends when it has.
        """
        with self._lock:
            self._over = True
            self._end()

    def _end(self) -> None:
        # TLS within the TLS of a proxy is no socket, but has one.
        sock = getattr(self._socket, "socket", self._socket)
        if sock is not None:
            with suppress(OSError):
                # Not by the TLS layer, which the other thread is in.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _awaited(sock: socket.socket | None) -> None:
    request: InHand | None = getattr(_current, "request", None)
    if request is not None:
        request.takes(sock)


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3's own
        _awaited(self.sock)
        return super().getresponse()


class _TlsConnection(_Connection, HTTPSConnection):
    def _tunnel(self) -> None:
        _awaited(self.sock)  # a proxy answers first
        super()._tunnel()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection

    def _put_conn(self, conn: Any) -> None:
        _awaited(None)  # from now on another request may use it
        super()._put_conn(conn)


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


POOLS = {"http": _Pool, "https": _TlsPool}
