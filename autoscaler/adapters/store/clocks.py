"""Time across a restart: by how much instants move that another process has written.

The running daemon moves its histories when the clock is set (`autoscaler.clock.Steps`).  A process
that reads them later does the same for what happened in between, as far as it can know.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler import clock
from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import History

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Stamp:
    """One instant by two clocks: Unix seconds, and steady seconds since the boot ``boot_id``."""

    wall: float
    steady: float
    boot_id: str


@dataclass(frozen=True, slots=True)
class Resumption:
    """The histories to go on with, by the clock as it was at the instant ``now``.

    ``moved`` are the seconds by which every instant was moved for that, ``absent`` those that
    have passed since the last save, infinity if that is not known; ``undecided`` are, by target,
    the seconds between its last decision and the last save.  ``earlier`` says whether an earlier
    run saved anything at all.
    """

    now: Stamp
    histories: Mapping[str, History] = field(default_factory=dict)
    moved: float = 0.0
    absent: float = 0.0
    undecided: Mapping[str, float] = field(default_factory=dict)
    earlier: bool = False
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)
    """How the scale-down breakers stood, by server."""


def this_boot() -> str:
    """Return the id of the machine's present boot; empty if the system has none."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that the store reads."""

    wall: Callable[[], float] = clock.wall
    steady: Callable[[], float] = clock.steady
    monotonic: Callable[[], float] = clock.monotonic
    boot_id: Callable[[], str] = this_boot

    def stamp(self) -> Stamp:
        """Return the present instant."""
        return Stamp(self.wall(), self.steady(), self.boot_id())


def seconds_to_move(saved: Stamp, now: Stamp) -> float:
    """Return by how many seconds the instants that were saved move.

    Within one boot the steady clock says how much time has passed; the rest is a step of the
    clock.  After another boot, or on another machine, that is not known: a clock that is wrong by
    minutes would end windows and periods early by as much.  No time counts as passed then, and the
    last saved instant is now.  At worst a limit holds for too long, by its own length at most.
    """
    if _same_boot(saved, now):
        return clock.Steps(saved.wall, saved.steady).total(now.wall, now.steady)
    return now.wall - saved.wall


def seconds_between(saved: Stamp, now: Stamp) -> float:
    """Return how many seconds have passed; infinity if that is not known."""
    return now.steady - saved.steady if _same_boot(saved, now) else math.inf


def _same_boot(saved: Stamp, now: Stamp) -> bool:
    return bool(saved.boot_id) and saved.boot_id == now.boot_id and saved.steady <= now.steady
