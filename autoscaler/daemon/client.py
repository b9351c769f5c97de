"""Reads the pages of a running daemon, from another process."""

import json
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import urllib3

from autoscaler import __version__, clock
from autoscaler.core.text import printable
from autoscaler.transport.answers import (
    BodyTooLargeError,
    LineTooLong,
    UnexpectedEncoding,
    check_encoding,
    chunks_of,
    lines_of,
)
from autoscaler.transport.credentials import SecretError, SecretFile
from autoscaler.transport.deadline import POOLS, Deadline
from autoscaler.transport.network_errors import Kind, network_error

T = TypeVar("T")

_ENCODING = "gzip"
_LONGEST_REASON = 4000
_PROBLEM = "application/problem+json"


class PageError(Exception):
    """A page could not be read; the message is a sentence for the operator."""


class NoDaemonError(PageError):
    """There is no daemon at the address."""


class NotFoundError(PageError):
    """The daemon does not have what was requested."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """The address of a daemon, and the credentials; files are read for each request."""

    url: str
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None

    def __str__(self) -> str:
        return f"the daemon at {self.url}"


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Limits of a page: its duration, the wait for its next bytes, and its size."""

    connect_seconds: float = 1.0
    silence_seconds: float = 2.0
    seconds: float = 10.0
    most_bytes: int = 1 << 30
    most_bytes_of_a_line: int = 32 << 20


def read_page(
    daemon: Daemon, path: str, take: Callable[[Iterable[bytes]], T], limits: PageLimits
) -> T:
    """Return the result of ``take`` for the lines of a page as they arrive; raises PageError."""
    headers = _headers(daemon)
    pool = urllib3.PoolManager(retries=False, ssl_context=_trust(daemon))
    pool.pool_classes_by_scheme = POOLS
    until = clock.monotonic() + limits.seconds

    def work() -> T:
        with pool.request(
            "GET",
            daemon.url + path,
            headers=headers,
            timeout=urllib3.Timeout(connect=limits.connect_seconds, read=limits.silence_seconds),
            redirect=False,
            preload_content=False,
        ) as response:
            _check(response, str(daemon), signed_in="Authorization" in headers)
            chunks = chunks_of(response, until, limits.most_bytes, decode=True)
            return take(lines_of(chunks, limits.most_bytes_of_a_line))

    try:
        return Deadline(1, name="page").run(limits.seconds, work)
    except (LineTooLong, BodyTooLargeError):
        raise PageError(f"{daemon} sent more than any daemon does") from None
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise _failure(error, daemon) from None
    finally:
        pool.clear()


def _headers(daemon: Daemon) -> dict[str, str]:
    headers = {"Accept-Encoding": _ENCODING, "User-Agent": f"autoscaler/{__version__}"}
    secret = daemon.token_file or daemon.password_file
    if secret is not None and not (daemon.url.startswith("https:") or _is_local(daemon.url)):
        raise PageError(f"what is in {secret} is sent over https only, and not to {daemon.url}")
    try:
        if daemon.token_file is not None:
            headers["Authorization"] = f"Bearer {SecretFile('token', daemon.token_file).read()}"
        elif daemon.user is not None and daemon.password_file is not None:
            password = SecretFile("password", daemon.password_file, ascii_only=False).read()
            basic = urllib3.make_headers(basic_auth=f"{daemon.user}:{password}")
            headers["Authorization"] = basic["authorization"]
    except (SecretError, UnicodeError) as error:
        raise PageError(str(error)) from None
    return headers


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _trust(daemon: Daemon) -> ssl.SSLContext | None:
    """Return the CA and client certificate for TLS; None for the system's CAs. Raises PageError."""
    if daemon.ca_file is None and daemon.cert_file is None:
        return None
    try:
        context = ssl.create_default_context(cafile=daemon.ca_file)
    except (OSError, ssl.SSLError):
        raise PageError(f"{daemon.ca_file} holds no certificates (PEM) that can be read") from None
    if daemon.cert_file is not None:
        try:
            context.load_cert_chain(daemon.cert_file, daemon.key_file, password="")
        except (OSError, ssl.SSLError):
            raise PageError(
                f"{daemon.cert_file} and its key are not a valid certificate (PEM)"
            ) from None
    return context


def _check(response: urllib3.BaseHTTPResponse, subject: str, *, signed_in: bool) -> None:
    """Raise PageError unless the answer is a page in a requested encoding."""
    status = response.status
    kind = response.headers.get("Content-Type", "")
    is_problem = kind.startswith(_PROBLEM)
    if status == 404 and not is_problem:
        raise PageError(
            f"{subject} has no such page: it is of an older version, another program, or serves "
            "its pages elsewhere (`web.listen`)"
        )
    if status == 401 and signed_in:
        raise PageError(f"{subject} refuses what you signed in with")
    if status == 401:
        given = "give --token-file, or --user and --password-file"
        raise PageError(f"{subject} wants you to sign in: {given}")
    if status != 200:
        said = printable(_error_text(response, kind))
        if status == 404:
            raise NotFoundError(said)
        told = subject if is_problem and said else f"{subject} answered HTTP {status}"
        raise PageError(f"{told}: {said}" if said else told)
    try:
        check_encoding(response, _ENCODING)
    except UnexpectedEncoding as error:
        raise PageError(f"{subject} sent {printable(str(error))}") from None


def _error_text(response: urllib3.BaseHTTPResponse, kind: str) -> str:
    """Return the message of an error answer, if it is text."""
    if not kind.startswith(("text/plain", _PROBLEM)):
        return ""
    body = response.read1(_LONGEST_REASON, decode_content=True).decode(errors="replace")
    if kind.startswith("text/plain"):
        return body
    with suppress(ValueError, RecursionError):
        match json.loads(body):
            case {"detail": str(detail)}:
                return detail
    return ""


def _failure(error: Exception, daemon: Daemon) -> PageError:
    found = network_error(error)
    match found.kind:
        case Kind.REFUSED:
            return NoDaemonError(f"no daemon listens at {daemon.url}")
        case Kind.UNTRUSTED | Kind.TLS | Kind.TLS_CLOSED:
            return PageError(f"TLS with {daemon} failed: {found.reason}")
        case Kind.NAME | Kind.RESET | Kind.SYSTEM:
            return PageError(f"{daemon} cannot be reached: {found.reason.lower()}")
        case Kind.TIMEOUT | Kind.CONNECT_TIMEOUT:
            return PageError(f"{daemon} did not answer in time")
        case Kind.BROKEN_OFF:
            return PageError(f"{daemon} broke off in the middle of its answer")
    return PageError(f"{daemon} sent what is not HTTP, or broke off ({type(error).__name__})")
