"""The calendar: cron expressions in wall time, over changes of the clock, and windows of two."""

import functools
import re
import threading
import tracemalloc
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from autoscaler import schedules
from autoscaler.core.extensions import Schedule
from autoscaler.core.observation import OpenWindow
from autoscaler.schedules import Cron, open_windows, time_zone

BERLIN = "Europe/Berlin"


def unix_time(local: str, zone: str = BERLIN) -> float:
    """Return the instant of a wall time, or of one with an offset."""
    wall = datetime.fromisoformat(local)
    return (wall if wall.tzinfo else wall.replace(tzinfo=ZoneInfo(zone))).timestamp()


def instants(expression: str, zone: str, after: str, count: int) -> list[str]:
    """Return the next instants of an expression, in the zone's time."""
    cron = Cron(expression, ZoneInfo(zone))
    found, instant = [], unix_time(after, zone)
    for _ in range(count):
        instant = cron.next_after(instant)
        found.append(datetime.fromtimestamp(instant, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


EXPRESSIONS = [
    ("0 8 * * 1-5", "2026-11-20T09:00", ["2026-11-23T08:00+01:00", "2026-11-24T08:00+01:00"]),
    ("0 8 * * MON-Fri", "2026-11-20T09:00", ["2026-11-23T08:00+01:00", "2026-11-24T08:00+01:00"]),
    ("0 8 * * 0", "2026-11-20T09:00", ["2026-11-22T08:00+01:00", "2026-11-29T08:00+01:00"]),
    ("0 8 * * 7", "2026-11-20T09:00", ["2026-11-22T08:00+01:00", "2026-11-29T08:00+01:00"]),
    ("0 8 * * sat-sun", "2026-11-20T09:00", ["2026-11-21T08:00+01:00", "2026-11-22T08:00+01:00"]),
    ("0 8 * * 6-0", "2026-11-21T09:00", ["2026-11-22T08:00+01:00", "2026-11-28T08:00+01:00"]),
    ("0 8 * * 1/3", "2026-11-20T09:00", ["2026-11-23T08:00+01:00", "2026-11-26T08:00+01:00"]),
    # The 12th is a Thursday.
    ("0 0 12 * fri", "2026-11-06T00:00", ["2026-11-12T00:00+01:00", "2026-11-13T00:00+01:00"]),
    ("0 0 31 * *", "2026-11-20T00:00", ["2026-12-31T00:00+01:00", "2027-01-31T00:00+01:00"]),
    ("0 0 last * *", "2027-02-01T00:00", ["2027-02-28T00:00+01:00", "2027-03-31T00:00+02:00"]),
    ("*/20 23 31 dec *", "2026-12-31T23:20", ["2026-12-31T23:40+01:00", "2027-12-31T23:00+01:00"]),
    ("0 0 28,29 2 *", "2027-02-28T00:00", ["2028-02-28T00:00+01:00", "2028-02-29T00:00+01:00"]),
]


@pytest.mark.parametrize(("expression", "after", "expected"), EXPRESSIONS)
def test_an_expression_has_its_instants(expression: str, after: str, expected: list[str]) -> None:
    """The fields are cron's: Sunday is 0 or 7, and of both days either is enough."""
    assert instants(expression, BERLIN, after, len(expected)) == expected


CHANGES = {
    BERLIN: [
        # 02:00 to 03:00 does not exist, then comes twice.
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T03:00+02:00 2026-03-30T02:30+02:00"),
        ("30 2 * * *", "2026-10-24T12:00", "2026-10-25T02:30+02:00 2026-10-26T02:30+01:00"),
        ("*/30 2 * * *", "2026-03-29T00:00", "2026-03-29T03:00+02:00 2026-03-30T02:00+02:00"),
        ("*/30 * * * *", "2026-10-25T02:30", "2026-10-25T03:00+01:00 2026-10-25T03:30+01:00"),
        ("*/30 * * * *", "2026-10-25T02:10+01:00", "2026-10-25T03:00+01:00 2026-10-25T03:30+01:00"),
    ],
    "America/New_York": [
        ("15 2 * * *", "2026-03-07T12:00", "2026-03-08T03:00-04:00 2026-03-09T02:15-04:00"),
        ("15 1 * * *", "2026-10-31T12:00", "2026-11-01T01:15-04:00 2026-11-02T01:15-05:00"),
    ],
    "Australia/Lord_Howe": [
        # Half an hour.
        ("10 2 * * *", "2026-10-03T12:00", "2026-10-04T02:30+11:00 2026-10-05T02:10+11:00"),
        ("45 1 * * *", "2026-04-04T12:00", "2026-04-05T01:45+11:00 2026-04-06T01:45+10:30"),
    ],
    "Africa/Cairo": [
        # At midnight: the day begins at 01:00.
        ("0 0 * * *", "2026-04-23T12:00", "2026-04-24T01:00+03:00 2026-04-25T00:00+03:00")
    ],
    "America/Sao_Paulo": [
        ("15 0 * * *", "2018-11-03T12:00", "2018-11-04T01:00-02:00 2018-11-05T00:15-02:00")
    ],
    "Pacific/Apia": [
        # A whole day was left out.
        ("15 0 * * *", "2011-12-29T12:00", "2011-12-31T00:00+14:00 2011-12-31T00:15+14:00")
    ],
    "Asia/Kolkata": [
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T02:30+05:30 2026-03-30T02:30+05:30")
    ],
}


@pytest.mark.parametrize("zone", CHANGES)
def test_skipped_times_move_to_the_next_instant_and_repeated_times_count_once(zone: str) -> None:
    """A wall time that is left out is the next there is; one that comes twice is its first."""
    for expression, after, expected in CHANGES[zone]:
        assert instants(expression, zone, after, 2) == expected.split(), (expression, after)


@pytest.mark.parametrize(
    ("zone", "expression", "now", "expected"),
    [
        (BERLIN, "0 8 * * 1-5", "2026-11-22T12:00", "2026-11-20T08:00+01:00"),
        (BERLIN, "0 8 * * 1-5", "2026-11-20T08:00", "2026-11-20T08:00+01:00"),
        (BERLIN, "* * * * *", "2026-11-20T08:00:59", "2026-11-20T08:00+01:00"),
        (BERLIN, "0 0 24 12 *", "2026-12-23T23:59", "2025-12-24T00:00+01:00"),
        (BERLIN, "30 2 * * *", "2026-10-25T02:45+01:00", "2026-10-25T02:30+02:00"),
        (BERLIN, "30 2 * * *", "2026-03-29T03:10", "2026-03-29T03:00+02:00"),
        ("Africa/Cairo", "0 0 * * *", "2026-04-24T01:30", "2026-04-24T01:00+03:00"),
    ],
)
def test_the_last_instant_before_one_is_found(
    zone: str, expression: str, now: str, expected: str
) -> None:
    last = Cron(expression, ZoneInfo(zone)).last_until(unix_time(now, zone))
    assert last == unix_time(expected)


REFUSED = [
    ("0 8 * *", ["five fields", "week"]),
    ("60 * * * *", ["minute", '"60"', "0 to 59"]),
    ("0 22-2 * * *", ["hour", '"22-2"', "0 to 23"]),
    ("*/0 * * * *", ["minute", '"*/0"']),
    ("0 0 1st * *", ["day", '"1st"', "1 to 31", "last"]),
    ("0 0 * 13 *", ["month", '"13"', "1 to 12", "jan to dec"]),
    ("0 0 * * 8", ["week", '"8"', "0 to 7", "mon to sun"]),
    ("0 0 * * 1,", ["week", '"1,"']),
    ("0 0 * * 1-5/0", ["week", '"1-5/0"']),
    ("0 0 30 2 *", ["every year"]),
    ("0 0 29 2 *", ["every year"]),
]


@pytest.mark.parametrize(("expression", "facts"), REFUSED)
def test_an_invalid_expression_or_a_leap_day_is_refused(expression: str, facts: list[str]) -> None:
    with pytest.raises(ValueError, match=".*".join(map(re.escape, facts))):
        Cron(expression, ZoneInfo("UTC"))


@pytest.mark.parametrize("name", ["", "Berlin", "Europe", "../UTC", "/etc/localtime", "a\0b"])
def test_an_unknown_name_a_folder_or_a_path_is_not_a_time_zone(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        time_zone(name)


def window(start: str, end: str, zone: str = BERLIN) -> Schedule:
    """Return a schedule."""
    return Schedule("it", start, end, zone, min_replicas=5)


OFFICE = window("0 8 * * 1-5", "0 18 * * 1-5")
NIGHT = window("0 22 * * *", "0 6 * * *")
WINDOWS = [
    (OFFICE, "2026-11-23T07:59:59", None),
    (OFFICE, "2026-11-23T08:00", "18:00 Europe/Berlin"),
    (OFFICE, "2026-11-23T17:59:59", "18:00 Europe/Berlin"),
    (OFFICE, "2026-11-23T18:00", None),
    (OFFICE, "2026-11-22T12:00", None),
    (NIGHT, "2026-11-22T23:59:59", "2026-11-23 06:00 Europe/Berlin"),
    (NIGHT, "2026-11-23T00:00", "06:00 Europe/Berlin"),
    # Ends on days without a start, which have closed it long ago.
    (window("0 8 * * 1", "0 18 * * *"), "2026-11-24T12:00", None),
    # Starts while it is open.
    (window("0 * * * *", "30 18 * * *"), "2026-11-23T12:10", "18:30 Europe/Berlin"),
    (window("0 8 * * *", "0 8 * * 1-5"), "2026-11-23T08:00", None),
    (window("0 8 * * *", "0 8 * * 1-5"), "2026-11-22T08:00", "2026-11-23 08:00 Europe/Berlin"),
    # 02:30 to 02:45 in spring: both fall to 03:00.
    (window("30 2 * * *", "45 2 * * *"), "2026-03-29T03:00", None),
    # In autumn: the first time only.
    (window("30 2 * * *", "45 2 * * *"), "2026-10-25T02:40+02:00", "02:45 Europe/Berlin"),
    (window("30 2 * * *", "45 2 * * *"), "2026-10-25T02:40+01:00", None),
    (window("0 20 * * *", "0 0 * * *", "Africa/Cairo"), "2026-04-24T01:00+03:00", None),
    (
        window("0 20 * * *", "0 0 * * *", "Africa/Cairo"),
        "2026-04-23T23:59+02:00",
        "2026-04-24 01:00 Africa/Cairo",
    ),
]


@pytest.mark.parametrize(("schedule", "now", "until"), WINDOWS)
def test_a_window_is_open_between_its_start_and_its_end(
    schedule: Schedule, now: str, until: str | None
) -> None:
    texts = [window.until_text for window in open_windows([schedule], unix_time(now))]
    assert texts == ([] if until is None else [until])


def test_of_several_schedules_all_that_are_open_count() -> None:
    now = unix_time("2026-11-23T16:00")
    evening = window("0 15 * * *", "30 23 * * *", "UTC")
    assert open_windows([OFFICE, NIGHT, evening], now) == (
        OpenWindow(OFFICE, unix_time("2026-11-23T18:00"), "18:00 Europe/Berlin"),
        OpenWindow(evening, unix_time("2026-11-23T23:30", "UTC"), "23:30 UTC"),
    )
    assert open_windows([], now) == ()


def test_windows_do_not_depend_on_the_order_of_instants() -> None:
    begin = int(unix_time("2026-10-23T00:00"))
    times = [float(second) for second in range(begin, begin + 4 * 86400, 1800)]
    expected = {now: len(open_windows([OFFICE, NIGHT], now)) for now in times}
    assert set(expected.values()) == {0, 1}
    wrong: list[float] = []

    def look(step: int) -> None:
        for index in range(len(times)):
            now = times[index * step % len(times)]
            if len(open_windows([OFFICE, NIGHT], now)) != expected[now]:
                wrong.append(now)

    threads = [threading.Thread(target=look, args=(step,)) for step in (1, -1, 7, 41)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.fixture
def _two_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember two expressions only."""
    monkeypatch.setattr(schedules, "_cron", functools.lru_cache(2)(Cron))


@pytest.mark.usefixtures("_two_expressions")
def test_forgotten_expressions_are_read_again() -> None:
    begin = int(unix_time("2026-10-23T00:00"))
    many = [window(f"{minute} 8 * * *", f"{minute} 18 * * *") for minute in range(4)]
    for now in range(begin, begin + 2 * 86400, 3600 * 5):
        expected = [window for window in many if open_windows([window], now)]
        assert [window.schedule for window in open_windows(many, now)] == expected
    read = schedules._cron.cache_info().misses
    open_windows(many, now + 60)
    assert schedules._cron.cache_info().misses == read


@pytest.mark.usefixtures("_two_expressions")
def test_a_window_takes_a_kilobyte() -> None:
    many = [window(f"{minute} 7 * * *", f"{minute} 17 * * 1-5") for minute in range(41)]
    now = unix_time("2026-11-23T12:00")
    open_windows(many[:1], now)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert len(open_windows(many, now)) == 41
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken / 40 < 1200


ALTERNATING = [
    ("0 8 * * *", "0 18 * * *"),
    ("0 22 * * 1-5", "0 6 * * 1-5"),
    ("0 8,20 * * *", "0 12,23 * * *"),
    ("0 8 * * 1", "0 18 * * 5"),
    ("0 0 24 12 *", "0 0 2 1 *"),
    ("0 0 1 * *", "0 0 5 * *"),
]
NOT_ALTERNATING = [
    ("0 8 * * *", "00 8 * * *"),
    ("0 8 * * 1-5", "0 18 * * *"),
    ("0 8,12 * * *", "0 18 * * *"),
    ("0 8 * * *", "0 12,18 * * *"),
    ("0 8 * * *", "* 18 * * *"),
    ("0 0 31 * *", "0 0 1 * *"),
    ("*/2 * * * *", "1-59/2 * * * *"),
]


def test_alternating_starts_and_ends_are_recognized() -> None:
    for times in ALTERNATING:
        assert schedules.alternate(*times), times
    for times in NOT_ALTERNATING:
        assert not schedules.alternate(*times), times


@pytest.mark.parametrize("times", ALTERNATING)
def test_alternating_windows_are_open_as_those_of_keda(times: tuple[str, str]) -> None:
    """KEDA's window is open while its next end comes before its next start."""
    start, end = (Cron(time, ZoneInfo("UTC")) for time in times)
    window = Schedule("a", *times, "UTC", min_replicas=1)
    begin = unix_time("2026-01-01T00:00", "UTC")
    for hours in range(0, 366 * 24, 17):
        instant = begin + 3600.0 * hours + 60.0 * (hours % 60)
        keda = end.next_after(instant) < start.next_after(instant)
        assert bool(open_windows((window,), instant)) == keda, instant


SECONDS_OPEN = [
    ("0 8 * * *", "0 18 * * *", 36_000.0),
    ("0 8 * * *", "00 8 * * *", 0.0),
    ("0 8 * * *", "0 8 * * 1-5", 86_400.0 * 2),
    ("0 8 1 1 *", "0 8 * * *", 0.0),
    ("* * * * *", "* * * * 1-5", None),
]


@pytest.mark.parametrize(("start", "end", "seconds"), SECONDS_OPEN)
def test_seconds_open_are_zero_if_each_start_is_an_end(
    start: str, end: str, seconds: float | None
) -> None:
    assert schedules.seconds_open(start, end, "UTC") == seconds
