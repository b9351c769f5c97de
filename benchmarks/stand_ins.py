"""Stand-ins for the API servers of many clusters, which count what they are asked.

As real ones they speak TLS. No controller runs.
"""

import secrets
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from autoscaler.demo.apiserver.server import ApiServer
from autoscaler.demo.apiserver.store import DEPLOYMENTS, NAMESPACES, ObjectStore
from autoscaler.demo.apiserver.verbs import ApiAnswer, ApiRequest, Verbs, WatchEvents
from benchmarks import daemon, fleet
from benchmarks.bed import SeriesBed
from benchmarks.daemon import Settings
from tests.worlds.certificates import KeyPair
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Json
from tests.worlds.controlplane.credentials import kubeconfig

REPLICAS = 2
WATCH = "WATCH"
"""Counted in place of the GET that begins one."""


class CountingVerbs(Verbs):
    """Counts the requests by verb and resource."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.counts: Counter[str] = Counter()

    def handle(self, request: ApiRequest, going: Callable[[], bool]) -> ApiAnswer | WatchEvents:
        """Count and answer one."""
        verb = WATCH if request.query.get("watch") else request.method
        self.counts[f"{verb} {request.resource.plural}"] += 1
        return super().handle(request, going)


class SecureApiServer(ApiServer):
    """A stand-in for an API server that speaks TLS and counts what it is asked."""

    def __init__(self, store: ObjectStore, token: str, context: ssl.SSLContext) -> None:
        super().__init__(store, token)
        self.verbs = self.counting = CountingVerbs(store)
        self._context = context

    @property
    def url(self) -> str:
        """Where it listens."""
        return super().url.replace("http:", "https:")

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection, whose own thread shakes hands."""
        connection, address = super().get_request()
        secure = self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        return secure, address


class Clusters:
    """So many clusters that share the targets, each with a kubeconfig in the folder."""

    def __init__(self, bed: SeriesBed, pair: KeyPair, count: int, targets: int) -> None:
        self.count, self.targets = count, targets
        self._bed = bed
        self._pair = pair
        self._token = secrets.token_urlsafe(24)
        self._servers: list[SecureApiServer] = []

    @contextmanager
    def served(self) -> Iterator[None]:
        """Serve them in the block, each as it was at first."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pair.certificate, self._pair.key)
        with ExitStack() as stack:
            self._servers = []
            for at in range(self.count):
                store = _store(len(range(at, self.targets, self.count)))
                server = SecureApiServer(store, self._token, context)
                thread = threading.Thread(target=server.serve_forever, args=(0.2,))
                thread.start()
                stack.callback(thread.join)
                stack.callback(server.close)
                self._servers.append(server)
            yield

    def request_counts(self) -> Counter[str]:
        """Return what all of them were asked until now."""
        return sum((server.counting.counts for server in self._servers), Counter())

    def write_config(self, period: float, *, elects: bool) -> Path:
        """Write the configuration; one cluster is written as `kubernetes`."""
        reached = [
            {"kubeconfig": str(self._kubeconfig(at, server.url))}
            for at, server in enumerate(self._servers)
        ]
        clusters: Json = (
            {"kubernetes": reached[0]}
            if self.count == 1
            else {"clusters": [{"name": _name(at)} | cluster for at, cluster in enumerate(reached)]}
        )
        if elects:
            clusters["leaderElection"] = {"enabled": True, "namespace": fleet.NAMESPACE}
        specs = (self._target(number) for number in range(self.targets))
        queries = {fleet.METRIC: fleet.QUERY}
        return daemon.write_file(self._bed, Settings(period), clusters, queries, specs)

    def _target(self, number: int) -> Json:
        """Return a target; those of two clusters have equal names, and series of their own."""
        at, own = number % self.count, number // self.count
        cluster = {} if self.count == 1 else {"cluster": _name(at)}
        queue = fleet.queue(number)
        return cluster | fleet.spec(fleet.name(own), fleet.METRIC, queue, fleet.UNLIMITED_DOWN)

    def _kubeconfig(self, at: int, url: str) -> Path:
        path = self._bed.folder / f"{_name(at)}-of-{self.count}.kubeconfig"
        path.touch(mode=0o600)
        server = {"server": url, "certificate-authority": str(self._pair.certificate)}
        path.write_text(kubeconfig(server, {"token": self._token}))
        return path


def _name(at: int) -> str:
    return f"c{at}"


def _store(targets: int) -> ObjectStore:
    """Return the objects of a cluster: Deployments that have their replicas."""
    store = ObjectStore()
    store.create(NAMESPACES, "", {"metadata": {"name": fleet.NAMESPACE}})
    status = {"replicas": REPLICAS, "readyReplicas": REPLICAS, "observedGeneration": 1}
    for number in range(targets):
        made = workloads.deployment(fleet.name(number), REPLICAS)
        store.create(DEPLOYMENTS, fleet.NAMESPACE, made | {"status": status})
    return store
