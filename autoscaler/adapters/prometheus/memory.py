"""How much memory the answers may take, each and all together.

The pod of config/kubernetes has 512 MiB, of which 10,000 targets take about 250.
"""

from autoscaler.adapters.prometheus.failures import QueryError
from autoscaler.transport.budget import Budget, Room

MIB = 1 << 20
MOST_BYTES = 8 * MIB
"""Of one body, decompressed: 40,000 series with long labels, 100,000 with short ones."""
_MOST_AT_ONCE = 3 * MOST_BYTES
_SMALL_BYTES = MIB // 4
"""Up to this size a body is received without a turn."""
_PARSED = 200 * MIB
_FOR_SMALL = 40 * MIB
_SMALL_PARSED = MIB
KEPT_PART = 2
"""What is kept of an answer takes at most this part of what parsing it did."""
ROOM_EARLIER, ROOM_SHARE = 0.5, 0.2
"""How long before the end of a request the wait for memory ends, to say so: in seconds, and at
most this part of the request's time."""


class AnswerMemory:
    """The memory for the answers of all queries.  Thread-safe."""

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        *,
        received: int = _MOST_AT_ONCE,
        parsed: int = _PARSED,
        kept_for_small: int = _FOR_SMALL,
    ) -> None:
        self.most_bytes = most_bytes
        self._received = Budget(received)
        self._parsed = Budget(parsed, small=_SMALL_PARSED, kept_for_small=kept_for_small)

    def to_receive(self, size: int, until: float) -> Room | None:
        """Take what the rest of a body may need that has this size so far; None for a small one.

        All of it at once: several that have each a part would wait for one another.  Raises
        QueryError where there is none before the instant ``until``.
        """
        if size <= _SMALL_BYTES:
            return None
        room = self._received.reserve(self.most_bytes, until)
        return room or _no_room(f"an answer of more than {_SMALL_BYTES >> 10} KiB")

    def to_parse(self, memory: int, until: float) -> Room:
        """Take what a document takes with all that is made of it; raises QueryError as above."""
        if memory > self._parsed.most:
            raise QueryError(
                "Prometheus sent an answer that takes more than "
                f"{self._parsed.most // MIB} MiB of memory: the query should aggregate"
            )
        return self._parsed.reserve(memory, until) or _no_room("an answer to be parsed")


def _no_room(what: str) -> Room:
    raise QueryError(
        f"there was no memory in time for {what}, because of other large answers:"
        " queries should aggregate",
        out_of_time=True,
    )


PROCESS = AnswerMemory()
"""That of this process."""
