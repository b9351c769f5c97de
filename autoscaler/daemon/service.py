"""The daemon: syncs until a signal says stop."""

import gc
import signal
import threading
from types import FrameType

import structlog
from structlog.typing import FilteringBoundLogger

from autoscaler import __version__, clock
from autoscaler.app.slots import Slot, slots_of
from autoscaler.app.sync import Syncer
from autoscaler.config import Config
from autoscaler.daemon.reporting import LogReporter
from autoscaler.daemon.schedule import Punctuality, Schedule, Tick
from autoscaler.daemon.world import world_to_run

LONGEST_SYNC_SECONDS = 30.0
"""However long the period, a sync takes no longer: what it read would be old by then."""


def serve(config: Config) -> None:
    """Sync the configuration's targets until SIGTERM or SIGINT.

    The write in hand is finished before this returns.  Raises ConnectError when there is no
    usable way to a cluster.  Must be called on the main thread, which alone gets signals.
    """
    log: FilteringBoundLogger = structlog.get_logger()
    stop = threading.Event()
    received: list[str] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        # Only flags: a handler may interrupt the main thread anywhere.
        received.append(signal.Signals(number).name)
        stop.set()

    def note(sentence: str) -> None:
        log.warning("not_watched", message=sentence)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    with (
        world_to_run(config, LogReporter(log), stop, note) as world,
        Syncer(config.flags, world, stop, config.kubernetes.max_writes_per_second) as syncer,
        Schedule(stop, log, Punctuality()) as schedule,
    ):
        log.info(
            "started",
            version=__version__,
            targets=len(config.targets),
            sync_period_seconds=config.sync_period,
        )

        syncer.register_at_hand(config.targets)
        _keep_garbage_collection_rare()
        schedule.swap([_tick(syncer, slot) for slot in slots_of(config.targets)])
        while not stop.wait(1.0):
            schedule.follow_clock()
    log.info("stopped", signal=received[0])


def _keep_garbage_collection_rare() -> None:
    """Leave what lives as long as the process out of collections, and collect less often.

    With thousands of targets a full collection costs as much as a sync; syncs make hardly any
    cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def _tick(syncer: Syncer, slot: Slot) -> Tick:
    def call() -> None:
        syncer.sync(slot.targets, clock.wall(), min(slot.period, LONGEST_SYNC_SECONDS))

    return Tick(call, slot.period, slot.offset)
