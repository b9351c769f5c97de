"""The outcome of a query: a `QueryResult`, or the failure and whether to ask again.

Format: https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview
"""

import json
import re
from collections.abc import Callable
from http.client import responses
from typing import Any

from autoscaler.core.series import QueryResult, Series
from autoscaler.transport.answers import Answer, error_object
from autoscaler.transport.network_errors import ABSENT, Kind, NetworkError, network_error
from autoscaler.transport.redaction import Redactor, without_secrets
from autoscaler.transport.retries import FailureKind, RequestFailure, retry_after


class QueryError(Exception):
    """Carries a RequestFailure out of a request; never leaves `PrometheusReader.ask`."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        transient: bool = False,
        retry_after: float | None = None,
        kind: FailureKind = FailureKind.OTHER,
    ) -> None:
        super().__init__(message)
        self.failure = RequestFailure(
            message, status=status, transient=transient, retry_after=retry_after, kind=kind
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
    """Return the failure for a request's exception; ``seconds`` were left of the ``timeout``."""
    cause = network_error(error)
    within = f"within {timeout:g} s" if seconds >= timeout else "in time"
    text = _network_failure(cause, subject, host, within)
    if cause.kind is Kind.TLS and "certificate" in cause.reason:
        text += " (tls.certFile is what we show to the server)"
    kind = FailureKind.ABSENT if cause.kind in ABSENT else FailureKind.OTHER
    if cause.kind in _TIMEOUTS and seconds < timeout:
        kind = FailureKind.CUT_SHORT
    elif cause.kind is Kind.TIMEOUT:
        kind = FailureKind.SLOW
    return QueryError(text, transient=cause.kind not in _LASTING, kind=kind)


def lost_connection(error: Exception, subject: str) -> str | None:
    """Return the sentence for a library's exception if the connection is the cause, else None."""
    cause = network_error(error)
    return (
        None
        if cause.kind is Kind.NOT_SENT
        else _network_failure(cause, subject, "of its host", "in time")
    )


def _network_failure(cause: NetworkError, subject: str, host: str, within: str) -> str:
    sentence = _SENTENCES[cause.kind]
    return sentence.format(subject=subject, host=host, reason=cause.reason, within=within)


# -- an answer that is not a success -------------------------------------------------------------

# Our text for each error type of Prometheus' web/api/v1, whether it is transient, and its kind.
_TYPES = {
    "bad_data": ("refused the query", False, FailureKind.WRONG_QUERY),
    "execution": ("could not execute the query", False, FailureKind.WRONG_QUERY),
    "timeout": ("gave the query up", True, FailureKind.SLOW),
    "canceled": ("", True, FailureKind.OTHER),
    "unavailable": ("", True, FailureKind.OTHER),
}
_OTHER_TYPE = ("", False, FailureKind.OTHER)
_TRANSIENT_STATUSES = frozenset({408, 429, 502, 503, 504})
_LONGEST_TEXT = 1000
"""Of Prometheus' own words."""
LONGEST_TYPE = 40
_LONGEST_FOREIGN_TEXT = 160
_LONGEST_PAGE = 8192
# Each tag ends where another begins, and an unclosed tag extends to the end, so no part of a page
# is read twice.
_TITLE = re.compile(r"<title[^<>]*>([^<]*)</title>", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.IGNORECASE | re.DOTALL)


def refusal(subject: str, answer: Answer, redactor: Redactor) -> QueryError:
    """Return the failure for an answer with a status other than 200."""
    status = answer.status
    if 300 <= status < 400:
        # Redirects are not followed: a client would turn the POST into a GET without the query, or
        # send the credentials to another host. The target is usually a login page.
        location = without_secrets(answer.headers.get("Location", "")) or "nowhere"
        return QueryError(
            f"{subject} redirects to {redactor.line(location, _LONGEST_FOREIGN_TEXT)} (HTTP"
            f" {status}): redirects are not followed; the URL should name the final address"
        )
    error_type, text = prometheus_error(answer.body, redactor)
    _, of_moment, kind = _TYPES.get(error_type, _OTHER_TYPE)
    return QueryError(
        _sentence(subject, status, error_type, text or _foreign_text(answer.body, redactor)),
        status=status,
        transient=status in _TRANSIENT_STATUSES or of_moment,
        retry_after=retry_after(answer.headers),
        kind=kind,
    )


def prometheus_error(body: bytes, redactor: Redactor) -> tuple[str, str]:
    """Return `errorType` and `error` of Prometheus' own error format; empty for anything else."""
    document = error_object(body)
    if document.get("status") != "error":
        return "", ""
    error_type, text = document.get("errorType", "unknown"), document.get("error")
    return (
        redactor.line(str(error_type), LONGEST_TYPE),
        redactor.line(str(text or "no reason given"), _LONGEST_TEXT),
    )


def _sentence(subject: str, status: int, error_type: str, text: str) -> str:
    if words := _TYPES.get(error_type, _OTHER_TYPE)[0]:
        return f"Prometheus {words} ({error_type}): {text}"
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


def _foreign_text(body: bytes, redactor: Redactor) -> str:
    """Return the title, or else the beginning, of an error page of another server."""
    text = body[:_LONGEST_PAGE].decode("utf-8", "replace")
    title = _TITLE.search(text)
    text = title.group(1) if title else _UNSEEN.sub(" ", text)
    return redactor.line(text, _LONGEST_FOREIGN_TEXT)


# -- a success -----------------------------------------------------------------------------------

# Prometheus 2.48 to 2.53 sent its infos ("metric might not be a counter") as warnings.
_INFO = "PromQL info:"

TEXT = frozenset({str})
"""The types of what is text in the format."""
_LONGEST_START = 60
_MOST_WARNINGS = 20
"""The warnings and infos of one answer that are used."""
_LATEST = 253_402_300_799.0
"""The end of the year 9999: a bound for the times that a server sends."""


def document_of(
    subject: str, body: bytes, redactor: Redactor, parse: Callable[[bytes], object] = json.loads
) -> dict[str, object]:
    """Parse the body of an answer with status 200; raises QueryError if it is not a success."""
    try:
        document = parse(body)
    except (ValueError, RecursionError):
        raise _unreadable(subject, body, redactor) from None
    if not isinstance(document, dict):
        raise misshapen(subject, "the JSON is not an object")
    if document.get("status") == "error":
        error_type, text = prometheus_error(redactor.error_body(body), redactor)
        text = f"Prometheus refused the query ({error_type}): {text}"
        raise QueryError(text, kind=_TYPES.get(error_type, _OTHER_TYPE)[2])
    return document


def result_of(subject: str, document: dict[str, object]) -> tuple[object, Any]:
    """Return type and result of a complete answer; raises QueryError without a result."""
    data = document.get("data")
    if not isinstance(data, dict) or "resultType" not in data:
        raise misshapen(subject, "data.resultType is missing")
    return data["resultType"], data.get("result")


def answer_of(subject: str, document: dict[str, object], redactor: Redactor) -> QueryResult:
    """Convert a complete answer; raises QueryError if it is not a vector or scalar of floats."""
    kind, result = result_of(subject, document)
    if kind not in {"vector", "scalar"}:
        text = redactor.line(kind, LONGEST_TYPE) if isinstance(kind, str) else ""
        what = f"a {text}" if isinstance(kind, str) else "an unknown type"
        raise QueryError(
            f"the query returns {what}; a query must return an instant vector or a scalar",
            kind=FailureKind.WRONG_QUERY,
        )
    try:
        if kind == "scalar":
            series = [_sample({}, result)]
        else:
            series = [_series(element) for element in result]
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise misshapen(subject, f"the result is not a {kind} of floats") from None
    return QueryResult(series, warnings_of(subject, document, redactor))


def _series(element: Any) -> Series:
    if "value" not in element and "histogram" in element:
        raise histograms()
    return _sample(element["metric"], element["value"])


def histograms() -> QueryError:
    """Return the failure for native histograms."""
    return QueryError(
        "the query returns native histograms, not numbers; histogram_quantile,"
        " histogram_sum and histogram_count make numbers of them",
        kind=FailureKind.WRONG_QUERY,
    )


def checked_labels(labels: object) -> dict[str, str]:
    """Return the labels of a series; raises TypeError if they are not strings."""
    if type(labels) is not dict or not TEXT.issuperset(map(type, labels.values())):
        raise TypeError
    return labels


def _sample(labels: object, sample: object) -> Series:
    if type(sample) is not list:
        raise TypeError
    timestamp, value = sample
    if type(value) is not str:
        raise TypeError
    seconds = float(timestamp)
    if not 0.0 <= seconds <= _LATEST:  # Also false for NaN, which Python's JSON accepts.
        raise ValueError
    return Series(checked_labels(labels), float(value), seconds)


def warnings_of(subject: str, document: dict[str, object], redactor: Redactor) -> tuple[str, ...]:
    """Return why an answer is incomplete; raises QueryError."""
    warnings = document.get("warnings")
    if warnings is None:
        warnings = []
    if not isinstance(warnings, list):
        raise misshapen(subject, "warnings is not a list")
    serious = [str(text) for text in warnings if not str(text).startswith(_INFO)]
    told = tuple(redactor.line(text, _LONGEST_TEXT) for text in serious[:_MOST_WARNINGS])
    # VictoriaMetrics' cluster sends this warning when a storage node is unreachable.
    return (*told, "isPartial is true") if document.get("isPartial") is True else told


def misshapen(subject: str, detail: str) -> QueryError:
    """Return the failure for an answer that does not have the documented format."""
    return QueryError(f"{subject} sent an answer that is not Prometheus' format: {detail}")


def _unreadable(subject: str, body: bytes, redactor: Redactor) -> QueryError:
    text = redactor.error_body(body).strip()
    if text.startswith(b"{") and not text.endswith(b"}"):
        # It was cut off on the way; the next answer may be complete.
        return QueryError(f"{subject} sent JSON that breaks off", transient=True)
    if not text:
        return QueryError(f"{subject} sent an empty answer", transient=True)
    start = redactor.line(text[:200].decode("utf-8", "replace"), _LONGEST_START)
    return QueryError(f"{subject} sent invalid JSON, it starts: {start}")
