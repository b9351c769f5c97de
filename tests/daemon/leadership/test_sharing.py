"""Processes that share clusters, on a real API server: each namespace stands for a cluster."""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

import pytest

from autoscaler import clock
from autoscaler.config.settings import LeaderElection
from autoscaler.daemon.leadership import ElectionObserver, Leadership, Role, Stand, leader_election
from autoscaler.daemon.sharing import LEADS, URL, process_of
from autoscaler.daemon.writes_under_way import WritesUnderWay
from autoscaler.kubernetes import connect
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.credentials import write_kubeconfig
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.proxies.tcp import TcpProxy
from tests.worlds.waiting import wait_until

CLUSTERS = 6
LEASE, DEADLINE, RETRY = "4s", "2500ms", "500ms"
LEASE_SECONDS, RETRY_SECONDS = 4.0, 0.5
SLACK = 3.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class Told(ElectionObserver):
    """The sentences about one cluster, and the faults."""

    def __init__(self) -> None:
        self.sentences: list[tuple[Role, str]] = []
        self.faults: list[BaseException] = []

    def role_changed(self, role: Role, sentence: str) -> None:
        """Take in a change."""
        self.sentences.append((role, sentence))

    def fault(self, error: BaseException) -> None:
        """Take in a defect."""
        self.faults.append(error)


class Process:
    """One of those that share the clusters; its connections go through a proxy."""

    def __init__(self, name: str, proxy: TcpProxy, stack: ExitStack) -> None:
        self.name = name
        self.proxy = proxy
        self.stack = stack
        self.parts: dict[str, Leadership] = {}
        self.told: dict[str, Told] = {}

    def led(self) -> list[str]:
        """Return the clusters that it leads now."""
        return [cluster for cluster, part in self.parts.items() if part.leading()]


class Start(Protocol):
    """Starts a process that shares the clusters."""

    def __call__(self, name: str, most: int | None = None) -> Process:
        """Start it, by its name."""


@pytest.fixture
def clusters(admin_api: Api) -> Iterator[list[str]]:
    """Make a namespace for each cluster."""
    names = [f"shared-{number}-{secrets.token_hex(4)}" for number in range(CLUSTERS)]
    for name in names:
        admin_api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield names
    for name in names:
        admin_api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def start(control_plane: ControlPlane, clusters: list[str], tmp_path: Path) -> Iterator[Start]:
    """Give what starts a process; all are stopped at the end, and none had a fault."""
    started: list[Process] = []

    def start(name: str, most: int | None = None) -> Process:
        stack = ExitStack()
        process = Process(name, stack.enter_context(TcpProxy(control_plane.url)), stack)
        started.append(process)
        kubeconfig = tmp_path / f"{name}.kubeconfig"
        token = control_plane.admin_token
        write_kubeconfig(kubeconfig, process.proxy.url, control_plane.ca_file, token)
        settings = LeaderElection.model_validate(
            {
                "enabled": True,
                "identity": name,
                "leaseDuration": LEASE,
                "renewDeadline": DEADLINE,
                "retryPeriod": RETRY,
                "share": True,
                "maxClusters": most,
                "externalUrl": f"http://{name}:9191",
            }
        )
        stand = Stand(settings, clusters)
        for cluster in clusters:
            told = process.told[cluster] = Told()
            of_cluster = settings.model_copy(update={"namespace": cluster})
            taking_part = leader_election(of_cluster, connect(kubeconfig), told, cluster, stand)
            process.parts[cluster] = stack.enter_context(taking_part)
        return process

    yield start
    for process in started:
        process.stack.close()
        assert not [fault for told in process.told.values() for fault in told.faults]


def loads(*processes: Process) -> list[int]:
    """Return how many each leads."""
    return [len(process.led()) for process in processes]


class Watched:
    """Looks all the time at who leads, and whether two do."""

    def __init__(self, clusters: list[str], processes: Callable[[], list[Process]]) -> None:
        self.doubled: list[str] = []
        self.moves: Counter[str] = Counter()
        self._leaders: dict[str, str] = {}
        self._clusters, self._processes = clusters, processes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(0.003):
            for cluster in self._clusters:
                leaders = [one.name for one in self._processes() if one.parts[cluster].leading()]
                if len(leaders) > 1:
                    self.doubled.append(f"{cluster}: {leaders}")
                if leaders and self._leaders.get(cluster, leaders[0]) != leaders[0]:
                    self.moves[cluster] += 1
                if leaders:
                    self._leaders[cluster] = leaders[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(5)


def test_processes_come_and_go_and_each_leads_its_share(
    start: Start, admin_api: Api, clusters: list[str]
) -> None:
    """A newcomer gets what it should have in as many moves, and never do two lead.

    The clusters of one that stops are led at once, those of one that is cut off when its Leases
    have run out.  It takes 30 s.
    """
    first, second = start("first"), start("second")
    there = [first, second]
    wait_until("three each", lambda: loads(first, second) == [3, 3])
    with Watched(clusters, lambda: [*there]) as watched:
        third = start("third")
        there.append(third)
        wait_until(
            "two each", lambda: loads(*there) == [2, 2, 2], timeout=LEASE_SECONDS * 2 + SLACK
        )
        wait_until("both moves are seen", lambda: watched.moves.total() == 2)
        assert max(watched.moves.values()) == 1
        handed = [one for one in clusters if third.parts[one].leading()]
        said = [
            sentence for one in (first, second) for _, sentence in one.told[handed[0]].sentences
        ]
        assert any("; this process has handed it over" in sentence for sentence in said)
        lease, told = (
            f"{LEASES.format(handed[0])}/autoscaler",
            {LEADS: "2", URL: "http://third:9191"},
        )
        wait_until("it tells", lambda: admin_api.get(lease)["metadata"].get("annotations") == told)
        assert process_of(admin_api.get(lease)["spec"]["holderIdentity"]).startswith("third_")

        time.sleep(LEASE_SECONDS)
        assert watched.moves.total() == 2, "it flaps"
        stopped = clock.monotonic()
        there.remove(third)
        third.stack.close()
        wait_until("three each again", lambda: loads(*there) == [3, 3])
        assert clock.monotonic() - stopped < LEASE_SECONDS

        cut = clock.monotonic()
        second.proxy.cut()
        wait_until("all by the first", lambda: len(first.led()) == CLUSTERS)
        assert clock.monotonic() - cut < LEASE_SECONDS + 5
        assert second.led() == []
        second.proxy.mend()
        wait_until("three each at last", lambda: loads(*there) == [3, 3], timeout=30)
    assert watched.doubled == []
    lists = [admin_api.get(LEASES.format(cluster))["items"] for cluster in clusters]
    members = [one for items in lists for one in items if one["metadata"]["name"] != "autoscaler"]
    names = {process_of(one["spec"]["holderIdentity"]).partition("_")[0] for one in members}
    assert names <= {"first", "second"}, "the Leases of who stopped are gone"


def test_who_has_just_led_says_so_and_is_handed_no_more(start: Start, clusters: list[str]) -> None:
    """Of two newcomers each is handed its share, in as many moves as clusters."""
    there = [start("first")]
    wait_until("all", lambda: loads(*there) == [CLUSTERS])
    with Watched(clusters, lambda: [*there]) as watched:
        there += [start("second"), start("third")]
        wait_until("two each", lambda: loads(*there) == [2, 2, 2])
        time.sleep(LEASE_SECONDS / 2)
    assert watched.doubled == []
    assert watched.moves == dict.fromkeys(watched.moves, 1)
    assert len(watched.moves) == 4


def test_nobody_leads_more_than_it_may(start: Start) -> None:
    """What is over is led by nobody, until there is room."""
    small, smaller = start("small", 2), start("smaller", 1)
    wait_until("as many as may be", lambda: loads(small, smaller) == [2, 1])
    time.sleep(LEASE_SECONDS + RETRY_SECONDS)
    assert loads(small, smaller) == [2, 1]
    told = [one.sentences[-1] for one in smaller.told.values()]
    full = [sentence for role, sentence in told if role is Role.FULL]
    assert len(full) == CLUSTERS - 3
    assert full[0].endswith("is held by nobody: this process leads as many as maxClusters permits")
    large = start("large")
    wait_until("the rest", lambda: loads(small, smaller, large) == [2, 1, 3])


def test_a_cluster_is_handed_over_only_when_all_writes_have_ended(
    start: Start, clusters: list[str]
) -> None:
    """The leader stops at once, and waits for the write that is under way."""
    first = start("first")
    wait_until("all", lambda: len(first.led()) == CLUSTERS)
    until = clock.monotonic() + 60
    numbers = {one: first.parts[one].write_begins(until) for one in clusters}
    second = start("second")
    waited = LEASE_SECONDS + RETRY_SECONDS * 3 + SLACK
    wait_until("it hands over", lambda: len(first.led()) == CLUSTERS // 2, timeout=waited)
    time.sleep(RETRY_SECONDS * 2)
    assert second.led() == []
    for cluster, number in numbers.items():
        first.parts[cluster].write_ended(number, certain=True)
    wait_until("half of them", lambda: loads(first, second) == [3, 3])


def test_a_write_that_may_still_take_effect_keeps_the_cluster_where_it_is(
    start: Start, clusters: list[str]
) -> None:
    """Until it is too old: a request may be on its way."""
    first = start("first")
    wait_until("all", lambda: len(first.led()) == CLUSTERS)
    until = clock.monotonic() + LEASE_SECONDS * 3
    for cluster in clusters:
        part = first.parts[cluster]
        part.write_ended(part.write_begins(until), certain=False)
    since = [part.leads_since() for part in first.parts.values()]
    second = start("second")
    time.sleep(LEASE_SECONDS * 2)
    assert loads(first, second) == [CLUSTERS, 0]
    assert since == [part.leads_since() for part in first.parts.values()], "it stopped for a moment"
    wait_until("half of them", lambda: loads(first, second) == [3, 3])
    assert clock.monotonic() > until


def test_an_end_of_a_write_is_waited_for() -> None:
    """As long as it was given, and no longer."""
    writes = WritesUnderWay()
    number = writes.begin(clock.monotonic() + 30)
    threading.Timer(0.2, writes.end, (number,), {"certain": True}).start()
    begun = clock.monotonic()
    assert writes.wait()
    assert 0.1 < clock.monotonic() - begun < 10
    writes.begin(clock.monotonic() + 0.2)
    assert not writes.wait(), "it lasts longer than it was given"
