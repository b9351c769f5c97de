"""Ticks: at once, none overlapping, a late one said, an error survived, a stop that waits.

And a swap: between two syncs, without a turn lost.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import CapturingLogger

from autoscaler import clock
from autoscaler.daemon import schedule as schedule_module
from autoscaler.daemon.schedule import Cadence, HangingSyncError, SyncSchedule, Tick, bring_forward
from autoscaler.telemetry.metrics import TickObserver
from tests.worlds.waiting import wait_until

PERIOD = 0.2


def run(tick: Callable[[], None], until: Callable[[CapturingLogger], bool]) -> CapturingLogger:
    """Run ticks until the condition holds, then stop; return what was logged."""
    log = CapturingLogger()
    with SyncSchedule(threading.Event(), log, TickObserver()) as schedule:
        schedule.swap([Tick(lambda _due: tick(), PERIOD)])
        wait_until("the condition of the test", lambda: until(log), timeout=20)
    return log


def test_the_first_tick_comes_at_once_and_others_follow() -> None:
    """Three ticks happen without anybody waiting a period for the first."""
    ticks: list[int] = []
    log = run(lambda: ticks.append(1), lambda _log: len(ticks) >= 3)
    # A machine that pauses makes a tick late, and that is said.
    assert {call.args for call in log.calls} <= {("sync_late",)}


def test_a_tick_never_overlaps_itself_and_a_late_loop_says_so() -> None:
    """While a tick lasts several periods no other begins, and each one left out is a warning."""
    running = threading.Lock()
    release = threading.Event()
    overlaps: list[int] = []

    def tick() -> None:
        if not running.acquire(blocking=False):
            overlaps.append(1)
            return
        release.wait(20)
        running.release()

    def late(log: CapturingLogger) -> bool:
        if len(log.calls) >= 2:
            release.set()
        return release.is_set()

    log = run(tick, late)
    assert overlaps == []
    assert {call.method_name for call in log.calls} == {"warning"}
    assert log.calls[0].args == ("sync_late",)
    assert [call.kwargs["late_since_start"] for call in log.calls[:2]] == [1, 2]


def test_a_tick_that_was_late_still_runs() -> None:
    """After a tick of several periods the next one comes: lateness never skips it for good."""
    ticks: list[int] = []
    pause = threading.Event()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            pause.wait(4 * PERIOD)

    run(tick, lambda _log: len(ticks) >= 3)


def test_an_error_in_a_tick_is_logged_and_the_next_tick_comes() -> None:
    """A defect does not end the daemon: it is an error line with the exception."""
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            raise ValueError("a defect")

    log = run(tick, lambda _log: len(ticks) >= 2)
    assert log.calls[0].method_name == "error"
    assert isinstance(log.calls[0].kwargs["exc_info"], ValueError)


def test_stopping_waits_for_the_tick_in_hand() -> None:
    """Leaving the schedule returns only after the running tick has ended."""
    begun, ended, stop = threading.Event(), threading.Event(), threading.Event()

    def tick() -> None:
        begun.set()
        stop.wait(20)
        ended.set()

    with SyncSchedule(stop, CapturingLogger(), TickObserver()) as schedule:
        schedule.swap([Tick(lambda _due: tick(), 60.0)])
        assert begun.wait(20)
    assert ended.is_set()


def test_lateness_is_told() -> None:
    """Each tick that begins is told with its lag, and each that is left out as such."""
    told: list[tuple[str, float]] = []

    class Listener(TickObserver):
        def began(self, period: float, lag: float) -> None:
            told.append(("began", period))
            assert 0 <= lag < 20

        def left_out(self, period: float) -> None:
            told.append(("left out", period))

    slow = Slow()
    with SyncSchedule(threading.Event(), CapturingLogger(), Listener()) as schedule:
        schedule.swap([Tick(slow, PERIOD)])
        wait_until("a tick that is left out", lambda: ("left out", PERIOD) in told, timeout=20)
        slow.release.set()
    assert told[0] == ("began", PERIOD)


class Slow:
    """A call that lasts until it is released."""

    def __init__(self, ended: Callable[[], object] = lambda: None) -> None:
        self.begun, self.release = threading.Event(), threading.Event()
        self._ended = ended

    def __call__(self, _due: float) -> None:
        """Last."""
        self.begun.set()
        self.release.wait(20)
        self._ended()

    def begins(self) -> None:
        """Wait until it has begun."""
        assert self.begun.wait(20)

    def release_later(self) -> None:
        """Let it end after some periods."""
        threading.Timer(2 * PERIOD, self.release.set).start()


class Swapped:
    """A schedule on which ticks were running before; what ran is noted by name."""

    def __init__(self, stack: ExitStack) -> None:
        self.ran: list[str] = []
        self.schedule = stack.enter_context(
            SyncSchedule(threading.Event(), CapturingLogger(), TickObserver())
        )

    def tick(self, name: str, period: float = 60.0) -> Tick:
        """Return a tick that notes its name."""
        return Tick(lambda _due: self.ran.append(name), period)

    def wait_for(self, names: Sequence[str]) -> None:
        """Wait until exactly these have run."""
        wait_until(f"{names} to have run", lambda: self.ran == list(names), timeout=20)


def test_a_swap_waits_for_the_tick_in_hand_and_nothing_runs_meanwhile() -> None:
    """The change happens between two syncs, never within one."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        order: list[str] = []
        slow = Slow(lambda: order.append("tick ended"))
        swapped.schedule.swap([Tick(slow, PERIOD)])
        slow.begins()
        slow.release_later()
        swapped.schedule.swap([swapped.tick("new")], lambda: order.append("changed"))
        assert order == ["tick ended", "changed"]
        swapped.wait_for(["new"])


@pytest.mark.parametrize(
    ("others", "part"),
    [({"a": 1}, 1), ({"a": 1, "b": 1}, 1), ({"a": 2}, 0), ({"b": 1}, 0), ({}, 0)],
)
def test_a_tick_goes_on_whose_targets_are_all_unchanged(others: dict[str, int], part: int) -> None:
    """Another one in its place may have more."""
    tick = Tick(print, PERIOD, targets={"a": 1})
    assert tick.is_part_of(Tick(print, PERIOD, targets=others)) == part
    assert not tick.is_part_of(None)


def test_a_swap_of_some_targets_waits_for_no_other_sync() -> None:
    """A sync that hangs delays only a change of what it syncs; its own turn comes afterwards."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        slow = Slow(lambda: swapped.ran.append("slow"))
        stack.callback(slow.release.set)
        hangs = Tick(slow, 60.0, targets={"a": 1})
        swapped.schedule.swap([hangs, replace(swapped.tick("old", 61.0), targets={"b": 1})])
        slow.begins()
        swapped.wait_for(["old"])
        changed = replace(swapped.tick("new", 62.0), targets={"b": 2})
        stays = replace(swapped.tick("slow again"), targets={"a": 1, "c": 1})
        swapped.schedule.swap([stays, changed], at_once=False)
        swapped.wait_for(["old", "new"])
        slow.release.set()
        swapped.wait_for(["old", "new", "slow"])
        swapped.schedule.run_now()
        wait_until("both", lambda: set(swapped.ran[3:]) == {"slow again", "new"}, timeout=20)


def test_a_swap_waits_for_the_sync_of_a_target_that_moves() -> None:
    """No target is ever synced twice at a time."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        slow = Slow(lambda: swapped.ran.append("slow"))
        swapped.schedule.swap([Tick(slow, 60.0, targets={"a": 1, "b": 1})])
        slow.begins()
        slow.release_later()
        left = replace(swapped.tick("left"), targets={"a": 1})
        moved = replace(swapped.tick("moved", 61.0), targets={"b": 1})
        swapped.schedule.swap([left, moved], at_once=False)
        swapped.wait_for(["slow", "moved"])


def test_a_slot_that_stays_keeps_its_turn_and_a_new_one_is_due_at_once() -> None:
    """A reload does not sync everything at once again."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        swapped.schedule.swap([swapped.tick("old")])
        swapped.wait_for(["old"])
        swapped.schedule.swap([swapped.tick("stays"), swapped.tick("new", period=61.0)])
        swapped.wait_for(["old", "new"])


def test_a_swap_that_fails_leaves_the_present_ticks() -> None:
    """Nothing half-done stays behind when the change itself raises."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        swapped.schedule.swap([swapped.tick("old", PERIOD)])
        wait_until("the old tick", lambda: swapped.ran, timeout=20)

        def fail() -> None:
            raise RuntimeError("the change is a defect")

        with pytest.raises(RuntimeError):
            swapped.schedule.swap([swapped.tick("new")], fail)
        before = len(swapped.ran)
        wait_until("the old tick again", lambda: len(swapped.ran) > before, timeout=20)
        assert set(swapped.ran) == {"old"}


def test_a_sync_that_hangs_lets_no_swap_take_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The present ticks go on as if none had been asked for."""
    hangs_after = 3.0
    monkeypatch.setattr(schedule_module, "HANGS_AFTER_SECONDS", hangs_after)
    with ExitStack() as stack:
        swapped = Swapped(stack)
        slow = Slow(lambda: swapped.ran.append("old"))
        swapped.schedule.swap([Tick(slow, PERIOD)])
        slow.begins()
        with pytest.raises(HangingSyncError):
            swapped.schedule.swap([swapped.tick("new")])
        tried = clock.monotonic()
        with pytest.raises(HangingSyncError):
            swapped.schedule.swap([swapped.tick("new")])
        assert clock.monotonic() - tried < hangs_after, "a second try holds nothing up"
        slow.release.set()
        wait_until("the old tick again", lambda: len(swapped.ran) >= 2, timeout=20)
        assert set(swapped.ran) == {"old"}


def test_a_turn_that_comes_during_a_swap_is_not_lost() -> None:
    """Handed over before the swap, it is the new tick's: its next one may be an hour away."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        old = swapped.tick("old")
        swapped.schedule.swap([old])
        swapped.wait_for(["old"])
        swapped.schedule._held_up = {old.name}
        turn = threading.Thread(target=swapped.schedule._run, args=(old.name,))
        turn.start()
        swapped.schedule.swap([swapped.tick("new")])
        turn.join(20)
        assert swapped.ran == ["old", "new"]


def test_a_new_leader_syncs_everything_at_once() -> None:
    """Hastened, a tick of a long period comes now, and later in its turn."""
    with ExitStack() as stack:
        swapped = Swapped(stack)
        swapped.schedule.swap([swapped.tick("slow")])
        swapped.wait_for(["slow"])
        swapped.schedule.run_now()
        swapped.wait_for(["slow", "slow"])


def test_a_new_leader_syncs_what_is_in_hand_again() -> None:
    """A sync that began before is followed by another at once, not by the one of its next turn."""
    with ExitStack() as stack:
        log = CapturingLogger()
        schedule = stack.enter_context(SyncSchedule(threading.Event(), log, TickObserver()))
        begun, release = threading.Semaphore(0), threading.Event()
        stack.callback(release.set)

        def tick() -> None:
            begun.release()
            release.wait(20)

        schedule.swap([Tick(lambda _due: tick(), 3600.0)])
        assert begun.acquire(timeout=20)
        schedule.run_now()
        schedule.poll()
        assert not begun.acquire(timeout=PERIOD), "a tick never overlaps itself"
        release.set()
        wait_until("the sync has ended", lambda: not schedule._running)
        schedule.poll()
        assert begun.acquire(timeout=20)
        schedule.poll()
        assert not begun.acquire(timeout=PERIOD), "once is enough"
        assert log.calls == [], "nothing is late"


@given(st.floats(0, 1e6), st.integers(1, 3600), st.floats(0, 0.99))
def test_every_beginning_leads_onto_the_grid(age: float, period: int, part: float) -> None:
    """Whenever a slot begins, its second turn is half to one and a half periods on, on the grid."""
    origin = datetime(2026, 1, 1, tzinfo=UTC)
    now, step = origin + timedelta(seconds=age), timedelta(seconds=period)
    cadence = Cadence(now, origin, float(period), period * part)
    first = cadence.get_next_fire_time(None, now)
    second = cadence.get_next_fire_time(first, first)
    assert first == now
    assert step / 2 <= second - first < step * 3 / 2
    assert (second - origin - timedelta(seconds=period * part)) % step == timedelta(0)


def test_a_tick_is_told_when_it_was_due() -> None:
    """However late it begins, the instants lie whole periods apart; one out of turn is due now."""
    with ExitStack() as stack:
        due: list[float] = []
        schedule = stack.enter_context(
            SyncSchedule(threading.Event(), CapturingLogger(), TickObserver())
        )
        schedule.swap([Tick(due.append, PERIOD)])
        wait_until("five ticks", lambda: len(due) >= 5, timeout=20)
        for earlier, later in pairwise(due[1:5]):
            periods = (later - earlier) / PERIOD
            assert periods >= 1 - 1e-5
            assert abs(periods - round(periods)) < 1e-5
        assert all(at <= clock.wall() for at in due)
        schedule.swap([Tick(due.append, 3600.0)])
        wait_until("the first tick", lambda: due[-1] > due[-2] + PERIOD / 2, timeout=20)
        before = clock.wall()
        schedule.run_now()
        wait_until("the tick out of turn", lambda: due[-1] >= before - 1e-3, timeout=20)


def test_the_grid_moves_with_a_clock_that_is_set() -> None:
    """By the very seconds by which the histories move, so that ages stay whole periods."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    cadence = Cadence(start, start, 15.0, 4.0)
    before = cadence.get_next_fire_time(start, start)
    cadence.shift(3600.004)
    after = cadence.get_next_fire_time(before, before + timedelta(hours=1))
    assert (after - before - timedelta(seconds=3600.004)) % timedelta(seconds=15) == timedelta(0)
    assert cadence.due == before


def test_a_clock_that_only_runs_was_not_set() -> None:
    """Less than a second off is drift, not a step."""
    steps = clock.Steps(1000.0, 10.0)
    assert [steps.total(1015.0, 25.0), steps.total(1030.9, 40.0)] == [0.0, 0.0]


@given(st.floats(-1e6, 1e6).filter(lambda step: abs(step) > 1.001))
def test_a_step_counts_once(step: float) -> None:
    """Whatever its size and direction, the next look sees no other."""
    steps = clock.Steps(1e9, 10.0)
    total = steps.total(1e9 + 5 + step, 15.0)
    assert abs(total - step) < 1e-3
    assert steps.total(1e9 + 10 + step, 20.0) == total


def test_what_is_due_moves_with_the_clock() -> None:
    """After the clock went back an hour no job waits an hour longer."""
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
def test_a_clock_set_ahead_leads_back_into_the_period(
    period: int, part: float, ahead: float
) -> None:
    """Whatever was missed is skipped: what is due lies less than a period back, on the grid."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    cadence = Cadence(start, start, float(period), period * part)
    previous = cadence.get_next_fire_time(start, start)
    now = previous + timedelta(seconds=ahead)
    due = cadence.get_next_fire_time(previous, now)
    step = timedelta(seconds=period)
    assert due - previous >= step
    assert now - due < step
    assert (due - previous) % step == timedelta(0)
