"""Which series are missing for queries without results, and when the daemon looks for them."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from autoscaler.core.observation import Gap, GapKind
from autoscaler.core.series import QueryResult
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.no_series import NoSeriesReporter
from tests.core.builders import average, external, spec
from tests.core.timeline import Timeline
from tests.worlds.record import synced
from tests.worlds.waiting import wait_until


@dataclass
class World:
    """A Prometheus without series, and what is found out of it."""

    asked: list[str] = field(default_factory=list)
    found: dict[str, str] = field(default_factory=dict)
    reports: list[tuple[str, list[str]]] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    fails: bool = False

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult:  # noqa: ARG002 - the port's
        self.asked.append(promql)
        self.answers.wait(30)
        if self.fails:
            raise OSError
        return QueryResult(())

    def tell(self, sentence: str, targets: Sequence[str]) -> None:
        self.reports.append((sentence, list(targets)))

    def finds(self, target: str) -> bool:
        """Return whether a target's missing series is known."""
        return "m0" in self.found.get(target, "")

    @contextmanager
    def reporter(self) -> Iterator[NoSeriesReporter]:
        """Run a reporter that asks this Prometheus."""
        opened = NoSeriesReporter(
            self.found.__setitem__, self.tell, self.faults.append, batch_seconds=0.0
        )
        opened.use({"": self})
        with opened as reporter:
            yield reporter


def result(*, empty: bool, namespace: str = "shop") -> SyncResult:
    """Return the sync of a target, whose query is sum(m0)."""
    timeline = Timeline(spec(external(average("10"))), replicas=3)
    result = synced(timeline.sync("0s", queue=30), namespace)
    if not empty:
        return result
    nothing = (Gap(GapKind.EMPTY, "empty"),)
    observation = replace(result.inputs.observation, readings=nothing)
    return replace(result, given=replace(result.inputs, observation=observation))


KEY = "shop/Deployment/web"
ASKED = 3
"""The query, the series of its selector, and the last sample of these."""


def test_a_missing_series_is_looked_for_once_when_it_begins() -> None:
    world = World()
    world.answers.set()
    with world.reporter() as reporter:
        reporter.report(result(empty=False))
        assert world.found == {}
        for _ in range(3):
            reporter.report(result(empty=True))
        wait_until("a finding", lambda: world.finds(KEY))
        wait_until("a report", lambda: world.reports == [(f"queue: {world.found[KEY]}", [KEY])])
        reporter.report(result(empty=True))
        assert world.asked[:2] == ["sum(m0)", "count(m0)"]
        reporter.report(result(empty=False))
        assert world.found == {KEY: ""}
        reporter.report(result(empty=True))
        wait_until("another finding", lambda: world.finds(KEY))
        assert len(world.asked) == 2 * ASKED
        reporter.use({"": world})
        reporter.report(result(empty=True))
        wait_until("more queries", lambda: len(world.asked) == 3 * ASKED)
    assert world.faults == []


def test_no_sync_waits_for_an_answer_and_a_late_one_is_ignored() -> None:
    """The questions have a thread of their own; of a failure that is over nothing is said."""
    world = World()
    with world.reporter() as reporter:
        reporter.report(result(empty=True))
        wait_until("it is asked", lambda: world.asked == ["sum(m0)"])
        names = [f"n{number}" for number in range(100)]
        for namespace in names:
            reporter.report(result(empty=True, namespace=namespace))
        reporter.report(result(empty=False))
        world.answers.set()
        wait_until("the others", lambda: world.finds("n99/Deployment/web"))
    assert world.found[KEY] == ""
    # One query for all of them, in two batches at most.
    assert len(world.asked) <= 2 * ASKED
    assert sum(len(targets) for _, targets in world.reports) >= 100


def test_a_defect_is_reported_and_the_next_failure_is_looked_at() -> None:
    world = World(fails=True)
    world.answers.set()
    with world.reporter() as reporter:
        reporter.report(result(empty=True))
        wait_until("a fault", lambda: len(world.faults) == 1)
        world.fails = False
        reporter.report(result(empty=True, namespace="mail"))
        wait_until("a finding", lambda: world.finds("mail/Deployment/web"))
