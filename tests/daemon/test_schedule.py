"""Ticks: at once, none overlapping, late ones logged, an error survived, a stop that waits.

And a swap: between two syncs, without a turn lost.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from autoscaler import clock
from autoscaler.core.target import Target
from autoscaler.daemon import schedule as schedule_module
from autoscaler.daemon.schedule import Cadence, HangingSyncError, SyncSchedule, bring_forward
from autoscaler.sync.slots import Slot
from autoscaler.telemetry.metrics import Instruments
from tests.worlds.memory import external
from tests.worlds.waiting import wait_until

PERIOD = 0.2


@contextmanager
def schedules(stop: threading.Event | None = None) -> Iterator[tuple[SyncSchedule, Instruments]]:
    """Run a schedule, and give with it what counts its ticks."""
    instruments = Instruments()
    with SyncSchedule(stop or threading.Event(), instruments, sync) as schedule:
        yield schedule, instruments


@dataclass(frozen=True)
class Tick(Slot):
    """A slot with what its syncs call: ``part`` for those out of turn, with the targets' names."""

    call: Callable[[float], object] = print
    part: Callable[[str, float], object] = print


def tick_of(
    call: Callable[[float], object],
    period: float,
    targets: Mapping[str, int] = MappingProxyType({}),
    part: Callable[[str, float], object] = print,
) -> Tick:
    """Return one with targets of these names, each changed by another number."""
    made = (external("shop", name, promql=str(number)) for name, number in targets.items())
    return Tick(period, 0.0, tuple(made), call, part)


def sync(slot: Slot, targets: Sequence[Target], seconds: float, due: float | None) -> None:
    """Call what a tick has."""
    assert isinstance(slot, Tick)
    if due is None:
        slot.part("".join(target.spec.scale_target_ref.name for target in targets), seconds)
    else:
        slot.call(due)


class Slow:
    """A call that lasts until it is released; calls that overlap are counted."""

    def __init__(self, ended: Callable[[], object] = lambda: None) -> None:
        self.begun, self.release = threading.Event(), threading.Event()
        self.overlaps = 0
        self._running = threading.Lock()
        self._ended = ended

    def __call__(self, _due: float) -> None:
        if not self._running.acquire(blocking=False):
            self.overlaps += 1
            return
        self.begun.set()
        self.release.wait(20)
        self._running.release()
        self._ended()

    def begins(self) -> None:
        assert self.begun.wait(20)

    def release_later(self) -> None:
        """Let it end after some periods."""
        threading.Timer(2 * PERIOD, self.release.set).start()


def test_a_tick_never_overlaps_itself_and_skipped_ticks_are_logged_and_counted() -> None:
    slow = Slow()
    with capture_logs() as lines, schedules() as (schedule, instruments):
        schedule.swap([tick_of(slow, PERIOD)])
        wait_until("two skipped ticks", lambda: len(lines) >= 2, timeout=20)
        slow.release.set()
    assert slow.overlaps == 0
    assert {(line["event"], line["log_level"]) for line in lines} == {("sync_late", "warning")}
    assert [line["late_since_start"] for line in lines[:2]] == [1, 2]
    value = instruments.registry.get_sample_value
    assert value("autoscaler_syncs_skipped_total") == len(lines)
    assert (value("autoscaler_sync_lag_seconds_count") or 0) >= 1
    assert 0 <= (value("autoscaler_sync_lag_seconds_sum") or 0) < 20


def test_an_error_in_a_tick_is_logged_and_the_next_ticks_are_due_on_the_grid() -> None:
    due: list[float] = []

    def tick(instant: float) -> None:
        due.append(instant)
        if len(due) == 1:
            raise ValueError("a defect")

    with capture_logs() as lines, schedules() as (schedule, instruments):
        schedule.swap([tick_of(tick, PERIOD)])
        wait_until("five ticks", lambda: len(due) >= 5, timeout=20)
        for earlier, later in pairwise(due[1:5]):
            periods = (later - earlier) / PERIOD
            assert periods >= 1 - 1e-5
            assert abs(periods - round(periods)) < 1e-5
        assert all(instant <= clock.wall() for instant in due)
    assert lines[0]["log_level"] == "error"
    assert isinstance(lines[0]["exc_info"], ValueError)
    assert instruments.registry.get_sample_value("autoscaler_syncs_failed_total") == 1


def test_stopping_waits_for_the_running_tick() -> None:
    ended, stop = threading.Event(), threading.Event()
    slow = Slow(ended.set)
    slow.release = stop
    with schedules(stop) as (schedule, _):
        schedule.swap([tick_of(slow, 60.0)])
        slow.begins()
    assert ended.is_set()


class Swapped:
    """A schedule on which ticks were running before; what ran is noted by name."""

    def __init__(self, schedule: SyncSchedule) -> None:
        self.schedule, self.swap = schedule, schedule.swap
        self.ran: list[str] = []

    def tick(self, name: str, period: float = 60.0, **targets: int) -> Tick:
        """Return a tick that notes its name, and of a part the targets."""

        def part(names: str, _seconds: float) -> None:
            self.ran.append(f"{name}: {names}")

        return tick_of(lambda _due: self.ran.append(name), period, targets, part)

    def slow(self, name: str, *others: Tick, period: float = 60.0, **targets: int) -> Slow:
        """Start a tick, next to others, that notes its name once it is released."""
        slow = Slow(lambda: self.ran.append(name))
        self.swap([tick_of(slow, period, targets), *others])
        slow.begins()
        return slow

    def wait_for(self, *names: str) -> None:
        """Wait until exactly these have run."""
        wait_until(f"{names} to have run", lambda: self.ran == list(names), timeout=20)


@pytest.fixture
def swapped() -> Iterator[Swapped]:
    """Run a schedule that is to be swapped."""
    with schedules() as (schedule, _):
        yield Swapped(schedule)


def test_a_swap_waits_for_the_running_tick_and_nothing_runs_meanwhile(swapped: Swapped) -> None:
    swapped.slow("tick ended", period=PERIOD).release_later()
    swapped.swap([swapped.tick("new")], lambda: swapped.ran.append("changed"))
    swapped.wait_for("tick ended", "changed", "new")


@pytest.mark.parametrize(
    ("others", "part"),
    [({"a": 1}, 1), ({"a": 1, "b": 1}, 1), ({"a": 2}, 0), ({"b": 1}, 0), ({}, 0)],
)
def test_a_tick_continues_if_all_of_its_targets_are_unchanged(
    others: dict[str, int], part: int
) -> None:
    """Another one in its place may have more."""
    tick = tick_of(print, PERIOD, {"a": 1})
    assert tick.is_part_of(tick_of(print, PERIOD, others)) == part
    assert not tick.is_part_of(None)


def test_a_swap_of_some_targets_does_not_wait_for_other_syncs(swapped: Swapped) -> None:
    slow = swapped.slow("slow", swapped.tick("old", 61.0, b=1), a=1)
    swapped.wait_for("old")
    changed, stays = swapped.tick("new", 62.0, b=2), swapped.tick("slow again", a=1, c=1)
    swapped.swap([stays, changed], at_once=False)
    swapped.wait_for("old", "new")
    slow.release.set()
    swapped.wait_for("old", "new", "slow")
    swapped.schedule.run_part(lambda _: True)
    parts = {"slow again: ac", "new: b"}
    wait_until("both", lambda: set(swapped.ran[3:]) == parts, timeout=20)


def test_a_swap_waits_for_the_sync_of_a_target_that_moves(swapped: Swapped) -> None:
    swapped.slow("slow", a=1, b=1).release_later()
    swapped.swap([swapped.tick("left", a=1), swapped.tick("moved", 61.0, b=1)], at_once=False)
    swapped.wait_for("slow", "moved")


def test_a_slot_keeps_its_turn_and_a_new_one_is_due_at_once(swapped: Swapped) -> None:
    swapped.swap([swapped.tick("old")])
    swapped.wait_for("old")
    swapped.swap([swapped.tick("stays"), swapped.tick("new", period=61.0)])
    swapped.wait_for("old", "new")


def test_a_swap_that_fails_leaves_the_present_ticks(swapped: Swapped) -> None:
    swapped.swap([swapped.tick("old", PERIOD)])
    wait_until("the old tick", lambda: swapped.ran, timeout=20)

    def fail() -> None:
        raise RuntimeError("the change is a defect")

    with pytest.raises(RuntimeError):
        swapped.swap([swapped.tick("new")], fail)
    before = len(swapped.ran)
    wait_until("another old tick", lambda: len(swapped.ran) > before, timeout=20)
    assert set(swapped.ran) == {"old"}


def test_a_sync_that_hangs_lets_no_swap_take_place(
    swapped: Swapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs_after = 3.0
    monkeypatch.setattr(schedule_module, "HANGS_AFTER_SECONDS", hangs_after)
    slow = swapped.slow("old", period=PERIOD)
    with pytest.raises(HangingSyncError):
        swapped.swap([swapped.tick("new")])
    tried = clock.monotonic()
    with pytest.raises(HangingSyncError):
        swapped.swap([swapped.tick("new")])
    assert clock.monotonic() - tried < hangs_after, "a second try holds nothing up"
    slow.release.set()
    wait_until("another old tick", lambda: len(swapped.ran) >= 2, timeout=20)
    assert set(swapped.ran) == {"old"}


def test_a_turn_that_comes_during_a_swap_is_not_lost(swapped: Swapped) -> None:
    """Handed over before the swap, it is the new tick's: its next one may be an hour away."""
    old = swapped.tick("old")
    swapped.swap([old])
    swapped.wait_for("old")
    swapped.schedule._held_up = {old.name}
    turn = threading.Thread(target=swapped.schedule._run, args=(old.name,))
    turn.start()
    swapped.swap([swapped.tick("new")])
    turn.join(20)
    assert swapped.ran == ["old", "new"]


def test_a_new_leader_syncs_its_targets_once_and_moves_no_due_time(swapped: Swapped) -> None:
    swapped.swap([swapped.tick("both", a=1, b=1), swapped.tick("other", 61.0, c=1)])
    wait_until("the first turns", lambda: len(swapped.ran) == 2, timeout=20)
    jobs = swapped.schedule._scheduler.get_jobs
    before = {job.id: job.next_run_time for job in jobs()}
    swapped.schedule.run_part(lambda key: key.endswith("/a"))
    wait_until("the part", lambda: len(swapped.ran) == 3, timeout=20)
    assert swapped.ran[2] == "both: a"
    assert {job.id: job.next_run_time for job in jobs()} == before


def test_a_part_neither_overlaps_nor_delays_its_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, parts = Slow(), list[float]()
    slow_part, next_turn = Slow(), Slow()

    def part(_names: str, seconds: float) -> None:
        parts.append(seconds)
        slow_part(0.0)

    with schedules() as (schedule, _):
        tick = tick_of(slow, 3600.0, {"a": 1}, part)
        schedule.swap([tick])
        slow.begins()
        schedule.run_part(lambda key: key.endswith("/a"))
        assert not slow_part.begun.wait(PERIOD)
        slow.release.set()
        slow_part.begins()
        assert 1000 < parts[0] < 5400
        next_turn.release.set()
        schedule._slots = {tick.name: replace(tick, call=next_turn)}
        schedule._scheduler.modify_job(tick.name, next_run_time=datetime.now(UTC))
        assert not next_turn.begun.wait(PERIOD)
        slow_part.release.set()
        next_turn.begins()
        wait_until("its end", lambda: not schedule._running)
        monkeypatch.setattr(schedule, "_next_due", lambda _: clock.wall())
        schedule._run_part(tick.name, lambda key: key.endswith("/a"))
        assert len(parts) == 1


@given(st.floats(0, 1e6), st.integers(1, 3600), st.floats(0, 0.99))
def test_the_second_turn_of_a_slot_is_on_the_grid(age: float, period: int, part: float) -> None:
    origin = datetime(2026, 1, 1, tzinfo=UTC)
    now, step = origin + timedelta(seconds=age), timedelta(seconds=period)
    cadence = Cadence(now, origin, float(period), period * part)
    first = cadence.get_next_fire_time(None, now)
    second = cadence.get_next_fire_time(first, first)
    assert first == now
    assert step / 2 <= second - first < step * 3 / 2
    assert (second - origin - timedelta(seconds=period * part)) % step == timedelta(0)


def test_the_grid_moves_with_a_clock_that_is_set() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    cadence = Cadence(start, start, 15.0, 4.0)
    before = cadence.get_next_fire_time(start, start)
    cadence.shift(3600.004)
    after = cadence.get_next_fire_time(before, before + timedelta(hours=1))
    assert (after - before - timedelta(seconds=3600.004)) % timedelta(seconds=15) == timedelta(0)
    assert cadence.due == before


@given(st.floats(-1e6, 1e6).filter(lambda step: not 0.999 < abs(step) < 1.001))
@example(0.9)
def test_a_step_of_the_clock_counts_once_and_drift_does_not(step: float) -> None:
    steps = clock.Steps(1e9, 10.0)
    total = steps.total(1e9 + 5 + step, 15.0)
    assert total == pytest.approx(step if abs(step) > 1 else 0.0, abs=1e-3)
    assert steps.total(1e9 + 10 + (step if abs(step) > 1 else 0.0), 20.0) == total


def test_due_times_move_with_a_clock_that_is_set_back() -> None:
    scheduler = BackgroundScheduler(timezone=UTC)
    due = datetime(2026, 1, 1, tzinfo=UTC)
    scheduler.start(paused=True)
    scheduler.add_job(print, "interval", seconds=15, next_run_time=due, id="0")
    bring_forward(scheduler, -3600.0)
    assert scheduler.get_job("0").next_run_time == due - timedelta(hours=1)
    for ahead in (0.0, 3600.0):
        bring_forward(scheduler, ahead)
        assert scheduler.get_job("0").next_run_time == due - timedelta(hours=1)
    scheduler.shutdown()


@given(st.integers(1, 3600), st.floats(0, 0.99), st.floats(0, 1e9))
def test_turns_that_a_clock_set_ahead_passed_are_skipped(
    period: int, part: float, ahead: float
) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    cadence = Cadence(start, start, float(period), period * part)
    previous = cadence.get_next_fire_time(start, start)
    now = previous + timedelta(seconds=ahead)
    due = cadence.get_next_fire_time(previous, now)
    step = timedelta(seconds=period)
    assert due - previous >= step
    assert now - due < step
    assert (due - previous) % step == timedelta(0)
