"""The clusters that a daemon serves: of each its connection, its caches, its Lease and its Events.

Nothing of one waits for another, so that one that is away costs only its own targets.
"""

import resource
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial

from autoscaler import clock
from autoscaler.config.exposure import warnings_of_access
from autoscaler.config.settings import ClusterSettings, KubernetesSettings, LeaderElection
from autoscaler.config.shards import Shard
from autoscaler.core.observation import Unavailable, Unchecked
from autoscaler.core.target import Target
from autoscaler.core.writes import NotWritten, NotWrittenReason
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.events import EventReporter, own_pod
from autoscaler.kubernetes import ConnectError, Pods, Scales, WatchedCluster
from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.connection import ClusterEndpoint, find_api_server
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.events import Events
from autoscaler.kubernetes.leadership import leader_election
from autoscaler.kubernetes.watch_requests import CacheBudget
from autoscaler.sync.ports import DEFAULT_CLUSTER

_BYTES_OF_ONE = 64 << 20
"""How much is kept of each of several clusters, whose owners may not trust each other."""
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


class ConnectedCluster:
    """One cluster while it is configured; its watches begin with `set_targets`."""

    def __init__(
        self,
        election: LeaderElection,
        process: str,
        stop: threading.Event,
        announcements: Announcements,
        name: str,
        settings: KubernetesSettings,
        shard: Shard | None,
    ) -> None:
        """Connect, and take part in the election as a ``process`` of this name; nothing waits.

        Raises ConnectError.
        """
        self.name = name
        self._shard = shard
        self.reached_by = reached_by(settings)
        self.own = name == DEFAULT_CLUSTER or (
            isinstance(settings, ClusterSettings) and settings.in_cluster
        )
        """Whether the daemon's own pod may be in it."""
        self.observer = announcements.of_cluster(name)
        server = endpoint_of(settings)
        self.gate: WriteGate = ALWAYS_OPEN
        with ExitStack() as opened:
            # A plugin that hangs keeps no other cluster waiting.
            connect = partial(
                server.connect, stop=stop, observer=self.observer, at_once=name == DEFAULT_CLUSTER
            )
            self.api = opened.enter_context(connect())
            if election.enabled:
                own = f"{process}/{name}" if name else process
                led = leader_election(election, connect(), self.observer, own, self._shard)
                self.gate = opened.enter_context(led)
            for sentence in warnings_of_access(
                server.origin, server.secrets, url=server.url, verified=server.verified
            ):
                announcements.insecure(sentence)
            self.caches = opened.enter_context(closing(self._caches()))
            self._opened = opened.pop_all()

    def _caches(self) -> WatchedCluster:
        return WatchedCluster(
            self.api,
            Scales(self.api, self.gate, self.observer),
            Pods(self.api),
            (),
            observer=self.observer,
            budget=None if self.name == DEFAULT_CLUSTER else CacheBudget(_BYTES_OF_ONE),
        )

    def is_of(self, settings: KubernetesSettings, shard: Shard | None) -> bool:
        """Return whether it is reached as these settings say; the one without a name stays."""
        is_reached = self.name == DEFAULT_CLUSTER or reached_by(settings) == self.reached_by
        return is_reached and shard == self._shard

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

    def cached_scale(self, *_: object, **__: object) -> Unavailable:
        """Return why nothing is known."""
        return self._unavailable

    cached_pods = read_scale = list_pods = cached_scale

    def cached_controller(self, *_: object, **__: object) -> Unchecked:
        """Return why it was not looked at."""
        return self._unchecked

    def cached_hpa(self, *_: object, **__: object) -> None:
        """Return no HPA."""

    def write_scale(self, *_: object, **__: object) -> NotWritten:
        """Write nothing."""
        return NotWritten(NotWrittenReason.NOT_LEADING)


def alike(apis: Mapping[str, Api]) -> Sequence[str]:
    """Return a sentence for each cluster that has the address and the CA of an earlier one.

    Both are served: what a kubeconfig or a server says of itself takes no other cluster out of
    service.  With leader election the one Lease that both read lets one of them write.
    """
    first: dict[object, str] = {}
    sentences = []
    for name, api in apis.items():
        other = first.setdefault(api.identity, name)
        if other != name:
            sentences.append(
                f"the clusters {other} and {name} have the same API server, {api.server}: remove "
                "one, or enable leaderElection, so that only one of them writes"
            )
    return sentences


OpenCluster = Callable[[str, KubernetesSettings, Shard | None], ConnectedCluster]
"""Connects to a cluster of this name, for a shard of it; raises ConnectError."""


def events_of(cluster: ConnectedCluster) -> EventReporter:
    """Return what writes Events to a cluster while this process leads there."""
    pod = own_pod() if cluster.own else None
    return EventReporter(Events(cluster.api), gate=cluster.gate, observer=cluster.observer, pod=pod)


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
