"""The clusters that a daemon serves: of each its connection, its caches, its Lease and its Events.

Nothing of one waits for another, so that one that is away costs only its own targets.
"""

import resource
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError, Failure, Pods, Scales, WatchedCluster
from autoscaler.adapters.cluster.api import path_of
from autoscaler.adapters.cluster.connection import ClusterEndpoint, find_api_server
from autoscaler.adapters.cluster.events import Events
from autoscaler.config.cautions import warnings_of_access
from autoscaler.config.settings import ClusterSettings, KubernetesSettings, LeaderElection
from autoscaler.core.election import ALWAYS_OPEN, WriteGate
from autoscaler.core.observation import Scale, Unavailable, Unchecked
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import NotWritten, NotWrittenReason
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.events import EventReporter
from autoscaler.daemon.leadership import Stand, leader_election
from autoscaler.sync.ports import DEFAULT_CLUSTER, Reporter, SyncSummary

_OPEN_FILES = 65_536
"""By default a process may have 1,024 open; each cluster takes about five, and at times more."""


def allow_many_connections() -> None:
    """Let this process have as many connections as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def endpoint_of(settings: KubernetesSettings, context: str | None = None) -> ClusterEndpoint:
    """Return the API server of a cluster, of another ``context`` if given; raises ConnectError."""
    in_cluster, allow_exec = False, None
    if isinstance(settings, ClusterSettings):
        in_cluster, allow_exec = settings.in_cluster, settings.allow_exec
    try:
        return find_api_server(
            settings.kubeconfig,
            context or settings.context,
            in_cluster=in_cluster,
            allow_exec=allow_exec,
        )
    except ConnectError as error:
        if isinstance(settings, ClusterSettings):
            raise ConnectError(f"cluster {settings.name}: {error}") from None
        raise


Served = Mapping[object, str]
"""The names of the clusters that are served, by each of their `ConnectedCluster.identities`."""

_UID_SECONDS = 5.0


def same_cluster(name: str, first: str, why: str) -> str:
    """Say that two entries of `clusters` are one cluster, of which only the first is served."""
    return f"cluster {name}: it is the cluster that {first} is ({why}), and is served as that only"


class ConnectedCluster:
    """One cluster while it is configured; its watches begin with `set_targets`."""

    def __init__(
        self,
        name: str,
        settings: KubernetesSettings,
        election: LeaderElection,
        stand: Stand,
        stop: threading.Event,
        announcements: Announcements,
        served: Served,
    ) -> None:
        """Connect, and take part in the election; nothing waits.

        Raises ConnectError, also for a cluster that is ``served`` already.
        """
        self.name = name
        self.reached_by = reached_by(settings)
        self.own = name == DEFAULT_CLUSTER or (
            isinstance(settings, ClusterSettings) and settings.in_cluster
        )
        """Whether the daemon's own pod may be in it."""
        self.observer = announcements.of_cluster(name)
        server = endpoint_of(settings)
        self.gate: WriteGate = ALWAYS_OPEN
        self.uid = ""
        """That of the namespace kube-system, which no other has; empty until it is known."""
        with ExitStack() as opened:
            # A plugin that hangs keeps no other cluster waiting.
            connect = partial(
                server.connect, stop=stop, observer=self.observer, at_once=name == DEFAULT_CLUSTER
            )
            self.api = opened.enter_context(connect())
            if self.api.identity in served:
                first, why = served[self.api.identity], f"both are at {self.api.server}"
                raise ConnectError(same_cluster(name, first, why))
            if election.enabled:
                taking_part = leader_election(election, connect(), self.observer, name, stand)
                self.gate = opened.enter_context(taking_part)
            for sentence in warnings_of_access(
                server.origin, server.secrets, url=server.url, verified=server.verified
            ):
                announcements.insecure(sentence)
            scales = Scales(self.api, self.gate, self.observer)
            self.caches = WatchedCluster(
                self.api, scales, Pods(self.api), (), observer=self.observer
            )
            opened.enter_context(closing(self.caches))
            self._opened = opened.pop_all()

    @property
    def identities(self) -> tuple[object, ...]:
        """What no other cluster has, as far as it is known."""
        return (self.api.identity, self.uid) if self.uid else (self.api.identity,)

    def learn_uid(self) -> None:
        """Ask for `uid`, once; where that is not permitted nothing is said."""
        if not self.uid:
            path = path_of("v1", "namespaces", name="kube-system")
            answer = self.api.once("GET", path, clock.monotonic() + _UID_SECONDS)
            metadata = None if isinstance(answer, Failure) else answer.get("metadata")
            uid = metadata.get("uid") if isinstance(metadata, dict) else None
            self.uid = uid if isinstance(uid, str) else ""

    def is_of(self, settings: KubernetesSettings) -> bool:
        """Return whether it is reached as these settings say; the one without a name stays."""
        return self.name == DEFAULT_CLUSTER or reached_by(settings) == self.reached_by

    def set_targets(self, targets: Iterable[Target]) -> None:
        """Watch what those of the targets need that are in it."""
        self.caches.set_targets([one for one in targets if one.cluster == self.name])

    def close(self) -> None:
        """Close all of it, within seconds; all writes must have ended."""
        self._opened.close()


def reached_by(settings: KubernetesSettings) -> tuple[object, ...]:
    """Return what a connection to a cluster depends on."""
    in_cluster = isinstance(settings, ClusterSettings) and settings.in_cluster
    allow_exec = isinstance(settings, ClusterSettings) and settings.allow_exec
    return settings.kubeconfig, settings.context, in_cluster, allow_exec


class UnreachedCluster:
    """Fits `Cluster` where there is no connection to one of several; nothing is known of it."""

    def __init__(self, why: str) -> None:
        self._unavailable = Unavailable(why)
        self._unchecked = Unchecked(why)

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Unavailable:  # noqa: ARG002 - the port's
        """Fit `Cluster`."""
        return self._unavailable

    def cached_pods(self, namespace: str, selector: str) -> Unavailable:  # noqa: ARG002 - as above
        """Fit `Cluster`."""
        return self._unavailable

    def cached_controller(self, namespace: str, ref: ScaleTargetRef) -> Unchecked:  # noqa: ARG002 - as above
        """Fit `Cluster`."""
        return self._unchecked

    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> None:
        """Fit `Cluster`."""

    def read_scale(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Unavailable:  # noqa: ARG002 - as above
        """Fit `Cluster`."""
        return self._unavailable

    def write_scale(
        self,
        namespace: str,  # noqa: ARG002 - as above
        ref: ScaleTargetRef,  # noqa: ARG002 - as above
        scale: Scale,  # noqa: ARG002 - as above
        replicas: int,  # noqa: ARG002 - as above
        deadline: float,  # noqa: ARG002 - as above
    ) -> NotWritten:
        """Fit `Cluster`."""
        return NotWritten(NotWrittenReason.NOT_LEADING)

    def list_pods(self, namespace: str, selector: str, deadline: float) -> Unavailable:  # noqa: ARG002 - as above
        """Fit `Cluster`."""
        return self._unavailable


OpenCluster = Callable[[str, KubernetesSettings, Served], ConnectedCluster]
"""Connects to a cluster of this name, unless it is served already; raises ConnectError."""


class ClusterEvents(Reporter):
    """Hands each result to the reporter of Events of its cluster, if there is a connection."""

    def __init__(self, reporters: Mapping[str, EventReporter]) -> None:
        self._reporters = reporters

    def report(self, result: SyncResult) -> None:
        """Report one target's result."""
        reporter = self._reporters.get(result.target.cluster)
        if reporter is not None:
            reporter.report(result)

    def synced(self, summary: SyncSummary) -> None:
        """Report the end of a sync."""
        for reporter in self._reporters.values():
            reporter.synced(summary)


def events_of(cluster: ConnectedCluster) -> EventReporter:
    """Return what writes Events to a cluster while this process leads there."""
    return EventReporter(Events(cluster.api), gate=cluster.gate, observer=cluster.observer)


_LATER_THAN_OTHERS_SECONDS = 2.0
"""So long after those of another cluster the watches of one are still waited for."""


def wait_for_watches(
    clusters: Sequence[ConnectedCluster], stop: threading.Event, seconds: float, pause: float
) -> None:
    """Wait until all caches have their objects, ``stop`` is set, or the time is over.

    It is over sooner where some clusters have theirs: one that hangs delays no other.
    """
    end = until = clock.monotonic() + seconds
    left = [*clusters]
    while left and not stop.is_set() and (now := clock.monotonic()) < until:
        left[0].caches.wait_synced(min(until, now + pause))
        before, now = len(left), clock.monotonic()
        left = [cluster for cluster in left if not cluster.caches.wait_synced(now)]
        if len(left) < before:
            until = min(end, now + _LATER_THAN_OTHERS_SECONDS)
