"""Runs each slot's syncs periodically, never two at once; changes of targets wait for them."""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Self

import structlog
from apscheduler import events
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from autoscaler import clock
from autoscaler.core.target import Target
from autoscaler.sync.slots import Slot
from autoscaler.telemetry.metrics import Instruments

_MOST_SYNCS_AT_ONCE = 512
"""Threads are started when needed; with more slots than this a sync waits for a thread."""

HANGS_AFTER_SECONDS = 40.0
"""A swap does not wait for a sync that began longer ago; none takes more than 30 s."""

_STOP_CHECK_SECONDS = 0.2


_MOST_OF_PERIOD = 0.9
"""The part of its period that a sync may take; while it runs the next one is omitted."""

SyncCall = Callable[[Slot, Sequence[Target], float, float | None], None]
"""Syncs targets of a slot within a number of seconds; with the due time of the slot, if any."""


class Cadence(BaseTrigger):  # type: ignore[misc] # the library is untyped
    """A trigger: a first time, then ``offset`` seconds into each period since ``origin``."""

    def __init__(self, first: datetime, origin: datetime, period: float, offset: float) -> None:
        self.due = first
        """The last due time."""
        self._first = first
        self._grid = origin + timedelta(seconds=offset)
        self._period = timedelta(seconds=period)

    def shift(self, seconds: float) -> None:
        """Move the grid with a clock that was set."""
        self._grid += timedelta(seconds=seconds)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return the next due time after a time; whole periods that have passed are skipped."""
        if previous is None:
            return self._first
        self.due = previous
        periods = -((self._grid - previous - self._period / 2) // self._period)
        due = self._grid + periods * self._period
        return due + max(0, (now - due) // self._period) * self._period


class HangingSyncError(Exception):
    """A swap is impossible, since a sync does not end."""


class SyncSchedule:
    """Syncs slots, each at once and then periodically, also after a failed sync.

    The later syncs are `Slot.offset` seconds into each period; the first two are half a period to
    one and a half apart. A sync that is due while the previous one still runs is omitted, which is
    logged and counted.
    """

    def __init__(
        self,
        stop: threading.Event,
        instruments: Instruments,
        sync: SyncCall,
        steps: clock.Steps | None = None,
    ) -> None:
        self._stop = stop
        self._sync = sync
        self._log = structlog.get_logger()
        self._instruments = instruments
        self._late = itertools.count(1)
        self._slots: Mapping[str, Slot] = {}
        self._cadences: dict[str, Cadence] = {}
        self._state = threading.Condition()
        self._running: dict[str, float] = {}
        """By the name of a slot: when its running sync began."""
        self._held_up: AbstractSet[str] = frozenset()
        """Slots whose syncs do not begin before the current swap has ended."""
        self._origin = _now()
        self._steps = steps or clock.Steps(clock.wall(), clock.steady())
        self._moved = self._steps.total(clock.wall(), clock.steady())
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={"default": ThreadPoolExecutor(_MOST_SYNCS_AT_ONCE)}
        )
        self._scheduler.add_listener(
            self._listen,
            events.EVENT_JOB_ERROR | events.EVENT_JOB_MAX_INSTANCES | events.EVENT_JOB_SUBMITTED,
        )

    def __enter__(self) -> Self:
        self._scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Begin no other sync, and wait for running ones."""
        self._stop.set()
        self._scheduler.shutdown(wait=True)

    def swap(
        self,
        slots: Sequence[Slot],
        meanwhile: Callable[[], None] = lambda: None,
        *,
        at_once: bool = True,
        soon: AbstractSet[str] = frozenset(),
    ) -> None:
        """Replace the slots while no sync runs of a changed or removed target.

        Other slots continue; with ``at_once`` all slots are awaited. ``meanwhile`` is called
        when no sync
        of the awaited slots runs, and none of them begins until it has returned. A slot of the same
        period and offset as before keeps its due time, any other is due at once; in all of them the
        targets of ``soon`` are synced at once. The present slots
        stay if ``meanwhile`` raises, and with HangingSyncError if a sync does not end in time or
        ``stop`` is set; immediately if one has already run too long.
        """
        new = {slot.name: slot for slot in slots}
        try:
            with self._state:
                self._held_up = {
                    name
                    for name, slot in self._slots.items()
                    if at_once or not slot.is_part_of(new.get(name))
                }
                self._wait_for_syncs()
            meanwhile()
            kept = self._slots.keys() & new.keys()
            self._put(new)
            self._run_parts(kept if soon else (), soon.__contains__)
        finally:
            with self._state:
                self._held_up = frozenset()
                self._state.notify_all()

    def _wait_for_syncs(self) -> None:
        while begun := [self._running[name] for name in self._held_up & self._running.keys()]:
            if self._stop.is_set():
                raise HangingSyncError("the daemon stops")
            if clock.monotonic() > min(begun) + HANGS_AFTER_SECONDS:
                raise HangingSyncError("a running sync does not end")
            self._state.wait(_STOP_CHECK_SECONDS)

    def run_part(self, wanted: Callable[[str], bool]) -> None:
        """Sync the ``wanted`` targets once: now, or as soon as no sync of their slot runs.

        Due times stay. If the next sync comes first, no additional one is needed.
        """
        self._run_parts(self._slots, wanted)

    def _run_parts(self, names: Iterable[str], wanted: Callable[[str], bool]) -> None:
        for name in names:
            if any(wanted(target.key) for target in self._slots[name].targets):
                self._scheduler.add_job(self._run_part, args=(name, wanted))

    def follow_clock(self) -> None:
        """Move the due times with a clock that was set; if set ahead, everything is due at once.

        Call it once a second.
        """
        total = self._steps.total(clock.wall(), clock.steady())
        seconds, self._moved = total - self._moved, total
        self._origin += timedelta(seconds=seconds)
        for cadence in self._cadences.values():
            cadence.shift(seconds)
        bring_forward(self._scheduler, seconds)

    def _put(self, slots: Mapping[str, Slot]) -> None:
        before, self._slots = self._slots, slots
        now = _now()
        self._cadences = {
            name: self._cadences.get(name) or Cadence(now, self._origin, slot.period, slot.offset)
            for name, slot in slots.items()
        }
        for name in before.keys() - slots.keys():
            self._scheduler.remove_job(name)
        for name in slots.keys() - before.keys():
            self._scheduler.add_job(
                self._run,
                self._cadences[name],
                args=(name,),
                id=name,
                # A late sync still runs: by default one that is a second late is skipped.
                misfire_grace_time=None,
                coalesce=True,
                max_instances=1,
            )

    def _run(self, name: str) -> None:
        with self._turn_of(name) as slot:
            if slot is not None:
                due = self._cadences[name].due.timestamp()
                self._sync(slot, slot.targets, _MOST_OF_PERIOD * slot.period, due)

    def _run_part(self, name: str, wanted: Callable[[str], bool]) -> None:
        next_due = self._next_due(name)
        with self._turn_of(name) as slot:
            left = next_due - clock.wall()
            if slot is not None and left > 0:
                targets = [target for target in slot.targets if wanted(target.key)]
                self._sync(slot, targets, left, None)

    def _next_due(self, name: str) -> float:
        job = self._scheduler.get_job(name)
        return 0.0 if job is None else job.next_run_time.timestamp()

    @contextmanager
    def _turn_of(self, name: str) -> Iterator[Slot | None]:
        """Wait for swaps, and for running syncs of a slot's targets; None if it was replaced."""
        with self._state:
            self._state.wait_for(lambda: name not in {*self._held_up, *self._running})
            # It may have been submitted before a swap.
            slot = None if self._stop.is_set() else self._slots.get(name)
            self._running[name] = clock.monotonic()
        try:
            yield slot
        finally:
            with self._state:
                del self._running[name]
                self._state.notify_all()

    def _listen(self, event: events.JobEvent) -> None:
        slot = self._slots.get(event.job_id)
        if event.code == events.EVENT_JOB_ERROR:
            self._log.error("sync_failed", exc_info=event.exception)
            self._instruments.syncs_failed.inc()
        elif event.code == events.EVENT_JOB_SUBMITTED:
            due = event.scheduled_run_times[-1].timestamp()
            self._instruments.sync_lags.observe(max(0.0, clock.wall() - due))
        elif slot is not None and event.job_id not in self._held_up:
            self._instruments.syncs_skipped.inc()
            late = next(self._late)
            self._log.warning(
                "sync_late",
                message=f"a sync, due every {slot.period:g} s, is left out, since the one before "
                f"is still running; {late} left out since the start",
                period_seconds=slot.period,
                late_since_start=late,
            )


def _now() -> datetime:
    return datetime.fromtimestamp(clock.wall(), UTC)


def bring_forward(scheduler: BackgroundScheduler, seconds: float) -> None:
    """Move all due times back, if the clock was set back."""
    if seconds < 0:
        for job in scheduler.get_jobs():
            job.modify(next_run_time=job.next_run_time + timedelta(seconds=seconds))
