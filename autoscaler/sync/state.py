"""What the syncs of a daemon carry from one to the next, and the threads that they share."""

import math
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from autoscaler.core.observation import Scale
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.breakers import Breakers
from autoscaler.sync.fair_calls import LeastRecentlyServed, Queries
from autoscaler.sync.histories import Histories
from autoscaler.sync.overlaps import Overlaps
from autoscaler.sync.ports import BreakerNews, Ports
from autoscaler.sync.priority_pool import PriorityPool, Urgency

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SyncState:
    """What all syncs share; syncs of different targets may use it at the same time.

    ``last_sync`` says when, by `clock.steady`, the last sync of each target began, ``last_read``
    the last one that read its scale.
    """

    flags: Flags
    ports: Ports
    stop: threading.Event
    histories: Histories
    queries: Queries
    reads: PriorityPool
    writes: PriorityPool
    breakers: Breakers
    overlaps: Overlaps = field(default_factory=Overlaps)
    last_sync: dict[str, float] = field(default_factory=dict)
    last_read: dict[str, float] = field(default_factory=dict)
    scale_read_order: LeastRecentlyServed = field(default_factory=LeastRecentlyServed)
    pod_read_order: LeastRecentlyServed = field(default_factory=LeastRecentlyServed)
    breakers_kept: threading.Lock = field(default_factory=threading.Lock)

    def urgency(self, target: Target) -> tuple[Urgency, Urgency]:
        """Return what sorts targets, should their scales or pods have to be read one by one."""
        return self.scale_read_order.urgency(target.key), self.pod_read_order.urgency(target.key)

    def read(
        self, target: Target, reads: LeastRecentlyServed, deadline: float, call: Callable[[], R]
    ) -> Future[R]:
        """Read something of one target on a thread; a late call answers at once by itself."""
        return reads.submit(self.reads, target.key, target.namespace, deadline, call, call)

    def is_sole_writer(self, target: str) -> bool:
        """Return whether no other process with our Lease wrote since the scale was last read."""
        since = self.ports.leads_since()
        return since is not None and since <= self.last_read.get(target, -math.inf)

    def register(self, target: Target, scale: Scale) -> None:
        """Remember a target's selector."""
        self.overlaps.register(target.key, target.namespace, scale.selector)

    def register_cached(self, targets: Iterable[Target]) -> None:
        """Remember the cached selectors of targets that have none yet."""
        for target in targets:
            if target.key not in self.overlaps:
                ref = target.spec.scale_target_ref
                scale = self.ports.cache.cached_scale(target.namespace, ref)
                if isinstance(scale, Scale):
                    self.register(target, scale)

    def keep_trips(self) -> None:
        """Keep how the scale-down breakers stand if one has tripped; it is told later."""
        if self.breakers.take_tripped():
            self._keep_breakers()

    def tell(self, news: Sequence[BreakerNews]) -> None:
        """Report changes of the scale-down breakers, and keep how they stand now."""
        if news:
            self._keep_breakers()
        for one in news:
            self.ports.breaker_changed(one)

    def _keep_breakers(self) -> None:
        # Of two syncs, the one that looks last must also be the last to keep what it saw.
        with self.breakers_kept:
            self.ports.history_store.keep_breakers(self.breakers.states())

    def retain(self, targets: Collection[Target]) -> None:
        """Forget all other targets, and the queries that only they asked."""
        keys = {target.key for target in targets}
        self.queries.retain({query.key for target in targets for query in target.all_queries})
        for one in (self.histories, self.overlaps, self.scale_read_order, self.pod_read_order):
            one.retain(keys)
        for instants in (self.last_sync, self.last_read):
            for gone in instants.keys() - keys:
                del instants[gone]
