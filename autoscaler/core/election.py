"""Which of several processes may write: the rule of a leader election on a Lease.

The rule is that of client-go's `leaderelection`.  ``now`` is an instant of a clock that
nobody can set and that also counts while the process or its machine is stopped; each process has
its own, and none is compared with another's.  The wall clock is only written down.
"""

from dataclasses import dataclass, replace

NEVER = float("-inf")

DELETED = "whoever held it when it was deleted"
"""Stands for the holder of a Lease that was there and is not any more."""

_RELEASED_SECONDS = 1.0
"""The duration that a released Lease shows: the API wants one above 0."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says (`coordination.k8s.io/v1`, LeaseSpec); times are Unix seconds."""

    holder: str = ""
    """Empty where nobody holds it."""
    duration: float = 0.0
    acquired: float | None = None
    renewed: float | None = None
    transitions: int = 0
    version: str = ""
    """Its resourceVersion, new with each change; empty in what is yet to be written."""


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """Seconds; ``renew_deadline`` is shorter than ``lease_duration``."""

    lease_duration: float = 15.0
    """How long the others let a record stand that does not change."""
    renew_deadline: float = 10.0
    """How long a holder writes after the last renewal that it knows of."""
    retry_period: float = 2.0
    """From one try to the next."""


class Election:
    """One process's view of the Lease, and what follows from it.

    A holder counts from before it sent its renewal, the others from after they saw it, and they
    wait longer than it writes: no two lead at one time, however slow or lossy the network is and
    whoever is stopped for how long, provided that no two have the same identity and each write
    of the record is guarded by the version that was seen.  This holds also when the record is
    changed by hand, or deleted (once, while they run); but who empties its holder, or starts
    another process just after deleting it, gives it away while its holder may write until its
    next renewal tells it.
    """

    def __init__(self, identity: str, times: ElectionTimes) -> None:
        self.identity = identity
        self.until = NEVER
        """The instant before which this process may write."""
        self._times = times
        self._seen: LeaseRecord | None = None
        self._since = NEVER
        self._led_from = NEVER

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen; empty for nobody."""
        return "" if self._seen is None else self._seen.holder

    @property
    def free_at(self) -> float:
        """The instant from which this process may take the Lease."""
        if self._seen is None or self._seen.holder in {"", self.identity}:
            return NEVER
        # A duration that somebody made shorter by hand is not what its holder counts on.
        return self._since + max(self._seen.duration, self._times.lease_duration)

    def leading(self, now: float) -> bool:
        """Tell whether this process may write."""
        return now < self.until

    def leads_since(self, now: float) -> float | None:
        """Return the instant since which nobody else may have written; None while one may."""
        # In this order, and `won` in the other: another thread may win meanwhile.
        return self._led_from if self.leading(now) else None

    def see(self, record: LeaseRecord | None, now: float) -> None:
        """Take in what a read showed, at an instant after its answer came; None: no Lease."""
        if record is None:
            if self._seen is None or self.leading(now):
                return
            # Its holder may not know yet, and who that is may have changed unseen.
            record = replace(self._seen, holder=DELETED)
        # Of the version too: what somebody puts back by hand is not what was there before.
        if record != self._seen:
            self._seen, self._since = record, now
        if record.holder != self.identity:
            self.until = NEVER

    def bid(self, now: float, wall: float) -> LeaseRecord | None:
        """Return what is to be written over the record that was seen; None while one must wait."""
        if now < self.free_at:
            return None
        duration, seen = self._times.lease_duration, self._seen
        if seen is not None and seen.holder == self.identity:
            return replace(seen, duration=duration, renewed=wall, version="")
        transitions = 0 if seen is None else seen.transitions + 1
        return LeaseRecord(self.identity, duration, wall, wall, transitions)

    def won(self, record: LeaseRecord, asked: float) -> None:
        """Take in that the server took a bid, which was sent after the instant ``asked``."""
        self._seen, self._since = record, asked
        if not self.leading(asked):
            self._led_from = asked
        self.until = asked + self._times.renew_deadline

    def resign(self, wall: float) -> LeaseRecord | None:
        """Lead no more; return what frees the Lease for the others, None where it is not ours."""
        self.until = NEVER
        if self._seen is None or self._seen.holder != self.identity:
            return None
        return LeaseRecord("", _RELEASED_SECONDS, wall, wall, self._seen.transitions)
