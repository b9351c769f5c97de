"""The socket of a request in hand, so that whoever waits no longer for it can end it."""

import socket
import threading
from contextlib import suppress

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import HTTPResponse

_current = threading.local()


class InHand:
    """One request's socket, from when its answer is awaited."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def begin(self) -> None:
        """Take in the requests that this thread sends from now on."""
        _current.request = self

    def takes(self, sock: socket.socket | None) -> None:
        """Take in the socket on which an answer is awaited."""
        self._socket = sock

    def cut(self) -> None:
        """End the request: its thread notices at once, however its header drips."""
        if self._socket is not None:
            with suppress(OSError):
                # Not by the TLS layer, which the other thread is in.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _awaited(sock: socket.socket | None) -> None:
    request: InHand | None = getattr(_current, "request", None)
    if request is not None:
        request.takes(sock)


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3's own
        _awaited(self.sock)
        return super().getresponse()


class _TlsConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3's own
        _awaited(self.sock)
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


POOLS = {"http": _Pool, "https": _TlsPool}
