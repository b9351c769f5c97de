"""What the tests of the election run against."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.kubernetes import Leases
from autoscaler.kubernetes.election import ElectionTimes
from autoscaler.kubernetes.leadership import ElectionObserver, Leadership, Role
from tests.daemon.leadership.audit import POLICY, Audit
from tests.daemon.leadership.shop import Shop
from tests.worlds.cluster.connecting import connect
from tests.worlds.controlplane.credentials import write_kubeconfig
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.proxies.tcp import TcpProxy
from tests.worlds.waiting import wait_until


@dataclass
class Recorded(ElectionObserver):
    """What a candidate has reported."""

    changes: list[tuple[Role, str, float]] = field(default_factory=list)
    """The roles with their messages, and when each was reported by `clock.monotonic`."""
    faults: list[BaseException] = field(default_factory=list)

    def role_changed(self, role: Role, sentence: str) -> None:
        self.changes.append((role, sentence, clock.monotonic()))

    def fault(self, error: BaseException) -> None:
        self.faults.append(error)

    @property
    def roles(self) -> list[Role]:
        return [role for role, _, _ in self.changes]

    @property
    def messages(self) -> list[str]:
        return [message for _, message, _ in self.changes]

    def wait_for(self, role: Role, after: float = 0.0, seconds: float = 30.0) -> float:
        """Return when a role was reported, at or after an instant."""

        def instants() -> list[float]:
            return [at for other, _, at in self.changes if other is role and at >= after]

        return wait_until(f"role {role}", instants, timeout=seconds, interval=0.005)[0]


QUICK = ElectionTimes(lease_duration=2.0, renew_deadline=1.5, retry_period=0.2)
"""For tests that wait for an end; whoever must go on leading would not survive a busy machine."""
PATIENT = ElectionTimes(lease_duration=15.0, renew_deadline=10.0, retry_period=0.2)
SLACK = 3.0
"""What a busy machine may add to any of these, in seconds."""


@pytest.fixture(scope="session")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the API server's audit log, beside which its policy is."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(POLICY)
    return folder / "audit.log"


@pytest.fixture(scope="session")
def audited_plane(audit_log: Path) -> Iterator[ControlPlane]:
    """Start a control plane that writes down who wrote what; no controller acts in it."""
    flags = (
        f"--audit-policy-file={audit_log.with_name('policy.yaml')}",
        f"--audit-log-path={audit_log}",
    )
    users = {"left": ("system:masters",), "right": ("system:masters",)}
    with if_available():
        plane = ControlPlane(controllers=(), apiserver_flags=flags, users=users)
    with plane:
        yield plane


@pytest.fixture
def shop(
    audited_plane: ControlPlane,
    prometheus_server: PrometheusServer,
    prometheus_exporter: Exporter,
    tmp_path: Path,
) -> Iterator[Shop]:
    """Make a namespace of its own, which is empty."""
    name = f"shop-{secrets.token_hex(5)}"
    with audited_plane.api() as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        servers = prometheus_server, prometheus_exporter
        yield Shop(audited_plane, api, name, {}, *servers, tmp_path)


@pytest.fixture
def audit(audit_log: Path, shop: Shop) -> Audit:
    """Give the account of who wrote what in the namespace."""
    return Audit(audit_log, shop.namespace)


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[TcpProxy]:
    """Put a proxy before the API server."""
    with TcpProxy(control_plane.url) as proxy:
        yield proxy


@pytest.fixture
def stand(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> Iterator[Callable[..., tuple[Leadership, Recorded]]]:
    """Have candidates stand for election, each on a connection of its own, and get a role."""
    with ExitStack() as stack:

        def stand(
            identity: str,
            becomes: Role | None = None,
            *,
            user: str | None = None,
            url: str = control_plane.url,
            times: ElectionTimes = PATIENT,
        ) -> tuple[Leadership, Recorded]:
            token = control_plane.admin_token if user is None else control_plane.token_for(user)
            kubeconfig = tmp_path / f"{identity}.kubeconfig"
            write_kubeconfig(kubeconfig, url, control_plane.ca_file, token)
            api = stack.enter_context(connect(kubeconfig))
            recorded = Recorded()
            leases = Leases(api, namespace, "autoscaler")
            leadership = Leadership(leases, identity, times, observer=recorded)
            leadership.start()
            stack.callback(leadership.close)
            if becomes is not None:
                recorded.wait_for(becomes)
            return leadership, recorded

        yield stand
