"""What the syncs of a daemon share."""

import math
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.fair_calls import LeastRecentlyServed
from autoscaler.sync.histories import Histories
from autoscaler.sync.overlaps import Overlaps
from autoscaler.sync.ports import Ports
from autoscaler.sync.priority_pool import PriorityPool, Urgency
from autoscaler.sync.query_lanes import QueryLanes

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Shared:
    """What all runs share.

    ``looked`` says when, by `clock.steady`, the last sync of each target began, ``seen`` the last
    that read its scale.  ``registered`` are the targets whose selector is known.  ``scale_turns``
    and ``pod_turns`` are those of reads that are a target's own.
    """

    flags: Flags
    ports: Ports
    stop: threading.Event
    histories: Histories
    overlaps: Overlaps
    queries: QueryLanes
    reads: PriorityPool
    writes: PriorityPool
    registered: set[str] = field(default_factory=set)
    looked: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    scale_turns: LeastRecentlyServed = field(default_factory=LeastRecentlyServed)
    pod_turns: LeastRecentlyServed = field(default_factory=LeastRecentlyServed)

    def turn(self, target: Target) -> tuple[Urgency, Urgency]:
        """Return what sorts targets by their turns, should they have to be read one by one."""
        return self.scale_turns.urgency(target.key), self.pod_turns.urgency(target.key)

    def read(
        self, target: Target, turns: LeastRecentlyServed, deadline: float, call: Callable[[], R]
    ) -> Future[R]:
        """Read something of a target's own when its turn comes; later it is no turn."""
        asked = clock.monotonic()

        def begin() -> R:
            if clock.monotonic() >= deadline:
                return call()
            with turns.take(target.key, asked, deadline):
                return call()

        return self.reads.submit(turns.urgency(target.key), target.namespace, begin)

    def alone(self, target: str) -> bool:
        """Tell whether nobody else with our Lease wrote since a target's scale was read last."""
        since = self.ports.leads_since()
        return since is not None and since <= self.seen.get(target, -math.inf)

    def register(self, target: Target, scale: Scale) -> None:
        """Take in a target's selector."""
        self.overlaps.register(target.key, target.namespace, scale.selector)
        self.registered.add(target.key)

    def register_cached(self, targets: Iterable[Target]) -> None:
        """Take in the selectors that are at hand of targets that have none yet."""
        for target in targets:
            if target.key not in self.registered:
                ref = target.spec.scale_target_ref
                scale = self.ports.cache.cached_scale(target.namespace, ref)
                if isinstance(scale, Scale):
                    self.register(target, scale)

    def retain(self, targets: Collection[Target]) -> None:
        """Forget all other targets, and the queries that only they asked."""
        keys = {target.key for target in targets}
        self.histories.retain(keys)
        self.queries.retain({query.promql for target in targets for query in target.queries})
        for gone in self.registered - keys:
            self.overlaps.forget(gone)
        self.registered.intersection_update(keys)
        for instants in (self.looked, self.seen):
            for gone in instants.keys() - keys:
                del instants[gone]
        for turns in (self.scale_turns, self.pod_turns):
            turns.retain(keys)
