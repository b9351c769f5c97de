"""Runs the syncs periodically: none is lost, none overlaps itself, and a swap waits for its own."""

import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import structlog

from autoscaler import clock
from autoscaler.telemetry.metrics import Instruments

_MOST_TICKS_AT_ONCE = 512
"""Threads are started when they are needed; above this number of slots a tick waits for one."""

HANGS_AFTER_SECONDS = 40.0
"""A swap waits no longer for a sync that began so long ago; none takes more than 30 s."""

_STOP_CHECK_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 1.0
"""The clock may be set meanwhile."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A call that is due at once, and then every ``period`` seconds, with the time when it was due.

    The later calls come ``offset`` seconds into each period; between the first two lie half a
    period to one and a half.  ``targets`` are what it syncs, by key.  ``call_part`` syncs those of
    them whose keys are wanted, within some seconds.
    """

    call: Callable[[float], None]
    period: float
    offset: float = 0.0
    targets: Mapping[str, object] = field(default_factory=dict)
    call_part: Callable[[Callable[[str], bool], float], None] = lambda *_: None

    @property
    def name(self) -> str:
        """The key of this tick in a schedule."""
        return f"{self.period}+{self.offset}"

    def is_part_of(self, other: "Tick | None") -> bool:
        """Return whether another tick syncs all that this one does, unchanged."""
        return other is not None and self.targets.items() <= other.targets.items()

    def due_after(self, previous: float, origin: float, now: float) -> float:
        """Return when it is due after an instant; whole periods that have passed are skipped.

        That is ``offset`` seconds into one of the periods since ``origin``.
        """
        grid, period = origin + self.offset, self.period
        due = grid - (grid - previous - period / 2) // period * period
        return due + max(0.0, (now - due) // period * period)


class HangingSyncError(Exception):
    """A swap cannot take place, since a sync does not end."""


class SyncSchedule:
    """Runs ticks, each at once and then periodically, also after one that failed.

    A tick that is due while the one before still runs is left out, which is logged and counted.
    """

    def __init__(
        self, stop: threading.Event, instruments: Instruments, steps: clock.Steps | None = None
    ) -> None:
        self._stop = stop
        self._log = structlog.get_logger()
        self._instruments = instruments
        self._late = itertools.count(1)
        self._ticks: Mapping[str, Tick] = {}
        self._due: dict[str, float] = {}
        """By name, the Unix time of each tick's next turn."""
        self._state = threading.Condition()
        self._begun: set[str] = set()
        """Ticks whose turn has come and not ended; some wait for a thread or a swap."""
        self._running: dict[str, float] = {}
        """By name, when each tick began that runs now."""
        self._held_up: AbstractSet[str] = frozenset()
        """Ticks that do not begin before the swap under way has ended."""
        self._origin = clock.wall()
        self._steps = steps or clock.Steps(clock.wall(), clock.steady())
        self._moved = self._steps.total(clock.wall(), clock.steady())
        self._threads = ThreadPoolExecutor(_MOST_TICKS_AT_ONCE, "sync")
        self._clockwork = threading.Thread(target=self._run_clockwork, name="schedule", daemon=True)

    def __enter__(self) -> Self:
        self._clockwork.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Begin no other tick, and wait for those that run."""
        self._stop.set()
        with self._state:
            self._state.notify_all()
        self._clockwork.join()
        self._threads.shutdown()

    def swap(
        self,
        ticks: Sequence[Tick],
        meanwhile: Callable[[], None] = lambda: None,
        *,
        at_once: bool = True,
    ) -> None:
        """Replace the ticks while none of them runs that syncs what is changed or removed.

        The others go on, unless all are to change ``at_once``.  ``meanwhile`` is called when none
        of the former runs, and none begins until it has returned.  A tick of the same period and
        offset as before is due when the old one was, any other at once.  The present ticks go on if
        ``meanwhile`` raises, and with HangingSyncError where one does not end in time or ``stop``
        is set; at once where one has run for too long already.
        """
        new = {tick.name: tick for tick in ticks}
        try:
            with self._state:
                self._held_up = {
                    name
                    for name, tick in self._ticks.items()
                    if at_once or not tick.is_part_of(new.get(name))
                }
                self._wait_for_syncs()
            meanwhile()
            with self._state:
                self._ticks, now = new, clock.wall()
                self._due = {name: self._due.get(name, now) for name in new}
        finally:
            with self._state:
                self._held_up = frozenset()
                self._state.notify_all()

    def _wait_for_syncs(self) -> None:
        while begun := [self._running[name] for name in self._held_up & self._running.keys()]:
            if self._stop.is_set():
                raise HangingSyncError("the daemon stops")
            if clock.monotonic() > min(begun) + HANGS_AFTER_SECONDS:
                raise HangingSyncError("a sync in hand does not end")
            self._state.wait(_STOP_CHECK_SECONDS)

    def run_part(self, wanted: Callable[[str], bool]) -> None:
        """Sync those targets once now, by their keys, or once their tick no longer runs.

        All ticks are due when they were.  If its next one comes first, nothing is out of turn.
        """
        with self._state:
            for name, tick in self._ticks.items():
                if any(map(wanted, tick.targets)):
                    part = partial(_call_part, wanted, self._due[name])
                    self._threads.submit(self._run, name, part)

    def follow_clock(self) -> None:
        """Move the grid with a clock that was set, once a second; if set ahead, all is due."""
        with self._state:
            total = self._steps.total(clock.wall(), clock.steady())
            seconds, self._moved = total - self._moved, total
            self._origin += seconds
            if seconds < 0:
                self._due = {name: due + seconds for name, due in self._due.items()}
                self._state.notify_all()

    def _run_clockwork(self) -> None:
        with self._state:
            while not self._stop.is_set():
                now = clock.wall()
                for name, due in self._due.items():
                    if due <= now:
                        self._take_turn(name, due, now)
                until = min(self._due.values(), default=math.inf)
                self._state.wait(min(max(0.0, until - clock.wall()), _LONGEST_WAIT_SECONDS))

    def _take_turn(self, name: str, due: float, now: float) -> None:
        """Begin a tick that is due; of turns that have passed, the last one counts."""
        tick = self._ticks[name]
        while (following := tick.due_after(due, self._origin, now)) <= now:
            due = following
        self._due[name] = following
        if name not in self._begun:
            self._begun.add(name)
            self._instruments.sync_lags.observe(max(0.0, now - due))
            try:
                self._threads.submit(self._run, name, lambda tick: tick.call(due), is_turn=True)
            except RuntimeError as error:  # no thread can be started
                self._begun.discard(name)
                self._failed(error)
        elif name not in self._held_up:
            self._instruments.syncs_skipped.inc()
            late = next(self._late)
            self._log.warning(
                "sync_late",
                message=f"a sync was due after {tick.period:g} s while the one before was still "
                f"running, and is left out; {late} since the start",
                period_seconds=tick.period,
                late_since_start=late,
            )

    def _run(self, name: str, call: Callable[[Tick], None], *, is_turn: bool = False) -> None:
        """Call a tick after swaps and what runs of its targets, unless it is to run no more."""
        with self._state:
            self._state.wait_for(lambda: name not in {*self._held_up, *self._running})
            # Its turn may have come before a swap.
            tick = None if self._stop.is_set() else self._ticks.get(name)
            self._running[name] = clock.monotonic()
        try:
            if tick is not None:
                call(tick)
        except Exception as error:  # noqa: BLE001 - the next turn comes all the same
            self._failed(error)
        finally:
            with self._state:
                del self._running[name]
                if is_turn:
                    self._begun.discard(name)
                self._state.notify_all()

    def _failed(self, error: Exception) -> None:
        self._log.error("sync_failed", exc_info=error)
        self._instruments.syncs_failed.inc()


def _call_part(wanted: Callable[[str], bool], next_due: float, tick: Tick) -> None:
    left = next_due - clock.wall()
    if left > 0:
        tick.call_part(wanted, left)
