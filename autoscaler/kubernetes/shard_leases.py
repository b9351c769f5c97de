"""The Leases of shards of another number: what they own is not written until they are over."""

import math
from collections.abc import Callable, Mapping

from autoscaler.config.shards import Shard
from autoscaler.kubernetes.election import NEVER, Election, ElectionTimes
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.leases import Leases


class OtherShards:
    """The Leases of another number of shards that were held when ours was taken.

    Each counts until it has run out or is free.

    A Lease that is taken after ours is not waited for: its holder finds ours, and waits.  ``name``
    is what a Lease without shards would be called.
    """

    def __init__(self, leases: Leases, name: str, own: Shard, times: ElectionTimes) -> None:
        self._leases, self._name, self._own, self._times = leases, name, own, times
        self._seen: dict[Shard, Election] = {}
        self._known: tuple[float, Mapping[Shard, float]] = (NEVER, {})
        """The time at which ours was taken, and the end of each other Lease; infinite if held."""

    def since(self, namespace: str, led_since: float) -> float | None:
        """Return the time from which only we may write in a namespace; None before it."""
        looked, over = self._known
        since = max([led_since, *(at for one, at in over.items() if one.owns(namespace))])
        return None if looked != led_since or since == math.inf else since

    def look(self, led_since: float, deadline: float, steady: Callable[[], float]) -> str:
        """Read the other Leases unless all ended; return what is not written, for a sentence."""
        looked, over = self._known
        if looked == led_since and math.inf not in over.values():
            return ""
        found = self._leases.list(deadline)
        if isinstance(found, Failure):
            return f"; nothing is written before all Leases are known: {found.message}"
        now = steady()
        records = {Shard.of_lease(lease, self._name): record for lease, record in found.items()}
        if looked != led_since:
            others = [one for one in records if one and one.shards != self._own.shards]
            self._seen, over = {one: Election("", self._times) for one in others}, {}
        ends: dict[Shard, float] = {}
        for shard, election in self._seen.items():
            election.observe(records.get(shard), now)
            ends[shard] = math.inf if now < election.expires_at else min(over.get(shard, now), now)
        self._known = led_since, ends
        held = sorted(shard.lease(self._name) for shard, at in ends.items() if at == math.inf)
        return f"; what {', '.join(held)} may write is not written" if held else ""
