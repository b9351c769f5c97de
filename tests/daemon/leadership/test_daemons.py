"""Two real daemons with one Lease: one writes, the other is ready to, and takes over."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from autoscaler import clock
from tests.daemon.leadership.audit import Audit
from tests.daemon.leadership.conftest import SLACK
from tests.daemon.leadership.shop import Shop, rules
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.waiting import wait_until

LEASE_SECONDS, RETRY_SECONDS = 10.0, 0.3
"""Long enough for a follower to see another load before it leads."""
ELECTION = {"leaseDuration": "10s", "renewDeadline": "7s", "retryPeriod": "300ms", "enabled": True}
TARGETS = [f"worker-{number}" for number in range(6)]
AT_ONCE = {"scaleUp": rules(100, 1), "scaleDown": rules(100, 1)}


class AuditedShop(Shop):
    """A shop of which the API server writes down who scaled what."""

    def __init__(self, plane: ControlPlane, api: Api, exporter: Exporter, log: Path) -> None:
        super().__init__(plane, api, exporter, TARGETS, 1)
        self._audit = Audit(log, self.namespace)

    def ask_for(self, replicas: int) -> None:
        """Fill the queues."""
        for name in TARGETS:
            self.load(name, replicas)

    def wait_for(self, replicas: int) -> None:
        """Ask for a count, and wait until all Deployments have it."""
        self.ask_for(replicas)

        def there() -> bool:
            items = self.api.get(self.deployments)["items"]
            return {item["spec"]["replicas"] for item in items} == {replicas}

        wait_until(f"{replicas} replicas", there)

    def written(self) -> dict[str, int]:
        """Return how many scales each wrote, every one while it held the Lease."""
        return self._audit.scales_by_holders()


@pytest.fixture
def shop(
    audited_plane: ControlPlane, audit_log: Path, prometheus_exporter: Exporter
) -> Iterator[AuditedShop]:
    """Make a namespace and its queues."""
    with audited_plane.api() as api:
        yield AuditedShop(audited_plane, api, prometheus_exporter, audit_log)


Run = Callable[[str], DaemonProcess]


@pytest.fixture
def run(shop: AuditedShop, prometheus_server: PrometheusServer, tmp_path: Path) -> Iterator[Run]:
    """Run daemons, each as a user of its own."""
    prometheus_server.wait_for(shop.queues, count=len(TARGETS))
    document = {"prometheus": {"url": prometheus_server.url}, "leaderElection": ELECTION}
    behaviors = dict.fromkeys(TARGETS, AT_ONCE)
    with ExitStack() as stack:

        def run(user: str) -> DaemonProcess:
            daemon = shop.daemon(user, tmp_path, document, behaviors, "--log-level", "debug")
            return stack.enter_context(daemon)

        yield run


def test_one_writes_and_the_other_takes_over(shop: AuditedShop, run: Run) -> None:
    """The leader is stopped by SIGSTOP, the next one by SIGTERM; the API server's log judges.

    What a follower would have written it reports as not written; nobody takes what the other
    wrote for a change by somebody else.
    """
    left = run("left")
    shop.wait_held("left")
    right = run("right")
    right.wait_for("it serves", lambda line: line["event"] == "started")
    shop.wait_for(5)
    assert set(shop.written()) == {"left"}

    stopped = clock.monotonic()
    os.kill(left.pid, signal.SIGSTOP)
    shop.ask_for(9)
    took = shop.wait_held("right") - stopped
    assert took < LEASE_SECONDS + 4 * RETRY_SECONDS + SLACK
    right.wait_for("it left writes out", lambda line: line.get("write") == "not leading")
    shop.wait_for(9)
    os.kill(left.pid, signal.SIGCONT)
    left.wait_for(
        "it follows",
        lambda line: line["event"] == "leadership" and line["standing"] == "follower",
    )
    before = shop.written()["left"]
    shop.wait_for(3)
    assert shop.written()["left"] == before

    ended = clock.monotonic()
    assert right.stop() == 0
    assert shop.wait_held("left") - ended < LEASE_SECONDS
    shop.wait_for(7)
    assert left.stop() == 0
    assert shop.holder() == ""
    written = shop.written()
    assert written["left"] >= 2 * len(TARGETS)
    assert written["right"] >= 2 * len(TARGETS)
    told = [line["event"] for daemon in (left, right) for line in daemon.lines]
    assert "replicas_changed_by_other" not in told
