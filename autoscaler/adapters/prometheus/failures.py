"""Why a query had no answer, as a sentence, and whether to ask again."""

import http.client
import socket
import ssl
from collections.abc import Iterator

import urllib3.exceptions


class QueryError(Exception):
    """No answer; never leaves this package.

    ``transient`` says that the same request may succeed in a moment; ``retry_after`` is the
    least wait in seconds that the server asked for; ``out_of_time`` that it was we who gave up;
    ``refused`` that the server answered and the query is at fault.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float = 0.0,
        out_of_time: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient
        self.retry_after = retry_after
        self.out_of_time = out_of_time
        self.refused = refused


def too_slow(subject: str, within: str) -> QueryError:
    """Return the failure of a request that took too long (`transport.within.in_words`)."""
    return QueryError(f"{subject} did not answer {within}", transient=True, out_of_time=True)


def connection_failure(error: Exception, subject: str, host: str, within: str) -> QueryError:
    """Put what requests, urllib3 or the system raised into a sentence.

    ``within`` says how much time there was, as `transport.within.in_words` does.
    The texts of those exceptions are not repeated: they hold URLs with their parameters.
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, urllib3.exceptions.ProxyError):
            return QueryError(
                f"{subject} cannot be reached through the proxy of the environment "
                f"(HTTP_PROXY, HTTPS_PROXY): {_reason(causes)}",
                transient=True,
            )
        if _is_connect_timeout(cause):
            return QueryError(
                f"{subject} did not accept a connection {within}",
                transient=True,
                out_of_time=True,
            )
    # The innermost cause says most: the outer ones only wrap it.
    for cause in reversed(causes):
        failure = _tls_failure(cause, subject) or _network_failure(cause, subject, host, within)
        if failure is not None:
            return failure
    return QueryError(f"the request to {subject} cannot be made ({type(error).__name__})")


def _tls_failure(cause: BaseException, subject: str) -> QueryError | None:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return QueryError(
            f"{subject} is not trusted: TLS verification failed: {cause.verify_message.rstrip('.')}"
            " (tls.caFile names the authority to trust, tls.serverName the name to expect)"
        )
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return QueryError(f"{subject} closed the connection within TLS", transient=True)
    if isinstance(cause, ssl.SSLError):
        reason = (cause.reason or "unknown reason").replace("_", " ").lower()
        hint = " (tls.certFile is what we show to the server)" if "certificate" in reason else ""
        return QueryError(f"TLS with {subject} failed: {reason}{hint}")
    return None


_Types = tuple[type[BaseException], ...]

# In this order: some are kinds of others.
_NETWORK: tuple[tuple[_Types, str], ...] = (
    ((ConnectionRefusedError,), "refused the connection"),
    ((http.client.RemoteDisconnected,), "closed the connection without an answer"),
    (
        (ConnectionResetError, BrokenPipeError, ConnectionAbortedError),
        "reset the connection",
    ),
    (
        (http.client.IncompleteRead, urllib3.exceptions.IncompleteRead),
        "broke off in the middle of its answer",
    ),
)
_NO_HTTP: tuple[tuple[_Types, str], ...] = (
    ((http.client.HTTPException,), "answered what is not HTTP"),
    ((urllib3.exceptions.DecodeError,), "sent an answer that cannot be decompressed"),
)


def _network_failure(
    cause: BaseException, subject: str, host: str, within: str
) -> QueryError | None:
    if isinstance(cause, socket.gaierror):
        reason = f"the name {host} does not resolve ({cause.strerror})"
        return QueryError(f"{subject} cannot be reached: {reason}", transient=True)
    if isinstance(cause, urllib3.exceptions.ReadTimeoutError | TimeoutError):
        return too_slow(subject, within)
    for table, transient in ((_NETWORK, True), (_NO_HTTP, False)):
        for types, text in table:
            if isinstance(cause, types):
                return QueryError(f"{subject} {text}", transient=transient)
    if isinstance(cause, OSError) and cause.errno:
        return QueryError(f"{subject} cannot be reached: {cause.strerror}", transient=True)
    return None


def _reason(causes: list[BaseException]) -> str:
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        if _is_connect_timeout(cause) or isinstance(cause, TimeoutError):
            return "it did not answer in time"
    return "it did not let the request through"


def _is_connect_timeout(cause: BaseException) -> bool:
    # NewConnectionError, a refusal or a name that does not resolve, is only a kind of it by name.
    return isinstance(cause, urllib3.exceptions.ConnectTimeoutError) and not isinstance(
        cause, urllib3.exceptions.NewConnectionError
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it wraps, outermost first."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop(0)
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [getattr(cause, "reason", None), *cause.args, cause.__cause__, cause.__context__]
