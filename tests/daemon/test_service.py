"""The daemon over a reload, in this process."""

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
from structlog.testing import capture_logs

from autoscaler.config import load
from autoscaler.core.observation import ReadFailure
from autoscaler.core.target import Target
from autoscaler.daemon import service
from autoscaler.daemon.service import MainLoop
from autoscaler.daemon.service_manager import Signals
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.persistence.store import releases
from tests.config.documents import loaded, top
from tests.daemon.test_turn import at_work
from tests.narrowing import assert_parts, instance
from tests.worlds.announced import Announced
from tests.worlds.cluster.scripted import Answer, ScriptedServer
from tests.worlds.controlplane import credentials
from tests.worlds.daemon import write_config
from tests.worlds.waiting import wait_until


@pytest.fixture(autouse=True)
def _garbage_collection() -> Iterator[None]:
    """Collect as before, once the daemon is gone."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


T = TypeVar("T")
TARGET: dict[str, Any] = {
    "namespace": "shop",
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
    "maxReplicas": 20,
}


class Daemon:
    """A daemon in this process, on a server that has nothing; without targets, unless told so."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.signals, self.stack = Signals(), ExitStack()
        server = self.stack.enter_context(ScriptedServer(Answer(404)))
        kubeconfig = str(server.write_kubeconfig(folder / "kubeconfig"))
        servers = {"prometheus": {"url": server.url}, "kubernetes": {"kubeconfig": kubeconfig}}
        self.document: dict[str, Any] = {**servers, "targets": [], **more}
        self.file = folder / "autoscaler.yaml"
        self.write()

    def write(self, **changed: object) -> None:
        write_config(self.file, self.document | changed)

    def loop(self) -> MainLoop:
        return MainLoop(load(self.file), self.signals, self.stack)

    def beside(self, operator: Callable[[], T]) -> Future[T]:
        """Do something on another thread, and then stop the daemon."""

        def operate() -> T:
            try:
                return operator()
            finally:
                self.signals.stop.set()

        return self.stack.enter_context(ThreadPoolExecutor(1)).submit(operate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


def test_replaced_connections_are_freed(tmp_path: Path) -> None:
    """Connections that refer to themselves are, though all was left out of collections."""
    with Daemon(tmp_path) as daemon:
        loop = daemon.loop()
        connections = loop.connections
        vars(connections)["themselves"] = connections
        replaced = weakref.ref(connections)
        del connections

        def reload() -> None:
            daemon.write(prometheus={"url": f"{daemon.document['prometheus']['url']}/other"})
            wait_until("it is freed", lambda: replaced() is None)

        reloaded = daemon.beside(reload)
        loop.run()
        reloaded.result()
        assert loop.reload.config.prometheus.url.endswith("/other")


def test_the_first_sync_uses_the_configuration_as_it_is_then(tmp_path: Path) -> None:
    least: list[int | None] = []
    with Daemon(tmp_path, targets=[TARGET | {"minReplicas": 2}]) as daemon:
        config = load(daemon.file)
        daemon.write(targets=[TARGET | {"minReplicas": 10}])
        loop = MainLoop(config, daemon.signals, daemon.stack)

        def sync(targets: Sequence[Target], *_: float, **_due: float) -> None:
            least.extend(target.spec.min_replicas for target in targets)
            daemon.signals.stop.set()

        loop.syncer.sync = sync  # type: ignore[method-assign,assignment]
        loop.run()
    assert least == [10]


def test_a_reload_that_waits_is_not_taken_for_a_suspension(tmp_path: Path) -> None:
    attended, noted = threading.Semaphore(0), list[bool]()
    with Daemon(tmp_path) as daemon:
        loop = daemon.loop()
        caches = loop.connections.clusters[""].caches
        caches.attend = attended.release  # type: ignore[method-assign]

        def swap(*_: object, **__: object) -> None:
            while attended.acquire(blocking=False):
                pass
            noted.append(attended.acquire(timeout=5) and attended.acquire(timeout=5))
            daemon.signals.stop.set()

        loop.schedule.swap = swap  # type: ignore[method-assign]
        loop.run()
    assert noted == [True]


def test_a_standby_that_is_stopped_takes_nothing_over(tmp_path: Path) -> None:
    signals = Signals()
    config = loaded(tmp_path, top(f"stateDirectory: {tmp_path}/state\n"))
    announcements = Announced().announcements
    with capture_logs() as lines, at_work(tmp_path / "state"), ExitStack() as stack:
        waits = announcements.stands_by

        def stands_by(directory: Path, holder: str) -> None:
            waits(directory, holder)
            signals.stop.set()

        announcements.stands_by = stands_by  # type: ignore[method-assign]
        assert not service._has_turn(config, announcements, signals.stop, stack)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("state", "warning")
    assert_parts(line["message"], str(os.getpid()), str(tmp_path / "state"))


def test_a_state_directory_that_hangs_stops_no_signal_and_no_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, answers, fed = threading.Event(), threading.Event(), threading.Semaphore(0)

    def hang(_: Path) -> None:
        hangs.set()
        answers.wait(30)

    monkeypatch.setattr(releases, "take", hang)
    with Daemon(tmp_path, stateDirectory=str(tmp_path / "state")) as daemon:
        loop = daemon.loop()
        monkeypatch.setattr(loop.telemetry.notifier, "watchdog", fed.release)
        runner = daemon.stack.enter_context(ThreadPoolExecutor(1))
        daemon.stack.callback(daemon.signals.stop.set)
        daemon.stack.callback(answers.set)
        running_loop = runner.submit(loop.run)
        assert hangs.wait(10)
        while fed.acquire(blocking=False):
            pass
        assert fed.acquire(timeout=5), "the watchdog is not fed"
        daemon.signals.stop.set()
        running_loop.result(timeout=5)
        assert not answers.is_set()


def test_a_cluster_without_a_connection_does_not_affect_another(
    tmp_path: Path,
) -> None:
    kubeconfig = str(tmp_path / "kubeconfig")
    clusters = [{"name": name, "kubeconfig": kubeconfig} for name in ("eu", "us")]
    clusters[1]["context"] = "none"
    targets = [TARGET | {"clusters": ["eu", "us"]}]
    with Daemon(tmp_path, kubernetes=None, clusters=clusters, targets=targets) as daemon:
        loop = daemon.loop()
        eu = loop.connections.clusters["eu"]
        loop._reconfigure(load(daemon.file))
        assert loop.connections.clusters == {"eu": eu}
        ports = loop._ports(loop.connections)
        (target,) = (text for text in loop.reload.config.targets if text.cluster == "us")
        scale = ports.clusters[target.cluster].cached_scale("shop", target.spec.scale_target_ref)
        assert_parts(instance(ReadFailure, scale), '"none"')
        assert ports.clusters["us"].leads_since("shop") is None
        assert loop._leaders()[1] == ClusterLeader("us", leading=False)

        del clusters[1]["context"]
        other = tmp_path / "other"
        other.write_text(credentials.kubeconfig({"server": "http://127.0.0.1:1"}, {"token": "a"}))
        clusters[1]["kubeconfig"] = str(other)
        daemon.write(kubernetes=None, clusters=clusters, targets=targets)
        loop._reconfigure(load(daemon.file))
        assert loop.connections.clusters.keys() == {"eu", "us"}
        assert loop.connections.clusters["eu"] is eu
        assert not loop.connections.unreached


def test_a_new_leader_of_a_cluster_syncs_only_its_targets(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(credentials.kubeconfig({"server": "http://127.0.0.1:1"}, {"token": "a"}))
    files = {"eu": str(tmp_path / "kubeconfig"), "us": str(other)}
    clusters = [{"name": name, "kubeconfig": file} for name, file in files.items()]
    targets = [TARGET | {"clusters": ["eu", "us"], "syncPeriod": "60s"}]
    led, synced = {"eu"}, list[list[str]]()
    with Daemon(tmp_path, kubernetes=None, clusters=clusters, targets=targets) as daemon:
        loop = daemon.loop()

        def sync(targets: Sequence[Target], *_: float, **_due: float) -> None:
            synced.append([target.cluster for target in targets])
            if len(synced) == 1:
                led.add("us")
            else:
                daemon.signals.stop.set()

        loop.syncer.sync = sync  # type: ignore[method-assign,assignment]
        loop._led = lambda: frozenset(led)  # type: ignore[method-assign]
        loop.run()
    assert synced == [["eu", "us"], ["us"]]
