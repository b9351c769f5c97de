"""The pages of a daemon that runs, as another process reads them."""

import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http.client import IncompleteRead
from typing import TypeVar

import urllib3

from autoscaler import __version__, clock
from autoscaler.core.text import printable
from autoscaler.transport.bodies import Encoded, check_encoding
from autoscaler.transport.within import POOLS, Deadline, Expired

T = TypeVar("T")

_CHUNK_BYTES = 65_536
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
    """Return what ``take`` makes of the lines of a page, which it gets as they come.

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
            return take(_lines(response, subject, until, limits))

    try:
        return Deadline(1, name="page").run(limits.seconds, work)
    except (Expired, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise _failure(error, subject) from None
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
    except Encoded as error:
        raise PageError(f"{subject} sent {printable(str(error))}") from None


def _lines(
    response: urllib3.BaseHTTPResponse, subject: str, until: float, limits: Limits
) -> Iterator[bytes]:
    size, rest = 0, bytearray()
    while chunk := response.read1(_CHUNK_BYTES, decode_content=True):
        size += len(chunk)
        rest += chunk
        if size > limits.most_bytes or len(rest) > limits.most_bytes_of_a_line:
            raise PageError(f"{subject} sent more than any daemon does")
        if clock.monotonic() >= until:
            raise TimeoutError
        *lines, rest = rest.split(b"\n") if b"\n" in chunk else [rest]
        yield from map(bytes, lines)
    if rest:
        yield bytes(rest)


def _failure(error: Exception, subject: str) -> PageError:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ConnectionRefusedError):
            return NobodyListensError(f"no daemon listens at {subject.rpartition(' ')[2]}")
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return PageError(f"TLS with {subject} failed: {printable(str(cause))}")
        if isinstance(cause, IncompleteRead):
            return PageError(f"{subject} broke off in the middle of its answer")
        if isinstance(cause, OSError) and cause.strerror:
            return PageError(f"{subject} cannot be reached: {cause.strerror.lower()}")
    if isinstance(error, Expired | TimeoutError | urllib3.exceptions.TimeoutError):
        return PageError(f"{subject} did not answer in time")
    return PageError(f"{subject} sent what is not HTTP, or broke off ({type(error).__name__})")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what an exception wraps, innermost first."""
    inner = [error.__cause__ or error.__context__, *error.args, getattr(error, "reason", None)]
    for one in inner:
        if isinstance(one, BaseException) and one is not error:
            yield from _causes(one)
    yield error
