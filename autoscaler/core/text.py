"""Text for messages: untrusted text on one line, instants as RFC 3339."""

import unicodedata
from datetime import UTC, datetime

_LOOKED_AT = 2
"""So many times the limit is looked at: whitespace and the rest beyond it cost nothing."""
_CUT = "…"
_WHITESPACE = frozenset("\t\n\v\f\r ")
# Letters and marks to Unicode, and yet nothing is seen of them.
_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)


def printable(text: str, limit: int = 200) -> str:
    r"""Return ``text`` as one line of at most ``limit`` characters.

    Runs of whitespace become a blank.  What is not seen or changes how the rest is shown (control
    characters, bidirectional controls, line separators, surrogates, zero-width characters) becomes
    ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.  What is cut ends with ``…``.  It takes as long as the
    limit, however long the text, and to apply it twice changes nothing.
    """
    if len(text) <= limit and _is_plain(text):
        return text
    seen = text[: _LOOKED_AT * limit]
    line = " ".join("".join(map(_shown, seen)).split())
    if len(line) <= limit and len(seen) == len(text):
        return line
    return line[: limit - len(_CUT)] + _CUT


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and "  " not in text and text == text.strip()


def _shown(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    if character in _WHITESPACE or unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_LATEST = 253_402_300_799.0
"""The end of the year 9999, the last that the form can write."""


def rfc3339(time: float) -> str:
    """Write a Unix time as RFC 3339 in UTC, to the second; what is out of range as its border."""
    bounded = min(max(0.0, time), _LATEST)
    return datetime.fromtimestamp(int(bounded), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
