"""When a request is repeated, and how long the pauses between are."""

import threading

import pytest

from autoscaler import clock
from autoscaler.transport.retries import (
    FailureKind,
    GrowingPause,
    RequestFailure,
    Retrier,
    retry_after,
)

BUSY = RequestFailure("busy", transient=True, retry_after=0.01)


def _retrier(stop: threading.Event | None = None, **settings: bool) -> Retrier[RequestFailure]:
    return Retrier(RequestFailure("stopping"), stop or threading.Event(), **settings)  # type: ignore[arg-type] # checked at run time


def test_a_last_try_without_time_keeps_the_reason_before_it() -> None:
    cut = RequestFailure("cut short", transient=True, retry_after=0.01, kind=FailureKind.CUT_SHORT)
    outcomes = [BUSY, cut, cut, cut, cut]
    assert _retrier().call(lambda: outcomes.pop(0), clock.monotonic() + 20) == BUSY
    assert outcomes == []
    assert _retrier().call(lambda: cut, clock.monotonic()) == cut


@pytest.mark.parametrize(("absent_seconds", "tries"), [(0.3, (3, 5)), (None, (7, 99))])
def test_an_absent_server_is_given_up(absent_seconds: float | None, tries: tuple[int, int]) -> None:
    away = RequestFailure("refused", transient=True, kind=FailureKind.ABSENT, retry_after=0.1)
    made = []

    def fail() -> RequestFailure:
        made.append(1)
        return away

    retrier = Retrier(
        RequestFailure("stopping"),
        threading.Event(),
        most_tries=None,
        absent_seconds=absent_seconds,
    )
    assert retrier.call(fail, clock.monotonic() + 1.1) == away
    assert tries[0] <= len(made) <= tries[1]
    if absent_seconds is not None:
        made.clear()
        assert retrier.call(fail, clock.monotonic() + 1) == away
        assert len(made) == 1
        outcomes = [BUSY, away, RequestFailure("no")]
        assert retrier.call(lambda: outcomes.pop(0), clock.monotonic() + 1).message == "no"


def test_nothing_is_tried_after_a_stop() -> None:
    stop = threading.Event()

    def fail_and_stop() -> RequestFailure:
        stop.set()
        return BUSY

    last = _retrier(stop).call(fail_and_stop, clock.monotonic() + 20)
    assert last.message == "busy"
    assert _retrier(stop).call(fail_and_stop, clock.monotonic() + 20) == RequestFailure("stopping")


@pytest.mark.parametrize("holds_all", [False, True])
def test_a_429_holds_all_requests_back_where_configured(*, holds_all: bool) -> None:
    retrier = _retrier(holds_all=holds_all)
    retrier.hold_back(RequestFailure("away", status=503, retry_after=20.0))
    assert not retrier.is_held
    retrier.hold_back(RequestFailure("busy", status=429, retry_after=20.0))
    assert retrier.is_held == holds_all
    retrier.hold_back(RequestFailure("busy", status=429, retry_after=86_400.0))
    assert retrier._held_until - clock.monotonic() <= 30.0


def test_pauses_double_up_to_the_longest_until_they_are_reset() -> None:
    pause = GrowingPause(0.5, 3.0)
    assert [pause.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    pause.reset()
    assert pause.next() == 0.5
    jittered = GrowingPause(8.0, 8.0, jitter=True)
    drawn = [jittered.next() for _ in range(100)]
    assert all(4.0 <= item <= 8.0 for item in drawn)
    assert len(set(drawn)) > 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-1", None),
        ("\xb2", None),
        ("9" * 10, None),
        ("9" * 400, None),
        ("Thu, 01 Jan 0001 00:00:00 -2359", 0.0),
        ("soon", None),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": header}) == seconds
    assert retry_after({}) is None
