"""A target that nothing was decided about for a while before a restart, though others went on."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.adapters.store import SqliteHistoryStore
from autoscaler.daemon import state_directory
from autoscaler.sync.state import Histories
from tests.adapters.store.histories import nth
from tests.adapters.store.opening import LONG, PATIENT, Time, running
from tests.worlds.memory import external

PERIOD = 15.0
HUNG, WELL = external("shop", "hung"), external("shop", "well")
RESTART = 5.0


@contextmanager
def restarted(
    directory: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> Iterator[state_directory.Memory]:
    """Open what an earlier run kept, as the daemon does."""
    monkeypatch.setattr(
        state_directory,
        "SqliteHistoryStore",
        lambda folder, say: SqliteHistoryStore(folder, say, time.clocks, PATIENT),
    )
    config: Any = SimpleNamespace(state_directory=directory, targets=(HUNG, WELL))
    nobody: Any = SimpleNamespace(state=lambda *_: None, resumed=lambda _: None)
    with ExitStack() as stack:
        yield state_directory.open_memory(config, nobody, nobody, stack)


def test_when_each_was_decided_last_is_known(tmp_path: Path) -> None:
    """In seconds before the last save; nothing is said of what was never decided."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.keep([("hung", nth(1), time.wall)])
        store.intend("new", nth(2)).result(LONG)
        time.pass_(60.0)
        store.keep([("well", nth(3), time.wall)])
    time.pass_(RESTART)
    with running(tmp_path, time=time) as (_, resumption):
        assert resumption.absent == RESTART
        assert resumption.undecided == {"hung": 60.0, "well": 0.0}


@pytest.mark.parametrize(("periods", "unobserved"), [(1, False), (2, False), (3, True), (99, True)])
def test_it_goes_on_as_if_it_had_been_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, periods: int, *, unobserved: bool
) -> None:
    """What its metrics asked for meanwhile is not known, so that it does not go down at once."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.keep([(HUNG.key, nth(1), time.wall)])
        time.pass_(periods * PERIOD)
        store.keep([(WELL.key, nth(3), time.wall)])
    time.pass_(RESTART)
    with restarted(tmp_path, time, monkeypatch) as opened:
        known = opened.known
    assert HUNG.sync_period == WELL.sync_period == PERIOD
    assert {key: history.unobserved for key, history in known.items()} == {
        HUNG.key: unobserved,
        WELL.key: False,
    }


def test_when_each_was_decided_last_is_known_by_the_steady_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a reading that is missing at the first sync has no longer gap than it really has."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.keep([(HUNG.key, nth(1), time.wall)])
        decided = time.steady
        time.pass_(PERIOD)
        store.keep([(WELL.key, nth(3), time.wall)])
    time.pass_(RESTART)
    with restarted(tmp_path, time, monkeypatch) as opened:
        assert opened.decided == {HUNG.key: decided, WELL.key: decided + PERIOD}
    time.boot_id = "another boot"
    with restarted(tmp_path, time, monkeypatch) as opened:
        assert opened.decided == {}


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_during_a_sync(tmp_path: Path, step: float) -> None:
    """A sync goes on by the clock that it began with; its decisions are kept by the new one."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        histories = Histories(store, {}, clock.Steps(time.wall, time.steady))
        began, as_of = time.wall, histories.as_of
        histories.put("hung", nth(1), as_of)
        time.pass_(5.0)
        time.wall += step
        histories.follow_clock(time.wall, time.steady)
        decision: Any = SimpleNamespace(time=began)
        histories.keep({"hung": decision}, as_of)
    with running(tmp_path, time=time) as (_, resumption):
        assert resumption.undecided == {"hung": 5.0}


def test_a_second_restart_before_its_first_sync_frees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a boot nobody knows how long it was; that is still so at the restart after it."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        both = [(one.key, nth(1), time.wall) for one in (HUNG, WELL)]
        store.keep(both)
    time.boot_id = "another boot"
    for _ in range(2):
        time.pass_(RESTART)
        with restarted(tmp_path, time, monkeypatch) as opened:
            assert opened.known[HUNG.key].unobserved
            history_store: Any = opened.history_store
            history_store.keep([(WELL.key, nth(3), time.wall)])
