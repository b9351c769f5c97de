"""The reporter: which Events it writes, which not, and that no sync ever waits for it."""

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
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
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
    notebook_of,
    reporting,
    result,
)
from tests.narrowing import assert_parts
from tests.worlds.cluster.cluster import eventually


def test_all_events_of_a_decision_are_written_in_their_order() -> None:
    notebook = notebook_of(result(FAILED, RESCALED, foreign=BY_KUBECTL))
    reasons = [event.reason for event in notebook.written]
    assert reasons == ["ReplicasChangedByOther", FAILED.reason, RESCALED.reason]
    assert notebook.messages()[1:] == [FAILED.message, RESCALED.message]
    assert notebook.counts == EventCounts(written=3)


def test_the_event_of_a_failed_metric_has_its_name() -> None:
    """It follows the HPA's own text: of several metrics the same may be true."""
    metrics = (external(average("10"), name) for name in ("queue", "mails", "x"))
    of, gone = spec(*metrics), Gap(GapKind.EMPTY, "gone")
    failed = decided(of, observe(3, gone, values(5), gone))[0]
    notebook = notebook_of(SyncResult(Target("shop", of, (Query("up"),) * 3), failed))
    *named, summed_up = notebook.messages()
    assert named == ["gone (metric queue)", "gone (metric x)"]
    assert_parts(summed_up, "2 of 3", "gone")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (BY_KUBECTL, "Normal"),
        (ForeignChange(3, 7), "Normal"),
        (ForeignChange(7, 3, "helm", reversal=True), "Warning"),
    ],
    ids=["by-kubectl", "by-an-unknown-client", "reversal"],
)
def test_a_change_by_another_client_is_an_event_and_a_reversal_a_warning(
    change: ForeignChange, kind: str
) -> None:
    (event,) = notebook_of(result(foreign=change)).written
    assert (event.type, event.reason) == (kind, "ReplicasChangedByOther")
    assert_parts(event.message, change.manager, f"{change.before} -> {change.after}")


class Closed(WriteGate):
    """The gate of a process that does not lead."""

    def leads_since(self, _: str | None = None, /) -> None:
        return None


LEFT_OUT = SkippedWrite(SkippedWriteReason.NOT_LEADING)


@pytest.mark.parametrize(
    ("reported", "leads", "written"),
    [
        (result(FAILED, foreign=BY_KUBECTL), False, 0),
        (result(RESCALED, write=LEFT_OUT), True, 0),
        (result(FAILED, write=WriteConflict("why")), True, 1),  # type: ignore[arg-type] # any
        (result(FAILED, write=WriteFailure("why")), True, 1),
    ],
    ids=["follower", "write-left-to-the-leader", "write-superseded", "write-failed"],
)
def test_only_a_follower_writes_no_events(
    reported: SyncResult, written: int, *, leads: bool
) -> None:
    notebook = notebook_of(reported, gate=ALWAYS_OPEN if leads else Closed())
    assert len(notebook.written) == written


def test_a_scale_that_cannot_be_read_keeps_its_uid() -> None:
    notebook = Notebook()
    with reporting(notebook) as reporter:
        reporter.report(result(FAILED, uid=None))
        eventually(lambda: notebook.written, bool)
        reporter.report(result(uid="known"))
        reporter.report(result(FAILED, uid=None))
    assert [event.involved.uid for event in notebook.written] == ["", "known"]


def test_a_calm_decision_costs_next_to_nothing() -> None:
    with reporting(Notebook()) as reporter:
        calm = result()
        seconds = min(timeit.repeat(lambda: reporter.report(calm), number=10_000, repeat=5))
    assert seconds / 10_000 < 5e-6


def test_a_server_that_hangs_delays_no_report() -> None:
    notebook = Notebook()
    notebook.gate.clear()
    news = [result(Event("Warning", "R", str(n))) for n in range(20_000)]
    with reporting(notebook) as reporter:
        reporter.report(result(FAILED))
        assert notebook.reached.wait(10)
        began = clock.monotonic()
        for event in news:
            reporter.report(event)
        assert clock.monotonic() - began < 10.0
        assert notebook.written == []
        assert reporter.counts.dropped == 20_000 - reporter_module._MOST_QUEUED
        notebook.gate.set()
    # Of one object and reason ten messages are kept apart.
    assert len(notebook.written) == 12


def test_requests_keep_their_distance_however_many_events_there_are() -> None:
    pace = EventPace(spacing=0.05, flush=0.0)
    notebook = Notebook()
    began = clock.monotonic()
    with reporting(notebook, pace=pace) as reporter:
        for number in range(20):
            reporter.report(result(Event("Warning", "R", str(number)), uid=str(number)))
        eventually(lambda: len(notebook.written), lambda count: count >= 6)
        assert clock.monotonic() - began >= 0.25


def test_without_the_right_nothing_is_written_until_the_pause_is_over() -> None:
    forbidden = EventResult(EventOutcome.FORBIDDEN, "refused")
    fates = {"shop": forbidden, "till": forbidden}
    notebook = Notebook(
        lambda item: fates.get(item.involved.namespace, EventResult(EventOutcome.WRITTEN))
    )

    def namespaces() -> list[str]:
        return [event.involved.namespace for event in notebook.written]

    notes: list[str] = []
    pace = replace(QUICK, forbidden_pause=2.0)
    with reporting(notebook, pace=pace, notes=notes) as reporter:
        for number in range(5):
            reporter.report(result(Event("Warning", "R", str(number))))
        reporter.report(result(FAILED, namespace="depot"))
        eventually(namespaces, lambda written: written[-1:] == ["depot"])
        assert namespaces().count("shop") == 1
        assert_parts(*notes, "refused", "2 seconds")

        def tried() -> list[str]:
            for namespace in fates:
                reporter.report(result(RESCALED, namespace=namespace))
            return namespaces()

        eventually(tried, lambda written: written.count("shop") >= 3 and written.count("till") >= 2)
        assert len(notes) == 1
        notebook.fate = lambda _: EventResult(EventOutcome.WRITTEN)
        eventually(tried, lambda _: [note[:6] for note in notes[1:]] == ["good: "])
    assert reporter.counts.dropped >= 5


def test_a_server_that_is_overloaded_gets_an_event_later() -> None:
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
    assert [event.count for event in notebook.written] == [1, 1, 2]
    assert reporter.counts == EventCounts(written=1)


def test_an_event_that_is_refused_for_good_is_dropped() -> None:
    answers = [EventResult(EventOutcome.DROPPED), EventResult(EventOutcome.WRITTEN)]
    notes: list[str] = []
    with reporting(Notebook(lambda _: answers.pop(0)), notes=notes) as reporter:
        reporter.report(result(FAILED, RESCALED))
    assert (reporter.counts, notes) == (EventCounts(written=1, dropped=1), [])


def test_at_the_end_events_are_written_for_the_flush_time_at_most() -> None:
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
    with reporting(Notebook()) as reporter:
        for number in range(reporter_module._MOST_UIDS + 1):
            reporter._uids[str(number)] = "uid"
        reporter.report(result())
        assert len(reporter._uids) == 1


def test_a_defect_is_reported_and_costs_one_event() -> None:
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


def test_a_breaker_is_an_event_on_the_pod_of_the_leader() -> None:
    notebook, pod = Notebook(), InvolvedObject("v1", "Pod", "autoscaler", "autoscaler-7d", "u-1")
    trip = Trip(BASE, BASE + 600, 380, 500, "ready")
    changes = (BreakerChange.TRIPPED, BreakerChange.ENDED)
    news = [BreakerNews(change, "", trip, 3, 500) for change in changes]
    with reporting(notebook, pod=pod) as reporter:
        for change in news:
            reporter.breaker_changed(change)
    assert [
        (event.type, event.reason, event.involved, event.count) for event in notebook.written
    ] == [
        ("Warning", "ScaleDownBreakerTripped", pod, 1),
        ("Normal", "ScaleDownBreakerEnded", pod, 1),
    ]
    assert_parts(notebook.messages()[0], "380", "500")
    with reporting(notebook, pod=pod, gate=Closed()) as reporter:
        reporter.breaker_changed(news[0])
    assert len(notebook.written) == 2


def paused(pause: Pause | None) -> SyncResult:
    """Return the result of a sync with a pause in force, or none."""
    calm = result()
    return replace(calm, decision=replace(calm.decision, pause=pause))


def test_a_pause_is_an_event_when_it_begins_changes_and_ends() -> None:
    down = Pause(PauseMode.SCALE_DOWN, by="an operator", until=BASE + 3600)
    unread = replace(paused(None), decision=replace(paused(None).decision, zone=Zone.UNKNOWN))
    syncs = [paused(Pause()), paused(Pause()), paused(None), paused(down), unread, paused(down)]
    resumed, scale_down, both = notebook_of(*syncs, paused(Pause())).written
    assert [(event.type, event.reason) for event in (resumed, scale_down, both)] == [
        ("Normal", "Resumed"),
        ("Normal", "Paused"),
        ("Normal", "Paused"),
    ]
    assert_parts(scale_down.message, "scale-down", "an operator", "01:00:00Z")
    assert "scale-down" not in both.message
