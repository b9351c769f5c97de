"""Rate limits across a change of leader, by two real daemons: nothing unseen frees anything.

The leader and somebody by hand change counts while the standby is stopped by SIGSTOP; it comes
back, the leader is killed, and the load turns round.  Whatever the standby made of the sum that
it found, its own writes keep to the policy.
"""

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import pytest

from autoscaler import clock
from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import DaemonProcess, write_config

PODS, PERIOD = 2, 8.0
"""What the policy permits in the direction that is judged, and in how many seconds."""

SYNC = 1.0

START = 6


@dataclass(frozen=True, slots=True)
class Case:
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


@dataclass(frozen=True, slots=True)
class Count:
    """A count of a workload, and when it was first seen."""

    time: float
    replicas: int


class Counts:
    """Looks at all workloads many times a second, and notes how their counts change."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.seen: dict[str, list[Count]] = {name: [] for name in CASES}
        self._path = workloads.collection("Deployment", namespace)
        self._api = api
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
            for item in self._api.get(self._path)["items"]:
                counts, found = self.seen[item["metadata"]["name"]], item["spec"]["replicas"]
                if not counts or counts[-1].replicas != found:
                    counts.append(Count(clock.monotonic(), found))


class Bed:
    """A namespace, its queues, and daemons by user."""

    def __init__(
        self, plane: ControlPlane, api: Api, exporter: Exporter, prometheus: str, folder: Path
    ) -> None:
        self.namespace = f"rates-{secrets.token_hex(5)}"
        self.api = api
        self._plane, self._exporter = plane, exporter
        self._prometheus, self._folder = prometheus, folder
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for name in CASES:
            path = workloads.collection("Deployment", self.namespace)
            api.create(path, workloads.deployment(name, START))

    def load(self, name: str, replicas: int) -> None:
        """Fill a queue for so many replicas."""
        self._exporter.set("rates_messages", {"queue": f"{self.namespace}-{name}"}, replicas)

    def by_hand(self, name: str, replicas: int) -> None:
        """Set a count, as somebody does with kubectl."""
        path = f"{workloads.collection('Deployment', self.namespace)}/{name}/scale"
        scale = self.api.get(path)
        self.api.replace(path, {**scale, "spec": {"replicas": replicas}})

    def daemon(self, user: str) -> DaemonProcess:
        """Run a daemon."""
        kubeconfig = self._plane.write_kubeconfig(
            self._folder / f"{user}.kubeconfig", self._plane.token_for(user)
        )
        file = write_config(self._folder / f"{user}.yaml", self._document(user))
        return DaemonProcess(file, {"KUBECONFIG": str(kubeconfig)})

    def holder(self) -> str:
        """Return who holds the Lease, without the random part."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        items = self.api.get(path)["items"]
        holder = items[0]["spec"].get("holderIdentity") or "" if items else ""
        return str(holder).partition("_")[0]

    def _document(self, user: str) -> dict[str, object]:
        return {
            "prometheus": {"url": self._prometheus},
            "syncPeriod": f"{SYNC:g}s",
            "tolerance": 0,
            "leaderElection": {
                "enabled": True,
                "namespace": self.namespace,
                "identity": user,
                "leaseDuration": "2s",
                "renewDeadline": "1500ms",
                "retryPeriod": "300ms",
            },
            "queries": {"rates_messages": "sum by (queue) (rates_messages)"},
            "targets": [self._target(name, case) for name, case in CASES.items()],
        }

    def _target(self, name: str, case: Case) -> dict[str, object]:
        selector = {"matchLabels": {"queue": f"{self.namespace}-{name}"}}
        return {
            "namespace": self.namespace,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "maxReplicas": 40,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": "rates_messages", "selector": selector},
                        "target": {"type": "AverageValue", "averageValue": 1},
                    },
                }
            ],
            "behavior": {
                "scaleUp": _rules(strict=case.up),
                "scaleDown": _rules(strict=not case.up),
            },
        }


def _rules(*, strict: bool) -> dict[str, object]:
    value, seconds = (PODS, round(PERIOD)) if strict else (100, 1)
    policy = {"type": "Pods", "value": value, "periodSeconds": seconds}
    return {"stabilizationWindowSeconds": 0, "policies": [policy]}


@pytest.fixture
def bed(
    audited_plane: ControlPlane,
    exporter: Exporter,
    start_prometheus: StartPrometheus,
    tmp_path: Path,
) -> Iterator[Bed]:
    """Make a namespace with its queues at rest."""
    prometheus = start_prometheus([exporter.target])
    with audited_plane.api() as api:
        bed = Bed(audited_plane, api, exporter, prometheus.url, tmp_path)
        for name in CASES:
            bed.load(name, START)
        prometheus.wait_for("rates_messages", count=len(CASES))
        yield bed


def most_within(counts: list[Count], case: Case, seconds: float) -> int:
    """Return the largest change in the judged direction within so many seconds."""
    sign = 1 if case.up else -1
    steps = [(new.time, sign * (new.replicas - old.replicas)) for old, new in pairwise(counts)]
    return max(
        sum(step for at, step in steps if begin <= at < begin + seconds and step > 0)
        for begin, _ in steps
    )


def test_a_standby_that_was_away_keeps_the_leaders_rates(bed: Bed) -> None:
    """Its writes and the leader's before it keep to the policy, and then what is due is done."""
    with ExitStack() as stack:
        leader = stack.enter_context(bed.daemon("left"))
        wait_until("the leader leads", lambda: bed.holder() == "left", interval=0.02)
        standby = stack.enter_context(bed.daemon("right"))
        standby.wait_for("it serves", lambda line: line["event"] == "started")
        counts = stack.enter_context(Counts(bed.api, bed.namespace))
        # What the leader did not see before it led keeps it still for one period of a policy.
        pause(PERIOD)
        os.kill(standby.pid, signal.SIGSTOP)
        judged_from = {}
        for name, case in CASES.items():
            if case.hand is not None:
                bed.by_hand(name, case.hand)
                counts.wait_for(name, case.hand)
            judged_from[name] = len(counts.seen[name]) - 1
            for load in case.loads:
                bed.load(name, load)
                counts.wait_for(name, load)
        os.kill(standby.pid, signal.SIGCONT)
        pause(2 * SYNC)
        leader.kill()
        for name, case in CASES.items():
            bed.load(name, case.after)
        wait_until("the standby leads", lambda: bed.holder() == "right", interval=0.02)
        for name, case in CASES.items():
            counts.wait_for_other(name, case.loads[-1])
        pause(2 * SYNC)
    for name, case in CASES.items():
        ours = counts.seen[name][judged_from[name] :]
        # A look is a moment late now and then: two steps of one period may seem closer.
        assert most_within(ours, case, PERIOD - 2 * SYNC) <= PODS, (name, ours)


def pause(seconds: float) -> None:
    """Let time pass: it is what the policies count by."""
    threading.Event().wait(seconds)
