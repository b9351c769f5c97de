"""JSON of a server -> objects, once it is known how much memory they take.

`[[],[],…` takes fifty times the memory of its text.
"""

import json
import sys

# An upper bound in bytes on what json.loads makes of each: CPython 3.11 to 3.13.
_OF_A_CHARACTER = 2  # the text, and the strings that are taken from it
_OF_A_LIST, _OF_AN_OBJECT, _OF_A_PAIR, _OF_AN_ELEMENT = 88, 120, 100, 64


class TooMuch(Exception):  # noqa: N818 - what the document is
    """The document would take more memory than it may."""

    def __init__(self, memory: int, most: int) -> None:
        super().__init__(
            f"JSON that takes about {memory >> 20} MiB of memory, more than {most >> 20} MiB"
        )


def text_of(body: bytes) -> str:
    """Decode a body; raises UnicodeDecodeError, a ValueError, as parsing it would."""
    return body.decode("utf-8", "surrogatepass")


def memory_of(text: str) -> int:
    """Return how many bytes a text of JSON takes at most, itself included, once it is parsed.

    Of what servers send that is a half more than it does take, or double.
    """
    return (
        _OF_A_CHARACTER * sys.getsizeof(text)
        + _OF_A_LIST * text.count("[")
        + _OF_AN_OBJECT * text.count("{")
        + _OF_A_PAIR * text.count(":")
        + _OF_AN_ELEMENT * text.count(",")
    )


def parse(body: bytes, most: int) -> object:
    """Parse a body; raises TooMuch, and ValueError or RecursionError for what is no JSON."""
    text = text_of(body)
    memory = memory_of(text)
    if memory > most:
        raise TooMuch(memory, most)
    document: object = json.loads(text)
    return document
