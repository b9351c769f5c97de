"""JSON of a server -> objects, once it is known how much memory they take.

`[[],[],…` takes fifty times the memory of its text.
"""

import json
import re

# An upper bound in bytes on what json.loads makes of each: CPython 3.11 to 3.13.
_OF_A_LIST, _OF_AN_OBJECT, _OF_A_PAIR, _OF_AN_ELEMENT = 88, 120, 100, 64
_OF_A_BYTE = _OF_AN_OBJECT + 2 * 4
# One character makes all others of its string as wide as it is: from U+0100 on 2 bytes, from
# U+10000 on 4.  First as they begin in UTF-8, then as escapes.
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")
_WIDE_ESCAPE, _WIDEST_ESCAPE = re.compile(rb"\\u(?!00)"), re.compile(rb"\\u[dD][89abAB]")


class TooMuch(Exception):  # noqa: N818 - what the document is
    """The document would take more memory than it may."""

    def __init__(self, most: int) -> None:
        super().__init__(f"JSON that takes more than {most >> 20} MiB of memory")


def memory_of(body: bytes) -> int:
    """Return how many bytes a body of JSON takes at most while it is parsed, itself left out.

    Of what servers send that is a half more than it does take, or double.
    """
    of_text = _width(body)
    of_strings = max(of_text, _escaped_width(body))
    return (
        (of_text + of_strings) * len(body)
        + _OF_A_LIST * body.count(b"[")
        + _OF_AN_OBJECT * body.count(b"{")
        + _OF_A_PAIR * body.count(b":")
        + _OF_AN_ELEMENT * body.count(b",")
    )


def _width(body: bytes) -> int:
    """Return the bytes of a character of the body, decoded."""
    if body.isascii():
        return 1
    return 4 if _WIDEST.search(body) else 2 if _WIDE.search(body) else 1


def _escaped_width(body: bytes) -> int:
    """Return the bytes of a character of a string that has the widest escape in it."""
    if b"\\u" not in body:
        return 1
    return 4 if _WIDEST_ESCAPE.search(body) else 2 if _WIDE_ESCAPE.search(body) else 1


def parse(body: bytes, most: int) -> object:
    """Parse a body; raises TooMuch, and ValueError or RecursionError for what is no JSON."""
    # Of a short body there is nothing to count.
    if len(body) * _OF_A_BYTE > most and memory_of(body) > most:
        raise TooMuch(most)
    document: object = json.loads(body)
    return document
