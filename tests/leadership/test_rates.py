"""Rate limits across a change of leader, by two real daemons: nothing unseen frees anything.

The leader and somebody by hand change counts while the standby is stopped by SIGSTOP; it comes
back, the leader is killed, and the load turns round.  Whatever the standby made of the sum that
it found, its own writes keep to the policy.
"""

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import pytest

from autoscaler import clock
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.prometheus.exporter import Exporter
from tests.prometheus.fixtures import StartPrometheus

PODS, PERIOD = 2, 2.0
"""What the policy permits both ways, and in how many seconds."""

SYNC = 0.5

START = 6

CASES = {
    # name: (the leader's load while the standby is stopped, somebody's count, the load after)
    "leader-up": (10, None, 1),
    "hand-up": (20, 23, 1),
    "hand-down": (3, 1, 20),
    "hand-back": (8, 5, 1),
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

    def now(self, name: str) -> int:
        """Return the last count that was seen."""
        return self.seen[name][-1].replicas

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
        policy = {"type": "Pods", "value": PODS, "periodSeconds": round(PERIOD)}
        rules = {"stabilizationWindowSeconds": 0, "policies": [policy]}
        return {
            "prometheus": {"url": self._prometheus},
            "syncPeriod": f"{SYNC}s",
            "tolerance": 0,
            "holdAfterReversals": 0,
            "leaderElection": {
                "enabled": True,
                "namespace": self.namespace,
                "identity": user,
                "leaseDuration": "2s",
                "renewDeadline": "1500ms",
                "retryPeriod": "300ms",
            },
            "queries": {"rates_messages": "sum by (queue) (rates_messages)"},
            "targets": [self._target(name, rules) for name in CASES],
        }

    def _target(self, name: str, rules: dict[str, object]) -> dict[str, object]:
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
            "behavior": {"scaleUp": rules, "scaleDown": rules},
        }


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


def most_within(counts: list[Count], seconds: float) -> int:
    """Return the largest change one way within so many seconds."""
    steps = [(new.time, new.replicas - old.replicas) for old, new in pairwise(counts)]
    return max(
        (
            abs(sum(step for at, step in steps if begin <= at < begin + seconds))
            for begin, _ in steps
        ),
        default=0,
    )


def test_a_standby_that_was_away_keeps_the_leaders_rates(bed: Bed) -> None:
    """Its writes after the takeover keep to the policy, and what was due is done in the end."""
    with ExitStack() as stack:
        leader = stack.enter_context(bed.daemon("left"))
        wait_until("the leader leads", lambda: bed.holder() == "left", interval=0.02)
        standby = stack.enter_context(bed.daemon("right"))
        standby.wait_for("it serves", lambda line: line["event"] == "started")
        counts = stack.enter_context(Counts(bed.api, bed.namespace))
        pause(PERIOD + SYNC)
        os.kill(standby.pid, signal.SIGSTOP)
        for name, (load, hand, _) in CASES.items():
            if hand is not None:
                bed.by_hand(name, hand)
            bed.load(name, load)
        for name, (load, _, _) in CASES.items():
            wait_for_count(counts, name, lambda found, load=load: found == load)  # type: ignore[misc] # bound now
        pause(PERIOD + SYNC)
        os.kill(standby.pid, signal.SIGCONT)
        pause(2 * SYNC)
        leader.kill()
        for name, (_, _, after) in CASES.items():
            bed.load(name, after)
        wait_until("the standby leads", lambda: bed.holder() == "right", interval=0.02)
        took = clock.monotonic()
        before = {name: counts.now(name) for name in CASES}
        for name in CASES:
            wait_for_count(counts, name, lambda found, name=name: found != before[name])  # type: ignore[misc] # bound now
        pause(PERIOD)
    for name in CASES:
        own = [one for one in counts.seen[name] if one.time >= took - SYNC]
        own.insert(0, Count(took - SYNC, before[name]))
        # The look is a moment late now and then: two steps of one period may seem closer.
        assert most_within(own, PERIOD - 2 * SYNC) <= PODS, (name, own)


def pause(seconds: float) -> None:
    """Let time pass: it is what the policies count by."""
    threading.Event().wait(seconds)


def wait_for_count(counts: Counts, name: str, wanted: Callable[[int], bool]) -> None:
    """Wait until a count is there."""
    wait_until(f"the count of {name}", lambda: wanted(counts.now(name)), timeout=60)
