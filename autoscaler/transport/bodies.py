"""The body of an answer: in time, no larger than agreed, in no encoding that was not asked for."""

from collections.abc import Callable

import urllib3

from autoscaler import clock

_CHUNK_BYTES = 65_536


class TooLarge(Exception):  # noqa: N818 - what the answer is
    """The body is larger than it may be; the rest was not received."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"more than {most_bytes >> 20} MiB")


class Encoded(Exception):  # noqa: N818 - as above
    """The body has a content encoding that was not asked for; it was not received."""

    def __init__(self, encoding: str) -> None:
        super().__init__(f"an answer in the content encoding {encoding}, which was not asked for")


def check_encoding(response: urllib3.BaseHTTPResponse, asked_for: str = "") -> None:
    """Raise Encoded, and close the connection, unless the encoding is none or the one asked for."""
    encoding = response.headers.get("Content-Encoding", "").strip()
    if encoding.lower() not in {"", "identity", asked_for}:
        response.close()
        raise Encoded(encoding)


def read_body(
    response: urllib3.BaseHTTPResponse,
    until: float,
    most_bytes: int,
    *,
    encoding: str = "",
    on_size: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Read the body before an instant, decoded where it has the ``encoding`` that was asked for.

    ``on_size`` is told of its size as it grows, and may raise to give it up.  The connection is
    closed unless all was read.

    Raises TooLarge, Encoded, TimeoutError, and what the client raises.
    """
    check_encoding(response, encoding)
    chunks: list[bytes] = []
    size = 0
    try:
        # read1 returns with what has come; read would wait for a whole chunk of a slow drip.
        while chunk := response.read1(_CHUNK_BYTES, decode_content=bool(encoding)):
            chunks.append(chunk)
            size += len(chunk)
            _check(size, most_bytes, until)
            on_size(size)
    except BaseException:
        response.close()
        raise
    return b"".join(chunks)


def _check(size: int, most_bytes: int, until: float) -> None:
    if size > most_bytes:
        raise TooLarge(most_bytes)
    if clock.monotonic() >= until:
        raise TimeoutError
