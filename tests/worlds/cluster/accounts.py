"""Stand-ins for API servers that record which writes they accepted, and from which user.

Each user has a server of its own over one store: it knows the writer, and the store's
resourceVersions show the order.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler import clock
from autoscaler.demo.apiserver import deployment
from autoscaler.demo.apiserver.server import ApiServer
from autoscaler.demo.apiserver.store import DEPLOYMENTS, LEASES, NAMESPACES, ObjectStore
from autoscaler.demo.apiserver.verbs import ApiAnswer, ApiRequest, Verbs, WatchEvents
from tests.worlds.cluster.cluster import ClusterUnderTest

DisplayedQuery = tuple[float, str]
"""A request for Leases: its Unix time, and its verb with what it was for."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A write that the API server accepted, at a Unix time: of a Lease, or of a scale.

    ``holder`` is the holder of the Lease ``name`` from then on, "" without one; None for a scale.
    """

    at: float
    user: str
    namespace: str
    name: str
    holder: str | None = None


@dataclass
class Account:
    """A cluster with its Deployments, and all that it accepted."""

    store: ObjectStore = field(default_factory=ObjectStore)
    asked: list[DisplayedQuery] = field(default_factory=list)
    """All requests for Leases."""
    by_version: dict[int, Accepted] = field(default_factory=dict)

    def deploy(self, namespace: str, *names: str) -> None:
        """Make a namespace with Deployments of one replica."""
        self.store.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        for name in names:
            self.store.create(DEPLOYMENTS, namespace, deployment(name, 1))

    def accepted(self) -> list[Accepted]:
        return [write for _, write in sorted(self.by_version.copy().items())]

    def kubeconfig(self, user: str, path: Path, stack: ExitStack) -> Path:
        """Serve the cluster to a user until the end, and write how it is reached."""
        server = ApiServer(self.store, f"token-of-{user}")
        server.verbs = _RecordedVerbs(self, user)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.close)
        way = stack.enter_context(ClusterUnderTest(server.url, f"token-of-{user}"))
        return way.write_kubeconfig(path)


class _RecordedVerbs(Verbs):
    """Carries out one user's requests, and keeps what was accepted and what was asked of Leases."""

    def __init__(self, account: Account, user: str) -> None:
        super().__init__(account.store)
        self._account, self._user = account, user

    def handle(self, request: ApiRequest, going: Callable[[], bool]) -> ApiAnswer | WatchEvents:
        is_lease = request.resource is LEASES
        if is_lease:
            verb = "WATCH" if request.query.get("watch") else request.method
            self._account.asked.append((clock.wall(), f"{verb} {request.name or 'leases'}"))
        answer = super().handle(request, going)
        is_write = isinstance(answer, ApiAnswer) and request.method in {"POST", "PUT", "PATCH"}
        if isinstance(answer, ApiAnswer) and is_write and (is_lease or request.scale):
            meta, spec = answer.body["metadata"], answer.body.get("spec") or {}
            holder = str(spec.get("holderIdentity") or "") if is_lease else None
            made = Accepted(clock.wall(), self._user, meta["namespace"], meta["name"], holder)
            # A write that changes nothing gets the version of the last one that did.
            self._account.by_version.setdefault(int(meta["resourceVersion"]), made)
        return answer
