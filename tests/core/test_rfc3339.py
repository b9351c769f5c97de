"""Instants as text."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.rfc3339 import instant


@given(st.floats(0.0, 253_402_300_799.0))
def test_an_instant_is_what_the_calendar_says(time: float) -> None:
    """To the second, up to the end of the year 9999."""
    whole = datetime.fromtimestamp(int(time), UTC)
    assert instant(time) == whole.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


@pytest.mark.parametrize("time", [-1.0, -float("inf")])
def test_what_is_no_instant_is_the_first(time: float) -> None:
    """A source of series may send anything."""
    assert instant(time) == "1970-01-01T00:00:00Z"
