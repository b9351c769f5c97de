"""Ticks: one sync after another, none lost, none overlapping itself."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.schedulers.background import BackgroundScheduler
from structlog.typing import FilteringBoundLogger

from autoscaler import clock


def run_periodically(
    tick: Callable[[], None], period: float, stop: threading.Event, log: FilteringBoundLogger
) -> None:
    """Call ``tick`` at once and then every ``period`` seconds, until ``stop`` is set.

    A tick that is due while the one before still runs is left out, and the log says so.  An
    error in a tick is logged with its traceback, and the next tick comes as if nothing had
    happened.  Returns when the tick in hand has ended.
    """

    def listen(event: JobEvent) -> None:
        if event.code == EVENT_JOB_MAX_INSTANCES:
            log.warning(
                "sync_late",
                message="a sync was due while the one before was still running, and is left out",
                period_seconds=period,
            )
        else:
            log.error("sync_failed", exc_info=event.exception)

    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_listener(listen, EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES)
    scheduler.add_job(
        tick,
        "interval",
        seconds=period,
        next_run_time=datetime.fromtimestamp(clock.wall(), UTC),
        # A late tick still runs: by default one that is a second late is silently skipped.
        misfire_grace_time=None,
        coalesce=True,
        max_instances=1,
    )
    scheduler.start()
    stop.wait()
    scheduler.shutdown(wait=True)
