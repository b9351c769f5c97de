"""Clusters that daemons share, with an account of what each of their API servers accepted.

Most are stand-ins in this process, with an API server for each daemon over one store: it tells
who wrote, and the store's resourceVersions tell in which order.  A real one has its audit log.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler import clock
from autoscaler.demo.apiserver import deployment
from autoscaler.demo.apiserver.objects import DEPLOYMENTS, LEASES, NAMESPACES, key
from autoscaler.demo.apiserver.server import ApiServer
from autoscaler.demo.apiserver.store import ObjectStore
from autoscaler.demo.apiserver.verbs import ApiAnswer, ApiRequest, Verbs, WatchEvents
from benchmarks.sharing.judging import HAND, Accepted, Asked
from tests.daemon.leadership.audit import POLICY, Audit
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.controlplane.api import Json
from tests.worlds.controlplane.server import ControlPlane

NAMESPACE, LEASE = "shop", "autoscaler"
WORKLOADS = ("api", "web")


@dataclass(frozen=True)
class SharedCluster:
    """A cluster, the way of each daemon to it, and what it has accepted."""

    name: str
    ways: Mapping[str, ClusterUnderTest]
    """By user: an API server, and the user's token."""
    ca_file: Path | None
    accepted: Callable[[], list[Accepted]]
    asked: Sequence[Asked] | None
    """All requests for Leases; None where they are not kept."""
    deleted: list[float] = field(default_factory=list)
    """When its Lease was deleted by hand."""

    def holder(self) -> str:
        """Return who holds the Lease, "" for nobody."""
        reply = self._by_hand.get(self._lease)
        return str(reply.body["spec"].get("holderIdentity") or "") if reply.status == 200 else ""

    def delete_lease(self) -> None:
        """Delete the Lease by hand."""
        if self._by_hand.request("DELETE", self._lease).status == 200:
            self.deleted.append(clock.wall())

    def edit_lease(self, seconds: int) -> None:
        """Let somebody else hold the Lease for some time, who does nothing with it."""
        spec = {"holderIdentity": "somebody", "leaseDurationSeconds": seconds}
        self._by_hand.patch(self._lease, {"spec": spec})

    @property
    def _by_hand(self) -> ClusterUnderTest:
        return self.ways[HAND]

    @property
    def _lease(self) -> str:
        return f"{manifests.leases(NAMESPACE)}/{LEASE}"


class _RecordedVerbs(Verbs):
    """Carries out one user's requests, and keeps what was accepted and what was asked of Leases."""

    def __init__(
        self, store: ObjectStore, user: str, account: dict[int, Accepted], asked: list[Asked]
    ) -> None:
        super().__init__(store)
        self._user = user
        self._account = account
        self._asked = asked

    def handle(self, request: ApiRequest, going: Callable[[], bool]) -> ApiAnswer | WatchEvents:
        """Answer one request."""
        if request.resource is LEASES:
            verb = "WATCH" if request.query.get("watch") else request.method
            self._asked.append((clock.wall(), f"{verb} {request.name or 'leases'}"))
        answer = super().handle(request, going)
        if isinstance(answer, ApiAnswer) and request.method in {"POST", "PUT", "PATCH"}:
            self._accept(request, answer.body)
        return answer

    def _accept(self, request: ApiRequest, body: Json) -> None:
        version, holder = int(body["metadata"]["resourceVersion"]), None
        if request.resource is LEASES and key(body)[1] == LEASE:
            holder = str((body.get("spec") or {}).get("holderIdentity") or "")
        if request.scale or holder is not None:
            # A write that changes nothing gets the version of the last one that did.
            self._account.setdefault(version, Accepted(clock.wall(), self._user, holder))


@contextmanager
def stand_in(name: str, users: Sequence[str]) -> Iterator[SharedCluster]:
    """Run a stand-in; no controller acts in it."""
    store = ObjectStore()
    store.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    for workload in WORKLOADS:
        store.create(DEPLOYMENTS, NAMESPACE, deployment(workload, 1))
    account: dict[int, Accepted] = {}
    asked: list[Asked] = []

    def accepted() -> list[Accepted]:
        return [one for _, one in sorted(account.copy().items())]

    with ExitStack() as stack:
        ways = {}
        for user in (*users, HAND):
            token = f"token-of-{user}"
            server = ApiServer(store, token)
            server.verbs = _RecordedVerbs(store, user, account, asked)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.close)
            ways[user] = stack.enter_context(ClusterUnderTest(server.url, token))
        yield SharedCluster(name, ways, None, accepted, asked)


@contextmanager
def control_plane(name: str, users: Sequence[str], folder: Path) -> Iterator[SharedCluster]:
    """Run a real etcd and kube-apiserver; no controller acts in it."""
    folder.mkdir()
    (folder / "policy.yaml").write_text(POLICY)
    log = folder / "audit.log"
    flags = (f"--audit-policy-file={folder / 'policy.yaml'}", f"--audit-log-path={log}")
    rights = dict.fromkeys((*users, HAND), ("system:masters",))
    with (
        ControlPlane(controllers=(), apiserver_flags=flags, users=rights) as plane,
        ExitStack() as stack,
    ):
        ways = {
            user: stack.enter_context(
                ClusterUnderTest(plane.url, plane.token_for(user), "", plane.ca_file)
            )
            for user in rights
        }
        ways[HAND].create(manifests.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for workload in WORKLOADS:
            ways[HAND].create(manifests.deployments(NAMESPACE), manifests.deployment(workload))
        audit = Audit(log, NAMESPACE)

        def accepted() -> list[Accepted]:
            account: dict[int, Accepted] = {}
            for one in audit.writes():
                if one.name in {LEASE, *WORKLOADS}:
                    account.setdefault(one.version, Accepted(one.at, one.user, one.holder))
            return list(account.values())

        yield SharedCluster(name, ways, plane.ca_file, accepted, None)
