"""The windows of a cron trigger are open when KEDA has it open."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.extensions import Schedule
from autoscaler.importers.keda.cron_windows import windows_of
from autoscaler.schedules import Cron, open_windows

SUNDAY = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
A_WEEK, HALF_AN_HOUR = 7 * 86400, 1800


@pytest.mark.parametrize(
    ("start", "end", "windows"),
    [
        ("0 8 * * 1-5", "0 18 * * 1-5", [("0 8 * * 1-5", "0 18 * * 1-5")]),
        ("50 23 * * *", "30 01 * * *", [("50 23 * * *", "30 01 * * *")]),
        ("0 8 ? * mon-fri", "0 20 * * MON-FRI", [("0 8 * * mon-fri", "0 20 * * MON-FRI")]),
        ("0 * * * *", "30 * * * *", [("0 * * * *", "30 * * * *")]),
        ("0 8 1 * *", "0 8 15 * *", [("0 8 1 * *", "0 8 15 * *")]),
        (
            "0 6 * * 1-5",
            "0 20 * * *",
            [("0 6 * * 1-4", "0 20 * * 1-4"), ("0 6 * * 5", "0 20 * * 0")],
        ),
        (
            "0 20 * * 1-5",
            "0 6 * * *",
            [("0 20 * * 1-4", "0 6 * * 2-5"), ("0 20 * * 5", "0 6 * * 1")],
        ),
        ("0 6 * * *", "0 20 * * 1-5", [("0 6 * * 1-5", "0 20 * * 1-5")]),
        ("0 6,12 * * *", "0 20 * * *", [("0 12 * * *", "0 20 * * *")]),
        ("0 8 * * *", "00 8 * * *", [("0 0 * * 0", "0 12 * * 3"), ("0 12 * * 3", "0 0 * * 0")]),
    ],
)
def test_the_windows(start: str, end: str, windows: list[tuple[str, str]]) -> None:
    """Where starts and ends come in turn it is one window; else a few stand for its week."""
    assert windows_of(start, end) == windows


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ("0 8 * * *", "0 8 * * *", "start and end are the same, which KEDA refuses"),
        ("0 9 * * 7", "0 9 * * 1", "start has the day of the week 7, which KEDA refuses"),
        ("0 9 * * 5-1", "0 9 * * 2", "5-1 ends before it begins, which KEDA refuses"),
        ("@daily", "0 9 * * *", "start must be the five fields minute, hour"),
        ("0 9 * * *", "0 25 * * *", 'end its hour is "25"'),
        ("0 8 1 * *", "0 8 * * *", "its starts and ends do not come in turn, and KEDA has it"),
        ("*/5 * * * *", "*/7 * * * *", "more than 14 in a week"),
    ],
)
def test_what_is_refused(start: str, end: str, sentence: str) -> None:
    """What KEDA refuses, and what no few windows stand for, is a sentence."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        windows_of(start, end)


def fields(values: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    """Write one field of a cron expression: all values, or some."""
    some = st.lists(values, min_size=1, max_size=3, unique=True)
    return st.just("*") | some.map(lambda each: ",".join(map(str, each)))


EXPRESSIONS = st.builds(
    "{} {} * * {}".format,
    st.sampled_from(("0", "30", "0,30")),
    fields(st.integers(0, 23)) | st.sampled_from(("*/6", "8-18/5")),
    fields(st.integers(0, 6)) | st.sampled_from(("1-5", "0,6", "mon-fri", "*/2")),
)


@settings(max_examples=40)
@given(EXPRESSIONS, EXPRESSIONS)
def test_a_window_is_open_exactly_when_that_of_keda_is(start: str, end: str) -> None:
    """Each half hour of a week, one is open where the next end is no later than the next start."""
    try:
        windows = windows_of(start, end)
    except ValueError:
        return
    schedules = [
        Schedule(str(number), one.start, one.end, "UTC", min_replicas=1)
        for number, one in enumerate(windows)
    ]
    zone = ZoneInfo("UTC")
    starts, ends = Cron(start, zone), Cron(end, zone)
    for instant in range(int(SUNDAY), int(SUNDAY) + A_WEEK, HALF_AN_HOUR):
        in_keda = ends.next_after(instant) <= starts.next_after(instant)
        assert bool(open_windows(schedules, instant)) == in_keda, (windows, instant)
