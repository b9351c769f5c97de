"""Instants in the local zone: `10m ago`, `03:12`, `yesterday 18:00`, ISO 8601.

All of them are in the past, since they select parts of the record.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from autoscaler.config import durations
from autoscaler.core.text import instant_of, printable, rfc3339

_EXAMPLES = "10m ago, 03:12, yesterday 18:00, monday 9:00, 2026-01-31T03:12:00Z"
_OF_A_DAY = re.compile(
    r"(?:(?P<day>[a-z]+)(?: |$))?"
    r"(?:([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?P<utc> ?(?:z|utc))?)?"
)
_IN_UTC = re.compile(r"\b(\d{4}-\d\d-\d\dT)?(\d\d:\d\d:\d\d(?:\.\d+)?)Z")
_LONGEST = 60
_DAY = 86400


class UnknownTimeError(ValueError):
    """A text is not an instant in the past; the message is a sentence."""


def instant(text: str, now: float) -> float:
    """Return the Unix time of a text at ``now``; raises UnknownTimeError."""
    text = text.strip()
    found = _instant(text, now) if 0 < len(text) <= _LONGEST else None
    if found is None:
        shown = printable(text, _LONGEST)
        raise UnknownTimeError(f"{shown!r} is not a valid time; use a form such as {_EXAMPLES}")
    if found > now + 1:
        shown = f"{printable(text, _LONGEST)!r} is {local(found)}"
        raise UnknownTimeError(f"{shown}, which has not come yet")
    return found


def last_of(at: float) -> float:
    """Return the last instant of a second that is given without fractions."""
    return at + 0.999 if at == int(at) else at


def local(at: float) -> str:
    """Format an instant in the local zone: `2026-01-31 03:12:00+01:00`."""
    return _local(at).isoformat(" ", "seconds")


def zone(at: float) -> str:
    """Return the name of the local zone at an instant, such as `CET (UTC+01:00)`."""
    shown = _local(at)
    offset = shown.isoformat()[-6:]
    return "UTC" if offset == "+00:00" else f"{shown.tzname()} (UTC{offset})"


def localized(text: str, near: float, today: float | None = None) -> str:
    """Return a sentence with its UTC instants converted to the local zone.

    Instants without a date are those nearest to ``near``. Dates are written if they differ from the
    date of ``today``, by default of ``near``. Both are Unix seconds.
    """
    here = _local(near if today is None else today).date()

    def written(found: re.Match[str]) -> str:
        date, clock = found.groups()
        at = instant_of(f"{date or rfc3339(near)[:11]}{clock}Z")
        if at is None:
            return found[0]
        if date is None:
            at -= _DAY * round((at - near) / _DAY)
        shown = _local(at)
        return shown.strftime("%H:%M:%S" if shown.date() == here else "%Y-%m-%d %H:%M:%S")

    return _IN_UTC.sub(written, text)


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC).astimezone()


def _instant(text: str, now: float) -> float | None:
    if text.lower() == "now":
        return now
    ago = text[:-3].rstrip() if text.lower().endswith(" ago") else text
    with suppress(ValueError):
        return now - durations.parse(durations.tidied(ago) or ago)
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text).timestamp() if "-" in text else _of_a_day(text, now)
    return None


def _of_a_day(text: str, now: float) -> float | None:
    """Return when the clocks last showed a time, which they do twice in the night they go back.

    A day may precede it, and alone means the day's begin.
    """
    found = _OF_A_DAY.fullmatch(text.lower())
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[1:4])
    wanted = time(hour, minute, second)
    in_utc = found["utc"] is not None
    today = (datetime.fromtimestamp(now, UTC) if in_utc else _local(now)).date()
    days = [today - timedelta(days=ago) for ago in range(8)]
    if found["day"]:
        tomorrow = today + timedelta(days=1)
        named = {"today": days[:1], "yesterday": days[1:2], "tomorrow": [tomorrow]}
        of_week = [day for day in days if found["day"] in f"{day:%A} {day:%a}".lower().split()]
        days = named.get(found["day"], of_week)
    shown = [
        datetime.combine(day, wanted.replace(fold=fold), UTC if in_utc else None).timestamp()
        for day in days
        for fold in (0, 1)
    ]
    return max((at for at in shown if at <= now), default=min(shown, default=None))
