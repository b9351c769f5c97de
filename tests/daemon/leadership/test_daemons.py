"""Two real daemons with one Lease: one writes, the other is ready to, and takes over."""

import os
import signal
from contextlib import ExitStack

from autoscaler import clock
from tests.daemon.leadership.audit import Audit
from tests.daemon.leadership.conftest import SLACK
from tests.daemon.leadership.shop import Shop, rules
from tests.worlds.waiting import wait_until

LEASE_SECONDS, RETRY_SECONDS = 10.0, 0.3
"""Long enough for a follower to see another load before it leads."""
ELECTION = {"leaseDuration": "10s", "renewDeadline": "7s", "retryPeriod": "300ms"}
TARGETS = [f"worker-{number}" for number in range(6)]
AT_ONCE = {"scaleUp": rules(100, 1), "scaleDown": rules(100, 1)}


def ask_for(shop: Shop, replicas: int) -> None:
    """Fill the queues."""
    for name in TARGETS:
        shop.load(name, replicas)


def wait_for(shop: Shop, replicas: int) -> None:
    """Ask for a count, and wait until all Deployments have it."""
    ask_for(shop, replicas)
    wait_until(f"{replicas} replicas", lambda: {*shop.all_replicas().values()} == {replicas})


def test_only_the_leader_writes_and_the_follower_takes_over(shop: Shop, audit: Audit) -> None:
    """The leader is stopped by SIGSTOP, the next one by SIGTERM; the API server's log judges."""
    shop.open(dict.fromkeys(TARGETS, AT_ONCE), 1)
    with ExitStack() as stack:
        left = stack.enter_context(shop.daemon("left", ELECTION, "--log-level", "debug"))
        shop.wait_held("left")
        right = stack.enter_context(shop.daemon("right", ELECTION, "--log-level", "debug"))
        right.wait_event("started")
        wait_for(shop, 5)
        assert set(audit.scales_by_holders()) == {"left"}

        stopped = clock.monotonic()
        os.kill(left.pid, signal.SIGSTOP)
        ask_for(shop, 9)
        took = shop.wait_held("right") - stopped
        assert took < LEASE_SECONDS + 4 * RETRY_SECONDS + SLACK
        right.wait_for("a skipped write", lambda line: line.get("write") == "not leading")
        wait_for(shop, 9)
        os.kill(left.pid, signal.SIGCONT)
        left.wait_for(
            "it follows",
            lambda line: line["event"] == "leadership" and line["standing"] == "follower",
        )
        before = audit.scales_by_holders()["left"]
        wait_for(shop, 3)
        assert audit.scales_by_holders()["left"] == before

        ended = clock.monotonic()
        assert right.stop() == 0
        assert shop.wait_held("left") - ended < LEASE_SECONDS
        wait_for(shop, 7)
        assert left.stop() == 0
        assert shop.holder() == ""
        written = audit.scales_by_holders()
        assert written["left"] >= 2 * len(TARGETS)
        assert written["right"] >= 2 * len(TARGETS)
        assert not left.events("replicas_changed_by_other")
        assert not right.events("replicas_changed_by_other")
