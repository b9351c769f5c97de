"""The ports: what a sync needs from outside.  Adapters implement these protocols.

A deadline is an instant of `autoscaler.clock.monotonic`; no call returns later, all of its tries
included.  None raises for what the network or a server does: failures are values.
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
from autoscaler.core.writes import WriteOutcome


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """One sync of several targets: their number, its duration and its results."""

    targets: int
    queries: int
    changed: int
    failed: int
    seconds: float


class MetricsReader(Protocol):
    """Answers PromQL: the connection to one server."""

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate an instant query as of ``at`` (Unix time); None is the server's own now."""


class Cluster(Protocol):
    """One cluster: what its caches know, and what its API server says.

    No method ``cached_...`` waits; None means that it is not cached and has to be read.
    """

    def leads_since(self, namespace: str) -> float | None:
        """Return the time (`clock.steady`) from which this process may write; None if never."""

    def listing_anew(self) -> Callable[[float], None] | None:
        """Return a function that waits until a deadline for the caches, if these are listed again.

        They are listed again after this process was suspended.
        """

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | ReadFailure | None:
        """Return the scale."""

    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | ReadFailure | None:
        """Return the pods of a namespace that match a selector in string form."""

    def cached_controller(
        self, namespace: str, ref: ScaleTargetRef
    ) -> str | UncheckedControl | None:
        """Return in words which other autoscaler controls the object, or why none can say."""

    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:
        """Return the HPA that controls an object, with the statuses that were in force since then.

        None without one, of several, and where they cannot be watched now.
        """

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        """Read the scale subresource of any kind that has one."""

    def write_scale(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas, guarded by the resourceVersion of the ``scale`` that was read."""

    def list_pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | ReadFailure:
        """List the pods of a namespace that match a selector in string form."""


DEFAULT_CLUSTER = ""
"""The name of the one cluster of a configuration that names none."""


Kept = tuple[str, History, float]
"""A target's key, its history after a sync, and when it was decided about (Unix seconds)."""


class HistoryStore(Protocol):
    """Keeps histories beyond the life of the process; calls take effect in their order.

    No method waits for a disk, and none raises: where nothing can be kept the daemon runs on from
    memory, and the store itself reports that.
    """

    def intend(self, target: str, history: History) -> Future[None]:
        """Keep a history whose write is about to be sent; done once it is, or cannot be."""

    def keep(self, kept: Sequence[Kept]) -> None:
        """Keep the histories of a sync, all in one transaction."""

    def drop(self, targets: Iterable[str]) -> None:
        """Forget targets."""

    def shift(self, seconds: float) -> None:
        """Move every instant of every history, after the system's clock was set."""

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Keep how the scale-down breakers of all servers stand, by the names of these."""


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
        """Report that the system's clock was set, and that the histories were moved with it."""

    def synced(self, summary: SyncSummary) -> None:
        """Report the end of a sync."""


class NoHistoryStore:
    """A `HistoryStore` that keeps nothing."""

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
    """The outside of a sync."""

    metrics: Mapping[str, MetricsReader]
    """By the name of the server (`Query.server`)."""
    clusters: Mapping[str, Cluster]
    """By name (`Target.cluster`)."""
    reporter: Reporter
    history_store: HistoryStore = field(default_factory=NoHistoryStore)
    clock: Clock = clock
    """What decisions are made by."""
