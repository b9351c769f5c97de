"""Several daemons share the clusters: what each says of itself in Leases, and hears of the others.

Who leads a cluster says so in its Lease; who stands by keeps a Lease of its own beside it, so that
the leader knows to whom it may hand the cluster over.  `core.sharing` has the rules.
"""

import hashlib
import math
import threading
from collections.abc import Callable, Collection, Mapping

from autoscaler import clock
from autoscaler.core.sharing import MEMBER_RENEWALS, Roster, Statement
from autoscaler.kubernetes import Failure, Lease, Leases
from autoscaler.kubernetes.election import LeaseRecord

ELECTION = "autoscaler/election"
"""The annotation of a member's Lease with the name of the Lease that it stands for."""
LEADS, MAX_CLUSTERS = "autoscaler/leads", "autoscaler/max-clusters"
"""The annotations with how many clusters the holder leads, and leads at most."""
URL = "autoscaler/url"
"""The annotation with where the pages of the holder are."""

_NOT_FOUND, _CONFLICT = 404, 409
_LONGEST_NAME = 253
_MOST_MEMBERS = 1000
"""So many Leases of members are kept of a cluster."""
_FORGOTTEN_AFTER = 10.0
"""A member's Lease that did not change for so many lease durations is deleted by the leader."""
_TRY_AGAIN = 0.2
"""After so much of a lease duration a member's Lease that could not be written is tried again."""
_DIGITS = 10


class LeaseShare:
    """When a free Lease is bid for, and what becomes of one that is held: it is bid for and kept.

    The pages of this process are at ``url``, empty for none that others reach.  Instants are of
    `clock.steady`.  All methods are called on the thread of the election, but for `member`.
    """

    def __init__(self, url: str = "") -> None:
        self._url = url

    def annotations(self, *, leading: bool) -> Mapping[str, str]:
        """Return what this process says of itself in the Lease that it writes; empty for nothing.

        One that is left to others says nothing of this process any more.
        """
        return {URL: self._url if leading else ""}

    def bid_at(self, free_since: float, now: float) -> float | None:  # noqa: ARG002 - at once
        """Return the instant from which to bid for a free Lease; None while it is for others."""
        return free_since

    def bid(self, free_since: float, now: float) -> bool:
        """Note that a free Lease is bid for; return False if it must not be yet."""
        at = self.bid_at(free_since, now)
        return at is not None and at <= now

    def role(self, now: float, *, leading: bool) -> None:
        """Note what came of a bid, and later whether this process leads."""

    def receiver(self, now: float) -> str | None:  # noqa: ARG002 - nobody
        """Return to which identity to hand the Lease over now."""
        return None

    def handed_over(self, *, done: bool) -> None:
        """Note whether the hand-over that `receiver` asked for took place."""

    def seen(self, lease: Lease, now: float) -> None:
        """Process the Lease as it was read or watched."""

    def member(self, name: str, lease: Lease | None, now: float) -> None:
        """Process another Lease of the namespace, None where it was deleted.

        It is called on the thread of the watch.
        """

    def attend(self, now: float, deadline: float) -> None:
        """Show that this process is there, where that is due."""

    def leave(self, deadline: float) -> None:
        """Show that this process is there no more."""


class Sharing:
    """What this process, called ``process``, leads and hears of the others, in all clusters.

    Any thread may call it.  ``steady`` is the clock of all instants.
    """

    def __init__(
        self,
        process: str,
        clusters: Collection[str],
        lease_duration: float,
        most: int | None = None,
        bids_from: float = -math.inf,
    ) -> None:
        """Bid for nothing before an instant: those that start together should know each other."""
        self.process = process
        self.lease_duration = lease_duration
        self._bids_from = bids_from
        self._lock = threading.Lock()
        self._roster = Roster(process, tuple(clusters), lease_duration, most)
        self._led: set[str] = set()
        """The clusters that are led, or bid for."""
        self._handed: dict[str, tuple[str, float]] = {}
        """By cluster to whom it was handed over, and until when nothing else is concluded."""

    def set_clusters(self, clusters: Collection[str]) -> None:
        """Share these from now on."""
        with self._lock:
            self._roster.clusters = tuple(clusters)
            self._led.intersection_update(clusters)

    def statement(self, *clusters: str) -> Statement:
        """Return what this process says of itself, if it leads these too."""
        with self._lock:
            return Statement(len(self._led.union(clusters)), self._roster.most)

    def saw(self, process: str, cluster: str, statement: Statement, now: float) -> None:
        """Process a renewal by another process of a Lease in a cluster."""
        with self._lock:
            self._roster.saw(process, cluster, statement, now)

    def leads(self, process: str, cluster: str) -> None:
        """Process that another process leads a cluster: a hand-over to it has ended."""
        with self._lock:
            if self._handed.get(cluster, ("", 0.0))[0] == process:
                del self._handed[cluster]

    def left(self, process: str, cluster: str) -> None:
        """Process that a process has left a cluster."""
        with self._lock:
            self._roster.left(process, cluster)

    def bid_at(self, cluster: str, free_since: float, now: float) -> float | None:
        """Return the instant from which to bid for a free cluster; None while it is for others."""
        with self._lock:
            return self._bid_at(cluster, free_since, now)

    def bid(self, cluster: str, free_since: float, now: float) -> bool:
        """Count a free cluster as led, for it is bid for; False if it must not be yet."""
        with self._lock:
            at = self._bid_at(cluster, free_since, now)
            bids = at is not None and at <= now
            if bids:
                self._led.add(cluster)
            return bids

    def _bid_at(self, cluster: str, free_since: float, now: float) -> float | None:
        delay = self._roster.bid_delay(len(self._led - {cluster}), now)
        return None if delay is None else max(free_since, self._bids_from) + delay

    def role(self, cluster: str, *, leading: bool) -> None:
        """Note whether a cluster is led."""
        with self._lock:
            (self._led.add if leading else self._led.discard)(cluster)

    def receiver(self, cluster: str, now: float) -> str | None:
        """Return the process to hand a cluster over to now, and count it as handed over."""
        with self._lock:
            kept = {name: one for name, one in self._handed.items() if now < one[1]}
            self._handed = kept
            handed = {name: process for name, (process, _) in kept.items()}
            receiver = self._roster.handovers(self._led, handed, now).get(cluster)
            if receiver is not None:
                self._led.discard(cluster)
                self._handed[cluster] = receiver, now + self.lease_duration
            return receiver

    def handed_over(self, cluster: str, *, done: bool) -> None:
        """Note whether a hand-over took place."""
        if not done:
            with self._lock:
                self._handed.pop(cluster, None)


class ClusterShare(LeaseShare):
    """The part of one cluster in the sharing.

    ``lease`` returns that of a name beside the one of the ``election``; the process stands for it
    as ``identity``.
    """

    def __init__(
        self,
        sharing: Sharing,
        cluster: str,
        election: str,
        lease: Callable[[str], Leases],
        url: str = "",
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        super().__init__(url)
        self.identity = identity_in(sharing.process, cluster)
        self._sharing = sharing
        self._cluster = cluster
        self._election = election
        self._lease = lease
        self._wall = wall
        digest = hashlib.sha256(self.identity.encode()).hexdigest()[:_DIGITS]
        self._name = f"{election[: _LONGEST_NAME - _DIGITS - 1].rstrip('.-')}-{digest}"
        self._version = ""
        self._holder = ""
        """The process that held the Lease when it was seen last."""
        self._led_since: float | None = None
        self._own: Lease | None = None
        """Our member's Lease as it was written last."""
        self._due = -math.inf
        self._members: dict[str, tuple[Lease, float]] = {}
        """The Leases of other members by name, each with the instant of its last change."""

    def annotations(self, *, leading: bool) -> Mapping[str, str]:
        """Return what this process says of itself in the Lease that it writes.

        It counts the cluster that it would lead by that.
        """
        if leading:
            return self._said(self._sharing.statement(self._cluster))
        return {LEADS: "", MAX_CLUSTERS: "", **super().annotations(leading=False)}

    def _said(self, statement: Statement) -> Mapping[str, str]:
        most = "" if statement.most is None else str(statement.most)
        own = {LEADS: str(statement.leads), MAX_CLUSTERS: most}
        return {**own, **super().annotations(leading=True)}

    def bid_at(self, free_since: float, now: float) -> float | None:
        """Return the instant from which to bid for a free Lease; None while it is for others."""
        return self._sharing.bid_at(self._cluster, free_since, now)

    def bid(self, free_since: float, now: float) -> bool:
        """Note that a free Lease is bid for; return False if it must not be yet."""
        return self._sharing.bid(self._cluster, free_since, now)

    def role(self, now: float, *, leading: bool) -> None:
        """Note what came of a bid, and later whether this process leads."""
        self._sharing.role(self._cluster, leading=leading)
        if not leading:
            self._led_since = None
        elif self._led_since is None:
            self._led_since = now
            # Due at once when this process leads no more.
            self._due = -math.inf

    def receiver(self, now: float) -> str | None:
        """Return to which identity to hand the Lease over now."""
        process = self._sharing.receiver(self._cluster, now)
        return None if process is None else identity_in(process, self._cluster)

    def handed_over(self, *, done: bool) -> None:
        """Note whether the hand-over that `receiver` asked for took place."""
        self._sharing.handed_over(self._cluster, done=done)

    def seen(self, lease: Lease, now: float) -> None:
        """Process the Lease as it was read or watched."""
        if lease.record.version == self._version:
            return
        before, self._holder = self._holder, process_of(lease.record.holder)
        self._version = lease.record.version
        said = _statement(lease)
        if not self._holder:
            self._sharing.left(before, self._cluster)
        elif said is not None:
            self._sharing.saw(self._holder, self._cluster, said, now)
            self._sharing.leads(self._holder, self._cluster)

    def member(self, name: str, lease: Lease | None, now: float) -> None:
        """Process another Lease of the namespace, None where it was deleted."""
        if lease is None:
            known = self._members.pop(name, None)
            if known is not None:
                self._sharing.left(process_of(known[0].record.holder), self._cluster)
            return
        said = _statement(lease)
        room = name in self._members or len(self._members) < _MOST_MEMBERS
        if name != self._name and said is not None and self._is_of_members(lease) and room:
            self._members[name] = lease, now
            self._sharing.saw(process_of(lease.record.holder), self._cluster, said, now)

    def _is_of_members(self, lease: Lease) -> bool:
        return lease.annotations.get(ELECTION) == self._election

    def attend(self, now: float, deadline: float) -> None:
        """Renew our member's Lease where that is due; who leads deletes one that is forgotten."""
        if self._led_since is not None:
            self._delete_forgotten(now, deadline)
        elif now >= self._due:
            self._due = now + self._sharing.lease_duration * _TRY_AGAIN
            wall, duration = self._wall(), self._sharing.lease_duration
            old = None if self._own is None else self._own.record
            acquired = wall if old is None else old.acquired
            record = LeaseRecord(self.identity, duration, acquired, wall)
            said = {ELECTION: self._election, **self._said(self._sharing.statement())}
            answer = self._lease(self._name).write(record, self._own, deadline, said)
            if isinstance(answer, Lease):
                self._own, self._due = answer, now + MEMBER_RENEWALS * duration
            elif answer.status in {_CONFLICT, _NOT_FOUND}:
                seen = self._lease(self._name).read(deadline)
                self._own = None if isinstance(seen, Failure) else seen

    def _delete_forgotten(self, now: float, deadline: float) -> None:
        patience = _FORGOTTEN_AFTER * self._sharing.lease_duration
        if self._led_since is None or now - self._led_since < patience:
            return
        for name, (lease, changed) in list(self._members.items()):
            if now - changed >= patience:
                self._lease(name).delete(lease, deadline)
                self._members.pop(name, None)
                return

    def leave(self, deadline: float) -> None:
        """Delete our member's Lease."""
        if self._own is not None:
            self._lease(self._name).delete(self._own, deadline)


def identity_in(process: str, cluster: str) -> str:
    """Return what the Lease of a cluster calls a process.

    It is another one in each cluster, so that of two entries for one API server one leads.
    """
    return f"{process}/{cluster}" if cluster else process


def process_of(identity: str) -> str:
    """Return the process that a Lease calls so."""
    return identity.rpartition("/")[0] or identity


def _statement(lease: Lease) -> Statement | None:
    """Return what the holder of a Lease says of itself; None where it says nothing."""
    leads, most = (_count(lease.annotations.get(name)) for name in (LEADS, MAX_CLUSTERS))
    return None if leads is None else Statement(leads, most, lease.record.renewed or 0.0)


def _count(text: object) -> int | None:
    short = isinstance(text, str) and len(text) <= _DIGITS and text.isdecimal()
    return int(str(text)) if short else None
