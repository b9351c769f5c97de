"""Records of tests: a writer that is quick, rows without a decision, and real decisions."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from autoscaler.adapters.record import DirectoryRecord, Limits, NewChange, RecordWriter, Row, Times
from autoscaler.core.entry import Rules
from autoscaler.record.changes import marks_of, numbers_of
from autoscaler.rendering.verdict import state_of, verdict
from autoscaler.sync.ports import SyncResult
from tests.controlplane.waiting import wait_until
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.record.memory import synced

LONG = 30.0
"""More seconds than anything takes here."""

QUICK = Times(batch=0.01, prune=0.02, pause=0.05, close=LONG, idle=0.05)
WEB = "shop/Deployment/web"
PERIOD = 15.0


class Sayings:
    """Hears whether decisions can be recorded."""

    def __init__(self) -> None:
        self.all: list[tuple[bool, str]] = []
        self._heard = threading.Condition()

    def __call__(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - the writer's callback
        """Take in a sentence."""
        with self._heard:
            self.all.append((ok, sentence))
            self._heard.notify_all()

    def wait(self, *, ok: bool) -> str:
        """Wait until this is what was said last, and return the sentence."""
        with self._heard:
            assert self._heard.wait_for(lambda: self.all and self.all[-1][0] is ok, LONG), self.all
            return self.all[-1][1]


class Time:
    """A clock that a test sets, in seconds after BASE."""

    def __init__(self) -> None:
        self.now = BASE

    def __call__(self) -> float:
        """Return the Unix time."""
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


def wait_recorded(directory: Path, seconds: float = 0.0) -> None:
    """Wait until a decision of so many seconds after BASE can be read."""

    def is_recorded() -> bool:
        return bool(DirectoryRecord(directory).changes(None, BASE + seconds, 2e12, limit=1))

    wait_until("it is recorded", is_recorded)


def change_of(result: SyncResult, timeline: Timeline) -> NewChange:
    """Return what a result is recorded as in full."""
    assert result.inputs is not None
    rules = Rules(result.target, timeline.flags)
    decision, write = result.decision, result.write
    marks = marks_of(decision, write)
    words = (state_of(result), verdict(result))
    return NewChange(*words, marks, "", rules, result.inputs, decision, write)


def decided(replicas: int = 3, seconds: float = 0.0, queue: float = 30.0) -> Row:
    """Return a row with a decision of its own, so many seconds after BASE."""
    timeline = Timeline(spec(external(average("10"))), replicas=replicas).at("0s", queue=queue)
    result = synced(timeline)
    at = BASE + seconds
    return Row(WEB, at, PERIOD, numbers_of(result.decision), change_of(result, timeline))


def plain(seconds: float, value: int, target: str = WEB) -> Row:
    """Return a row in which nothing but a value changed."""
    return Row(target, BASE + seconds, PERIOD, (3, 3, value, 3))


def renamed(row: Row, target: str) -> Row:
    """Return a row of another target."""
    return row._replace(target=target)


def values(
    record: DirectoryRecord, begin: float, end: float, target: str = WEB
) -> list[tuple[float, int | None]]:
    """Return seconds after BASE and the first value of each sample of a time."""
    samples = record.samples(target, BASE + begin, BASE + end)
    return [(one.time - BASE, one.numbers[2]) for one in samples]


def retried(times: Times = QUICK) -> Times:
    """Return times at which a failure is tried again at once."""
    return replace(times, pause=0.0)
