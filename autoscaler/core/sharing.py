"""How several processes share clusters by Leases: who takes a free one, and who hands one over.

Each process says in the Leases that it renews how many clusters it leads.  Who leads less than its
fair share takes a free cluster at once, the others a little later: a cluster that nobody leads is
worse than one process with too many.  Who leads too many hands some over.  It needs no agreement:
whatever a process believes, only the holder of a Lease writes (`core.election`).

``now`` and all other instants are of one clock of this process, in seconds.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

MEMBER_RENEWALS = 0.75
"""A member renews its Lease so often, as a part of the lease duration."""
_REACHES = 2.0
"""Who has renewed no Lease in a cluster for so many lease durations does not reach it."""
_STEP_SECONDS, _MOST_STEPS = 1.0, 2
"""How much later a process bids for each cluster that it has above its fair share."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a process says of itself in a Lease that it renews.

    It ``leads`` so many clusters, and ``most`` at most (None: any number); ``renewed`` is in Unix
    seconds of its own clock.
    """

    leads: int = 0
    most: int | None = None
    renewed: float = 0.0


@dataclass(slots=True)
class _Seen:
    """When a process was first seen without a break, when last, and when last in each cluster."""

    since: float
    last: float
    statement: Statement
    clusters: dict[str, float] = field(default_factory=dict)


class Roster:
    """The processes that share the ``clusters``, as the one called ``own`` sees them.

    It leads ``most`` clusters at most.  A process is a member as long as a Lease of it changed
    within a ``lease_duration``.
    """

    def __init__(
        self, own: str, clusters: Collection[str], lease_duration: float, most: int | None = None
    ) -> None:
        self.own = own
        self.clusters = clusters
        self.most = most
        self._lease_duration = lease_duration
        self._seen: dict[str, _Seen] = {}

    def saw(self, process: str, cluster: str, statement: Statement, now: float) -> None:
        """Process a renewal by another process of a Lease in a cluster."""
        if process == self.own:
            return
        seen = self._seen.get(process)
        if seen is None or not self._is_member(seen, now):
            seen = self._seen[process] = _Seen(now, now, statement)
        # Watches of different clusters may be late: what was said last counts.
        elif statement.renewed >= seen.statement.renewed:
            seen.statement = statement
        seen.last = seen.clusters[cluster] = now

    def left(self, process: str, cluster: str) -> None:
        """Process that a member has taken its Lease in a cluster away."""
        seen = self._seen.get(process)
        if seen is not None and seen.clusters.pop(cluster, None) is not None and not seen.clusters:
            del self._seen[process]

    def members(self, now: float) -> Mapping[str, Statement]:
        """Return the other members with what they said last; forget who is no member any more."""
        kept = {name: seen for name, seen in self._seen.items() if self._is_member(seen, now)}
        self._seen = kept
        return {name: seen.statement for name, seen in kept.items()}

    def fair_share(self, now: float) -> int:
        """Return how many clusters each member leads, rounded up."""
        return math.ceil(len(self.clusters) / (1 + len(self.members(now))))

    def bid_delay(self, leads: int, now: float) -> float | None:
        """Return how many seconds to leave a free cluster to others; None where it is not ours.

        ``leads`` counts those that are bid for, too.
        """
        if self.most is not None and leads >= self.most:
            return None
        steps = leads + 1 - self.fair_share(now)
        return _STEP_SECONDS * min(max(0, steps), _MOST_STEPS)

    def handovers(
        self, led: Iterable[str], handed: Mapping[str, str], now: float
    ) -> Mapping[str, str]:
        """Return which of the clusters that are ``led`` go to which member now.

        ``handed`` has those that were handed over, and are not known to be led by their receiver
        yet.  Who leads more than the fair share hands over; if nobody does, the one that leads the
        most, one cluster at a time.  Nothing goes to who would then lead more than we are left
        with: so nothing comes back.
        """
        loads = {name: said.leads for name, said in self.members(now).items()}
        for receiver in handed.values():
            if receiver in loads:
                loads[receiver] += 1
        left = sorted(led)
        ours, fair, given = len(left), self.fair_share(now), dict[str, str]()
        most_loaded = all((ours, self.own) > (load, name) for name, load in loads.items())
        for cluster in left:
            if ours <= fair and not (most_loaded and not given and not handed):
                break
            fit = [name for name in loads if self._can_take(name, cluster, loads[name], now)]
            least, receiver = min(((loads[name], name) for name in fit), default=(ours, ""))
            if least + 2 > ours:
                continue
            given[cluster] = receiver
            loads[receiver] += 1
            ours -= 1
        return given

    def _is_member(self, seen: _Seen, now: float) -> bool:
        return now - seen.last < self._lease_duration

    def _can_take(self, name: str, cluster: str, load: int, now: float) -> bool:
        """Return whether a member has room, reaches a cluster, and was there for a while."""
        seen = self._seen[name]
        reached = now - seen.clusters.get(cluster, -math.inf) < self._lease_duration * _REACHES
        # One that starts again and again is handed nothing.
        settled = now - seen.since >= self._lease_duration
        most = seen.statement.most
        return reached and settled and (most is None or load < most)
