"""Classifies the exceptions of urllib3, requests and the system for a request.

The texts of these exceptions are not used: they contain URLs, headers and credentials.
"""

import http.client
import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from urllib3 import exceptions
from urllib3.util import Url, parse_url

from autoscaler.transport.deadline import DeadlineExceededError
from autoscaler.transport.redaction import without_secrets

RAISED = (exceptions.HTTPError, ValueError, OSError, RuntimeError)
"""Exceptions of a client for a request that fails or cannot be sent (too few threads)."""


class Kind(Enum):
    """The kind of error."""

    PROXY = "the proxy was not reached, or did not let the request through"
    CONNECT_TIMEOUT = "no connection was accepted in time"
    TIMEOUT = "the answer was not complete in time"
    UNTRUSTED = "the certificate of the server could not be verified"
    TLS_CLOSED = "the connection ended inside TLS"
    TLS = "TLS failed otherwise"
    NAME = "the name of the host does not resolve"
    REFUSED = "the connection was refused"
    CLOSED = "the connection ended before the answer"
    RESET = "the connection was reset"
    BROKEN_OFF = "the connection ended inside the answer"
    NOT_HTTP = "the answer is not HTTP"
    UNDECODABLE = "the answer cannot be decompressed"
    SYSTEM = "the system reported another error"
    NOT_SENT = "the request could not be made"


@dataclass(frozen=True, slots=True)
class NetworkError:
    """Why a request had no complete answer."""

    kind: Kind
    reason: str
    """The text of the system or of TLS; for NOT_SENT the name of the exception's type."""
    connected: bool
    """Whether there was a connection, so that the server may have received the request."""
    cause: BaseException
    """The original exception, if known."""


# In this order, since some are subclasses of others.
_KINDS: tuple[tuple[tuple[type[BaseException], ...], Kind], ...] = (
    ((ssl.SSLCertVerificationError,), Kind.UNTRUSTED),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError), Kind.TLS_CLOSED),
    ((ssl.SSLError, exceptions.SSLError), Kind.TLS),
    ((socket.gaierror,), Kind.NAME),
    ((exceptions.ReadTimeoutError, TimeoutError, DeadlineExceededError), Kind.TIMEOUT),
    ((ConnectionRefusedError,), Kind.REFUSED),
    # ClosedPoolError: the idle connections were closed because of new certificates.
    ((http.client.RemoteDisconnected, exceptions.ClosedPoolError), Kind.CLOSED),
    ((ConnectionResetError, BrokenPipeError, ConnectionAbortedError), Kind.RESET),
    ((http.client.IncompleteRead, exceptions.IncompleteRead), Kind.BROKEN_OFF),
    ((http.client.HTTPException,), Kind.NOT_HTTP),
    ((exceptions.DecodeError,), Kind.UNDECODABLE),
    ((exceptions.ProtocolError,), Kind.BROKEN_OFF),
)
ABSENT = frozenset({Kind.NAME, Kind.REFUSED})
"""The kinds that mean that no server is there."""

_TUNNEL_REFUSED = re.compile(r"Tunnel connection failed: (\d{3})\b")


def proxy_url(proxy: str) -> str:
    """Return the URL of a proxy, whose scheme is optional; raises ValueError with a sentence.

    An invalid URL is not quoted: it may contain a password.
    """
    right = "right is http:// or https://, a host and maybe a port"
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = parse_url(url)
    except exceptions.LocationParseError:
        parts = Url()
    if not parts.host or parts.port == 0:
        raise ValueError(f"its URL is not valid; {right}")
    if parts.scheme not in {"http", "https"}:
        raise ValueError(f"{without_secrets(url)} is not an HTTP proxy; {right}")
    return url


def network_error(error: Exception) -> NetworkError:
    """Return the classified error; ``error`` is one of RAISED."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, exceptions.ProxyError):
            return NetworkError(Kind.PROXY, _proxy_reason(causes), connected=False, cause=cause)
        if _is_connect_timeout(cause):
            reason = "no connection in time"
            return NetworkError(Kind.CONNECT_TIMEOUT, reason, connected=False, cause=cause)
    # A system error that no client wrapped did not come from the network.
    wrapped = causes[1:] if isinstance(error, OSError) and error.errno else causes
    connected = not any(isinstance(cause, exceptions.NewConnectionError) for cause in causes)
    # The innermost cause is the most specific: the outer ones only wrap it.
    for cause in reversed(wrapped):
        kind = _kind_of(cause)
        if kind is not None:
            return NetworkError(kind, _reason(cause), connected, cause)
    return NetworkError(Kind.NOT_SENT, type(error).__name__, connected=True, cause=error)


def _kind_of(cause: BaseException) -> Kind | None:
    for types, kind in _KINDS:
        if isinstance(cause, types):
            return kind
    if type(cause) is exceptions.TimeoutError:  # Its subclasses are other errors.
        return Kind.TIMEOUT
    return Kind.SYSTEM if isinstance(cause, OSError) and cause.errno else None


def _reason(cause: BaseException) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message.rstrip(".")
    if isinstance(cause, ssl.SSLError | exceptions.SSLError):
        reason = getattr(cause, "reason", None) or "unknown reason"
        return str(reason).replace("_", " ").lower()
    if isinstance(cause, socket.gaierror):
        return str(cause.strerror)
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else ""


def _proxy_reason(causes: list[BaseException]) -> str:
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.errno:
            return _reason(cause)
        if _is_connect_timeout(cause) or isinstance(cause, TimeoutError):
            return "it did not answer in time"
        refused = _TUNNEL_REFUSED.match(str(cause)) if isinstance(cause, OSError) else None
        if refused is not None:
            return f"it answered HTTP {refused[1]}"
    return "it did not let the request through"


def _is_connect_timeout(cause: BaseException) -> bool:
    # NewConnectionError (refused, unknown name) is a subclass too.
    return isinstance(cause, exceptions.ConnectTimeoutError) and not isinstance(
        cause, exceptions.NewConnectionError
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and the exceptions that it wraps, outermost first."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop(0)
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        # azure-core keeps the wrapped exception in another attribute.
        wrapped = [getattr(cause, name, None) for name in ("reason", "inner_exception")]
        waiting += [*wrapped, *cause.args, cause.__cause__, cause.__context__]
