"""The connections of a listener: how many there may be, for how long, and which gives way."""

import socket
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from autoscaler import clock

MOST_CONNECTIONS = 32
MOST_OF_ONE_CLIENT = 8
"""So many connections may come from one address."""
MOST_SECONDS = 10.0
"""How long one connection may last, its request and its answer together."""
MOST_HEAD_SECONDS = 3.0
"""How much of it the request line and the headers may take."""

_CLOSE_SECONDS = 1.0


@dataclass(slots=True)
class _Visit:
    """An open connection: of which address, since when, until when at most, and who serves it."""

    client: str
    begun: float
    until: float
    thread: threading.Thread
    asked: bool = False
    """Whether its whole head was read; until then it may give way to another."""
    cut: bool = False


class Connections:
    """The open connections; any thread may call."""

    def __init__(self, most: int, most_seconds: float, most_head_seconds: float) -> None:
        self._most = most
        self._seconds = most_seconds
        self._head_seconds = min(most_head_seconds, most_seconds)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, _Visit] = {}

    def admit(self, client: str) -> bool:
        """Tell whether another connection of an address may be opened.

        Where there are too many, of all addresses or of this one, one that has not sent its head
        is cut for it.
        """
        with self._lock:
            staying = {one: visit for one, visit in self._open.items() if not visit.cut}
            own = {one: visit for one, visit in staying.items() if visit.client == client}
            if len(own) >= MOST_OF_ONE_CLIENT:
                return _make_room(own)
            return len(staying) < self._most or _make_room(staying)

    def add(self, connection: socket.socket, client: str, thread: threading.Thread) -> None:
        """Take in a connection that was opened."""
        now = clock.monotonic()
        with self._lock:
            self._open[connection] = _Visit(client, now, now + self._head_seconds, thread)

    def asked(self, connection: socket.socket) -> bool:
        """Take in that its whole head was read; return False if it was cut before."""
        with self._lock:
            visit = self._open[connection]
            visit.asked = True
            visit.until = visit.begun + self._seconds
            return not visit.cut

    def remove(self, connection: socket.socket) -> None:
        """Take in that a connection was closed."""
        with self._lock:
            del self._open[connection]

    def cut_late(self) -> None:
        """Cut those that lasted too long."""
        now = clock.monotonic()
        with self._lock:
            for connection, visit in self._open.items():
                if visit.until <= now:
                    _cut(connection, visit)

    def end(self) -> None:
        """Cut all, and wait a moment for their threads."""
        with self._lock:
            visits = list(self._open.values())
            for connection, visit in self._open.items():
                _cut(connection, visit)
        until = clock.monotonic() + _CLOSE_SECONDS
        for visit in visits:
            visit.thread.join(max(0.0, until - clock.monotonic()))


def _make_room(among: dict[socket.socket, _Visit]) -> bool:
    """Cut the oldest idle one of the address that has most of them; return False without any."""
    idle = [(one, visit) for one, visit in among.items() if not visit.asked]
    if not idle:
        return False
    held = Counter(visit.client for _, visit in idle)
    # Whoever has a single one, as a probe, stays while somebody has several.
    _cut(*max(idle, key=lambda each: (held[each[1].client], -each[1].begun)))
    return True


def _cut(connection: socket.socket, visit: _Visit) -> None:
    """End a connection under the thread that serves it, which notices at once."""
    visit.cut = True
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
