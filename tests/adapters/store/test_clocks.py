"""Time across a restart: stored instants follow the present clock, and no limit ends early."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import clock
from autoscaler.core.history import shifted
from autoscaler.daemon import state_directory
from autoscaler.persistence.store import SqliteHistoryStore
from autoscaler.persistence.store.rows import Stamp, seconds_to_move, this_boot
from autoscaler.sync.state import Histories
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import (
    LONG,
    PATIENT,
    T0,
    Time,
    decided_in,
    kept_in,
    running,
    stalled,
)
from tests.worlds.memory import external

HOUR = 3600.0
SAVED = Stamp(T0, 1000.0, "a")


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        pytest.param(Stamp(T0 + 5.0, 1005.0, "a"), 0.0, id="time-passed"),
        pytest.param(Stamp(T0 + 9 * HOUR, 1000.0 + 9 * HOUR, "a"), 0.0, id="nine-hours-passed"),
        pytest.param(Stamp(T0 + 5.9, 1005.0, "a"), 0.0, id="drifted"),
        pytest.param(Stamp(T0 + 65.0, 1005.0, "a"), 60.0, id="set-ahead-a-minute"),
        pytest.param(Stamp(T0 + 5.0 + HOUR, 1005.0, "a"), HOUR, id="set-ahead"),
        pytest.param(Stamp(T0 + 5.0 - HOUR, 1005.0, "a"), -HOUR, id="set-back"),
        pytest.param(Stamp(5.0, 1005.0, "a"), -T0, id="set-to-1970"),
        pytest.param(Stamp(T0 + 60.0, 20.0, "b"), 60.0, id="rebooted"),
        pytest.param(Stamp(T0 + 60.0, 5000.0, "b"), 60.0, id="another-machine"),
        pytest.param(Stamp(T0 + 9 * HOUR, 20.0, "b"), 9 * HOUR, id="rebooted-far-ahead"),
        pytest.param(Stamp(T0 - HOUR, 20.0, "b"), -HOUR, id="rebooted-behind"),
        pytest.param(Stamp(T0 + 60.0, 20.0, "a"), 60.0, id="restored-machine"),
        pytest.param(Stamp(T0 + 60.0, 1060.0, ""), 60.0, id="unnamed-boot"),
    ],
)
def test_instants_move_by_the_step_of_the_clock(now: Stamp, moved: float) -> None:
    # Where the system does not name boots, nothing is known of the time between two.
    saved = SAVED if now.boot_id else replace(SAVED, boot_id="")
    assert seconds_to_move(saved, now) == moved


@given(st.floats(0, 1e6), st.floats(0, 1e9), st.floats(-1e9, 1e9), st.sampled_from(("a", "b", "")))
def test_no_instant_gets_too_old_or_lies_in_the_future(
    saved_ago: float, passed: float, step: float, boot_id: str
) -> None:
    now = Stamp(T0 + passed + step, 1000.0 + passed, boot_id)
    age = now.wall - (T0 - saved_ago + seconds_to_move(SAVED, now))
    assert -1.0 <= age <= saved_ago + passed + 1.0


@pytest.mark.parametrize(
    ("passed", "step", "boot_id", "absent"),
    [
        pytest.param(HOUR, 0.0, "this boot", HOUR, id="time-passed"),
        pytest.param(0.0, -HOUR, "this boot", 0.0, id="clock-set"),
        pytest.param(0.0, -HOUR, "another boot", math.inf, id="rebooted"),
    ],
)
def test_histories_move_with_a_clock_that_is_set_and_not_with_time_that_passes(
    tmp_path: Path, passed: float, step: float, boot_id: str, absent: float
) -> None:
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.keep([(f"t{number}", nth(number), decided_at(number)) for number in range(20)])
    time.pass_(passed)
    time.wall += step
    time.boot_id = boot_id
    moved = {f"t{number}": shifted(nth(number), step) for number in range(20)}
    with running(tmp_path, time=time) as (_, resumption):
        assert resumption.histories == moved
        assert (resumption.moved, resumption.absent) == (step, absent)
        assert resumption.now == Stamp(T0 + passed + step, 1000.0 + passed, boot_id)
    assert kept_in(tmp_path, time) == moved
    assert decided_in(tmp_path)["t5"] == decided_at(5) + step


@pytest.mark.parametrize("at_once", [False, True], ids=["one-by-one", "at-once"])
def test_a_shift_reaches_what_was_handed_in_before_it(tmp_path: Path, *, at_once: bool) -> None:
    time = Time()
    with running(tmp_path, time=time) as (store, _), ExitStack() as waiting:

        def next_one() -> None:
            """Let what was handed in be written first, or let it wait for the next."""
            if at_once:
                store.intend("first", nth(1))
            else:
                store.intend("first", nth(1)).result(LONG)

        store.intend("first", nth(1)).result(LONG)
        if at_once:
            waiting.enter_context(stalled(tmp_path))
        next_one()
        store.keep([("before", nth(3), decided_at(3)), ("between", nth(3), decided_at(3))])
        next_one()
        time.wall += HOUR
        store.shift(HOUR)
        store.keep([("between", nth(4), decided_at(4)), ("after", nth(3), decided_at(3))])
        next_one()
        time.wall += 60.0
        store.shift(60.0)
        store.intend("after", nth(5))
        store.drop(["first"])
    assert kept_in(tmp_path, time) == {
        "before": shifted(shifted(nth(3), HOUR), 60.0),
        "between": shifted(nth(4), 60.0),
        "after": nth(5),
    }
    decided = decided_in(tmp_path)
    assert decided["before"] == decided_at(3) + HOUR + 60.0
    assert decided["after"] == decided_at(3) + 60.0


def test_an_unnoticed_step_of_the_clock_is_noticed_at_the_next_start(tmp_path: Path) -> None:
    """A process that ends before it notices has kept everything by the clock that it knew.

    One that ends at once has moved nothing yet: what it read stays as it was, with its clock.
    """
    time, moved = Time(), {"web": shifted(nth(3), HOUR)}
    with running(tmp_path, time=time) as (store, _):
        time.wall += HOUR
        store.keep([("web", nth(3), decided_at(3))])
    before = (tmp_path / "autoscaler.db").read_bytes()
    with running(tmp_path, time=time) as (_, resumption):
        assert (resumption.moved, resumption.histories) == (HOUR, moved)
        assert (tmp_path / "autoscaler.db").read_bytes() == before
    assert kept_in(tmp_path, time) == moved


def test_the_clocks_are_those_of_the_system(tmp_path: Path) -> None:
    time = Time(clock.wall(), clock.steady(), this_boot())
    with running(tmp_path, time=time) as (store, _):
        store.keep([("web", shifted(nth(3), time.wall - T0), time.wall)])
    assert kept_in(tmp_path, time) != {}


PERIOD = 15.0
HUNG, WELL, NEW = (external("shop", name) for name in ("hung", "well", "new"))
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
    config: Any = SimpleNamespace(
        state_directory=directory, targets=(HUNG, WELL, NEW), first_cluster=""
    )
    nobody: Any = SimpleNamespace(state=lambda *_: None, resumed=lambda _: None)
    with ExitStack() as stack:
        yield state_directory.open_memory(config, nobody, nobody, stack)


def keep_both(store: SqliteHistoryStore, time: Time, seconds: float) -> None:
    """Decide about both targets, about the second one so much later."""
    store.keep([(HUNG.key, nth(1), time.wall)])
    time.pass_(seconds)
    store.keep([(WELL.key, nth(3), time.wall)])


@pytest.mark.parametrize(("periods", "unobserved"), [(1, False), (2, False), (3, True), (99, True)])
def test_a_target_without_decisions_for_3_periods_is_unobserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, periods: int, *, unobserved: bool
) -> None:
    """What its metrics asked for meanwhile is not known, so that it does not go down at once."""
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        keep_both(store, time, periods * PERIOD)
    time.pass_(RESTART)
    with restarted(tmp_path, time, monkeypatch) as opened:
        known = opened.known
    assert HUNG.sync_period == WELL.sync_period == PERIOD
    assert {key: history.unobserved for key, history in known.items()} == {
        HUNG.key: unobserved,
        WELL.key: False,
    }


def test_last_decisions_are_dated_by_the_steady_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        store.intend("shop/Deployment/new", nth(2)).result(LONG)
        decided = time.steady
        keep_both(store, time, PERIOD)
    time.pass_(RESTART)
    with restarted(tmp_path, time, monkeypatch) as opened:
        assert opened.decided == {HUNG.key: decided, WELL.key: decided + PERIOD}
    time.boot_id = "another boot"
    with restarted(tmp_path, time, monkeypatch) as opened:
        assert opened.decided == {}


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_decisions_are_stored_by_the_clock_that_was_set_during_their_sync(
    tmp_path: Path, step: float
) -> None:
    """A sync keeps the clock that it began with; its decisions are stored by the new one."""
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
    time = Time()
    with running(tmp_path, time=time) as (store, _):
        keep_both(store, time, 0.0)
    time.boot_id = "another boot"
    for _ in range(2):
        time.pass_(RESTART)
        with restarted(tmp_path, time, monkeypatch) as opened:
            assert opened.known[HUNG.key].unobserved
            history_store: Any = opened.history_store
            history_store.keep([(WELL.key, nth(3), time.wall)])
