"""Records of tests: a writer that is quick, rows without a decision, and real decisions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.record import DirectoryRecord, Limits, RecordWriter, SyncRow, Times
from autoscaler.persistence.record.changes import numbers_of
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.reasons import verdict
from tests.adapters.store.opening import LONG, Sayings
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.worlds.record import synced
from tests.worlds.waiting import wait_until

QUICK = Times(batch=0.01, prune=0.02, pause=0.05, close=LONG, idle=0.05)
WEB = "shop/Deployment/web"
PERIOD = 15.0


class Time:
    """A clock that a test sets, in seconds after BASE."""

    def __init__(self) -> None:
        self.now = BASE

    def __call__(self) -> float:
        return self.now


@contextmanager
def running(
    directory: Path,
    on_state: Callable[[bool, str], None] | None = None,
    limits: Limits | None = None,
    times: Times = QUICK,
    time: Time | None = None,
) -> Iterator[RecordWriter]:
    """Run a writer; without ``on_state`` it must be able to record everything."""
    heard = Sayings()
    writer = RecordWriter(directory, on_state or heard, limits, times, wall=time or Time())
    writer.start()
    try:
        yield writer
    finally:
        writer.close()
    if on_state is None:
        assert all(ok for ok, _ in heard.all), heard.all


def until(seen: Callable[[], object]) -> None:
    """Wait until something can be read of a record, which may be in the making."""

    def is_seen() -> bool:
        with suppress(RecordError):
            return bool(seen())
        return False

    wait_until("it is recorded", is_seen)


def wait_recorded(directory: Path, seconds: float = 0.0) -> None:
    """Wait until a decision can be read that was made some seconds after BASE."""
    until(lambda: DirectoryRecord(directory).changes(None, BASE + seconds, 2e12, limit=1))


def row_of(result: SyncResult, time: float) -> SyncRow:
    numbers, state = numbers_of(result.decision), result.classified().state
    return SyncRow(result.target.key, time, PERIOD, numbers, result, state, verdict(result))


def decided(replicas: int = 3, seconds: float = 0.0, target: str = WEB) -> SyncRow:
    """Return a row with a decision of its own, some seconds after BASE."""
    timeline = Timeline(spec(external(average("10"))), replicas=replicas).sync("0s", queue=30.0)
    return row_of(synced(timeline), BASE + seconds)._replace(target=target)


def plain(seconds: float, value: int, target: str = WEB) -> SyncRow:
    """Return a row in which nothing but a value changed."""
    return SyncRow(target, BASE + seconds, PERIOD, (3, 3, value, 3))


def values(
    record: DirectoryRecord, begin: float, end: float, target: str = WEB
) -> list[tuple[float, int | None]]:
    """Return seconds after BASE and the first value of each sample of a time."""
    samples = record.samples(target, BASE + begin, BASE + end)
    return [(sample.time - BASE, sample.numbers[2]) for sample in samples]
