"""Leader election on a Lease, like client-go's `leaderelection`: which process may write.

``now`` is an instant of a clock that cannot be set and that continues while the process or its
machine is suspended; it is never compared with an instant of another process.
"""

from dataclasses import dataclass, replace

NEVER = float("-inf")

DELETED = "whoever held it when it was deleted"
"""The holder of a deleted Lease, in messages."""

_RELEASED_SECONDS = 1.0
"""The duration in a released Lease: the API refuses 0."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """LeaseSpec of `coordination.k8s.io/v1`; times are Unix seconds, an empty holder means none."""

    holder: str = ""
    duration: float = 0.0
    acquired: float | None = None
    renewed: float | None = None
    transitions: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """client-go's durations in seconds.

    Other candidates wait for a ``lease_duration`` without a change of the record; the holder writes
    for the shorter ``renew_deadline`` after its last renewal; ``retry_period`` is between two
    attempts.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class ClusterLeader:
    """The leader of a cluster, as far as this process knows; the only cluster has no name.

    ``holder`` is the identity in the Lease, empty without a known leader; ``url`` is the address of
    its pages. Both are texts from outside.
    """

    cluster: str
    leading: bool
    """Whether this process is the leader."""
    holder: str = ""
    url: str | None = None


class Election:
    """The election as one process sees it.

    The holder measures its time from before it sent a renewal, the others from after they observed
    it, and they wait longer. So no two processes lead at the same time, however slow the network
    and however long a process is suspended, if identities are unique and each write is guarded by
    the observed version; this includes a record that is edited by hand, or deleted once. It does
    not hold if the holder is removed by hand, or a process starts just after a deletion: then the
    holder may write until its next renewal fails.
    """

    def __init__(self, identity: str, times: ElectionTimes) -> None:
        self.identity = identity
        self.leads_until = NEVER
        """The instant before which this process may write."""
        self._times = times
        self._observed: LeaseRecord | None = None
        self._observed_at = NEVER
        self._absent_since: float | None = None
        """The time from which no Lease exists, before one is observed."""
        self._led_from = NEVER

    @property
    def holder(self) -> str:
        """The holder in the record last observed; empty for none."""
        return "" if self._observed is None else self._observed.holder

    def leader(self, now: float) -> str:
        """Return the current holder of the Lease, if known; else empty."""
        if self.leading(now):
            return self.identity
        known = now < self.expires_at and self.holder != DELETED
        return self.holder if known else ""

    @property
    def expires_at(self) -> float:
        """The instant from which this process may take the Lease."""
        if self._observed is None or self._observed.holder in {"", self.identity}:
            return NEVER
        # The holder relies on the configured duration, even if the record was edited by hand.
        return self._observed_at + max(self._observed.duration, self._times.lease_duration)

    @property
    def free_since(self) -> float:
        """The instant since or from which the Lease has no holder, as far as is known."""
        if self._observed is None:
            return NEVER if self._absent_since is None else self._absent_since
        return self.expires_at if self._observed.holder else self._observed_at

    def leading(self, now: float) -> bool:
        """Return whether this process may write."""
        return now < self.leads_until

    def leads_since(self, now: float) -> float | None:
        """Return the time from which only this process may write; None if it does not lead."""
        # In this order, opposite to `record_written`: another thread may call that meanwhile.
        return self._led_from if self.leading(now) else None

    def observe(self, record: LeaseRecord | None, now: float) -> None:
        """Process a record that was read; the instant is after the answer. None: no Lease."""
        if record is None:
            if self._observed is None and self._absent_since is None:
                self._absent_since = now
            if self._observed is None or self.leading(now):
                return
            # The holder may not know yet, and may not be the observed one.
            record = replace(self._observed, holder=DELETED)
        # Compared with its version: a record that is restored by hand counts as new.
        if record != self._observed:
            self._observed, self._observed_at = record, now
        if record.holder != self.identity:
            self.leads_until = NEVER

    def next_record(self, now: float, wall: float) -> LeaseRecord | None:
        """Return the record that acquires or renews the Lease; None before it expires."""
        if now < self.expires_at:
            return None
        duration, old = self._times.lease_duration, self._observed
        if old is not None and old.holder == self.identity:
            return replace(old, duration=duration, renewed=wall, version="")
        transitions = 0 if old is None else old.transitions + 1
        return LeaseRecord(self.identity, duration, wall, wall, transitions)

    def record_written(self, record: LeaseRecord, asked: float) -> None:
        """Lead, since the server accepted the record; ``asked`` is before the request was sent."""
        self._observed, self._observed_at = record, asked
        if not self.leading(asked):
            self._led_from = asked
        self.leads_until = asked + self._times.renew_deadline

    def release(self, wall: float) -> LeaseRecord | None:
        """Stop leading; return the record that releases the Lease, None if it is not ours."""
        self.leads_until = NEVER
        if self._observed is None or self._observed.holder != self.identity:
            return None
        return LeaseRecord("", _RELEASED_SECONDS, wall, wall, self._observed.transitions)


class WriteGate:
    """Whether this process may write now; this class: always, without leader election."""

    def leads_since(self, _: str | None = None, /) -> float | None:
        """Return the time (`clock.steady`) from which it may write in a namespace; else None."""
        return NEVER

    def leading(self) -> bool:
        """Return whether this process leads."""
        return self.leads_since() is not None

    def leader(self, cluster: str) -> ClusterLeader:
        """Return the leader of the cluster with this name."""
        return ClusterLeader(cluster, self.leading())

    def stop(self) -> None:
        """Begin to end; all writes must have ended."""

    def may_write_until(self, _: str | None = None, /) -> float:
        """Return the instant of `clock.monotonic` before which a write in a namespace must end."""
        return float("inf")


ALWAYS_OPEN = WriteGate()
