"""The calendar: which windows of cron expressions are open, exact over daylight-saving changes.

Cron fields are evaluated in wall time, which has no gaps and no repetitions. A wall time is then
converted to an instant: a repeated one to its first instant, a skipped one to the next instant that
exists.
"""

import functools
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from autoscaler.core.extensions import Schedule
from autoscaler.core.observation import OpenWindow

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger

_MOST_WINDOWS = 65_536
"""The number of cached window states, which take a kilobyte each."""
_MOST_CRONS = 4096
"""The number of cached expressions, which take 3 kB each; parsing one takes 0.3 ms."""

_A_YEAR_BEGINS = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
_MOST_OPENINGS = 800
"""The most comparisons: two windows of every day in a year."""
_MOST_COMPARED = 120
"""The most instants of two expressions: four a day for more than two weeks."""

_A_DAY = 86400.0
_LONGEST_YEAR = 367 * _A_DAY

_LONGEST_BACK = range(-367 * 24 * 60, 1)
"""The minutes that contain an instant of every expression, since each has one every year."""

_COMMON_YEAR, _LEAP_YEAR = 2025, 2024
_LONGEST = 1000
"""The most characters of a cron expression; the sixty minutes of an hour have 169."""
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Other forms of cron, and their five fields."""

_LONGEST_ZONE = 100
"""The most characters; no zone's name has more, and a longer name would be searched as many
folders."""
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WEEKDAYS = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-7]))?")
_VALUES = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day": "1 to 31, or last",
    "month": "1 to 12 or jan to dec",
    "day of the week": "0 to 7 (0 and 7 are Sunday) or mon to sun",
}


def open_windows(schedules: Sequence[Schedule], now: float) -> tuple[OpenWindow, ...]:
    """Return the windows that are open at an instant, in Unix seconds (semantics 8.2).

    Takes a microsecond per schedule except when its window changes. Thread-safe. Raises ValueError
    for texts that `Cron` and `time_zone` do not accept.
    """
    if not schedules:
        return ()
    each = (
        (schedule, _window(schedule.start, schedule.end, schedule.timezone).state(now))
        for schedule in schedules
    )
    return tuple(OpenWindow(schedule, at.until, at.text(now)) for schedule, at in each if at.time)


class NextWindow(NamedTuple):
    """The window of a schedule that is open, or the next one, in Unix seconds."""

    opens: float | None
    """None for one that is open."""
    closes: float


def next_window(schedule: Schedule, now: float) -> NextWindow:
    """Return a schedule's open or next window. Raises ValueError as `open_windows`."""
    for window in open_windows((schedule,), now):
        return NextWindow(None, window.until)
    times = (schedule.start, schedule.end, schedule.timezone)
    return NextWindow(*next(_window(*times).openings(now)))


@functools.lru_cache(_MOST_WINDOWS)
def may_be_open_together(window: tuple[str, str, str], other: tuple[str, str, str]) -> bool:
    """Return whether two windows, by start, end and time zone, are open together in any year.

    Takes up to a tenth of a second; of windows that open very often, only the first are compared.
    Raises ValueError as `open_windows`.
    """
    first, second = (_window(*times).openings(_A_YEAR_BEGINS) for times in (window, other))
    a, b = next(first), next(second)
    for _ in range(_MOST_OPENINGS):
        if max(a[0], b[0]) < min(a[1], b[1]):
            return True
        if a[1] <= b[1]:
            a = next(first)
        else:
            b = next(second)
    return False


@functools.lru_cache(_MOST_CRONS)
def seconds_open(start: str, end: str, timezone: str) -> float | None:
    """Return how many seconds a window is open at its first opening in a year; 0.0 for never.

    None if it has too many starts. Takes up to half a second. Raises ValueError as `open_windows`.
    """
    openings = _window(start, end, timezone).openings(_A_YEAR_BEGINS)
    opened = _A_YEAR_BEGINS
    for opened, closes in islice(openings, _MOST_OPENINGS):
        if closes > opened:
            return closes - opened
        if opened > _A_YEAR_BEGINS + _LONGEST_YEAR:
            break
    return 0.0 if opened > _A_YEAR_BEGINS + _LONGEST_YEAR - _A_DAY else None


@functools.lru_cache(_MOST_CRONS)
def alternate(start: str, end: str) -> bool:
    """Return whether each start is followed by an end before the next start, and each end by one.

    Also False if there are too many. Takes up to a twentieth of a second. Raises ValueError as
    `Cron`.
    """
    zone = ZoneInfo("UTC")  # In wall time, so changes of the clock do not matter.
    starts, ends = Cron(start, zone), Cron(end, zone)
    of_start, of_end = start.split(), end.split()
    if of_start[2:] == of_end[2:] and all(map(str.isdecimal, (*of_start[:2], *of_end[:2]))):
        return [*map(int, of_start[:2])] != [*map(int, of_end[:2])]
    weekly = {*of_start[2:4], *of_end[2:4]} == {"*"}
    last = _A_YEAR_BEGINS + (15 * _A_DAY if weekly else _LONGEST_YEAR)
    opens, closes = starts.next_after(_A_YEAR_BEGINS), ends.next_after(_A_YEAR_BEGINS)
    was_start: bool | None = None
    for _ in range(_MOST_COMPARED):
        if opens == closes or (opens < closes) is was_start:
            return False
        if min(opens, closes) > last:
            return True
        was_start = opens < closes
        if was_start:
            opens = starts.next_after(opens)
        else:
            closes = ends.next_after(closes)
    return False


def time_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.  Raises ValueError for an unknown name."""
    if len(name) <= _LONGEST_ZONE:
        with suppress(ValueError, LookupError, OSError):
            return ZoneInfo(name)
    raise ValueError("is not a valid time zone; use a name such as Europe/Berlin or UTC")


class Cron:
    """The instants of a cron expression: minute, hour, day, month and day of the week.

    If both days are given, either is sufficient, as in cron. Raises ValueError with a sentence for
    other texts, and for an expression that does not match in every year.
    """

    def __init__(self, expression: str, zone: ZoneInfo) -> None:
        if len(expression) > _LONGEST:
            raise ValueError(
                f"must have at most {_LONGEST} characters, and has {len(expression):,}"
            )
        fields = expression.split()
        if len(fields) != len(_VALUES):
            meant = _NICKNAMES.get(expression.strip().lower())
            advice = f"{len(fields)}; write {meant}" if meant else f"{len(fields)}"
            listed = ", ".join(_VALUES)
            raise ValueError(
                f"must be the five fields {listed}, such as 0 8 * * 1-5, and has {advice}"
            )
        checked = [_checked(*field) for field in zip(_VALUES, fields, strict=True)]
        self._zone = zone
        self._triggers = _triggers(checked)
        if not _comes_in(_COMMON_YEAR, checked):
            years = "most years" if _comes_in(_LEAP_YEAR, checked) else "any year"
            raise ValueError(f"must come every year, and there is no such day in {years}")

    def next_after(self, instant: float) -> float:
        """Return the first instant after one, in Unix seconds."""
        wall = self._wall(instant)
        found = -math.inf
        while found <= instant:
            wall = self._next_wall(wall)
            found = self._instant(wall)
        return found

    def last_until(self, instant: float) -> float:
        """Return the last instant that is not after another, -inf if there was none for a year."""
        index = bisect_left(
            _LONGEST_BACK,
            x=True,
            key=lambda minute: self.next_after(instant + 60 * minute) > instant,
        )
        return -math.inf if index == 0 else self.next_after(instant + 60 * _LONGEST_BACK[index - 1])

    def _wall(self, instant: float) -> datetime:
        return datetime.fromtimestamp(instant, self._zone).replace(tzinfo=None)

    def _next_wall(self, wall: datetime) -> datetime:
        after = (wall + timedelta(microseconds=1)).replace(tzinfo=UTC)
        times = (trigger.get_next_fire_time(None, after) for trigger in self._triggers)
        first: datetime = min(instant for instant in times if instant is not None)
        return first.replace(tzinfo=None)

    def _instant(self, wall: datetime) -> float:
        there = wall.replace(tzinfo=self._zone)
        instant = there.timestamp()
        if self._wall(instant) == wall:
            return instant
        # The clock skips it: interpolate between the offsets before and after.
        seconds = range(int(there.replace(fold=1).timestamp()), int(instant) + 1)
        jump = bisect_left(seconds, x=True, key=lambda second: self._wall(second) > wall)
        return float(seconds[jump])


def _trigger(**fields: str) -> "CronTrigger":
    # Takes 50 ms, and most configurations have no schedules.
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    return CronTrigger(**fields, timezone=UTC)


def _triggers(fields: Sequence[str], year: str = "*") -> list["CronTrigger"]:
    minute, hour, day, month, weekday = fields
    days = [(day, "*"), ("*", weekday)] if "*" not in {day, weekday} else [(day, weekday)]
    times = {"year": year, "month": month, "hour": hour, "minute": minute}
    return [_trigger(**times, day=of_month, day_of_week=of_week) for of_month, of_week in days]


def _comes_in(year: int, fields: Sequence[str]) -> bool:
    begin = datetime(year, 1, 1, tzinfo=UTC)
    return any(trigger.get_next_fire_time(None, begin) for trigger in _triggers(fields, str(year)))


def _checked(kind: str, text: str) -> str:
    """Return a field in the form of APScheduler, whose weekday numbers begin with Monday."""
    try:
        if kind == "day of the week":
            return text if text == "*" else ",".join(_weekdays(text))
        _trigger(**{kind: text})
    except (ValueError, TypeError):
        raise ValueError(
            f'its {kind} is "{text}": it takes {_VALUES[kind]}; a list 1,3, a range 1-5, * for all '
            "or */2 for every second one"
        ) from None
    return text


def _weekdays(field: str) -> Iterator[str]:
    for part in field.lower().split(","):
        form = _WEEKDAYS.fullmatch(part)
        if form is None:
            raise ValueError(part)
        first, last, step = form.groups()
        begin = 0 if first is None else _weekday(first)
        end = _weekday(last) if last else 6 if first is None or step else begin
        if end < begin:
            end += 7
        yield from (_DAYS[day % 7] for day in range(begin, end + 1, int(step or 1)))


def _weekday(text: str) -> int:
    return _DAYS.index(text) if text in _DAYS else range(8).index(int(text))


class _WindowState(NamedTuple):
    """The state of a window until another instant, and its end as text."""

    since: float
    until: float
    day_begins: float = 0.0
    """The first instant of the day of the end."""
    date: str = ""
    time: str = ""
    """Empty while it is closed."""

    def text(self, now: float) -> str:
        """Return the time of the end, with its date on an earlier day."""
        return self.time if now >= self.day_begins else f"{self.date} {self.time}"


class _Window:
    """The parsed texts of a schedule, which are evaluated only at its changes."""

    __slots__ = ("_end", "_last", "_start", "_zone")

    def __init__(self, start: str, end: str, timezone: str) -> None:
        self._zone = time_zone(timezone)
        self._start = start
        self._end = end
        self._last = _WindowState(math.inf, math.inf)

    def state(self, now: float) -> _WindowState:
        """Return the state at an instant. Two threads may compute it, with the same result."""
        last = self._last
        if not last.since <= now < last.until:
            last = self._last = self._compute(now)
        return last

    def openings(self, after: float) -> Iterator[tuple[float, float]]:
        """Yield the next opening and closing after an instant; equal ones if it does not open."""
        start, end = _cron(self._start, self._zone), _cron(self._end, self._zone)
        closes = after
        while True:
            opened = start.next_after(closes)
            closes = end.next_after(opened - 1)
            yield opened, closes

    def _compute(self, now: float) -> _WindowState:
        start, end = _cron(self._start, self._zone), _cron(self._end, self._zone)
        opened = start.last_until(now)
        # An end at the same instant counts.
        closes = opened if opened == -math.inf else end.next_after(opened - 1)
        if closes <= now:
            return _WindowState(closes, start.next_after(now))
        last = datetime.fromtimestamp(closes, self._zone)
        midnight = datetime.combine(last.date(), time.min, self._zone).timestamp()
        told = f"{last:%Y-%m-%d}", f"{last:%H:%M} {self._zone.key}"
        return _WindowState(opened, closes, midnight, *told)


_cron = functools.lru_cache(_MOST_CRONS)(Cron)
_window = functools.lru_cache(_MOST_WINDOWS)(_Window)
