"""The reporter: what it tells, what it leaves out, and that nobody ever waits for it."""

import timeit
from contextlib import closing
from dataclasses import replace

import pytest

from autoscaler import clock
from autoscaler.core.breaker import Trip
from autoscaler.core.decision import Event, ForeignChange, Zone
from autoscaler.core.extensions import Pause, PauseMode
from autoscaler.core.observation import Gap, GapKind
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import SkippedWrite, SkippedWriteReason, WriteConflict, WriteFailure
from autoscaler.daemon import events as reporter_module
from autoscaler.daemon.events import EventPace, EventReporter, _QueuedEvents
from autoscaler.kubernetes.election import WriteGate
from autoscaler.kubernetes.events import EventOutcome, EventResult, InvolvedObject, Occurrences
from autoscaler.sync.ports import BreakerChange, BreakerNews
from autoscaler.telemetry.metrics import EventCounts
from autoscaler.transport import Observer
from tests.core.builders import BASE, average, external, spec, values
from tests.core.deciding import decided, observe
from tests.daemon.events.happenings import (
    BY_KUBECTL,
    FAILED,
    QUICK,
    RESCALED,
    Notebook,
    reporting,
    result,
    told_of,
)
from tests.worlds.cluster.cluster import eventually


def test_what_a_decision_tells_is_written() -> None:
    """All of its events, in their order, and its foreign change before them."""
    notebook = told_of(result(FAILED, RESCALED, foreign=BY_KUBECTL))
    assert [message for _, message, _ in notebook.written] == [
        '"kubectl" set the replicas: 3 -> 7',
        FAILED.message,
        RESCALED.message,
    ]
    assert notebook.counts == EventCounts(written=3)


def test_the_event_of_a_metric_that_failed_names_it() -> None:
    """After the HPA's own text: of several metrics the same may be true."""
    of = spec(
        external(average("10")), external(average("10"), "mails"), external(average("10"), "x")
    )
    gone = Gap(GapKind.EMPTY, "the query returned no series")
    failed = decided(of, observe(3, gone, values(5), gone))[0]
    notebook = told_of(SyncResult(Target("shop", of, (Query("up"),) * 3), failed))
    assert [message for _, message, _ in notebook.written] == [
        "the query returned no series (metric queue)",
        "the query returned no series (metric x)",
        "2 of 3 metrics are not usable; the first of them: the query returned no series",
    ]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (BY_KUBECTL, "Normal", '"kubectl" set the replicas: 3 -> 7'),
        (ForeignChange(3, 7), "Normal", "an unknown client set the replicas: 3 -> 7"),
        (
            ForeignChange(7, 3, "helm", reversal=True),
            "Warning",
            '"helm" set the replicas: 7 -> 3 (undoes our last change)',
        ),
    ],
)
def test_a_foreign_change_is_told_with_its_manager(
    change: ForeignChange, kind: str, message: str
) -> None:
    """It is a warning where it undoes what we did."""
    assert told_of(result(foreign=change)).told == [(kind, "ReplicasChangedByOther", message)]


class Gate(WriteGate):
    """Leads since an instant that the test says; closed at first."""

    since: float | None = None

    def leads_since(self, _: str | None = None, /) -> float | None:
        return self.since


def test_a_follower_tells_nothing() -> None:
    """Neither of a write that it leaves to the leader, nor of what the leader sees as well."""
    assert told_of(result(FAILED, foreign=BY_KUBECTL), gate=Gate()).written == []
    left = result(RESCALED, write=SkippedWrite(SkippedWriteReason.NOT_LEADING))
    assert told_of(left).written == []


@pytest.mark.parametrize("write", [WriteConflict, WriteFailure], ids=["superseded", "failed"])
def test_a_failed_write_is_told(write: type) -> None:
    """What became of the write does not matter, as long as one was meant to be."""
    assert len(told_of(result(FAILED, write=write("why"))).written) == 1


def test_a_scale_that_cannot_be_read_keeps_its_uid() -> None:
    """The object is still known by the UID that it had last; without any the Event has none."""
    notebook = Notebook()
    with reporting(notebook) as reporter:
        reporter.report(result(FAILED, uid=None))
        eventually(lambda: notebook.involved, bool)
        reporter.report(result(uid="known"))
        reporter.report(result(FAILED, uid=None))
    assert [involved.uid for involved in notebook.involved] == ["", "known"]


def test_a_calm_decision_costs_next_to_nothing() -> None:
    """Ten thousand of them take some milliseconds."""
    with reporting(Notebook()) as reporter:
        calm = result()
        seconds = min(timeit.repeat(lambda: reporter.report(calm), number=10_000, repeat=5))
    print(f"{seconds / 10_000 * 1e6:.2f} us for a decision without events")
    assert seconds / 10_000 < 5e-6


def test_a_server_that_hangs_delays_no_report() -> None:
    """While one Event is written, twenty thousand results are taken in or dropped at once."""
    notebook = Notebook()
    notebook.gate.clear()
    slowest, news = 0.0, [result(Event("Warning", "R", str(n))) for n in range(20_000)]
    with reporting(notebook) as reporter:
        reporter.report(result(FAILED))
        assert notebook.reached.wait(10)
        began = clock.monotonic()
        for event in news:
            before = clock.monotonic()
            reporter.report(event)
            slowest = max(slowest, clock.monotonic() - before)
        seconds = clock.monotonic() - began
        assert notebook.written == []
        assert reporter.counts.dropped == 20_000 - reporter_module._MOST_QUEUED
        notebook.gate.set()
    print(f"{seconds / 20_000 * 1e6:.1f} us each, the slowest {slowest * 1e3:.1f} ms")
    assert seconds < 10.0
    # Of one object and reason ten messages are kept apart.
    assert len(notebook.written) == 12


def test_requests_keep_their_distance() -> None:
    """However much there is to tell."""
    pace = EventPace(spacing=0.05, flush=0.0)
    notebook = Notebook()
    began = clock.monotonic()
    with reporting(notebook, pace=pace) as reporter:
        for number in range(20):
            reporter.report(result(Event("Warning", "R", str(number)), uid=str(number)))
        eventually(lambda: len(notebook.written), lambda count: count >= 6)
        assert clock.monotonic() - began >= 0.25


def test_without_the_right_one_note_says_so_until_it_comes() -> None:
    """It is tried again after the pause; what happens meanwhile is not told."""
    forbidden = EventResult(EventOutcome.FORBIDDEN, "events is forbidden")
    fates = {"shop": forbidden, "till": forbidden}
    notebook = Notebook(
        lambda item: fates.get(item.involved.namespace, EventResult(EventOutcome.WRITTEN))
    )
    notes: list[str] = []
    pace = replace(QUICK, forbidden_pause=2.0)
    with reporting(notebook, pace=pace, notes=notes) as reporter:
        for number in range(5):
            reporter.report(result(Event("Warning", "R", str(number))))
        reporter.report(result(FAILED, namespace="depot"))
        eventually(lambda: notebook.written, lambda seen: seen[-1:] == [("depot", "no answer", 1)])
        assert [message for where, message, _ in notebook.written if where == "shop"] == ["0"]
        assert notes == [
            "Events cannot be written (events is forbidden); it is tried again every 2 seconds"
        ]

        def told() -> list[str]:
            for namespace in fates:
                reporter.report(result(RESCALED, namespace=namespace))
            return [namespace for namespace, _, _ in notebook.written]

        eventually(told, lambda seen: seen.count("shop") >= 3 and seen.count("till") >= 2)
        assert len(notes) == 1
        notebook.fate = lambda _: EventResult(EventOutcome.WRITTEN)
        eventually(told, lambda _: notes[1:] == ["good: Events can be written now"])
    assert reporter.counts.dropped >= 5


def test_a_server_without_room_gets_it_later() -> None:
    """Pauses grow, the count goes on meanwhile, and nothing is lost."""
    answers = [
        EventResult(EventOutcome.LATER),
        EventResult(EventOutcome.LATER, retry_after=3.0),
        EventResult(EventOutcome.WRITTEN),
    ]
    notebook = Notebook(lambda _: answers.pop(0))
    with reporting(notebook, pace=replace(QUICK, longest_pause=3.0)) as reporter:
        began = clock.monotonic()
        reporter.report(result(FAILED))
        eventually(lambda: len(answers), lambda left: left == 1)
        reporter.report(result(FAILED))
        eventually(lambda: answers, lambda left: not left)
        assert clock.monotonic() - began >= 3.05
    assert [count for _, _, count in notebook.written] == [1, 1, 2]
    assert reporter.counts == EventCounts(written=1)


def test_what_is_never_taken_is_given_up() -> None:
    """As the Event of a namespace that is going; the next one is written all the same."""
    answers = [EventResult(EventOutcome.DROPPED), EventResult(EventOutcome.WRITTEN)]
    notes: list[str] = []
    with reporting(Notebook(lambda _: answers.pop(0)), notes=notes) as reporter:
        reporter.report(result(FAILED, RESCALED))
    assert (reporter.counts, notes) == (EventCounts(written=1, dropped=1), [])


def test_the_end_writes_what_is_left_but_not_for_long() -> None:
    """What was reported is flushed; a server that takes nothing costs the flush time, no more."""
    notebook = Notebook()
    with reporting(notebook) as reporter:
        for number in range(20):
            reporter.report(result(Event("Warning", "R", str(number)), uid=str(number)))
    assert len(notebook.written) == 20
    began = clock.monotonic()
    stuck = Notebook(lambda _: EventResult(EventOutcome.LATER))
    pace = replace(QUICK, first_pause=30.0, longest_pause=30.0, flush=1.0)
    with reporting(stuck, pace=pace) as reporter:
        reporter.report(result(FAILED))
    assert clock.monotonic() - began < 10.0
    assert reporter.counts == EventCounts(dropped=1)
    reporter.report(result(FAILED))
    assert reporter.counts == EventCounts(dropped=2)


def test_targets_that_are_gone_are_forgotten() -> None:
    """Of ever new targets no more is remembered than of very many."""
    with reporting(Notebook()) as reporter:
        for number in range(reporter_module._MOST_UIDS + 1):
            reporter._uids[str(number)] = "uid"
        reporter.report(result())
        assert len(reporter._uids) == 1


def test_a_defect_is_told_and_costs_one_event() -> None:
    """Whether it is in the writing of one or in its intake, those after it are written."""
    faults: list[BaseException] = []

    class Observing(Observer):
        def fault(self, error: BaseException) -> None:
            faults.append(error)

    def fail_once(_: Occurrences) -> EventResult:
        if not faults:
            raise ZeroDivisionError
        return EventResult(EventOutcome.WRITTEN)

    reporter = EventReporter(Notebook(fail_once), observer=Observing(), pace=QUICK)
    with closing(reporter):
        reporter.report(result(FAILED))
        eventually(lambda: len(faults), lambda count: count == 1)
        reporter._queue.put(_QueuedEvents(None, 0.0, (FAILED,)))  # type: ignore[arg-type] # the defect
        eventually(lambda: len(faults), lambda count: count == 2)
        reporter.report(result(RESCALED))
        eventually(lambda: reporter.counts, lambda counts: counts.written == 1)
    assert [type(fault) for fault in faults] == [ZeroDivisionError, AttributeError]
    assert reporter.counts == EventCounts(written=1, dropped=2)


def test_what_happens_to_the_daemon_is_told_on_its_own_pod() -> None:
    """A breaker that trips is a Warning there, its end is not; a follower tells nothing."""
    notebook, pod = Notebook(), InvolvedObject("v1", "Pod", "autoscaler", "autoscaler-7d", "u-1")
    trip = Trip(BASE, BASE + 600, 380, 500, "ready")
    with reporting(notebook, pod=pod) as reporter:
        for change in (BreakerChange.TRIPPED, BreakerChange.ENDED):
            reporter.breaker_changed(BreakerNews(change, "", trip, 3, 500))
    assert notebook.involved == [pod, pod]
    assert [count for _, _, count in notebook.written] == [1, 1]
    assert [(kind, reason, message[:44]) for kind, reason, message in notebook.told] == [
        ("Warning", "ScaleDownBreakerTripped", "the scale-down breaker has tripped: 380 of t"),
        ("Normal", "ScaleDownBreakerEnded", "the scale-down breaker has ended after 10 mi"),
    ]
    with reporting(notebook, pod=pod, gate=Gate()) as reporter:
        reporter.breaker_changed(BreakerNews(BreakerChange.TRIPPED, "", trip, 3, 500))
    assert len(notebook.told) == 2


def paused(pause: Pause | None) -> SyncResult:
    """Return the result of a sync with a pause in force, or none."""
    calm = result()
    return replace(calm, decision=replace(calm.decision, pause=pause))


def test_a_pause_is_told_when_it_begins_changes_and_ends() -> None:
    """Once each; one that is there when the process begins was told before."""
    down = Pause(PauseMode.SCALE_DOWN, by="the annotation autoscaler/paused", until=BASE + 3600)
    unread = replace(paused(None), decision=replace(paused(None).decision, zone=Zone.UNKNOWN))
    syncs = [paused(Pause()), paused(Pause()), paused(None), paused(down), unread, paused(down)]
    assert told_of(*syncs, paused(Pause())).told == [
        ("Normal", "Resumed", "no longer paused"),
        (
            "Normal",
            "Paused",
            "scale-down paused by the annotation autoscaler/paused until 01:00:00Z",
        ),
        ("Normal", "Paused", "paused by the configuration"),
    ]
