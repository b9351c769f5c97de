"""Why a request to the API server gave no answer, as a sentence for the operator.

The server's message (`Status.message`) is kept: it names the user, the verb and the resource. `Api`
redacts our credentials in it, which careless servers repeat.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from autoscaler.core.text import printable
from autoscaler.transport.answers import Answer, error_object
from autoscaler.transport.network_errors import ABSENT, Kind, network_error
from autoscaler.transport.retries import FailureKind, RequestFailure, retry_after

_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_NOT_CARRIED_OUT = frozenset({429})
_SELF_EXPLAINED = frozenset({403, 404, 409, 410, 422})
"""The codes of a Status whose message names everything."""
_LONGEST_EXCERPT = 200
_LONGEST_WORDS = 1000
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Failure(RequestFailure):
    """A request without a usable answer."""

    uncertain: bool = False
    """Whether the server may have executed the request."""
    missing: str = ""
    """For a 404, the name of the missing object; empty if the path is unknown."""
    cause: str = ""
    """The first of `Status.details.causes`, such as NamespaceTerminating; empty without one."""


def from_answer(answer: Answer, server: str, origin: str) -> Failure:
    """Return the failure for an error answer; ``origin`` is the source of the credentials."""
    status, body = answer.status, error_object(answer.body)
    if body.get("kind") != "Status":
        body = {}
    details, reason = body.get("details"), _text(body, "reason")
    causes = details.get("causes") if isinstance(details, dict) else None
    words = _text(body, "message", _LONGEST_WORDS) or _foreign_text(answer)
    if status == 401:
        words = f"the API server {server} does not accept the credentials of {origin}: {words}"
    elif not reason or status not in _SELF_EXPLAINED:
        named = f" ({reason})" if reason else ""
        words = f"the API server {server} answered {status}{named}: {words}"
    return Failure(
        words,
        status=status,
        kind=FailureKind.REJECTED if status == 401 else FailureKind.OTHER,
        transient=status in _TRANSIENT,
        uncertain=status in _TRANSIENT - _NOT_CARRIED_OUT,
        retry_after=retry_after(answer.headers) if status in _TRANSIENT else None,
        missing=_text(details, "name") if status == 404 else "",
        cause=_text(causes[0], "reason") if isinstance(causes, list) and causes else "",
    )


def _foreign_text(answer: Answer) -> str:
    """Return the text of an answer that is not a Status."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip() or "no Content-Type"
    kind = printable(kind, _LONGEST_EXCERPT)
    if kind == "text/plain" and answer.body.strip():
        return printable(answer.body.decode(errors="replace"), _LONGEST_EXCERPT)
    why = f", {answer.unread}" if answer.unread else ""
    return f"no Status in it ({kind}{why}); is there a proxy in between?"


def _text(mapping: object, key: str, limit: int = _LONGEST_NAME) -> str:
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    return printable(value, limit) if isinstance(value, str) else ""


def in_namespace(failure: Failure, namespace: str) -> str:
    """Return the message with the namespace of a missing object, which the API server omits."""
    return f'{failure.message} in namespace "{namespace}"' if failure.missing else failure.message


def malformed(server: str, what: str) -> Failure:
    """Return the failure for an unreadable success; the server did execute the request."""
    what = printable(what, _LONGEST_WORDS)
    return Failure(
        f"the API server {server} sent {what}", status=200, transient=True, uncertain=True
    )


def from_exception(error: Exception, server: str, *, cut_short: bool = False) -> Failure:
    """Return the failure for one of RAISED; ``cut_short`` if it had less time than usual."""
    server = f"the API server {server}"
    if any(isinstance(part, FileNotFoundError) for part in error.args):
        # A kubeconfig may name other files by now; and the client keeps its inline data in the
        # system's temporary folder, which may be cleaned.
        message = f"a certificate or key for {server} is not there any more"
        # During a rotation the file is missing for a moment.
        return Failure(message, transient=True, kind=FailureKind.REJECTED)
    network = network_error(error)
    reason = network.reason.lower()
    match network.kind:
        case Kind.NOT_SENT:
            message = f"the request to {server} cannot be made ({network.reason})"
            return Failure(message, transient=isinstance(error, OSError), uncertain=True)
        case Kind.UNTRUSTED | Kind.TLS | Kind.TLS_CLOSED:
            untrusted = network.kind is Kind.UNTRUSTED
            # A TLS alert: a proxy before the server may refuse our certificate before HTTP begins.
            rejected = untrusted or " alert " in reason
            return Failure(
                f"TLS with {server} failed: {network.cause}",
                transient=network.kind is Kind.TLS_CLOSED,
                # The other errors may also occur after the request has been sent.
                uncertain=not untrusted,
                kind=FailureKind.REJECTED if rejected else FailureKind.OTHER,
            )
        case Kind.PROXY:
            message = f"{server} cannot be reached through the proxy: {reason}"
        case Kind.TIMEOUT:
            message = f"{server} gave no answer in time"
        case _ if network.connected:
            message = f"the connection to {server} broke: {reason or network.kind.value}"
        case _:
            message = f"{server} cannot be reached: {reason}"
    kind = FailureKind.ABSENT if network.kind in ABSENT else FailureKind.OTHER
    if cut_short and network.kind in {Kind.TIMEOUT, Kind.CONNECT_TIMEOUT}:
        kind = FailureKind.CUT_SHORT
    return Failure(message, transient=True, uncertain=network.connected, kind=kind)


_Value = TypeVar("_Value")
_Check = Callable[[Any], bool]

_LONGEST_TEXT = 65_536
_LARGEST = 10**28
"""Above the largest quantity in nano-units."""


def typed(value: _Value) -> _Value:
    """Return a dataclass after checking the types and sizes of its fields; raises ValueError."""
    kind: Any = type(value)
    if not _check_of(kind)(value):
        raise ValueError(f"a field of the {type(value).__name__} has another type, or is too large")
    return value


@cache
def _check_of(hint: Any) -> _Check:
    origin, arguments = get_origin(hint), get_args(hint)
    inner = [_check_of(each) for each in arguments if each is not ...]
    if origin in {Union, UnionType}:
        return lambda value: any(check(value) for check in inner)
    if origin is tuple and arguments[-1] is ...:
        return lambda value: type(value) is tuple and all(map(inner[0], value))
    if origin is tuple:
        return lambda value: (
            len(value) == len(inner)
            and all(check(each) for check, each in zip(inner, value, strict=True))
        )
    if origin is Mapping:
        of_key, of_value = inner
        return lambda value: all(map(of_key, value)) and all(map(of_value, value.values()))
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        checks = [(attrgetter(each.name), _check_of(hints[each.name])) for each in fields(hint)]
        return lambda value: type(value) is hint and all(check(get(value)) for get, check in checks)
    return _OF_PLAIN.get(hint, lambda value: isinstance(value, hint))


_OF_PLAIN: dict[Any, _Check] = {
    str: lambda value: isinstance(value, str) and len(value) <= _LONGEST_TEXT,
    int: lambda value: type(value) is int and -_LARGEST <= value <= _LARGEST,
    float: lambda value: type(value) in {int, float} and -_LARGEST <= value <= _LARGEST,
}
