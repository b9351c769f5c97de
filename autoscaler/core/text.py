"""Text for messages: untrusted text on one line, instants and durations for people."""

import unicodedata
from datetime import UTC, datetime
from math import ceil

_READ_AHEAD = 2
"""The multiple of the limit that is read: a longer text costs no more."""
_CUT = "…"
_WHITESPACE = frozenset("\t\n\v\f\r ")
# Unicode classes these as letters or marks, but they are not visible.
_VARIANTS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_INVISIBLE = {*"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", *map(chr, _VARIANTS)}


def printable(text: str, limit: int = 200) -> str:
    r"""Return ``text`` as one line of at most ``limit`` characters.

    Runs of whitespace become one space.  Characters that are invisible or change how the rest is
    displayed (controls, bidirectional controls, line separators, surrogates, zero-width
    characters) become ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.  A text that is cut ends with ``…``.
    The time depends on the limit and not on the length of the text.  The result of a second call
    is the same.
    """
    if len(text) <= limit and _is_plain(text):
        return text
    start = text[: _READ_AHEAD * limit]
    line = " ".join("".join(map(_escaped, start)).split())
    if len(line) <= limit and len(start) == len(text):
        return line
    return line[: limit - len(_CUT)] + _CUT


def visible(line: str, limit: int) -> str:
    """Return one line of at most ``limit`` characters as `printable` does, spaces unchanged."""
    start = line[: limit + 1]
    shown = start if start.isascii() and start.isprintable() else "".join(map(_escaped, start))
    return shown if len(shown) <= limit else shown[: limit - len(_CUT)] + _CUT


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and "  " not in text and text == text.strip()


def _escaped(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    if character in _WHITESPACE or unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_LATEST = 253_402_300_799.0
"""The end of the year 9999, the last one that RFC 3339 can express."""


def rfc3339(time: float) -> str:
    """Format a Unix time as RFC 3339 in UTC, to the second; clamped to the years 1970 to 9999."""
    bounded = min(max(0.0, time), _LATEST)
    return datetime.fromtimestamp(int(bounded), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_milli(time: float) -> str:
    """Format a Unix time to the millisecond, rounded up: what began at it is never before it."""
    seconds, milli = divmod(ceil(min(max(0.0, time), _LATEST) * 1000 - 1e-3), 1000)
    text = rfc3339(seconds)
    return f"{text[:-1]}.{milli:03d}Z" if milli else text


def instant_of(text: str) -> float | None:
    """Return the Unix time of an ISO 8601 time with a zone; None for other texts."""
    try:
        instant = datetime.fromisoformat(text.strip())
        return None if instant.tzinfo is None else instant.timestamp()
    except (ValueError, OverflowError):
        return None


def duration(seconds: float) -> str:
    """Format a duration in its two largest units: "1 h 5 min"."""
    whole = max(0, round(seconds))
    for unit, size, smaller, part in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"
