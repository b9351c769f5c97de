"""The lines of an answer that goes on until a known instant."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import urllib3

from autoscaler import clock

_SHORTEST_TIMEOUT = 0.001


class Stream:
    """An open answer, read line by line on one thread; another one may cancel it.

    No line is waited for beyond ``until``, an instant of `autoscaler.clock.monotonic`: where the
    server was to end the answer before it, silence means that the connection is dead.
    """

    def __init__(self, response: urllib3.HTTPResponse, until: float) -> None:
        self._response = response
        self._until = until
        self._cancelled = threading.Event()
        self.heard = clock.monotonic()
        """When something was last received."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines; the end of the answer, or its cancellation, ends them.

        Raises an HTTPError of urllib3: its TimeoutError when ``until`` is over.
        """
        rest = b""
        while chunk := self._chunk():
            self.heard = clock.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)
        if rest and not self._cancelled.is_set():
            raise urllib3.exceptions.ProtocolError("the answer ended inside a line")

    def _chunk(self) -> bytes:
        left = self._until - clock.monotonic()
        if left < _SHORTEST_TIMEOUT:
            raise urllib3.exceptions.TimeoutError("the answer did not end in time")
        connection = self._response.connection
        socket = connection.sock if connection is not None else None
        if socket is not None:
            socket.settimeout(left)
        return self._response.read1()

    def cancel(self) -> None:
        """End the iteration, which may be on another thread."""
        self._cancelled.set()
        # urllib3 raises these when the answer has ended already.
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        self._response.close()
