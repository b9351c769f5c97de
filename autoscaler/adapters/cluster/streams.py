"""The lines of an answer that goes on until a known instant."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import urllib3

from autoscaler import clock

_SHORTEST_TIMEOUT = 0.001
_GRACE_SECONDS = 0.1
"""Between the time-out of the socket, and the end of an answer that drips."""
_CHUNK_BYTES = 1 << 18
MOST_LINE_BYTES = 16 << 20
"""Of a line.  An object of 1.5 MiB, as large as etcd takes them, has six times that in JSON where
every character is escaped."""


class LineTooLong(urllib3.exceptions.HTTPError):
    """A line is longer than it may be; the rest was not received."""

    def __init__(self) -> None:
        super().__init__(f"a line of more than {MOST_LINE_BYTES >> 20} MiB")


class Stream:
    """An open answer, read line by line on one thread; another one may cancel it.

    No line is waited for beyond ``until``, an instant of `autoscaler.clock.monotonic`: where the
    server was to end the answer before it, silence means that the connection is dead.
    """

    def __init__(self, response: urllib3.HTTPResponse, until: float) -> None:
        self._response = response
        self._until = until
        self._cancelled = threading.Event()
        # The time-out of a socket is that of each wait: the frame of a chunk may drip.
        self._timer = threading.Timer(until - clock.monotonic() + _GRACE_SECONDS, self._shut)
        self._timer.name = "watch-end"
        self._timer.daemon = True
        self._timer.start()
        self.heard = clock.monotonic()
        """When something was last received."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines; the end of the answer, or its cancellation, ends them.

        Raises an HTTPError of urllib3: its TimeoutError when ``until`` is over, LineTooLong.
        """
        parts: list[bytes] = []
        size = 0
        while chunk := self._chunk():
            self.heard = clock.monotonic()
            first, *lines = chunk.split(b"\n")
            parts.append(first)
            size += len(first)
            if lines:
                whole = b"".join(parts)
                parts, size = [lines[-1]], len(lines[-1])
                yield from filter(None, (whole, *lines[:-1]))
            if size > MOST_LINE_BYTES:
                raise LineTooLong
        if size and not self._cancelled.is_set():
            raise urllib3.exceptions.ProtocolError("the answer ended inside a line")

    def _chunk(self) -> bytes:
        left = self._until - clock.monotonic()
        if left < _SHORTEST_TIMEOUT:
            raise urllib3.exceptions.TimeoutError("the answer did not end in time")
        connection = self._response.connection
        socket = connection.sock if connection is not None else None
        if socket is not None:
            socket.settimeout(left)
        try:
            return self._response.read1(_CHUNK_BYTES)
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            if clock.monotonic() >= self._until:
                raise urllib3.exceptions.TimeoutError("the answer did not end in time") from None
            raise

    def cancel(self) -> None:
        """End the iteration, which may be on another thread."""
        self._cancelled.set()
        self._shut()

    def _shut(self) -> None:
        # urllib3 raises these when the answer has ended already.
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        self._timer.cancel()
        self._response.close()
