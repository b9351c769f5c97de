"""Durations as Prometheus and Go write them, such as ``1h30m`` and ``500ms``; seconds in code."""

import re
from fractions import Fraction

UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
    "w": Fraction(7 * 86400),
    "y": Fraction(365 * 86400),
}
"""The units in seconds."""
_TERM = r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:ns|us|µs|μs|ms|s|m|h|d|w|y)"
PATTERN = rf"^\+?(?:0|(?:{_TERM})+)$"
"""The form as a regular expression, for the JSON Schema."""

_FORM = re.compile(PATTERN)
_SPLIT = re.compile(r"([0-9.]{1,37})([a-zµμ]{1,2})")
_WORDED = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) *([A-Za-z]+)")
_WORDS = {
    "ms": {"ms", "msec", "msecs", "millis", "millisecond", "milliseconds"},
    "s": {"s", "sec", "secs", "second", "seconds"},
    "m": {"m", "min", "mins", "minute", "minutes"},
    "h": {"h", "hr", "hrs", "hour", "hours"},
    "d": {"d", "day", "days"},
    "w": {"w", "week", "weeks"},
}
_EXAMPLES = "such as 15s, 5m, 1h30m, 1d or 500ms"
_LONGEST = Fraction(100 * 365 * 86400)
_LONGEST_TEXT = 200


def parse(text: str) -> float:
    """Parse a duration and return its seconds.

    Units may be combined in any order and have fractions, as in Go; days, weeks and years are 24 h,
    7 d and 365 d long, as in Prometheus. Raises ValueError for anything else, for negative
    durations and for more than 100 years.
    """
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"must be a duration {_EXAMPLES}, and has {len(text):,} characters")
    if re.fullmatch(r"[+-]?[0-9.]+", text) and text.lstrip("+") != "0":
        raise ValueError(f"a duration needs a unit, {_EXAMPLES}")
    if text.startswith("-"):
        raise ValueError(f"a duration cannot be negative; right is a time {_EXAMPLES}")
    # A final newline would match "$" of the pattern.
    if _FORM.fullmatch(text) is None or text.endswith("\n"):
        meant = tidied(text)
        advice = "" if meant is None else f"; did you mean {meant}?"
        raise ValueError(f"must be a duration {_EXAMPLES}{advice}")
    seconds = sum(
        (Fraction(_whole(number)) * UNITS[unit] for number, unit in _SPLIT.findall(text)),
        Fraction(0),
    )
    if seconds > _LONGEST:
        raise ValueError("a duration of more than 100 years is surely a slip")
    return float(seconds)


def tidied(text: str) -> str | None:
    """Return the probable duration of a text with spaces or words, such as ``5 minutes``."""
    form = _WORDED.fullmatch(text.strip())
    if form is None:
        return None
    word = form[2].lower()
    unit = next((unit for unit, words in _WORDS.items() if word in words), None)
    return None if unit is None else f"{form[1]}{unit}"


def _whole(number: str) -> str:
    """Complete ``1.`` and ``.5``, which Go writes and Fraction cannot parse."""
    return f"0{number}0" if "." in number else number


def seconds_of(value: object) -> float:
    """Read a YAML duration: a text, or the number 0.  Raises ValueError with the sentence."""
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        if value == 0:
            return 0.0
        raise ValueError(
            f"a plain number has no unit; write {value:g}s if seconds are meant "
            f"(durations are {_EXAMPLES.removeprefix('such as ')})"
        )
    raise ValueError(f"must be a duration {_EXAMPLES}")


def format_seconds(seconds: float) -> str:
    """Format seconds in the short form, exact to the nanosecond: 5400.0 is ``1h30m``."""
    rest = Fraction(round(Fraction(seconds) * 10**9), 10**9)
    text = ""
    for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, rest = divmod(rest, UNITS[unit])
        text += f"{count}{unit}" if count else ""
    return text or "0s"
