"""Asks a running daemon for one of its pages."""

import http.client
import socket
import ssl
from http import HTTPStatus

import urllib3

from autoscaler import clock
from autoscaler.core.printable import printable
from autoscaler.transport.bodies import Encoded, TooLarge, read_body
from autoscaler.transport.parsing import TooMuch, parse
from autoscaler.transport.sockets import POOLS
from autoscaler.transport.within import GRACE_SECONDS, Deadline, Expired

MOST_SECONDS = 10.0
"""How long a page may take as a whole; the daemon gives it no longer."""
_MOST_BYTES, _MOST_MEMORY = 64 << 20, 512 << 20
"""How large a page may be, and once it is parsed; one of 10,000 targets takes a tenth."""
_ENCODING = "gzip"
_SERVER = "autoscaler"
"""How the daemon's listener names itself."""


class AskError(Exception):
    """The page was not had; the text is a sentence for the user."""


def ask(url: str, path: str) -> object:
    """Return the JSON of a page of the daemon at ``url``, an address without a slash at its end.

    Raises AskError within `MOST_SECONDS`, whatever answers there.
    """
    until = clock.monotonic() + MOST_SECONDS
    try:
        return Deadline(1, name="page").run(
            MOST_SECONDS + GRACE_SECONDS, lambda: _ask(url, path, until)
        )
    except (Expired, TimeoutError):
        raise AskError(_too_slow(url)) from None
    except (TooLarge, TooMuch, Encoded) as error:
        raise AskError(f"{url} sent {printable(str(error))}") from None
    except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
        raise AskError(_failure(error, url)) from None


def _ask(url: str, path: str, until: float) -> object:
    manager = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(total=MOST_SECONDS))
    manager.pool_classes_by_scheme = POOLS
    with manager:
        response = manager.request(
            "GET",
            url + path,
            headers={"Accept": "application/json", "Accept-Encoding": _ENCODING},
            preload_content=False,
            redirect=False,
        )
        body = read_body(response, until, _MOST_BYTES, encoding=_ENCODING)
    ours = response.headers.get("Server") == _SERVER
    if response.status == HTTPStatus.NOT_FOUND and ours:
        raise AskError(
            f"the autoscaler at {url} has no page {path}: it is of an older version, or the "
            "address has a path that does not belong to it"
        )
    if response.status != HTTPStatus.OK:
        status = f"HTTP {response.status} {response.reason or ''}".strip()
        if not ours:
            raise AskError(f"what answers at {url} is no autoscaler: it says {printable(status)}")
        said = printable(body.decode(errors="replace"))
        raise AskError(f"the autoscaler at {url} answers {printable(status)}: {said}")
    try:
        return parse(body, _MOST_MEMORY)
    except (ValueError, RecursionError):
        raise AskError(f"what answers at {url} is no autoscaler: it sent no JSON") from None


def _first_cause(error: BaseException) -> BaseException:
    """Return what the library wrapped, as the cause of an exception or as an argument of it."""
    inner: list[object] = [error.__cause__, *reversed(error.args)]
    for one in inner:
        if isinstance(one, BaseException):
            return _first_cause(one)
    return error


# In this order: some are kinds of others.
_FAILURES: tuple[tuple[type[BaseException], str], ...] = (
    (
        ConnectionRefusedError,
        "nobody listens at {url}: no daemon runs there, or `listen` is another address",
    ),
    (socket.gaierror, "{url} cannot be reached: the name does not resolve"),
    (ssl.SSLCertVerificationError, "{url} is not trusted: its certificate does not verify"),
    (http.client.RemoteDisconnected, "{url} closed the connection without an answer"),
    (ConnectionResetError, "{url} closed the connection without an answer"),
    (ssl.SSLError, "what answers at {url} is no autoscaler: it does not speak TLS"),
    (http.client.HTTPException, "what answers at {url} is no autoscaler: it does not speak HTTP"),
)


def _too_slow(url: str) -> str:
    return f"{url} did not answer within {MOST_SECONDS:g} s"


def _failure(error: BaseException, url: str) -> str:
    cause = _first_cause(error)
    if isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError):
        return _too_slow(url)
    for kind, sentence in _FAILURES:
        if isinstance(cause, kind):
            return sentence.format(url=url)
    if isinstance(cause, OSError) and cause.strerror:
        return f"{url} cannot be reached: {cause.strerror}"
    return f"{url} sent an answer that cannot be read"
