"""Unix times as text."""

from datetime import UTC, datetime

_LATEST = 253_402_300_799.0
"""The end of the year 9999, the last that the form can write."""


def instant(time: float) -> str:
    """Write a Unix time as RFC 3339 in UTC, to the second; what is out of range as its border."""
    bounded = min(max(0.0, time), _LATEST)
    return datetime.fromtimestamp(int(bounded), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
