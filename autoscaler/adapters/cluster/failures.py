"""Why a request to the API server gave no answer, as a sentence for the operator.

The server's own words (`Status.message`) are kept: they name the user, the verb and the resource.
`Api` hides our credentials in them, which careless servers repeat.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autoscaler.core.text import printable
from autoscaler.transport import retries
from autoscaler.transport.bodies import TooMuch, parse
from autoscaler.transport.network_errors import Kind, network_error
from autoscaler.transport.retries import retry_after

_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_NOT_CARRIED_OUT = frozenset({429})
_LONGEST_EXCERPT = 200
_LONGEST_WORDS = 1000
_LONGEST_NAME = 253
_MOST_MEMORY = 4 << 20
"""For a Status, which is a sentence or two."""


@dataclass(frozen=True, slots=True)
class Failure(retries.RequestFailure):
    """A request without an answer that can be used."""

    reason: str = ""
    """`Status.reason`, such as NotFound, Conflict, Expired; empty without a Status."""
    uncertain: bool = False
    """Whether the server may have carried the request out all the same."""
    missing: str = ""
    """For a 404, the name of the object that does not exist; empty where the path is unknown."""
    withheld: bool = False
    """Whether we broke the request off before its body, so that it had no effect."""
    cause: str = ""
    """The first of `Status.details.causes`, such as NamespaceTerminating; empty without one."""
    rejected: bool = False
    """Whether credentials or certificates, ours or the server's, were not accepted or are gone,
    so that reading them again may help."""
    too_large: bool = False
    """Whether the answer was larger than allowed; a smaller part of a list may be asked for."""


@dataclass(frozen=True, slots=True)
class _Status:
    """What is read of a `metav1.Status`; empty where it is none, or of an odd form."""

    message: str = ""
    reason: str = ""
    name: str = ""
    cause: str = ""


def from_answer(
    status: int,
    headers: Mapping[str, str],
    payload: bytes,
    *,
    server: str,
    origin: str,
    unread: str = "",
) -> Failure:
    """Return the failure for an answer that is no success.

    ``origin`` says where the credentials come from, ``unread`` why there is no payload.
    """
    body = _status_of(payload)
    words = body.message or _foreign_text(headers, payload, unread)
    return Failure(
        message=_sentence(status, body.reason, words, server, origin),
        status=status,
        rejected=status == 401,
        reason=body.reason,
        transient=status in _TRANSIENT,
        uncertain=status in _TRANSIENT - _NOT_CARRIED_OUT,
        retry_after=retry_after(headers) if status in _TRANSIENT else None,
        missing=body.name if status == 404 else "",
        cause=body.cause,
    )


def _sentence(status: int, reason: str, words: str, server: str, origin: str) -> str:
    if status == 401:
        return f"the API server {server} does not accept the credentials of {origin}: {words}"
    if reason and status in {403, 404, 409, 410, 422}:
        return words
    return f"the API server {server} answered {status}{f' ({reason})' if reason else ''}: {words}"


def _foreign_text(headers: Mapping[str, str], payload: bytes, unread: str) -> str:
    """Return the text of an answer that is no Status."""
    kind = headers.get("Content-Type", "").partition(";")[0].strip() or "no Content-Type"
    kind = printable(kind, _LONGEST_EXCERPT)
    if kind == "text/plain" and payload.strip():
        return printable(payload.decode(errors="replace"), _LONGEST_EXCERPT)
    why = f", {unread}" if unread else ""
    return f"no Status in it ({kind}{why}); is there a proxy in between?"


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


def in_namespace(failure: Failure, namespace: str) -> str:
    """Return the message, with the namespace of a missing object, which the API server omits."""
    if failure.missing:
        return f'{failure.message} in namespace "{namespace}"'
    return failure.message


def malformed(server: str, what: str) -> Failure:
    """Return the failure for a success that cannot be read; the server did carry it out."""
    what = printable(what, _LONGEST_WORDS)
    return Failure(
        f"the API server {server} sent {what}", status=200, transient=True, uncertain=True
    )


def too_large(server: str, what: str) -> Failure:
    """Return the failure for a success above a limit; asked for again it would be as large."""
    return replace(malformed(server, what), transient=False, too_large=True)


def no_memory(server: str, why: str) -> Failure:
    """Return the failure for a success that was not received or not parsed, for ``why``."""
    return Failure(f"the API server {server} answered, and {why}", transient=True, uncertain=True)


def no_time(server: str) -> Failure:
    """Return the failure for a request that was not begun because the deadline is here."""
    return Failure(
        f"no time was left to ask the API server {server} before the deadline", cut_short=True
    )


def withheld(server: str) -> Failure:
    """Return the failure for a request that was broken off before its body."""
    return Failure(f"a request to the API server {server} came too late to be sent", withheld=True)


def from_exception(error: Exception, server: str, *, cut_short: bool = False) -> Failure:
    """Return the failure for what was raised, one of `network_errors.RAISED`.

    ``cut_short`` says that the deadline left less time than a request usually gets.
    """
    server = f"the API server {server}"
    if any(isinstance(part, FileNotFoundError) for part in error.args):
        # A kubeconfig may name other files by now; and what it holds itself the client keeps in
        # the system's folder of temporary files, which may be cleaned.
        message = f"a certificate or key for {server} is not there any more"
        # In the middle of a rotation it is back a moment later.
        return Failure(message, transient=True, rejected=True)
    found = network_error(error)
    reason = found.reason.lower()
    match found.kind:
        case Kind.NOT_SENT:
            message = f"the request to {server} cannot be made ({found.reason})"
            return Failure(message, transient=isinstance(error, OSError), uncertain=True)
        case Kind.UNTRUSTED | Kind.TLS | Kind.TLS_CLOSED:
            return Failure(
                f"TLS with {server} failed: {found.cause}",
                transient=found.kind is Kind.TLS_CLOSED,
                # The other errors may also occur once the request has been sent.
                uncertain=found.kind is not Kind.UNTRUSTED,
                # An alert: a proxy before the server may refuse our certificate before HTTP begins.
                rejected=found.kind is Kind.UNTRUSTED or " alert " in reason,
            )
        case Kind.PROXY:
            message = f"{server} cannot be reached through the proxy: {reason}"
        case Kind.TIMEOUT:
            message = f"{server} gave no answer in time"
        case _ if found.connected:
            message = f"the connection to {server} broke: {reason or found.kind.value}"
        case _:
            message = f"{server} cannot be reached: {reason}"
    return Failure(
        message,
        transient=True,
        uncertain=found.connected,
        cut_short=cut_short and found.kind in {Kind.TIMEOUT, Kind.CONNECT_TIMEOUT},
    )
