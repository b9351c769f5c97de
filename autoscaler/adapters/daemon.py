"""The pages of a running daemon, as another process reads them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import urllib3

from autoscaler import __version__, clock
from autoscaler.core.text import printable
from autoscaler.transport.bodies import (
    LineTooLong,
    TooLarge,
    UnexpectedEncoding,
    check_encoding,
    chunks_of,
    lines_of,
)
from autoscaler.transport.deadline import POOLS, Deadline, Expired
from autoscaler.transport.network_errors import Kind, network_error

T = TypeVar("T")

_ENCODING = "gzip"
_LONGEST_REASON = 200


class PageError(Exception):
    """A page could not be read; the message is a sentence for the operator."""


class NobodyListensError(PageError):
    """There is no daemon at the address."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a page may take, in seconds, and how large it may be, in bytes.

    ``silence_seconds`` is the longest wait for its next bytes.
    """

    connect_seconds: float = 1.0
    silence_seconds: float = 2.0
    seconds: float = 10.0
    most_bytes: int = 1 << 30
    most_bytes_of_a_line: int = 32 << 20


def read_page(url: str, path: str, take: Callable[[Iterable[bytes]], T], limits: Limits) -> T:
    """Return what ``take`` returns for the lines of a page, which it gets while they arrive.

    ``url`` is the daemon's.  Raises PageError, and what ``take`` raises.
    """
    pool = urllib3.PoolManager(retries=False)
    pool.pool_classes_by_scheme = POOLS
    until = clock.monotonic() + limits.seconds
    subject = f"the daemon at {url}"

    def work() -> T:
        with pool.request(
            "GET",
            url + path,
            headers={"Accept-Encoding": _ENCODING, "User-Agent": f"autoscaler/{__version__}"},
            timeout=urllib3.Timeout(connect=limits.connect_seconds, read=limits.silence_seconds),
            redirect=False,
            preload_content=False,
        ) as response:
            _check(response, subject)
            chunks = chunks_of(response, until, limits.most_bytes, decode=True)
            return take(lines_of(chunks, limits.most_bytes_of_a_line))

    try:
        return Deadline(1, name="page").run(limits.seconds, work)
    except (LineTooLong, TooLarge):
        raise PageError(f"{subject} sent more than any daemon does") from None
    except (Expired, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise _failure(error, url) from None
    finally:
        pool.clear()


def _check(response: urllib3.BaseHTTPResponse, subject: str) -> None:
    status = response.status
    if status == 404:
        raise PageError(
            f"{subject} is of an older version, or another program: it has no such page"
        )
    if status != 200:
        said = f"{subject} answered HTTP {status}"
        if response.headers.get("Content-Type", "").startswith("text/plain"):
            body = response.read1(_LONGEST_REASON).decode(errors="replace")
            said += f": {printable(body)}"
        raise PageError(said)
    try:
        check_encoding(response, _ENCODING)
    except UnexpectedEncoding as error:
        raise PageError(f"{subject} sent {printable(str(error))}") from None


def _failure(error: Exception, url: str) -> PageError:
    subject = f"the daemon at {url}"
    found = network_error(
        urllib3.exceptions.TimeoutError() if isinstance(error, Expired) else error
    )
    match found.kind:
        case Kind.REFUSED:
            return NobodyListensError(f"no daemon listens at {url}")
        case Kind.UNTRUSTED | Kind.TLS | Kind.TLS_CLOSED:
            return PageError(f"TLS with {subject} failed: {found.reason}")
        case Kind.NAME | Kind.RESET | Kind.SYSTEM:
            return PageError(f"{subject} cannot be reached: {found.reason.lower()}")
        case Kind.TIMEOUT | Kind.CONNECT_TIMEOUT:
            return PageError(f"{subject} did not answer in time")
        case Kind.BROKEN_OFF:
            return PageError(f"{subject} broke off in the middle of its answer")
    return PageError(f"{subject} sent what is not HTTP, or broke off ({type(error).__name__})")
