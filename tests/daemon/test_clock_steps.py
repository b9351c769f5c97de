"""A clock that is set while the daemon runs."""

from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from autoscaler import clock
from autoscaler.daemon.reporting import LogReporter
from autoscaler.daemon.schedule import Cadence, bring_forward

CLOCK_SET = "clock_set"
"""The event of a step."""


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


def test_a_step_is_a_warning_in_the_log() -> None:
    """With its seconds."""
    with capture_logs() as lines:
        LogReporter(structlog.get_logger()).clock_set(-3600.0)
    (line,) = lines
    assert (line["event"], line["log_level"], line["seconds"]) == (CLOCK_SET, "warning", -3600.0)


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
