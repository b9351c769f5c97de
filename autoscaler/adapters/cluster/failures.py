"""Why a request gave no answer, as a sentence for the operator.

The API server's own words (`Status.message`) are kept: they name the user, the verb and the
resource.  `Api` hides our credentials in them, which careless servers repeat.
"""

import ssl
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

import urllib3

from autoscaler import clock
from autoscaler.adapters.cluster.received import Received
from autoscaler.core.text import printable
from autoscaler.transport.parsing import TooMuch, parse

JsonObject = dict[str, object]
"""A JSON object as the API server sent it."""

RAISED = (urllib3.exceptions.HTTPError, ValueError, OSError, RuntimeError)
"""What the client raises for a request that fails, and for one that it cannot make at all, such as
for a shortage of threads."""

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading JSON raises that has not the form of its kind."""

_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_NOT_CARRIED_OUT = frozenset({429})
_LONGEST_EXCERPT = 200
_LONGEST_WORDS = 1000
_LONGEST_NAME = 253
_MOST_MEMORY = 4 << 20
"""For a Status, which is a sentence or two."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer that can be used."""

    message: str
    status: int = 0
    """The HTTP status; 0 where no answer came."""
    reason: str = ""
    """`Status.reason`, such as NotFound, Conflict, Expired; empty without a Status."""
    transient: bool = False
    """Whether the same request may succeed a little later."""
    uncertain: bool = False
    """Whether the server may have carried the request out all the same."""
    retry_after: float | None = None
    """The seconds that the server asks us to wait."""
    missing: str = ""
    """For a 404, the name of the object that is not there; empty where the path is unknown."""
    withheld: bool = False
    """Whether we broke the request off ourselves, before its body, so that nothing came of it."""
    cause: str = ""
    """The first of `Status.details.causes`, such as NamespaceTerminating; empty without one."""
    rejected: bool = False
    """Whether credentials or certificates, ours or the server's, were not accepted or are gone,
    so that reading them anew may help."""
    too_large: bool = False
    """Whether the answer was larger than we take; a smaller part of a list may be asked for."""


@dataclass(frozen=True, slots=True)
class _Status:
    """What is read of a `metav1.Status`; empty where it is none, or of an odd form."""

    message: str = ""
    reason: str = ""
    name: str = ""
    cause: str = ""


def from_answer(answer: Received, *, server: str, origin: str) -> Failure:
    """Describe an answer that is no success.  ``origin`` says where the credentials come from."""
    status, headers = answer.status, answer.headers
    body = _status_of(answer.payload)
    return Failure(
        message=_sentence(status, body.reason, _words(body, answer), server, origin),
        status=status,
        rejected=status == 401,
        reason=body.reason,
        transient=status in _TRANSIENT,
        uncertain=status in _TRANSIENT - _NOT_CARRIED_OUT,
        retry_after=_retry_after(headers.get("Retry-After")) if status in _TRANSIENT else None,
        missing=body.name if status == 404 else "",
        cause=body.cause,
    )


def _sentence(status: int, reason: str, words: str, server: str, origin: str) -> str:
    if status == 401:
        return f"the API server {server} does not accept the credentials of {origin}: {words}"
    if reason and status in {403, 404, 409, 410, 422}:
        return words
    return f"the API server {server} answered {status}{f' ({reason})' if reason else ''}: {words}"


def _words(body: _Status, answer: Received) -> str:
    if body.message:
        return body.message
    payload = answer.payload
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip() or "no Content-Type"
    kind = printable(kind, _LONGEST_EXCERPT)
    if kind == "text/plain" and payload.strip():
        return printable(payload.decode(errors="replace"), _LONGEST_EXCERPT)
    unread = f", {answer.unread}" if answer.unread else ""
    return f"no Status in it ({kind}{unread}); is there a proxy in between?"


def _status_of(payload: bytes) -> _Status:
    try:
        body = parse(payload, _MOST_MEMORY)
    except (TooMuch, ValueError, RecursionError):
        return _Status()
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return _Status()
    details = body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return _Status(
        _text(body, "message", _LONGEST_WORDS),
        _text(body, "reason"),
        _text(details, "name"),
        _text(causes[0], "reason") if isinstance(causes, list) and causes else "",
    )


def _text(mapping: object, key: str, limit: int = _LONGEST_NAME) -> str:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return printable(value, limit) if isinstance(value, str) else ""


def _retry_after(header: str | None) -> float | None:
    """Read Retry-After: seconds, or a date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    if header.isascii() and header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - clock.wall())
    except (ValueError, TypeError, OverflowError):
        return None


def malformed(server: str, what: str) -> Failure:
    """Describe a success whose content cannot be read; the server did carry the request out."""
    what = printable(what, _LONGEST_WORDS)
    return Failure(
        f"the API server {server} sent {what}", status=200, transient=True, uncertain=True
    )


def too_large(server: str, what: str) -> Failure:
    """Describe a success that was not taken in; asked for again it would be as large."""
    return replace(malformed(server, what), transient=False, too_large=True)


def no_time(server: str) -> Failure:
    """Describe a request that was not begun because the deadline is here."""
    return Failure(f"no time was left to ask the API server {server} before the deadline")


def withheld(server: str) -> Failure:
    """Describe a request that was broken off before its body."""
    return Failure(f"a request to the API server {server} came too late to be sent", withheld=True)


def from_exception(error: Exception, server: str) -> Failure:
    """Describe a request that ended without a complete answer, by one of RAISED.

    How much time it had, which a deadline may have cut short, is not told: the text of a failure
    stays the same as long as its cause does, so that Events and log lines of it are folded.
    """
    if isinstance(error, urllib3.exceptions.LocationValueError) or not isinstance(
        error, urllib3.exceptions.HTTPError
    ):
        # These quote what they choke on: a header with the token in it, the URL.
        return Failure(
            f"the request to the API server {server} cannot be made ({type(error).__name__})",
            transient=isinstance(error, OSError),
            uncertain=True,
        )
    if any(isinstance(part, FileNotFoundError) for part in error.args):
        # A kubeconfig may name other files by now; and what it holds itself the client keeps in
        # the system's folder of temporary files, where somebody may tidy up.
        return Failure(
            f"a certificate or key for the API server {server} is not there any more",
            # Half-way through a rotation it is back a moment later.
            transient=True,
            rejected=True,
        )
    if isinstance(error, urllib3.exceptions.SSLError):
        return _tls(error, server)
    if isinstance(error, urllib3.exceptions.ProxyError):
        return Failure(
            f"the API server {server} cannot be reached through the proxy: {_cause(error)}",
            transient=True,
        )
    unreached: str | None = None
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        unreached = _cause(error)  # refused, no route, unknown name
    elif isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        unreached = "no connection in time"
    if unreached is not None:
        return Failure(f"the API server {server} cannot be reached: {unreached}", transient=True)
    if isinstance(error, urllib3.exceptions.TimeoutError):
        message = f"the API server {server} gave no answer in time"
    else:
        message = f"the connection to the API server {server} broke: {_cause(error)}"
    return Failure(message, transient=True, uncertain=True)


def _tls(error: urllib3.exceptions.SSLError, server: str) -> Failure:
    text = str(error)
    rejected = any(isinstance(part, ssl.SSLCertVerificationError) for part in error.args)
    # A proxy in front of the server may refuse our certificate before HTTP begins.
    alerted = any("_ALERT_" in (getattr(part, "reason", None) or "") for part in error.args)
    return Failure(
        f"TLS with the API server {server} failed: {text}",
        transient="EOF" in text,
        # Anything else may befall a connection that has carried the request already.
        uncertain=not rejected,
        rejected=rejected or alerted,
    )


def _cause(error: BaseException) -> str:
    """Return the innermost words: urllib3 wraps the operating system's several times."""
    for part in reversed(error.args):
        if isinstance(part, OSError) and part.strerror:
            return part.strerror.lower()
        if isinstance(part, BaseException):
            return _cause(part)
    inner = error.__cause__ or error.__context__
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror.lower()
    return str(error.args[-1]).rpartition(">: ")[2] if error.args else type(error).__name__
