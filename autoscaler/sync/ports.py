"""The ports: what a sync needs from outside.  Adapters implement these protocols.

A deadline is an instant of `autoscaler.clock.monotonic`; no call returns later than that, all
of its tries included.  Failures are values: none of these methods raises for what the network
or a server does.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.decision import Decision
from autoscaler.core.entry import Inputs
from autoscaler.core.history import History
from autoscaler.core.observation import Pod, Scale, Unavailable, Unchecked
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Target
from autoscaler.core.writes import NotWritten, NotWrittenReason, WriteOutcome


@dataclass(frozen=True, slots=True)
class SyncResult:
    """One target at one sync: the decision, and what became of its write.

    ``write`` is None where nothing was to be written.  ``controller`` is for a plan only, which is
    decided as if no other autoscaler controlled the target: it says which one does, if any.
    ``inputs`` are what was decided from; what keeps a result leaves them out, since they are large.
    """

    target: Target
    decision: Decision
    write: WriteOutcome | None = None
    controller: str = ""
    inputs: Inputs | None = None


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """One sync of several targets: how many, what it took, what it came to."""

    targets: int
    queries: int
    changed: int
    failed: int
    seconds: float


class CacheReader(Protocol):
    """What is known of the cluster without a request; no method waits.

    None means that it is not cached and has to be read.
    """

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:
        """Return the scale."""
        ...

    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable | None:
        """Return the pods of a namespace that match a selector in string form."""
        ...

    def cached_controller(self, namespace: str, ref: ScaleTargetRef) -> str | Unchecked | None:
        """Return in words which other autoscaler controls the object; None without one.

        Unchecked says that this cannot be known now.
        """
        ...


class MetricsReader(Protocol):
    """Answers PromQL: the connection to one server."""

    def query(self, promql: str, deadline: float) -> QueryResult | QueryFailure:
        """Evaluate an instant query now."""
        ...


class ScaleReader(Protocol):
    """Reads the scale subresource of any kind that has one."""

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale."""
        ...


class ScaleWriter(Protocol):
    """Writes the scale subresource."""

    def write(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas, guarded by the resourceVersion of the ``scale`` that was read."""
        ...


class PodLister(Protocol):
    """Lists pods."""

    def pods(self, namespace: str, selector: str, deadline: float) -> tuple[Pod, ...] | Unavailable:
        """List the pods of a namespace that match a selector in string form."""
        ...


Kept = tuple[str, History, float]
"""A target's key, its history after a sync, and when it was decided about (Unix seconds)."""


class HistoryStore(Protocol):
    """Keeps histories beyond the life of the process.

    No method waits for a disk, and none raises: where nothing can be kept the daemon runs on from
    memory, and the store itself reports that.  Calls take effect in their order.
    """

    def intend(self, target: str, history: History) -> Future[None]:
        """Keep a history whose `pending` write is about to be sent.

        The future is done once it is kept, or once it is known that it cannot be.
        """
        ...

    def keep(self, kept: Sequence[Kept]) -> None:
        """Keep the histories of a sync, all in one transaction."""
        ...

    def drop(self, targets: Iterable[str]) -> None:
        """Forget targets."""
        ...

    def shift(self, seconds: float) -> None:
        """Move every instant of every history, after the system's clock was set."""
        ...

    def keep_breakers(self, states: Mapping[str, BreakerState]) -> None:
        """Keep how the scale-down breakers of all servers stand, by the names of these."""
        ...


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
    """A change of the breaker of a server, and the trip that it concerns, in Unix seconds.

    ``down`` of ``of`` targets would go down now.
    """

    change: BreakerChange
    server: str
    trip: Trip
    down: int
    of: int


class Reporter(Protocol):
    """Reports what became of each target."""

    def report(self, result: SyncResult) -> None:
        """Report one target's result."""
        ...

    def fault(self, error: BaseException) -> None:
        """Report that a call of a port raised: a defect, since failures are values."""
        ...

    def clock_set(self, seconds: float) -> None:
        """Report that the system's clock was set, and that the histories were moved with it."""
        ...

    def synced(self, summary: SyncSummary) -> None:
        """Report the end of a sync."""
        ...


class NoWrites:
    """A `ScaleWriter` for plans: it writes nothing."""

    def write(self, *_: object, **__: object) -> NotWritten:
        """Leave the scale as it is."""
        return NotWritten(NotWrittenReason.PLANNED)


class NothingCached:
    """A `CacheReader` for plans: everything is read, and no other autoscaler is known."""

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> None:
        """Return nothing."""

    def cached_pods(self, namespace: str, selector: str) -> None:
        """Return nothing."""

    def cached_controller(self, namespace: str, ref: ScaleTargetRef) -> None:
        """Return nothing."""


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
    cache: CacheReader
    scales: ScaleReader
    writer: ScaleWriter
    pods: PodLister
    reporter: Reporter
    history_store: HistoryStore = field(default_factory=NoHistoryStore)
    leads_since: Callable[[], float | None] = lambda: -math.inf
    """Since when, by `clock.steady`, this process leads, where several run and one of them writes.

    None where it does not lead and may not write; -inf where there is no election.
    """
    breaker_changed: Callable[[BreakerNews], None] = lambda _: None
    """Is told of each change of a scale-down breaker, at the end of the sync that saw it."""
