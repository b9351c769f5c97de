"""The daemon over a reload, in this process."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.adapters.store import Saved, read_saved, releases
from autoscaler.adapters.store.clocks import this_boot
from autoscaler.cli.releasing import release
from autoscaler.config import load
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.daemon.service import build
from autoscaler.daemon.service_manager import Signals
from autoscaler.sync.ports import BreakerChange, BreakerNews
from tests.adapters.cluster.scripted import Answer, ScriptedServer
from tests.adapters.store.opening import Sayings, Time, running
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config


@pytest.fixture(autouse=True)
def _garbage_collection() -> Iterator[None]:
    """Collect as before, once the daemon is gone."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_a_reload_replaced_is_freed(tmp_path: Path) -> None:
    """Connections that refer to themselves are, though all was left out of collections."""
    signals = Signals()
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        document = {
            "prometheus": {"url": server.url},
            "kubernetes": {"kubeconfig": str(server.write_kubeconfig(tmp_path / "kubeconfig"))},
            "targets": [],
        }
        file = write_config(tmp_path / "autoscaler.yaml", document)
        loop = build(load(file), signals, stack)
        connections = loop.connections.current
        vars(connections)["themselves"] = connections
        replaced = weakref.ref(connections)
        del connections

        def reload() -> None:
            write_config(file, document | {"prometheus": {"url": f"{server.url}/other"}})
            try:
                wait_until("it is freed", lambda: replaced() is None)
            finally:
                signals.stop.set()

        operator = stack.enter_context(ThreadPoolExecutor(1))
        reloaded = operator.submit(reload)
        loop.run()
        reloaded.result()
        assert loop.reload.config.prometheus.url.endswith("/other")


def holds(state: Path) -> bool:
    """Return whether the state directory still says that a breaker has tripped."""
    saved = read_saved(state)
    assert isinstance(saved, Saved)
    return any(breaker.trip is not None for breaker in saved.resumption.breakers.values())


def test_a_release_reaches_a_daemon_that_holds_since_before_its_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its state directory, within seconds; afterwards nothing is held."""
    signals, state = Signals(), tmp_path / "state"
    state.mkdir()
    now = clock.wall()
    with running(state, Sayings(), Time(now, clock.steady(), this_boot())) as (store, _):
        store.keep_breakers({"": BreakerState(Trip(now, now + 600, 380, 500, "up"))})
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        document = {
            "prometheus": {"url": server.url},
            "kubernetes": {"kubeconfig": str(server.write_kubeconfig(tmp_path / "kubeconfig"))},
            "stateDirectory": str(state),
            "listen": None,
            "scaleDownBreaker": {"minTargets": 1},
            "targets": [
                {
                    "namespace": "shop",
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                    "maxReplicas": 3,
                }
            ],
        }
        file = write_config(tmp_path / "autoscaler.yaml", document)
        loop = build(load(file), signals, stack)
        told: list[BreakerChange] = []
        changed = loop.telemetry.announcements.breaker_changed

        def listen(news: BreakerNews) -> None:
            told.append(news.change)
            changed(news)

        loop.telemetry.announcements.breaker_changed = listen  # type: ignore[method-assign]

        def released() -> int:
            try:
                first = release("default", file)
                wait_until("it is kept", lambda: not holds(state))
                return first + release(None, file)
            finally:
                signals.stop.set()

        operator = stack.enter_context(ThreadPoolExecutor(1))
        code = operator.submit(released)
        loop.run()
        assert code.result() == 0
        assert told == [BreakerChange.RESUMED, BreakerChange.RELEASED]
    said = capsys.readouterr().out
    assert (
        "released: 380 of the 500 targets that read from Prometheus were held, and may go down "
        "from their next sync on\n"
    ) in said
    assert "nothing is held: no scale-down breaker has tripped\n" in said


def test_a_state_directory_that_hangs_stops_no_signal_and_no_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look for a release request waits for the disk; nothing else does, nor the end."""
    signals, hangs, answers = Signals(), threading.Event(), threading.Event()

    def hang(_: Path) -> None:
        hangs.set()
        answers.wait(30)

    monkeypatch.setattr(releases, "take", hang)
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        document: dict[str, Any] = {
            "prometheus": {"url": server.url},
            "kubernetes": {"kubeconfig": str(server.write_kubeconfig(tmp_path / "kubeconfig"))},
            "stateDirectory": str(tmp_path / "state"),
            "listen": None,
            "targets": [],
        }
        loop = build(load(write_config(tmp_path / "c.yaml", document)), signals, stack)
        fed = threading.Semaphore(0)
        monkeypatch.setattr(loop.telemetry.notifier, "watchdog", fed.release)
        runner = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(signals.stop.set)
        stack.callback(answers.set)
        running_loop = runner.submit(loop.run)
        assert hangs.wait(10)
        while fed.acquire(blocking=False):
            pass
        assert fed.acquire(timeout=5), "the watchdog is not fed"
        signals.stop.set()
        running_loop.result(timeout=5)
        assert not answers.is_set()
