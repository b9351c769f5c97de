"""Ticks: one sync after another, none lost, none overlapping itself."""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from structlog.typing import FilteringBoundLogger

from autoscaler import clock

_CLOCK_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A call that is due at once, and then every ``period`` seconds.

    The later calls come ``offset`` seconds into each period, so that ticks of one period can
    be spread over it; between the first two lie half a period to one and a half.
    """

    call: Callable[[], None]
    period: float
    offset: float = 0.0


class Cadence(BaseTrigger):  # type: ignore[misc] # the library is untyped
    """At once, then at the offset, then periodically."""

    def __init__(self, start: datetime, period: float, offset: float) -> None:
        self._start = start
        self._period = timedelta(seconds=period)
        late = offset if offset >= period / 2 else offset + period
        self._second = start + timedelta(seconds=late)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return when the tick is due after the ``previous`` time.

        Periods that have passed whole, as when the clock was set ahead, are skipped.
        """
        if previous is None:
            return self._start
        due = self._second if previous == self._start else previous + self._period
        return due + max(0, (now - due) // self._period) * self._period


def run_periodically(
    ticks: Sequence[Tick], stop: threading.Event, log: FilteringBoundLogger
) -> None:
    """Run every tick at once and then periodically, until ``stop`` is set.

    A tick that is due while the one before still runs is left out; the log says so and counts
    them.  An error in a tick is logged with its traceback, and the next tick comes as if nothing
    had happened.  Returns when the ticks in hand have ended.
    """
    if stop.is_set():
        return
    late = itertools.count(1)

    def listen(event: JobEvent) -> None:
        if event.code == EVENT_JOB_MAX_INSTANCES:
            log.warning(
                "sync_late",
                message="a sync was due while the one before was still running, and is left out",
                period_seconds=ticks[int(event.job_id)].period,
                late_since_start=next(late),
            )
        else:
            log.error("sync_failed", exc_info=event.exception)

    scheduler = BackgroundScheduler(
        timezone=UTC, executors={"default": ThreadPoolExecutor(max(1, len(ticks)))}
    )
    scheduler.add_listener(listen, EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES)
    start = datetime.fromtimestamp(clock.wall(), UTC)
    for number, tick in enumerate(ticks):
        scheduler.add_job(
            tick.call,
            Cadence(start, tick.period, tick.offset),
            id=str(number),
            # A late tick still runs: by default one that is a second late is silently skipped.
            misfire_grace_time=None,
            coalesce=True,
            max_instances=1,
        )
    scheduler.start()
    try:
        steps = clock.Steps(clock.wall(), clock.steady())
        while not stop.wait(_CLOCK_CHECK_SECONDS):
            follow_clock(scheduler, steps.take(clock.wall(), clock.steady()))
    finally:
        stop.set()
        scheduler.shutdown(wait=True)


def follow_clock(scheduler: BackgroundScheduler, seconds: float) -> None:
    """Bring forward all that is due, after the clock was set back: nothing waits for the old time.

    Set ahead, all is due at once, and the trigger finds its way back into the period.
    """
    if seconds < 0:
        for job in scheduler.get_jobs():
            job.modify(next_run_time=job.next_run_time + timedelta(seconds=seconds))
