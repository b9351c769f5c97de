"""Which Events are worth a request."""

import gc
import tracemalloc

import pytest

from autoscaler.core.decision import Event
from autoscaler.daemon import events
from autoscaler.daemon.events import Correlator
from autoscaler.kubernetes.events import InvolvedObject, Occurrences
from tests.core.builders import BASE
from tests.daemon.events.happenings import FAILED, RESCALED, UID

HOURS = 3600.0


def requests(correlator: Correlator) -> list[Occurrences]:
    return [correlator.next() for _ in range(correlator.waiting)]


def counts(correlator: Correlator) -> list[int]:
    return [request.count for request in requests(correlator)]


def sized(size: int) -> Event:
    """Return the event of a change to a size."""
    return Event("Normal", "SuccessfulRescale", f"New size: {size}")


def workload(name: str, uid: str = "") -> InvolvedObject:
    return InvolvedObject("apps/v1", "Deployment", "shop", name, uid)


WEB = workload("web", UID)


@pytest.fixture
def correlator() -> Correlator:
    return Correlator()


def test_a_repetition_raises_the_count(correlator: Correlator) -> None:
    for _ in range(50):
        correlator.take(WEB, FAILED, BASE, 0.0)
    assert counts(correlator) == [50]
    for second in (15.0, 30.0):
        correlator.take(WEB, FAILED, BASE + second, second)
    (event,) = requests(correlator)
    assert (event.count, event.first, event.last) == (52, BASE, BASE + 30)


@pytest.mark.parametrize(
    ("involved", "event"),
    [
        (WEB, RESCALED),
        (WEB, Event("Warning", FAILED.reason, "another")),
        (WEB, Event("Normal", FAILED.reason, FAILED.message)),
        (workload("web", "other"), FAILED),
    ],
    ids=["reason", "message", "type", "an object of the same name"],
)
def test_another_reason_message_type_or_object_is_another_event(
    correlator: Correlator, involved: InvolvedObject, event: Event
) -> None:
    correlator.take(WEB, FAILED, BASE, 0.0)
    correlator.take(involved, event, BASE, 0.0)
    assert counts(correlator) == [1, 1]


def test_a_repetition_after_ten_quiet_minutes_is_a_new_event(correlator: Correlator) -> None:
    correlator.take(WEB, FAILED, BASE, 0.0)
    correlator.take(WEB, FAILED, BASE + 600, 600.0)
    (first,) = requests(correlator)
    correlator.take(WEB, FAILED, BASE + 1201, 1201.0)
    (second,) = requests(correlator)
    assert (first.count, second.count) == (2, 1)
    assert second is not first


def test_a_warning_of_every_sync_is_written_every_five_minutes(correlator: Correlator) -> None:
    written = []
    for sync in range(5760):
        correlator.take(WEB, FAILED, BASE + sync * 15, sync * 15.0)
        written += counts(correlator)
        if sync == 100:  # it takes nothing from another object
            correlator.take(workload("api"), FAILED, BASE, 1500.0)
            assert [request.involved.name for request in requests(correlator)] == ["api"]
    assert written[:25] == list(range(1, 26))
    assert len(written) == pytest.approx(25 + 24 * HOURS / 300, abs=2)
    assert correlator.held_back == 5760 - len(written)
    assert written[-1] > 5740


def test_more_than_ten_messages_of_one_reason_are_combined(correlator: Correlator) -> None:
    written: list[Occurrences] = []
    for size in range(1, 15):
        correlator.take(WEB, sized(size), BASE, 0.0)
        (event,) = requests(correlator)
        assert event.message.endswith(f"New size: {size}")
        assert event.count == (1 if size <= 10 else size - 10)
        written.append(event)
    assert [event is written[10] for event in written] == [False] * 10 + [True] * 4
    correlator.take(WEB, sized(3), BASE, 1.0)
    assert [(event.message, event.count) for event in requests(correlator)] == [("New size: 3", 2)]


def test_an_outage_leaves_room_for_the_event_of_its_end(correlator: Correlator) -> None:
    written = []
    for sync in range(240):
        for number, reason in enumerate((FAILED.reason, "FailedComputeMetricsReplicas")):
            warning = Event("Warning", reason, f"attempt {sync * number}")
            correlator.take(WEB, warning, BASE + 5 * sync, 5.0 * sync)
        if sync == 200:
            correlator.take(WEB, Event("Warning", "FallbackActive", ""), BASE, 5.0 * sync)
        written += [request.reason for request in requests(correlator)]
    for reason in ("FallbackEnded", "SuccessfulRescale", "Resumed"):
        correlator.take(WEB, Event("Normal", reason, ""), BASE + 1200, 1200.0)
    assert written.count("FallbackActive") == 1
    ended = [request.reason for request in requests(correlator)]
    assert ended == ["FallbackEnded", "SuccessfulRescale", "Resumed"]


def test_an_event_beyond_the_limit_is_dropped_and_written_next_time(correlator: Correlator) -> None:
    everything = events._MOST_WAITING
    for number in range(everything):
        correlator.take(workload(f"web-{number}"), FAILED, BASE, 0.0)
    correlator.take(WEB, FAILED, BASE, 0.0)
    assert (correlator.waiting, correlator.dropped) == (everything, 1)
    requests(correlator)
    correlator.take(WEB, FAILED, BASE + 15, 15.0)
    assert counts(correlator) == [2]


def test_memory_is_bounded(correlator: Correlator) -> None:
    def take(first: int, last: int) -> int:
        for number in range(first, last):
            involved = workload(f"web-{number}", f"{number:036}")
            correlator.take(involved, Event("Warning", "R", f"m{number}"), BASE, 0.0)
        requests(correlator)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = take(0, events._MOST_OBJECTS)
        later = take(events._MOST_OBJECTS, 2 * events._MOST_OBJECTS)
    finally:
        tracemalloc.stop()
    assert full // events._MOST_OBJECTS < 1500
    assert later < full * 1.1
    for hour in range(1000):
        correlator.take(WEB, sized(hour), BASE, hour * HOURS)
    assert len(correlator._objects[WEB].happenings) == 1
