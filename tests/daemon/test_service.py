"""The daemon over a reload, in this process."""

import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from autoscaler import clock
from autoscaler.adapters.store import Saved, read_saved, releases
from autoscaler.adapters.store.rows import this_boot
from autoscaler.cli.releasing import release
from autoscaler.config import load
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.target import Target
from autoscaler.daemon import service
from autoscaler.daemon.service import MainLoop
from autoscaler.daemon.service_manager import Signals
from autoscaler.sync.ports import BreakerChange, BreakerNews
from tests.adapters.store.opening import Sayings, Time, running
from tests.config.documents import loaded, top
from tests.daemon.test_turn import at_work
from tests.worlds.announced import Announced
from tests.worlds.cluster.scripted import Answer, ScriptedServer
from tests.worlds.daemon import write_config
from tests.worlds.waiting import wait_until


@pytest.fixture(autouse=True)
def _garbage_collection() -> Iterator[None]:
    """Collect as before, once the daemon is gone."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


TARGET: dict[str, Any] = {
    "namespace": "shop",
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
    "maxReplicas": 20,
}


def document(server: ScriptedServer, folder: Path, **more: object) -> dict[str, Any]:
    """Return a configuration without targets, unless there are more keys, on a server."""
    kubeconfig = str(server.write_kubeconfig(folder / "kubeconfig"))
    return {
        "prometheus": {"url": server.url},
        "kubernetes": {"kubeconfig": kubeconfig},
        "targets": [],
        **more,
    }


def test_what_a_reload_replaced_is_freed(tmp_path: Path) -> None:
    """Connections that refer to themselves are, though all was left out of collections."""
    signals = Signals()
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        before = document(server, tmp_path)
        file = write_config(tmp_path / "autoscaler.yaml", before)
        loop = MainLoop(load(file), signals, stack)
        connections = loop.connections.current
        vars(connections)["themselves"] = connections
        replaced = weakref.ref(connections)
        del connections

        def reload() -> None:
            write_config(file, before | {"prometheus": {"url": f"{server.url}/other"}})
            try:
                wait_until("it is freed", lambda: replaced() is None)
            finally:
                signals.stop.set()

        operator = stack.enter_context(ThreadPoolExecutor(1))
        reloaded = operator.submit(reload)
        loop.run()
        reloaded.result()
        assert loop.reload.config.prometheus.url.endswith("/other")


def test_the_first_sync_is_by_what_the_file_says_by_then(tmp_path: Path) -> None:
    """A daemon that waited for its turn does not begin with the configuration of before."""
    signals = Signals()
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        before = document(server, tmp_path, targets=[TARGET | {"minReplicas": 2}])
        config = load(write_config(tmp_path / "autoscaler.yaml", before))
        write_config(config.path, before | {"targets": [TARGET | {"minReplicas": 10}]})
        loop = MainLoop(config, signals, stack)
        least: list[int | None] = []

        def sync(targets: Sequence[Target], *_: float, **_due: float) -> None:
            least.extend(target.spec.min_replicas for target in targets)
            signals.stop.set()

        loop.syncer.sync = sync  # type: ignore[method-assign,assignment]
        loop.run()
    assert least == [10]


def test_a_reload_that_waits_is_not_taken_for_a_stop(tmp_path: Path) -> None:
    """The process goes on to note that it runs while its main thread is held up."""
    signals = Signals()
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        file = write_config(tmp_path / "c.yaml", document(server, tmp_path))
        loop = MainLoop(load(file), signals, stack)
        attended = threading.Semaphore(0)
        loop.cluster.attend = attended.release  # type: ignore[method-assign]

        def twice() -> bool:
            while attended.acquire(blocking=False):
                pass
            return attended.acquire(timeout=5) and attended.acquire(timeout=5)

        noted: list[bool] = []

        def swap(*_: object, **__: object) -> None:
            noted.append(twice())
            signals.stop.set()

        loop.schedule.swap = swap  # type: ignore[method-assign]
        loop.run()
    assert noted == [True]


def test_who_is_stopped_while_it_waits_takes_nothing_over(tmp_path: Path) -> None:
    """The log says that it waits, and no more."""
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
    assert "is at work with the state directory" in line["message"]


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
        more = {"stateDirectory": str(state), "scaleDownBreaker": {"minTargets": 1}}
        whole = document(server, tmp_path, targets=[TARGET], **more)
        file = write_config(tmp_path / "autoscaler.yaml", whole)
        loop = MainLoop(load(file), signals, stack)
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
        kept = document(server, tmp_path, stateDirectory=str(tmp_path / "state"))
        loop = MainLoop(load(write_config(tmp_path / "c.yaml", kept)), signals, stack)
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
