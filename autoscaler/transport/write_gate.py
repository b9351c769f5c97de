"""Whether this process may write to the cluster now."""

import math


class WriteGate:
    """Always open, as without leader election."""

    def leads_since(self) -> float | None:
        """Return since when (`clock.steady`) this process leads; None where it does not."""
        return -math.inf

    def leading(self) -> bool:
        """Return whether this process leads."""
        return self.leads_since() is not None

    def may_write_until(self) -> float:
        """Return the instant of `clock.monotonic` before which a write must have ended.

        It has passed where this process does not lead.
        """
        return math.inf


ALWAYS_OPEN = WriteGate()
