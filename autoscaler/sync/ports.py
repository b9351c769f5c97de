"""The ports: what a sync needs from outside. Adapters implement these protocols.

A deadline is an instant of `autoscaler.clock.monotonic`; no call returns later, including retries.
None raises for errors of the network or a server: failures are values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from autoscaler import clock
from autoscaler.clock import Clock
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.history import History
from autoscaler.core.observation import Hpa, Pod, ReadFailure, Scale, UncheckedControl
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import Flags, ScaleTargetRef
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import UnsetCosts, WriteOutcome


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """One sync of several targets: their number, its duration and the results."""

    targets: int
    queries: int
    changed: int
    failed: int
    seconds: float


class MetricsReader(Protocol):
    """Answers PromQL queries: the connection to one server."""

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate an instant query at ``at`` (Unix time); None is the server's own time."""


class Cluster(Protocol):
    """One cluster: its caches, and its API server.

    No method ``cached_...`` waits; None means that the object is not cached and must be read.
    """

    def leads_since(self, namespace: str) -> float | None:
        """Return the time (`clock.steady`) from which this process may write; None if never."""

    def listing_anew(self) -> Callable[[float], None] | None:
        """Return a function that waits for the caches until a deadline, if they are listed again.

        They are listed again after this process was suspended.
        """

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | ReadFailure | None:
        """Return the scale."""

    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | ReadFailure | None:
        """Return the pods of a namespace that match a selector in string form."""

    def cached_controller(
        self, namespace: str, ref: ScaleTargetRef
    ) -> str | UncheckedControl | None:
        """Return a description of the other autoscaler in control, or why it is unknown."""

    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:
        """Return the HPA that controls an object, with all statuses since that instant.

        None without one, with several, and while HPAs cannot be watched.
        """

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        """Read the scale subresource of any kind that has one."""

    def write_scale(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas, on condition of the resourceVersion of the ``scale`` that was read."""

    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | ReadFailure:
        """List the pods of a namespace that match a selector in string form."""

    def set_deletion_costs(
        self, namespace: str, costs: Mapping[str, int | None], deadline: float
    ) -> UnsetCosts:
        """Set the deletion costs of pods by name, or remove ours (None); it reports failures."""


DEFAULT_CLUSTER = ""
"""The name of the only cluster of a configuration without `clusters`."""


Kept = tuple[str, History, float]
"""A target's key, its history after a sync, and the time of the decision (Unix seconds)."""


class HistoryStore(Protocol):
    """Keeps histories beyond the life of the process; calls take effect in order.

    No method waits for a disk, and none raises: if nothing can be stored the daemon continues from
    memory, and the store reports it.
    """

    def intend(self, target: str, history: History) -> Future[None]:
        """Store a history whose write is about to be sent; done when stored, or impossible."""

    def keep(self, kept: Sequence[Kept]) -> None:
        """Store the histories of a sync, all in one transaction."""

    def drop(self, targets: Iterable[str]) -> None:
        """Forget targets."""

    def shift(self, seconds: float) -> None:
        """Move every instant of every history, after the system's clock was set."""

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Store the states of the scale-down breakers, by the names of the servers."""


class BreakerChange(Enum):
    """What happened to the scale-down breaker of a server."""

    TRIPPED = "tripped"
    TRIPPED_AGAIN = "tripped again"
    """At the end of a hold still too many would go down."""
    RESUMED = "resumed"
    """The process was restarted meanwhile."""
    ENDED = "ended"
    RELEASED = "released"
    """An operator let the targets go."""
    REMOVED = "removed"
    """By another configuration."""


HOLDS = frozenset({BreakerChange.TRIPPED, BreakerChange.TRIPPED_AGAIN, BreakerChange.RESUMED})
"""The changes after which nothing goes down."""


@dataclass(frozen=True, slots=True)
class BreakerNews:
    """A change of a server's breaker, its trip in Unix seconds, and how many would go down now."""

    change: BreakerChange
    server: str
    trip: Trip
    down: int
    of: int


class Reporter:
    """Reports what became of each target; this one reports nothing."""

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:
        """Continue with these targets; no sync of a changed or removed target runs."""

    def report(self, result: SyncResult) -> None:
        """Report one target's result."""

    def fault(self, error: BaseException) -> None:
        """Report that a call of a port raised: a defect, since failures are values."""

    def breaker_changed(self, news: BreakerNews) -> None:
        """Report a change of a scale-down breaker, at the end of the sync that saw it."""

    def clock_set(self, seconds: float) -> None:
        """Report that the system's clock was set, and that the histories have moved with it."""

    def synced(self, summary: SyncSummary) -> None:
        """Report the end of a sync."""


class NoHistoryStore:
    """A `HistoryStore` that stores nothing."""

    def intend(self, target: str, history: History) -> Future[None]:  # noqa: ARG002
        """Return a future that is done."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def keep(self, kept: Sequence[Kept]) -> None:
        """Keep nothing."""

    def drop(self, targets: Iterable[str]) -> None:
        """Forget nothing."""

    def shift(self, seconds: float) -> None:
        """Move nothing."""

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports of a sync."""

    metrics: Mapping[str, MetricsReader]
    """By the name of the server (`Query.server`)."""
    clusters: Mapping[str, Cluster]
    """By name (`Target.cluster`)."""
    reporter: Reporter
    history_store: HistoryStore = field(default_factory=NoHistoryStore)
    clock: Clock = clock
    """The flags that decisions use."""
