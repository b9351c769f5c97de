"""Instants as people say them, in the local zone: `10m ago`, `03:12`, `yesterday 18:00`, ISO 8601.

All of them have passed: what is asked for is in the record.
"""

import re
from datetime import datetime, timedelta

from autoscaler.config import durations
from autoscaler.core.text import printable

_EXAMPLES = "10m ago, 03:12, yesterday 18:00, monday 9:00, 2026-01-31T03:12:00Z"
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_NO_WORDS = re.compile(r"[^a-z]*", re.IGNORECASE)
"""What has no word in it is a number or a date in an order that nobody knows, such as 5/6."""
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
    return datetime.fromtimestamp(round(at, 3)).astimezone().isoformat(" ", "seconds")


def zone_of(at: float) -> str:
    """Return the name of the local zone at an instant, such as CET."""
    return datetime.fromtimestamp(at).astimezone().tzname() or "local time"


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
    base = datetime.fromtimestamp(now)
    if found := _TIME_OF_DAY.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in found.groups())
        that = base.replace(hour=hour, minute=minute, second=second, microsecond=0)
        if that.timestamp() > now:
            that -= timedelta(days=1)
        return that.timestamp()
    if _NO_WORDS.fullmatch(text):
        return None
    import dateparser  # it takes long

    parsed = dateparser.parse(
        text,
        languages=["en"],
        settings={"PREFER_DATES_FROM": "past", "RELATIVE_BASE": base},
    )
    return None if parsed is None else parsed.timestamp()
