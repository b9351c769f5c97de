"""Connects to clusters beside each other: none waits for what gives another its credentials."""

import resource
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait

from autoscaler.adapters.cluster import ConnectError
from autoscaler.config.settings import KubernetesSettings
from autoscaler.daemon.clusters import ConnectedCluster, OpenCluster, reached_by

_AT_ONCE = 16
"""Each may run an exec plugin."""
_SOON_SECONDS = 5.0
"""How long several are waited for; a plugin may take half a minute."""

_OPEN_FILES = 65_536
"""By default a process may have 1,024 open; each cluster takes about five, and at times more."""

_Key = tuple[str, tuple[object, ...]]
"""A cluster's name, and how it is reached."""


def allow_many_connections() -> None:
    """Let this process have as many connections as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class ClusterOpener:
    """Connects to each cluster on a thread.  One that takes long can be taken later."""

    def __init__(self, open_cluster: OpenCluster) -> None:
        self._open_cluster = open_cluster
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        self._begun: dict[_Key, Future[ConnectedCluster]] = {}

    @property
    def has_more(self) -> bool:
        """Whether one can be taken that was not there in time."""
        return any(future.done() for future in self._begun.values())

    def begin(self, clusters: Mapping[str, KubernetesSettings], *, alone: bool) -> None:
        """Connect to these and no others; wait for those that are new, if ``alone`` without end."""
        wanted = {(name, reached_by(settings)): settings for name, settings in clusters.items()}
        for key in self._begun.keys() - wanted.keys():
            self._begun.pop(key).add_done_callback(_close)
        new = {
            key: self._connect(key[0], settings)
            for key, settings in wanted.items()
            if key not in self._begun
        }
        self._begun |= new
        wait(new.values(), None if alone else _SOON_SECONDS)

    def take(self, name: str, settings: KubernetesSettings) -> ConnectedCluster:
        """Return a cluster that was begun; raises ConnectError, also if it takes long."""
        key = name, reached_by(settings)
        if not self._begun[key].done():
            raise ConnectError(f"cluster {name}: what gives its credentials has not answered yet")
        return self._begun.pop(key).result()

    def close(self) -> None:
        """Close what nobody took, now or when it is there."""
        self.begin({}, alone=False)

    def _connect(self, name: str, settings: KubernetesSettings) -> Future[ConnectedCluster]:
        future: Future[ConnectedCluster] = Future()

        def connect() -> None:
            with self._free:
                try:
                    future.set_result(self._open_cluster(name, settings))
                except BaseException as error:  # noqa: BLE001 - raised again where it is taken
                    future.set_exception(error)

        threading.Thread(target=connect, name=f"connect {name}".rstrip(), daemon=True).start()
        return future


def _close(future: Future[ConnectedCluster]) -> None:
    if future.exception() is None:
        future.result().close()
