"""The daemon's use of its state directory.

It waits until no other daemon uses it, continues with its histories, stores them for the next
start, and looks for requests of `autoscaler resume --breaker`.
"""

import math
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler import clock
from autoscaler.config import Config
from autoscaler.core.breaker import BreakerState
from autoscaler.core.history import History
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.remembered import known_of, of_cluster
from autoscaler.persistence.state_directory import DAEMON_LOCK, HeldError, UnusableError, lock
from autoscaler.persistence.store import SqliteHistoryStore, releases
from autoscaler.sync.ports import HistoryStore, NoHistoryStore
from autoscaler.telemetry.metrics import Metrics
from autoscaler.transport.deadline import Deadline, DeadlineExceededError

_TRY_SECONDS = 0.5
_DISK_SECONDS = 20.0
"""The time limit for a disk at the start, the same as the store's."""
_LOOK_SECONDS = 1.0


def await_turn(
    directory: Path, stop: threading.Event, waits: Callable[[str], None], stack: ExitStack
) -> bool:
    """Wait until no other daemon uses a directory; return False if ``stop`` comes first.

    It belongs to this process until the ``stack`` closes. ``waits`` receives the holder at each
    try. If it cannot be locked in time for another reason, this returns: the store reports that.
    """
    turn = Deadline(1, name="turn")
    while not stop.is_set():
        try:
            locked = turn.run(_DISK_SECONDS, lambda: lock(directory, DAEMON_LOCK))
        except HeldError as error:
            waits(error.holder)
            stop.wait(_TRY_SECONDS)
        except (UnusableError, DeadlineExceededError):
            return True
        else:
            stack.callback(os.close, locked)
            return True
    return False


@dataclass(frozen=True, slots=True)
class Memory:
    """A store, the histories to continue, and their clock."""

    history_store: HistoryStore
    known: Mapping[str, History] = field(default_factory=dict)
    steps: clock.Steps = field(default_factory=lambda: clock.Steps(clock.wall(), clock.steady()))
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)
    decided: Mapping[str, float] = field(default_factory=dict)
    """By target: its last decision by `clock.steady`, if known."""


def open_memory(
    config: Config,
    announcements: Announcements,
    metrics: Metrics,
    stack: ExitStack,
    *,
    forgets: bool = True,
) -> Memory:
    """Open the state directory until ``stack`` closes it; ``forgets`` all other targets."""
    if config.state_directory is None:
        return Memory(NoHistoryStore())
    store = SqliteHistoryStore(config.state_directory, announcements.state)
    metrics.store_errors = lambda: store.errors
    stack.enter_context(closing(store))
    resumption = store.start()
    announcements.resumed(resumption)
    earlier, resumption = resumption, of_cluster(resumption, config.first_cluster)
    now, known = resumption.now, known_of(config.targets, resumption)
    if forgets:
        store.drop(earlier.histories.keys() - known.keys())
    for key, history in known.items():
        if history is not earlier.histories.get(key):
            # Another restart may come before its first sync.
            store.intend(key, history)
    steps, decided = clock.Steps(now.wall, now.steady), dict[str, float]()
    if math.isfinite(resumption.absent):
        saved = now.steady - resumption.absent
        decided = {key: saved - seconds for key, seconds in resumption.undecided.items()}
    return Memory(store, known, steps, resumption.breakers, decided)


def look_for_releases(
    directory: Path,
    stop: threading.Event,
    release: Callable[[str | None], object],
    refused: Callable[[str], None],
) -> None:
    """Look for requests until ``stop``, on a separate thread, since a disk may hang."""

    def look() -> None:
        while not stop.wait(_LOOK_SECONDS):
            try:
                request = releases.take(directory)
            except (OSError, ValueError) as error:
                refused(str(error))
                continue
            if request is not None:
                release(request.server)

    threading.Thread(target=look, name="release", daemon=True).start()
