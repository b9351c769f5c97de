"""Instants as people say them, in the local zone: `10m ago`, `03:12`, `yesterday 18:00`, ISO 8601.

All of them have passed: what is asked for is in the record.
"""

import re
from datetime import UTC, datetime, timedelta

from autoscaler.config import durations
from autoscaler.core.text import instant_of, printable, rfc3339

_EXAMPLES = "10m ago, 03:12, yesterday 18:00, monday 9:00, 2026-01-31T03:12:00Z"
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_NO_WORDS = re.compile(r"[^a-z]*", re.IGNORECASE)
"""What has no word in it is a number or a date in an order that nobody knows, such as 5/6."""
_IN_UTC = re.compile(r"\b(\d{4}-\d\d-\d\dT)?(\d\d:\d\d:\d\d(?:\.\d+)?)Z")
_LONGEST = 60


def instant(text: str, now: float) -> float:
    """Return the Unix time that a text means at ``now``; raises ValueError with a sentence."""
    text = text.strip()
    found = _instant(text, now) if 0 < len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(f"{printable(text, _LONGEST)!r} is no time; write it as in: {_EXAMPLES}")
    if found > now + 1:
        shown = local(found)
        raise ValueError(f"{printable(text, _LONGEST)!r} is {shown}, which has not come yet")
    return found


def local(at: float) -> str:
    """Write an instant in the local zone: `2026-01-31 03:12:00+01:00`."""
    return _local(at).isoformat(" ", "seconds")


def zone(at: float) -> str:
    """Return the name of the local zone at an instant, such as `CET (UTC+01:00)`."""
    shown = _local(at)
    return f"{shown.tzname()} (UTC{shown.isoformat()[-6:]})"


def localized(text: str, near: float) -> str:
    """Return a sentence with the instants in it, which are in UTC, in the local zone.

    Those without a date are of the day of ``near``, in Unix seconds.
    """
    day = rfc3339(near)[:10]

    def written(found: re.Match[str]) -> str:
        date, time = found.groups()
        at = instant_of(f"{date or day + 'T'}{time}Z")
        if at is None:
            return found[0]
        shown = _local(at)
        same = shown.date() == _local(near).date()
        return shown.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S")

    return _IN_UTC.sub(written, text)


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC).astimezone()


def _instant(text: str, now: float) -> float | None:
    if text.lower() == "now":
        return now
    ago = re.sub(r"\s+ago$", "", text, flags=re.IGNORECASE)
    try:
        return now - durations.parse(ago)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp() if "-" in text else _spoken(text, now)
    except (ValueError, OverflowError, OSError):
        return None


def _spoken(text: str, now: float) -> float | None:
    """Return an instant that is not in ISO 8601; None where it is none."""
    base = _local(now).replace(tzinfo=None)
    if found := _TIME_OF_DAY.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in found.groups())
        that = base.replace(hour=hour, minute=minute, second=second, microsecond=0)
        if that.timestamp() > now:
            that -= timedelta(days=1)
        return that.timestamp()
    if _NO_WORDS.fullmatch(text):
        return None
    import dateparser

    parsed = dateparser.parse(
        text,
        languages=["en"],
        settings={"PREFER_DATES_FROM": "past", "RELATIVE_BASE": base},
    )
    return None if parsed is None else parsed.timestamp()
