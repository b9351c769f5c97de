"""A limit on the memory that the answers of a server take together."""

import threading
import weakref
from collections import deque

from autoscaler import clock
from autoscaler.transport.bodies import TooMuch

MIB = 1 << 20
_SMALL_BYTES = MIB // 4
"""A body of up to this size is received without a reservation."""
_SMALL_PARSED = MIB
_KEPT_PART = 2
"""What is kept of an answer takes at most this part of what parsing it took."""
_EARLIER_SECONDS, _EARLIER_PART = 0.5, 0.2
"""How long before the end of a request the wait for memory ends, so that the failure can say so: in
seconds, and at most this part of the request's time."""
_POLL_SECONDS = 0.02
"""How soon a waiting thread notices that bytes were given back."""


class Reservation:
    """Bytes of a budget, until they are given back."""

    def __init__(self, size: int, returned: "deque[int]") -> None:
        self.size = size
        self._returned = returned

    def close(self) -> None:
        """Give the bytes back; a second call changes nothing."""
        size, self.size = self.size, 0
        self._returned.append(size)

    def shrink(self, size: int) -> None:
        """Give back all but ``size`` bytes."""
        self._returned.append(max(0, self.size - size))
        self.size = min(self.size, size)

    def last_as_long_as(self, kept: object) -> None:
        """Give the bytes back when an object is freed."""
        weakref.finalize(kept, self.close).atexit = False


class Budget:
    """A number of bytes that many threads reserve parts of.

    Requests for more than ``small`` bytes leave ``kept_for_small`` bytes to smaller ones.
    """

    def __init__(self, total: int, *, small: int = 0, kept_for_small: int = 0) -> None:
        self.most = total - kept_for_small
        """The largest reservation."""
        self._total = total
        self._small = small
        self._used = 0
        self._lock = threading.Lock()
        # A finalizer may run on any thread at any point, so it must not take the lock.
        self._returned: deque[int] = deque()

    def reserve(self, size: int, until: float) -> Reservation | None:
        """Reserve bytes, waiting for them until an instant; None if there were none by then."""
        limit = self._total if size <= self._small else self.most
        never = threading.Event()
        while size <= limit:
            with self._lock:
                while self._returned:
                    self._used -= self._returned.popleft()
                if self._used + size <= limit:
                    self._used += size
                    return Reservation(size, self._returned)
            left = until - clock.monotonic()
            if left <= 0:
                break
            never.wait(min(left, _POLL_SECONDS))
        return None


class NoMemory(Exception):  # noqa: N818 - what happened
    """There was no memory for an answer in time, because of other large answers."""


class AnswerMemory:
    """The memory for all answers of a server: bodies while received, then what they are parsed to.

    ``kept_for_small`` bytes of ``parsed`` are for answers that take up to 1 MiB.  Thread-safe.
    """

    def __init__(self, most_bytes: int, *, received: int, parsed: int, kept_for_small: int) -> None:
        self.most_bytes = most_bytes
        """The largest body."""
        self.received = Budget(received)
        self.parsed = Budget(parsed, small=_SMALL_PARSED, kept_for_small=kept_for_small)


class OneAnswer:
    """The memory of one answer, from its first large chunk until what is kept of it is freed.

    ``until`` is when its request ends, ``seconds`` the time that this had.  `receive` and `parse`
    wait for memory, and raise NoMemory if there is none until shortly before that.
    """

    def __init__(self, memory: AnswerMemory, until: float, seconds: float) -> None:
        self._memory = memory
        self._until = until - min(_EARLIER_SECONDS, seconds * _EARLIER_PART)
        self._receiving: Reservation | None = None
        self._parsed: Reservation | None = None

    def receive(self, size: int) -> None:
        """Reserve the largest body, once more bytes have come than a small one has.

        All of it at once: answers that each had a part would wait for one another.
        """
        if size <= _SMALL_BYTES or self._receiving is not None:
            return
        self._receiving = self._memory.received.reserve(self._memory.most_bytes, self._until)
        if self._receiving is None:
            raise NoMemory(f"an answer of more than {_SMALL_BYTES >> 10} KiB")

    def received(self) -> None:
        """Give back what receiving took."""
        if self._receiving is not None:
            self._receiving.close()

    def parse(self, size: int) -> None:
        """Reserve what a document takes; raises TooMuch if it takes more than any may."""
        budget = self._memory.parsed
        if size > budget.most:
            raise TooMuch(budget.most)
        self._parsed = budget.reserve(size, self._until)
        if self._parsed is None:
            raise NoMemory("an answer to be parsed")

    def keep(self, kept: object | None) -> None:
        """Give back all but the memory of what is kept, and that when it is freed."""
        if self._parsed is None:
            return
        if kept is None:
            self._parsed.close()
        else:
            self._parsed.shrink(self._parsed.size // _KEPT_PART)
            self._parsed.last_as_long_as(kept)
