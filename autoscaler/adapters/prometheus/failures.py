"""Why a query had no answer, as a sentence, and whether to ask again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import responses

from autoscaler.transport.bodies import TooMuch, parse
from autoscaler.transport.network_errors import Kind, network_error
from autoscaler.transport.redaction import Redactor, without_secrets
from autoscaler.transport.retries import RequestFailure, retry_after


@dataclass(frozen=True, slots=True)
class QueryFault(RequestFailure):
    """A query without an answer."""

    refused: bool = False
    """Whether the server answered that the query is wrong."""


class QueryError(Exception):
    """Carries a QueryFault through prometheus-api-client; never leaves this package."""

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        cut_short: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.fault = QueryFault(
            message,
            transient=transient,
            retry_after=retry_after,
            cut_short=cut_short,
            refused=refused,
        )


_SENTENCES = {
    Kind.PROXY: "{subject} cannot be reached through the proxy of the environment "
    "(HTTP_PROXY, HTTPS_PROXY): {reason}",
    Kind.CONNECT_TIMEOUT: "{subject} did not accept a connection {within}",
    Kind.TIMEOUT: "{subject} did not answer {within}",
    Kind.UNTRUSTED: "{subject} is not trusted: TLS verification failed: {reason}"
    " (tls.caFile names the authority to trust, tls.serverName the name to expect)",
    Kind.TLS_CLOSED: "{subject} closed the connection within TLS",
    Kind.TLS: "TLS with {subject} failed: {reason}",
    Kind.NAME: "{subject} cannot be reached: the name {host} does not resolve ({reason})",
    Kind.REFUSED: "{subject} refused the connection",
    Kind.CLOSED: "{subject} closed the connection without an answer",
    Kind.RESET: "{subject} reset the connection",
    Kind.BROKEN_OFF: "{subject} broke off in the middle of its answer",
    Kind.NOT_HTTP: "{subject} answered what is not HTTP",
    Kind.UNDECODABLE: "{subject} sent an answer that cannot be decompressed",
    Kind.SYSTEM: "{subject} cannot be reached: {reason}",
    Kind.NOT_SENT: "the request to {subject} cannot be made ({reason})",
}
_LASTING = frozenset({Kind.UNTRUSTED, Kind.TLS, Kind.NOT_HTTP, Kind.UNDECODABLE, Kind.NOT_SENT})
_TIMEOUTS = frozenset({Kind.CONNECT_TIMEOUT, Kind.TIMEOUT})


def connection_failure(
    error: Exception, subject: str, host: str, seconds: float, timeout: float
) -> QueryError:
    """Return the failure for what requests, urllib3 or the system raised.

    ``seconds`` is what the deadline left of the ``timeout``.  That differs from sync to sync, so it
    is not told.
    """
    found = network_error(error)
    within = f"within {timeout:g} s" if seconds >= timeout else "in time"
    text = _SENTENCES[found.kind].format(
        subject=subject, host=host, reason=found.reason, within=within
    )
    if found.kind is Kind.TLS and "certificate" in found.reason:
        text += " (tls.certFile is what we show to the server)"
    return QueryError(
        text,
        transient=found.kind not in _LASTING,
        cut_short=found.kind in _TIMEOUTS and seconds < timeout,
    )


def lost_connection(error: Exception, subject: str) -> str | None:
    """Return the sentence for what a library raised if a connection is the cause, else None."""
    found = network_error(error)
    if found.kind is Kind.NOT_SENT:
        return None
    return _SENTENCES[found.kind].format(
        subject=subject, host="of its host", reason=found.reason, within="in time"
    )


# https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview and the error types
# of Prometheus' web/api/v1: those that are about the moment rather than the query.
_TRANSIENT_TYPES = frozenset({"timeout", "canceled", "unavailable"})
REFUSED_TYPES = frozenset({"bad_data", "execution"})
"""Of Prometheus' errors those that are about the query: it cannot be parsed, or not be executed."""
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
    subject: str, status: int, headers: Mapping[str, str], body: bytes, redactor: Redactor
) -> QueryError:
    """Return the failure for an answer with a status other than 200."""
    if 300 <= status < 400:
        return _redirect(subject, status, headers, redactor)
    error_type, text = prometheus_error(body, redactor)
    return QueryError(
        _sentence(subject, status, error_type, text or _foreign_text(body, redactor)),
        transient=status in _TRANSIENT_STATUSES or error_type in _TRANSIENT_TYPES,
        retry_after=retry_after(headers),
        refused=error_type in REFUSED_TYPES,
    )


def prometheus_error(body: bytes, redactor: Redactor) -> tuple[str, str]:
    """Return `errorType` and `error` of Prometheus' own error format; empty for anything else."""
    try:
        document = parse(body, _MOST_MEMORY)
    except (TooMuch, ValueError, RecursionError):
        return "", ""
    if not isinstance(document, dict) or document.get("status") != "error":
        return "", ""
    error_type, text = document.get("errorType", "unknown"), document.get("error")
    return (
        redactor.line(str(error_type), _LONGEST_TYPE),
        redactor.line(str(text or "no reason given"), LONGEST_TEXT),
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


def _redirect(
    subject: str, status: int, headers: Mapping[str, str], redactor: Redactor
) -> QueryError:
    # Not followed: a client would turn the POST into a GET without the query, or send the
    # credentials to another host; behind it there is mostly a login page.
    location = without_secrets(headers.get("Location", "")) or "nowhere"
    return QueryError(
        f"{subject} redirects to {redactor.line(location, _LONGEST_FOREIGN_TEXT)} (HTTP {status}):"
        " redirects are not followed; the URL should name the final address"
    )


def _foreign_text(body: bytes, redactor: Redactor) -> str:
    """Return the title, or else the beginning, of an error page that is not Prometheus' own."""
    text = body[:_LONGEST_PAGE].decode("utf-8", "replace")
    title = _TITLE.search(text)
    text = title.group(1) if title else _UNSEEN.sub(" ", text)
    return redactor.line(text, _LONGEST_FOREIGN_TEXT)
