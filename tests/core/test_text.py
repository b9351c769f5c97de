"""Untrusted text becomes one short line of visible characters; instants become RFC 3339."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.text import duration, printable, rfc3339, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("orders of Zürich, 注文", "orders of Zürich, 注文"),
        ("a \t\r\n  b\u00a0\u3000c ", "a b c"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x00\x7f\x85\x9b", "\\x00\\x7f\\x85\\x9b"),
        ("a\u202egnp.exe\u2066", "a\\u202egnp.exe\\u2066"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\u200bno\ufeffbody\u00ad", "\\u200bno\\ufeffbody\\xad"),
        ("\u3164\ufe0f\U000e0100", "\\u3164\\ufe0f\\U000e0100"),
        ("\ud800\U000e0041\ue000", "\\ud800\\U000e0041\\ue000"),
    ],
)
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_long_text_is_cut_with_a_mark() -> None:
    """The limit counts the mark of the cut, and what is written out."""
    assert printable("x" * 200) == "x" * 200
    assert printable("x" * 201) == "x" * 199 + "…"
    assert printable("\x1b" * 4, limit=10) == "\\x1b\\x1b\\…"
    assert printable(" " * 1000 + "x", limit=10) == "…"


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    class Long(str):
        """A text that must be cut before it is gone through."""

        __slots__ = ()

        def __iter__(self) -> "Long":  # type: ignore[override]
            raise AssertionError

        def split(self, *_: object) -> list[str]:
            raise AssertionError

        isprintable = isascii = strip = split  # type: ignore[assignment]

    assert printable(Long("\n" + "x" * 1_000_000), limit=3) == "xx…"


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 300))
def test_any_text_is_one_short_line(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert printable(shown, limit) == shown


@given(st.floats(0.0, 253_402_300_799.0))
def test_an_instant_is_rfc_3339_up_to_the_year_9999(time: float) -> None:
    whole = datetime.fromtimestamp(int(time), UTC)
    assert rfc3339(time) == whole.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


@pytest.mark.parametrize("time", [-1.0, -float("inf")])
def test_an_instant_before_1970_is_1970(time: float) -> None:
    assert rfc3339(time) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.0, "59 s"),
        (61.0, "1 min 1 s"),
        (3660.0, "1 h 1 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_keeps_its_blanks_and_shows_control_characters() -> None:
    assert visible("  limit       3 -> 4", 100) == "  limit       3 -> 4"
    assert visible("  a\x1b[2J\nb\u202e", 100) == r"  a\x1b[2J b\u202e"
    assert visible("x" * 101, 100) == "x" * 99 + "…"
    assert len(visible("\x1b" * 1000, 100)) == 100
