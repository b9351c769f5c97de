"""Rate limits across a change of leader, by two real daemons: nothing unseen frees anything.

The leader and somebody by hand change counts while the standby is stopped by SIGSTOP; it comes
back, the leader is killed, and the load turns round.  Whatever the standby made of the sum that
it found, its own writes keep to the policy.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from autoscaler import clock
from tests.daemon.leadership.shop import Shop, rules
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import DaemonProcess
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.waiting import wait_until

PODS, PERIOD = 2, 8.0
"""What the policy permits in the direction that is judged, and in how many seconds."""

SYNC = 1.0
START = 6


class Case(NamedTuple):
    """What happens to a workload while the standby is stopped, and the load after the takeover."""

    up: bool
    """Which direction is judged; the other is free."""
    hand: int | None
    """The count that somebody sets first."""
    loads: tuple[int, ...]
    """What the leader is asked for, one after another."""
    after: int


CASES = {
    "leader-up": Case(up=False, hand=None, loads=(10, 14), after=1),
    "hand-up": Case(up=False, hand=23, loads=(21,), after=1),
    "hand-down": Case(up=True, hand=1, loads=(3,), after=20),
    "hand-back": Case(up=True, hand=4, loads=(6,), after=20),
}


BURST, AT_MOST = "burst", 14
"""A workload with a window of five minutes, whose burst only the leader sees."""
NAMES = (*CASES, BURST)


class Count(NamedTuple):
    """A count of a workload, and when it was first seen."""

    time: float
    replicas: int


class Counts:
    """Looks at all workloads many times a second, and notes how their counts change."""

    def __init__(self, shop: Shop) -> None:
        self.seen: dict[str, list[Count]] = {name: [] for name in NAMES}
        self._shop = shop
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until("a first look", lambda: all(self.seen.values()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def wait_for(self, name: str, replicas: int) -> None:
        """Wait until a count was there."""
        wait_until(
            f"{replicas} replicas of {name}",
            lambda: any(one.replicas == replicas for one in self.seen[name][-3:]),
            timeout=60,
        )

    def wait_for_other(self, name: str, replicas: int) -> None:
        """Wait until a count is another one."""
        last = self.seen[name]
        wait_until(f"another count of {name}", lambda: last[-1].replicas != replicas, timeout=60)

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for item in self._shop.api.get(self._shop.deployments)["items"]:
                counts, found = self.seen[item["metadata"]["name"]], item["spec"]["replicas"]
                if not counts or counts[-1].replicas != found:
                    counts.append(Count(clock.monotonic(), found))


def behavior(case: Case) -> dict[str, object]:
    """Return the rules of a workload: strict in the direction that is judged."""
    strict, free = rules(PODS, round(PERIOD)), rules(100, 1)
    up, down = (strict, free) if case.up else (free, strict)
    return {"scaleUp": up, "scaleDown": down}


BEHAVIORS = {name: behavior(case) for name, case in CASES.items()} | {BURST: {}}
ELECTION = {"leaseDuration": "2s", "renewDeadline": "1500ms", "retryPeriod": "300ms"}

Run = Callable[[str], DaemonProcess]


@pytest.fixture
def shop(audited_plane: ControlPlane, prometheus_exporter: Exporter) -> Iterator[Shop]:
    """Make a namespace with its queues at rest."""
    with audited_plane.api() as api:
        yield Shop(audited_plane, api, prometheus_exporter, NAMES, START)


@pytest.fixture
def run(shop: Shop, prometheus_server: PrometheusServer, tmp_path: Path) -> Run:
    """Give what starts a daemon as a user of its own."""
    prometheus_server.wait_for(shop.queues, count=len(NAMES))
    document = {
        "prometheus": {"url": prometheus_server.url},
        "tolerance": 0,
        "leaderElection": ELECTION | {"enabled": True},
    }
    return lambda user: shop.daemon(user, tmp_path, document, BEHAVIORS)


def most_within(counts: list[Count], case: Case, seconds: float) -> int:
    """Return the largest change in the judged direction within so many seconds."""
    sign = 1 if case.up else -1
    steps = [(new.time, sign * (new.replicas - old.replicas)) for old, new in pairwise(counts)]
    return max(
        sum(step for at, step in steps if begin <= at < begin + seconds and step > 0)
        for begin, _ in steps
    )


def test_a_standby_that_was_away_keeps_the_leaders_rates(shop: Shop, run: Run) -> None:
    """Its writes and the leader's before it keep to the policy, and then what is due is done.

    Nor does it take down within its window what the leader had gone up to meanwhile.
    """
    with ExitStack() as stack:
        leader = stack.enter_context(run("left"))
        shop.wait_held("left")
        standby = stack.enter_context(run("right"))
        standby.wait_for("it serves", lambda line: line["event"] == "started")
        counts = stack.enter_context(Counts(shop))
        # What the leader did not see before it led keeps it still for one period of a policy.
        pause(PERIOD)
        os.kill(standby.pid, signal.SIGSTOP)
        judged_from = {}
        shop.load(BURST, AT_MOST)
        counts.wait_for(BURST, AT_MOST)
        shop.load(BURST, START)
        for name, case in CASES.items():
            if case.hand is not None:
                path = f"{shop.deployments}/{name}/scale"
                scale = shop.api.get(path)
                shop.api.replace(path, {**scale, "spec": {"replicas": case.hand}})
                counts.wait_for(name, case.hand)
            judged_from[name] = len(counts.seen[name]) - 1
            for load in case.loads:
                shop.load(name, load)
                counts.wait_for(name, load)
        os.kill(standby.pid, signal.SIGCONT)
        standby.wait_for(
            "what it does about its caches",
            lambda line: line.get("message", "").startswith("this process stood still for "),
        )
        pause(2 * SYNC)
        leader.kill()
        for name, case in CASES.items():
            shop.load(name, case.after)
        shop.wait_held("right")
        for name, case in CASES.items():
            counts.wait_for_other(name, case.loads[-1])
        pause(2 * SYNC)
    for name, case in CASES.items():
        ours = counts.seen[name][judged_from[name] :]
        # A look is a moment late now and then: two steps of one period may seem closer.
        assert most_within(ours, case, PERIOD - 2 * SYNC) <= PODS, (name, ours)
    assert max(one.replicas for one in counts.seen[BURST]) == counts.seen[BURST][-1].replicas


def pause(seconds: float) -> None:
    """Let time pass: it is what the policies count by."""
    threading.Event().wait(seconds)
