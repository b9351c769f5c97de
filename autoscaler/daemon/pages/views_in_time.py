"""Which time a target's page shows, and which instant of it is chosen: all in its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from autoscaler.core.text import instant_of, rfc3339_milli

LAST = {
    "15m": (900.0, "15 min"),
    "1h": (3600.0, "1 h"),
    "6h": (6 * 3600.0, "6 h"),
    "24h": (24 * 3600.0, "24 h"),
    "7d": (7 * 86400.0, "7 d"),
    "14d": (14 * 86400.0, "14 d"),
}
"""The times up to now: seconds and words, by what the address calls them."""
USUAL = "1h"
_SHORTEST, _LONGEST = 60.0, 366 * 86400.0
_LATEST = 4_102_444_800.0
"""The year 2100."""


@dataclass(frozen=True, slots=True)
class View:
    """From ``begin`` to ``end``, in Unix seconds; ``at`` is the chosen instant, None for now.

    ``last`` is one of `LAST` if the view ends now and goes on; else it is empty.
    """

    begin: float
    end: float
    last: str
    at: float | None = None

    @property
    def span(self) -> float:
        """Its length in seconds."""
        return self.end - self.begin

    def to_last(self, last: str) -> str:
        """Return the query of the time up to now."""
        return "?" + urlencode({"last": last})

    def to(self, at: float | None = None, shift: float = 0.0, zoom: float = 1.0) -> str:
        """Return the query of a time that stays, moved by a part of it, or made longer."""
        middle, half = (self.begin + self.end) / 2 + shift * self.span, self.span * zoom / 2
        query = {"from": rfc3339_milli(middle - half), "to": rfc3339_milli(middle + half)}
        if at is not None:
            query["at"] = rfc3339_milli(at)
        return "?" + urlencode(query, safe=":")


def view_of(query: Mapping[str, str], now: float) -> View:
    """Read the query of an address; what is no time in it is as if it was not there."""
    begin, end, at = (_instant(query.get(key, "")) for key in ("from", "to", "at"))
    if begin is not None and end is not None and _SHORTEST <= end - begin <= _LONGEST:
        return View(begin, end, "", at)
    last = query.get("last", "")
    last = last if last in LAST else USUAL
    seconds = LAST[last][0]
    if at is not None and not now - seconds <= at <= now:
        return View(at - seconds / 2, at + seconds / 2, "", at)
    return View(now - seconds, now, last, at)


def _instant(text: str) -> float | None:
    instant = instant_of(text.replace(" ", "+")) if text else None
    return instant if instant is not None and 0.0 <= instant <= _LATEST else None
