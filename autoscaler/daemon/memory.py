"""The histories that a daemon starts with, and the store that keeps them for the next start."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from autoscaler import clock
from autoscaler.adapters.store import Resumption, SqliteHistoryStore
from autoscaler.config import Config
from autoscaler.core.breaker import BreakerState
from autoscaler.core.gaps import after_absence
from autoscaler.core.history import History
from autoscaler.core.target import Target
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition import Metrics
from autoscaler.sync.ports import HistoryStore, NoHistoryStore


@dataclass(frozen=True, slots=True)
class Memory:
    """A store, the histories to go on with, and the clock that they are by."""

    history_store: HistoryStore
    known: Mapping[str, History] = field(default_factory=dict)
    steps: clock.Steps = field(default_factory=lambda: clock.Steps(clock.wall(), clock.steady()))
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)


def open_memory(
    config: Config, announcements: Announcements, metrics: Metrics, stack: ExitStack
) -> Memory:
    """Open the state directory; ``stack`` closes it.

    Histories of targets that are no longer configured are dropped.
    """
    if config.state_directory is None:
        return Memory(NoHistoryStore())
    store = SqliteHistoryStore(config.state_directory, announcements.state)
    metrics.ask_for_store_errors(lambda: store.errors)
    stack.enter_context(closing(store))
    resumption = store.start()
    announcements.resumed(resumption)
    now, known = resumption.now, known_of(config.targets, resumption)
    store.drop(resumption.histories.keys() - known.keys())
    for key, history in known.items():
        if history is not resumption.histories[key]:
            # Another restart may come before its first sync.
            store.intend(key, history)
    return Memory(store, known, clock.Steps(now.wall, now.steady), resumption.breakers)


def known_of(targets: Sequence[Target], resumption: Resumption) -> Mapping[str, History]:
    """Return the histories that targets go on with after a time in which none was decided about."""
    return {
        target.key: after_absence(
            target,
            resumption.histories[target.key],
            resumption.absent + resumption.undecided.get(target.key, 0.0),
            resumption.now.wall,
        )
        for target in targets
        if target.key in resumption.histories
    }
