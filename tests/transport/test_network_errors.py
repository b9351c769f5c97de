"""Errors of libraries and the system have a kind; their texts, which quote, are not used."""

import errno
import http.client
import socket
import ssl

import pytest
import requests
from urllib3 import exceptions
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from autoscaler.transport.deadline import DeadlineExceededError
from autoscaler.transport.network_errors import Kind, network_error

_POOL = HTTPConnectionPool("h")
_CONNECTION = HTTPConnection("h")
_SECRET = "Bearer s3cret"  # noqa: S105 - made up


def _wrapped(error: Exception) -> Exception:
    """Return an error as urllib3 raises it, inside what requests makes of that."""
    return requests.ConnectionError(exceptions.ProtocolError("Connection aborted.", error))


def _unconnected(error: OSError) -> Exception:
    new = exceptions.NewConnectionError(_CONNECTION, _SECRET)
    new.__cause__ = error
    return new


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (_wrapped(ConnectionResetError(errno.ECONNRESET, _SECRET)), Kind.RESET, "reset by peer"),
        (_wrapped(http.client.RemoteDisconnected(_SECRET)), Kind.CLOSED, ""),
        (_wrapped(http.client.BadStatusLine(_SECRET)), Kind.NOT_HTTP, ""),
        (_wrapped(http.client.IncompleteRead(b"s3cret")), Kind.BROKEN_OFF, ""),
        (exceptions.ProtocolError(_SECRET), Kind.BROKEN_OFF, ""),
        (exceptions.ClosedPoolError(_POOL, _SECRET), Kind.CLOSED, ""),
        (exceptions.DecodeError(_SECRET), Kind.UNDECODABLE, ""),
        (exceptions.ReadTimeoutError(_POOL, "/", _SECRET), Kind.TIMEOUT, ""),
        (exceptions.TimeoutError(_SECRET), Kind.TIMEOUT, ""),
        (DeadlineExceededError(_SECRET), Kind.TIMEOUT, ""),
        (exceptions.ConnectTimeoutError(_SECRET), Kind.CONNECT_TIMEOUT, "in time"),
        (exceptions.SSLError(ssl.SSLEOFError(8, _SECRET)), Kind.TLS_CLOSED, ""),
        (exceptions.SSLError(_SECRET), Kind.TLS, "unknown reason"),
        (
            exceptions.ProxyError(_SECRET, OSError("Tunnel connection failed: 407 s3cret")),
            Kind.PROXY,
            "it answered HTTP 407",
        ),
        (exceptions.ProxyError(_SECRET, TimeoutError()), Kind.PROXY, "in time"),
        (exceptions.LocationParseError(_SECRET), Kind.NOT_SENT, "LocationParseError"),
        (requests.exceptions.InvalidHeader(_SECRET), Kind.NOT_SENT, "InvalidHeader"),
        (OSError(errno.EIO, _SECRET), Kind.NOT_SENT, "OSError"),
        (RuntimeError(_SECRET), Kind.NOT_SENT, "RuntimeError"),
    ],
)
def test_an_error_has_a_kind_and_a_reason(error: Exception, kind: Kind, reason: str) -> None:
    cause = network_error(error)
    assert cause.kind is kind
    assert reason in cause.reason
    assert "s3cret" not in cause.reason


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, _SECRET), Kind.REFUSED),
        (socket.gaierror(socket.EAI_NONAME, _SECRET), Kind.NAME),
        (OSError(errno.EHOSTUNREACH, _SECRET), Kind.SYSTEM),
    ],
)
def test_without_a_connection_nothing_was_sent(error: OSError, kind: Kind) -> None:
    cause = network_error(_unconnected(error))
    assert (cause.kind, cause.connected) == (kind, False)
    assert network_error(_wrapped(error)).connected
