"""Instants as people say them, in the local zone: `10m ago`, `03:12`, `yesterday 18:00`, ISO 8601.

All of them have passed: what is asked for is in the record.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from autoscaler.config import durations
from autoscaler.core.text import instant_of, printable, rfc3339

_EXAMPLES = "10m ago, 03:12, yesterday 18:00, monday 9:00, 2026-01-31T03:12:00Z"
_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: ?(Z|UTC))?", re.IGNORECASE)
_AGO = re.compile(r"\sago$", re.IGNORECASE)
_WORD = re.compile(r"[a-z]{2}", re.IGNORECASE)
"""What has no word in it is a number, or a date as below."""

_IN_NO_ORDER = re.compile(r"[0-9]\s*[/.]\s*[0-9]")
"""A date whose day and month may be either way round, such as 5/6."""

_CLOCK = re.compile(r"[0-9]{1,2}(?:(?::[0-9]{2}){1,2}|(?= ?[ap]m))", re.IGNORECASE)
_OF_A_DATE = re.compile(
    r"[0-9]|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)
_NO_CLOCK = re.compile(r"(?:2[4-9]|[3-9][0-9]|[0-9]{3}):|:[6-9][0-9]")
"""The library takes 25:00 for no time of day at all."""
_YEAR = re.compile(r"\b[0-9]{4}\b")
_IN_UTC = re.compile(r"\b(\d{4}-\d\d-\d\dT)?(\d\d:\d\d:\d\d(?:\.\d+)?)Z")
_LONGEST = 60
_DAY = 86400


class UnknownTimeError(ValueError):
    """A text means no instant that has passed; the message is a sentence."""


def instant(text: str, now: float) -> float:
    """Return the Unix time that a text means at ``now``; raises UnknownTimeError."""
    text = text.strip()
    found = _instant(text, now) if 0 < len(text) <= _LONGEST else None
    if found is None:
        shown = printable(text, _LONGEST)
        raise UnknownTimeError(f"{shown!r} is no time; write it as in: {_EXAMPLES}")
    if found > now + 1:
        shown = f"{printable(text, _LONGEST)!r} is {local(found)}"
        raise UnknownTimeError(f"{shown}, which has not come yet")
    return found


def last_of(at: float) -> float:
    """Return the last instant of a second that is named without its parts."""
    return at + 0.999 if at == int(at) else at


def local(at: float) -> str:
    """Write an instant in the local zone: `2026-01-31 03:12:00+01:00`."""
    return _local(at).isoformat(" ", "seconds")


def zone(at: float) -> str:
    """Return the name of the local zone at an instant, such as `CET (UTC+01:00)`."""
    shown = _local(at)
    offset = shown.isoformat()[-6:]
    return "UTC" if offset == "+00:00" else f"{shown.tzname()} (UTC{offset})"


def localized(text: str, near: float, today: float | None = None) -> str:
    """Return a sentence with the instants in it, which are in UTC, in the local zone.

    Those without a date are those that are nearest to ``near``.  Dates are written where they are
    not that of ``today``, by default of ``near``.  Both are Unix seconds.
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
    ago = text[:-3].rstrip() if _AGO.search(text) else text
    with suppress(ValueError):
        return now - durations.parse(durations.tidied(ago) or ago)
    try:
        return datetime.fromisoformat(text).timestamp() if "-" in text else _spoken(text, now)
    except (ValueError, OverflowError, OSError):
        return None


def _spoken(text: str, now: float) -> float | None:
    if found := _TIME_OF_DAY.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in found.groups()[:3])
        return _last_time_of_day(time(hour, minute, second), now, in_utc=found[4] is not None)
    if not _WORD.search(text) or any(one.search(text) for one in (_IN_NO_ORDER, _NO_CLOCK)):
        return None
    base = _local(now)
    weekday, _, rest = text.partition(" ")
    if weekday.lower() in {base.strftime("%A").lower(), base.strftime("%a").lower()}:
        with suppress(ValueError):
            today = _parsed(f"today {rest or '00:00'}", base)
            if today is not None and today <= now:
                return today
    if text.lower().endswith(" ago"):
        base = base.astimezone(UTC)  # an hour ago is one also where the clocks changed
    return _parsed(text, base)


def _parsed(text: str, base: datetime) -> float | None:
    import dateparser

    # Else "march" is of today's day of the month, and "sat 12" a day in December.
    dated = " ago" not in text.lower() and _OF_A_DATE.search(_CLOCK.sub("", text))
    parsed = dateparser.parse(
        text,
        languages=["en"],
        settings={
            "PREFER_DATES_FROM": "past",
            "RELATIVE_BASE": base.replace(tzinfo=None),
            "REQUIRE_PARTS": ["day"] if dated else [],
        },
    )
    if parsed is None:
        return None
    if parsed.tzinfo is not None:
        # Of a zone that is not the local one the last such day may be another.
        return parsed.timestamp() if _YEAR.search(text) else None
    return (parsed.replace(tzinfo=UTC) if base.tzinfo is UTC else parsed).timestamp()


def _last_time_of_day(wanted: time, now: float, *, in_utc: bool) -> float:
    """Return when the clocks last showed a time, which they do twice in the night they go back."""
    day = datetime.fromtimestamp(now, UTC).date() if in_utc else _local(now).date()
    shown = [
        datetime.combine(one, wanted.replace(fold=fold), UTC if in_utc else None).timestamp()
        for one in (day, day - timedelta(days=1))
        for fold in (0, 1)
    ]
    return max(at for at in shown if at <= now)
