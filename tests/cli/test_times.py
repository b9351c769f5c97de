"""Instants as people say them, in the local zone."""

from datetime import datetime

import pytest

from autoscaler.cli import times
from tests.cli.conftest import Zone

NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"
NOON = "2026-11-23T12:00:00-05:00"
"""A Monday."""


def meant(text: str, now: str) -> str:
    """Return the instant that a text means, as it is shown."""
    return times.local(times.instant(text, datetime.fromisoformat(now).timestamp()))


BACK, FORWARD = "2026-11-01T01:10:00-05:00", "2026-03-29T12:00:00+02:00"
"""The clocks of New York went back to 01:00 on the 1st of November, at 02:00.

Those of Berlin went from 02:00 to 03:00 on the 29th of March.
"""
AT_NOON = [
    ("now", "2026-11-23 12:00:00-05:00"),
    ("10m ago", "2026-11-23 11:50:00-05:00"),
    ("1h30m", "2026-11-23 10:30:00-05:00"),
    ("10 minutes ago", "2026-11-23 11:50:00-05:00"),
    ("03:12", "2026-11-23 03:12:00-05:00"),
    ("13:00", "2026-11-22 13:00:00-05:00"),
    ("03:12 UTC", "2026-11-22 22:12:00-05:00"),
    ("yesterday 18:00", "2026-11-22 18:00:00-05:00"),
    ("today 9:00", "2026-11-23 09:00:00-05:00"),
    ("monday 9:00", "2026-11-23 09:00:00-05:00"),
    ("Mon 13:00", "2026-11-16 13:00:00-05:00"),
    ("yesterday", "2026-11-22 00:00:00-05:00"),
    ("friday 9:00", "2026-11-20 09:00:00-05:00"),
    ("2026-11-22", "2026-11-22 00:00:00-05:00"),
    (" 2026-11-22 03:12 ", "2026-11-22 03:12:00-05:00"),
    ("2026-11-22T03:12:00Z", "2026-11-21 22:12:00-05:00"),
    ("2026-11-22T03:12:00+01:00", "2026-11-21 21:12:00-05:00"),
]
WHEN_CLOCKS_CHANGE = [
    (NEW_YORK, "2 hours ago", BACK, "2026-11-01 00:10:00-04:00"),
    (NEW_YORK, "01:30", BACK, "2026-11-01 01:30:00-04:00"),
    (NEW_YORK, "01:30", "2026-11-01T01:40:00-05:00", "2026-11-01 01:30:00-05:00"),
    (NEW_YORK, "01:30", "2026-11-01T14:00:00-05:00", "2026-11-01 01:30:00-05:00"),
    (NEW_YORK, "yesterday 18:00", "2026-11-01T14:00:00-05:00", "2026-10-31 18:00:00-04:00"),
    (NEW_YORK, "03:12 UTC", "2026-11-22T23:00:00-05:00", "2026-11-22 22:12:00-05:00"),
    (BERLIN, "11h", FORWARD, "2026-03-29 00:00:00+01:00"),
    (BERLIN, "01:30", FORWARD, "2026-03-29 01:30:00+01:00"),
    (BERLIN, "03:30", FORWARD, "2026-03-29 03:30:00+02:00"),
    (BERLIN, "yesterday 02:30", FORWARD, "2026-03-28 02:30:00+01:00"),
]


@pytest.mark.parametrize(
    ("local", "text", "now", "shown"),
    [*((NEW_YORK, text, NOON, shown) for text, shown in AT_NOON), *WHEN_CLOCKS_CHANGE],
)
def test_a_time_is_the_last_instant_that_fits(
    zone: Zone, local: str, text: str, now: str, shown: str
) -> None:
    zone(local)
    assert meant(text, now) == shown


INVALID = [
    *("", " ", "a", "10", "2026", "5/6", "25:00", "24:00", "yesterday 25:00", "sat 12"),
    *("gestern 18:00", "-5m", "monday foo", "03:12 EST", "in 5 minutes"),
    *("2026-13-01", "0001-01-01", "1757000000", "x" * 1000, "\x1b[31m", "nan"),
]
IN_THE_FUTURE = ["tomorrow", "today 13:00", "2026-11-24"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        *((text, "10m ago, 03:12") for text in INVALID),
        *((text, r" 2026-11-2\d .*-05:00") for text in IN_THE_FUTURE),
    ],
)
def test_an_invalid_or_future_time_is_refused(zone: Zone, text: str, part: str) -> None:
    zone(NEW_YORK)
    with pytest.raises(times.UnknownTimeError, match=part) as error:
        meant(text, NOON)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 250


def test_instants_in_sentences_are_shown_in_the_local_zone(zone: Zone) -> None:
    zone(BERLIN)
    near = datetime.fromisoformat("2026-11-22T02:00:00Z").timestamp()
    sentence = "until 2026-11-22T03:12:00Z, since 2026-11-20T03:12:00.250Z, x=99:99:99Z"
    until, late = "until 04:12:00, since 2026-11-20 04:12:00, x=99:99:99Z", near + 79200
    assert times.localized(sentence, near) == until
    assert times.localized("until 23:30:00Z", late, near) == "until 2026-11-23 00:30:00"
    assert times.localized("until 00:30:00Z", late - 60, near) == "until 2026-11-23 01:30:00"
    assert times.zone(near) == "CET (UTC+01:00)"
