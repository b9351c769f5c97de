"""Results of syncs with events, and a stand-in for the cluster that writes them down."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from autoscaler.core.decision import Decision, Event, ForeignChange
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import WriteOutcome
from autoscaler.daemon.events import EventPace, EventReporter
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.events import (
    EventOutcome,
    EventResult,
    Events,
    InvolvedObject,
    Occurrences,
)
from autoscaler.telemetry.metrics import EventCounts
from tests.core.builders import BASE, average, external, spec, values
from tests.core.deciding import decided, observe
from tests.worlds.cluster.cluster import Noting

RESCALED = Event("Normal", "SuccessfulRescale", "New size: 5")
FAILED = Event("Warning", "FailedGetExternalMetric", "no answer")
BY_KUBECTL = ForeignChange(3, 7, "kubectl")
UID = "11111111-2222-3333-4444-555555555555"

QUICK = EventPace(0.0, first_pause=0.05, longest_pause=0.2, forbidden_pause=0.3, flush=20.0)
"""A pace at which no test has to wait, unless a server takes nothing until the end."""

_CALM = decided(spec(external(average("10"))), observe(3, values(30)))[0]


def decision(
    *events: Event, at: float = 0.0, uid: str | None = UID, foreign: ForeignChange | None = None
) -> Decision:
    """Return a decision ``at`` seconds after BASE; the scale is not known where ``uid`` is None."""
    scale = ReadFailure("no answer") if uid is None else Scale(3, 3, "app=web", "7", uid)
    return replace(_CALM, events=events, time=BASE + at, scale=scale, foreign=foreign)


def result(
    *events: Event,
    at: float = 0.0,
    uid: str | None = UID,
    namespace: str = "shop",
    foreign: ForeignChange | None = None,
    write: WriteOutcome | None = None,
) -> SyncResult:
    """Return the result of a sync of the Deployment web."""
    target = Target(namespace, spec(external(average("10"))), (Query("up"),))
    return SyncResult(target, decision(*events, at=at, uid=uid, foreign=foreign), write)


class Notebook(Events):
    """Takes Events down instead of sending them; ``fate`` returns the outcome of each."""

    def __init__(
        self,
        fate: Callable[[Occurrences], EventResult] = lambda _: EventResult(EventOutcome.WRITTEN),
    ) -> None:
        self.fate = fate
        self.written: list[Occurrences] = []
        """What was tried, as it was then."""
        self.counts = EventCounts()
        """As of the reporter of `notebook_of`."""
        self.gate = threading.Event()
        """While this is not set, writing waits."""
        self.gate.set()
        self.reached = threading.Event()

    def write(self, happened: Occurrences, deadline: float) -> EventResult:  # noqa: ARG002 - the shape
        self.reached.set()
        self.gate.wait(30)
        self.written.append(replace(happened))
        return self.fate(happened)

    def messages(self) -> list[str]:
        return [event.message for event in self.written]


@contextmanager
def reporting(
    events: Events,
    *,
    pace: EventPace = QUICK,
    notes: list[str] | None = None,
    gate: WriteGate = ALWAYS_OPEN,
    pod: InvolvedObject | None = None,
) -> Iterator[EventReporter]:
    """Run a reporter; its thread ends with the block."""
    observer = Noting([] if notes is None else notes)
    reporter = EventReporter(events, gate=gate, observer=observer, pod=pod, pace=pace)
    try:
        yield reporter
    finally:
        reporter.close()
        reporter._thread.join(10)
        assert not reporter._thread.is_alive()


def notebook_of(*results: SyncResult, gate: WriteGate = ALWAYS_OPEN) -> Notebook:
    """Return the notebook with the Events of the results of syncs."""
    notebook = Notebook()
    with reporting(notebook, gate=gate) as reporter:
        for sync in results:
            reporter.report(sync)
    notebook.counts = reporter.counts
    return notebook
