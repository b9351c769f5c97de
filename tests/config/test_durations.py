"""Durations are read as Prometheus and Go write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config import durations

FORMS = """
15s=15 5m=300 1h30m=5400 1d=86400 2w=1209600 1y=31536000 500ms=0.5 1.5h=5400 .5s=0.5 1.s=1 +3s=3
1m0.25s=60.25 250us=0.00025 250µs=0.00025 7ns=7e-9 0=0 0s=0 5m0s=300
"""


@pytest.mark.parametrize(("text", "seconds"), [row.split("=") for row in FORMS.split()])
def test_the_forms_of_prometheus_and_go_are_read(text: str, seconds: str) -> None:
    assert durations.seconds_of(text) == float(seconds)
    assert re.search(durations.PATTERN, text)


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        ("15", "needs a unit"),
        ("1.5", "needs a unit"),
        (15, "write 15s if seconds are meant"),
        (0.5, "write 0.5s if seconds are meant"),
        ("-5s", "cannot be negative"),
        ("101y", "more than 100 years"),
        *((text, "must be a duration such as 15s") for text in ("", "5 m", "5M", "5min", "m5")),
        *((text, "must be a duration") for text in ("1h30", "5s\n", "\u0665s")),
        *((number, "must be a duration") for number in (True, -1, float("nan"))),
        ([], "must be a duration"),
    ],
)
def test_a_wrong_duration_is_refused_with_the_right_form(value: object, fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        durations.seconds_of(value)


def test_zero_needs_no_unit() -> None:
    assert durations.seconds_of(0) == 0.0


@given(st.integers(0, 10**15))
def test_a_written_duration_reads_back_as_itself(microseconds: int) -> None:
    seconds = microseconds / 10**6
    assert durations.parse(durations.format_seconds(seconds)) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (15.0, "15s"), (5400.0, "1h30m"), (86400.0, "1d"), (0.5, "500ms"), (1e-9, "1ns")],
)
def test_durations_are_written_the_short_way(seconds: float, text: str) -> None:
    assert durations.format_seconds(seconds) == text
