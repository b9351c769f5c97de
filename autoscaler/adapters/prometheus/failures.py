"""Why a query had no answer, in the server's own words, and whether to ask again."""

import email.utils
import http.client
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from http.client import responses

import urllib3.exceptions

from autoscaler import clock
from autoscaler.adapters.prometheus.options import without_secrets
from autoscaler.transport.parsing import TooMuch, parse
from autoscaler.transport.redaction import Hiding


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


# https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview and the error types
# of Prometheus' web/api/v1: those that speak of the moment rather than of the query.
_TRANSIENT_TYPES = frozenset({"timeout", "canceled", "unavailable"})
REFUSED_TYPES = frozenset({"bad_data", "execution"})
"""Of Prometheus' errors those that speak of the query: it cannot be parsed, or not be executed."""
_TRANSIENT_STATUSES = frozenset({408, 429, 502, 503, 504})
LONGEST_TEXT = 1000
"""Of Prometheus' own words."""
_LONGEST_TYPE = 40
_MOST_MEMORY = 4 << 20
"""For an error, which is a sentence or two."""
_LONGEST_FOREIGN_TEXT = 160
_LONGEST_PAGE = 8192
"""The expressions below may cost the square of it."""
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def refusal(
    subject: str, status: int, headers: Mapping[str, str], body: bytes, hiding: Hiding
) -> QueryError:
    """Return the failure that an answer with a status other than 200 stands for."""
    if 300 <= status < 400:
        return _redirect(subject, status, headers, hiding)
    error_type, text = prometheus_error(body, hiding)
    return QueryError(
        _sentence(subject, status, error_type, text or _foreign_text(body, hiding)),
        transient=status in _TRANSIENT_STATUSES or error_type in _TRANSIENT_TYPES,
        retry_after=_retry_after(headers.get("Retry-After", "")),
        refused=error_type in REFUSED_TYPES,
    )


def prometheus_error(body: bytes, hiding: Hiding) -> tuple[str, str]:
    """Return `errorType` and `error` of Prometheus' own error format; empty for anything else."""
    try:
        document = parse(body, _MOST_MEMORY)
    except (TooMuch, ValueError, RecursionError):
        return "", ""
    if not isinstance(document, dict) or document.get("status") != "error":
        return "", ""
    error_type, text = document.get("errorType", "unknown"), document.get("error")
    return (
        hiding.said(str(error_type), _LONGEST_TYPE),
        hiding.said(str(text or "no reason given"), LONGEST_TEXT),
    )


def _sentence(subject: str, status: int, error_type: str, text: str) -> str:
    if error_type == "bad_data":
        return f"Prometheus refused the query ({error_type}): {text}"
    if error_type == "execution":
        return f"Prometheus could not execute the query ({error_type}): {text}"
    if error_type == "timeout":
        return f"Prometheus gave the query up ({error_type}): {text}"
    phrase = responses.get(status, "(unknown status)")
    if status == 401:
        start = f"{subject} did not accept the credentials, or wants some (HTTP 401 {phrase})"
    elif status == 404:
        start = f"{subject} has no /api/v1/query (HTTP 404 {phrase}): is it the right URL?"
    else:
        start = f"{subject} answered HTTP {status} {phrase}"
    if error_type:
        start += f" ({error_type})"
    return f"{start}: {text}" if text else start


def _redirect(subject: str, status: int, headers: Mapping[str, str], hiding: Hiding) -> QueryError:
    # Not followed: a client would turn the POST into a GET without the query, or carry the
    # credentials to another host; behind it there is mostly a login page.
    location = without_secrets(headers.get("Location", "")) or "nowhere"
    return QueryError(
        f"{subject} redirects to {hiding.said(location, _LONGEST_FOREIGN_TEXT)} (HTTP {status}):"
        " redirects are not followed; the URL should name the final address"
    )


def _foreign_text(body: bytes, hiding: Hiding) -> str:
    """Return the gist of an error page that is not Prometheus' own."""
    text = body[:_LONGEST_PAGE].decode("utf-8", "replace")
    title = _TITLE.search(text)
    text = title.group(1) if title else _UNSEEN.sub(" ", text)
    return hiding.said(text, _LONGEST_FOREIGN_TEXT)


def _retry_after(value: str) -> float:
    """Return the seconds of a Retry-After header, in either form of RFC 9110 10.2.3; else 0."""
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - clock.wall())
    except (ValueError, TypeError, OverflowError):
        return 0.0
