"""Instants as people write them, in the zone of the machine."""

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from autoscaler.cli.times import instant, local, localized, zone


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the machine be in Berlin."""
    yield from _zone(monkeypatch, "Europe/Berlin")


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the machine be in New York."""
    yield from _zone(monkeypatch, "America/New_York")


def _zone(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    monkeypatch.setenv("TZ", name)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str) -> float:
    """Return the Unix time of an instant with its offset."""
    return datetime.fromisoformat(text).timestamp()


SUNDAY = "2026-03-29 10:00+02:00"
"""In Berlin, on the day on which there is no 02:30."""


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", SUNDAY),
        ("10m", "2026-03-29 09:50+02:00"),
        ("10m ago", "2026-03-29 09:50+02:00"),
        ("1h30m ago", "2026-03-29 08:30+02:00"),
        ("2 hours ago", "2026-03-29 08:00+02:00"),
        ("12h ago", "2026-03-28 21:00+01:00"),
        ("03:12", "2026-03-29 03:12+02:00"),
        ("03:12:07", "2026-03-29 03:12:07+02:00"),
        ("10:00", SUNDAY),
        ("10:01", "2026-03-28 10:01+01:00"),
        ("23:00", "2026-03-28 23:00+01:00"),
        ("yesterday 18:00", "2026-03-28 18:00+01:00"),
        ("monday 9:00", "2026-03-23 09:00+01:00"),
        ("today 9:30", "2026-03-29 09:30+02:00"),
        ("2026-03-28T03:12:00Z", "2026-03-28 03:12+00:00"),
        ("2026-03-28 03:12", "2026-03-28 03:12+01:00"),
        ("2026-03-28", "2026-03-28 00:00+01:00"),
        ("2026-03-29T02:30", "2026-03-29 03:30+02:00"),
        ("  10m ago ", "2026-03-29 09:50+02:00"),
    ],
)
def test_a_time_is_the_last_one_that_it_can_mean(text: str, meant: str) -> None:
    """In the local zone, also over the change to daylight saving."""
    assert instant(text, at(SUNDAY)) == at(meant)


@pytest.mark.usefixtures("new_york")
def test_an_hour_that_comes_twice_is_the_first_one() -> None:
    """01:30 of the day on which daylight saving ends."""
    now = at("2026-11-01 12:00-05:00")
    assert instant("2026-11-01 01:30", now) == at("2026-11-01 01:30-04:00")
    assert instant("3h ago", at("2026-11-01 03:00-05:00")) == at("2026-11-01 01:00-04:00")


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "5/6", "20260301", "1774000000", "nonsense", "2026-02-30", "25:99", "x" * 61],
)
def test_what_is_no_time_is_an_error_with_examples(text: str) -> None:
    """A number may be many things, and 5/6 two days."""
    with pytest.raises(ValueError, match=r"is no time; write it as in: 10m ago, 03:12"):
        instant(text, at(SUNDAY))


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("text", ["in 5 minutes", "tomorrow", "2027-01-01"])
def test_what_has_not_come_yet_is_an_error(text: str) -> None:
    """Nothing is recorded of it."""
    with pytest.raises(ValueError, match="which has not come yet"):
        instant(text, at(SUNDAY))


@pytest.mark.usefixtures("berlin")
def test_instants_are_shown_in_the_zone_of_the_machine() -> None:
    """With their offset; in sentences without, which name the zone once."""
    now = at(SUNDAY)
    assert local(now) == "2026-03-29 10:00:00+02:00"
    assert zone(now) == "CEST (UTC+02:00)"
    sentence = "held at 9 until 08:05:30Z by the recommendation of 2026-03-28T22:59:00Z"
    assert localized(sentence, now) == (
        "held at 9 until 10:05:30 by the recommendation of 2026-03-28 23:59:00"
    )
    assert localized("ten:past, 99:99:99Z", now) == "ten:past, 99:99:99Z"
