"""HTTP answers that are no success, as sentences with the server's own words."""

import email.utils
import re
from collections.abc import Mapping
from http.client import responses

from autoscaler import clock
from autoscaler.adapters.prometheus.failures import QueryError
from autoscaler.adapters.prometheus.options import without_secrets
from autoscaler.transport.parsing import TooMuch, parse
from autoscaler.transport.redaction import Hiding

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
