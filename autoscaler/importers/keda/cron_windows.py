"""The times of a cron trigger of KEDA -> windows that open and close when it does.

KEDA's is open while its next end comes no later than its next start; a window here is open from an
instant of its start to the next of its end.  Both are the same where starts and ends come in turn.
https://keda.sh/docs/latest/scalers/cron/
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

from autoscaler.schedules import Cron, alternate

_A_DAY = 24 * 60
_A_WEEK = 7 * _A_DAY
_MOST_WINDOWS = 14
"""Those that stand for one trigger: two for each day of the week."""

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([0-9]{1,2}))?")
_SUNDAY_AS_7 = re.compile(r"(?:^|[,-])7|7(?:$|[,-])")
_UTC = ZoneInfo("UTC")


class Window(NamedTuple):
    """The cron expressions of one of `schedules`."""

    start: str
    end: str


def windows_of(start: str, end: str) -> list[Window]:
    """Return windows that are open exactly when a trigger with these times is.

    Raises ValueError with a sentence for what KEDA or `schedules` refuse, and for times that no few
    windows stand for.  Takes up to a tenth of a second.
    """
    if start == end:
        raise ValueError("start and end are the same, which KEDA refuses")
    start, end = _as_cron("start", start), _as_cron("end", end)
    if not all(cron.split()[2:4] == ["*", "*"] for cron in (start, end)):
        if alternate(start, end):
            return [Window(start, end)]
        raise ValueError(
            "its starts and ends do not come in turn, and KEDA has it open while the next end "
            "comes before the next start: write `schedules` that are open when you want it"
        )
    times = _minutes(start), _minutes(end)
    if not all(times):
        raise ValueError("start or end never comes")
    week = _Week(sorted(times[0] | times[1]))
    wanted = week.open_in_keda(times[1])
    if wanted == week.open_here(*times):
        return [Window(start, end)]
    return _windows_of_a_week(week, wanted)


def _as_cron(key: str, text: str) -> str:
    """Return an expression as `schedules` takes it.  Raises ValueError."""
    cron = " ".join("*" if field == "?" else field for field in text.split())
    try:
        Cron(cron, _UTC)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None
    if _SUNDAY_AS_7.search(cron.split()[4]):
        raise ValueError(f"{key} has the day of the week 7, which KEDA refuses: Sunday is 0")
    return cron


def _minutes(cron: str) -> frozenset[int]:
    """Return the minutes of the week, from Sunday, at which an expression of every week comes."""
    minute, hour, _, _, weekday = cron.split()
    return frozenset(
        day * _A_DAY + hours * 60 + minutes
        for day in _values(weekday, 6)
        for hours in _values(hour, 23)
        for minutes in _values(minute, 59)
    )


def _values(field: str, last: int) -> Iterator[int]:
    for part in field.lower().split(","):
        form = _PART.fullmatch(part)
        if form is None:
            raise ValueError(f"has {part}, which this conversion does not read")
        first, end, step = form.groups()
        begin = 0 if first is None else _value(first)
        until = _value(end) if end else last if first is None or step else begin
        if until < begin:
            raise ValueError(f"{part} ends before it begins, which KEDA refuses")
        yield from range(begin, until + 1, int(step or 1))


def _value(text: str) -> int:
    return _DAYS.index(text) if text in _DAYS else int(text)


class _Week:
    """The parts of a week between the instants at which a window may open or close."""

    def __init__(self, instants: list[int]) -> None:
        self.instants = instants

    def open_in_keda(self, ends: frozenset[int]) -> list[bool]:
        """Return in which parts the next end comes no later than the next start."""
        return [instant in ends for instant in (*self.instants[1:], self.instants[0])]

    def open_here(self, starts: frozenset[int], ends: frozenset[int]) -> list[bool]:
        """Return which parts are between a start and the next end."""
        result: list[bool] = []
        is_open = False
        # What was open before the first instant is known after the last one.
        for _ in range(2):
            result.clear()
            for instant in self.instants:
                is_open = instant not in ends and (is_open or instant in starts)
                result.append(is_open)
        return result

    def intervals(self, parts: list[bool]) -> list[tuple[int, int]]:
        """Return the times of parts, from the first minute to the one after the last."""
        count = len(parts)
        begins = [index for index in range(count) if parts[index] and not parts[index - 1]]
        if not begins:
            return [(0, _A_WEEK // 2), (_A_WEEK // 2, _A_WEEK)] if any(parts) else []
        result = []
        for begin in begins:
            end = begin
            while parts[end % count]:
                end += 1
            weeks, index = divmod(end, count)
            result.append((self.instants[begin], weeks * _A_WEEK + self.instants[index]))
        return result


def _windows_of_a_week(week: _Week, wanted: list[bool]) -> list[Window]:
    """Return windows that are open in just these parts of the week, few if days are alike."""
    intervals = week.intervals(wanted)
    if not intervals:
        raise ValueError("its times are such that it is never open: leave it out")
    alike: dict[tuple[int, int], list[int]] = {}
    for begin, end in intervals:
        day = begin // _A_DAY
        alike.setdefault((begin - day * _A_DAY, end - day * _A_DAY), []).append(day)
    # Those of one group are apart, so that each end comes before the next start.
    if len(alike) <= _MOST_WINDOWS:
        return [Window(*_crons(times, days)) for times, days in alike.items()]
    raise ValueError(
        "its starts and ends do not come in turn, and the times at which KEDA has it open are "
        f"more than {_MOST_WINDOWS} in a week: write `schedules` for those that you want"
    )


def _crons(times: tuple[int, int], days: list[int]) -> tuple[str, str]:
    """Write the begin and the end of a time, in minutes from midnight of each of the days."""
    of_week = (_week([(day + minute // _A_DAY) % 7 for day in days]) for minute in times)
    begin, end = (
        f"{minute % 60} {minute // 60 % 24} * * {week}"
        for minute, week in zip(times, of_week, strict=True)
    )
    return begin, end


def _week(days: list[int]) -> str:
    """Write days of the week, such as 1-5."""
    days = sorted(set(days))
    if len(days) == len(_DAYS):
        return "*"
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
