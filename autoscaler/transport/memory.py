"""A limit on the memory that the answers of a server take together."""

import json
import threading
import weakref
from collections import deque

from autoscaler import clock
from autoscaler.transport.bodies import TooMuch, memory_of

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
        self.shrink(0)

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
            threading.Event().wait(min(left, _POLL_SECONDS))
        return None


class NoMemory(Exception):  # noqa: N818 - what happened
    """There was no memory for an answer in time; the message is a sentence."""


class AnswerMemory:
    """The memory for all answers of a server: bodies while received, then what they are parsed to.

    ``most_bytes`` is the largest body, of which ``at_once`` are received; ``kept_for_small`` bytes
    of ``parsed``, by default a fifth, are for answers that take up to 1 MiB.  Thread-safe.
    """

    def __init__(
        self, most_bytes: int, parsed: int, *, at_once: int = 3, kept_for_small: int | None = None
    ) -> None:
        self.most_bytes = most_bytes
        self.received = Budget(at_once * most_bytes)
        kept = parsed // 5 if kept_for_small is None else kept_for_small
        self.parsed = Budget(parsed, small=_SMALL_PARSED, kept_for_small=kept)


class OneAnswer:
    """The memory of one answer, which is given back when this object is freed.

    ``until`` is when its request ends, ``seconds`` the time that this had.  `receive` and `parse`
    wait for memory, and raise NoMemory if there is none until shortly before that.
    """

    def __init__(self, memory: AnswerMemory, until: float, seconds: float) -> None:
        self._memory = memory
        self._until = until - min(_EARLIER_SECONDS, seconds * _EARLIER_PART)
        self._received: Reservation | None = None
        self._parsed: Reservation | None = None

    def __del__(self) -> None:
        for reservation in (self._received, self._parsed):
            if reservation is not None:
                reservation.close()

    def receive(self, size: int) -> None:
        """Reserve the largest body, once more bytes have come than a small one has.

        All of it at once: answers that each had a part would wait for one another.
        """
        if size > _SMALL_BYTES and self._received is None:
            what = f"an answer of more than {_SMALL_BYTES >> 10} KiB"
            self._received = self._reserve(self._memory.received, self._memory.most_bytes, what)

    def parse(self, body: bytes) -> object:
        """Return a parsed JSON body; raises TooMuch, ValueError or RecursionError as well."""
        size, budget = memory_of(body), self._memory.parsed
        if size > budget.most:
            raise TooMuch(budget.most)
        self._parsed = self._reserve(budget, size, "an answer to be parsed")
        document: object = json.loads(body)
        return document

    def keep(self, kept: object) -> None:
        """Keep the memory of what was made of the document until that is freed."""
        if self._parsed is not None:
            self._parsed.shrink(self._parsed.size // _KEPT_PART)
            self._parsed.last_as_long_as(kept)
            self._parsed = None

    def _reserve(self, budget: Budget, size: int, what: str) -> Reservation:
        reservation = budget.reserve(size, self._until)
        if reservation is None:
            raise NoMemory(
                f"there was no memory in time for {what}, because of other large answers"
            )
        return reservation
