"""The metadata of a trigger of KEDA: texts, also where numbers and booleans are meant."""

import math
import re

from autoscaler.migrate.fields import Fields, not_filled_in, placeholder

_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
"""The booleans as Go reads them."""
_NOT_A_TEXT = (
    "metadata of a trigger is text, and the API server refuses anything else; it is read as the "
    "text of this value"
)
_LONGEST_NUMBER = 40
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
_NUMBERED = re.compile(r"s[0-9]++-")
"""How the names of metrics begin that KEDA makes."""


def text_of(metadata: Fields, key: str) -> str | None:
    """Return a text without blanks around it; None where there is none, as KEDA takes it."""
    value = metadata.peek(key)
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = repr(value)
    if value is None:
        if key in metadata.value:
            metadata.ignored(key, why="it has no value")
        return None
    if not isinstance(value, str):
        metadata.refused(key, why="must be a text, as all metadata of a trigger")
        return None
    metadata.get(key)
    if not isinstance(metadata.peek(key), str):
        metadata.different(key, why=_NOT_A_TEXT)
    return value.strip() or None


def name_of(fields: Fields, default: str, key: str = "name") -> str:
    """Return a name that somebody gave, as it may be written here; else the default."""
    name = fields.peek(key)
    given = isinstance(name, str) and _PLAIN.fullmatch(name) and not _NUMBERED.match(name)
    return str(name) if given else default


def number_of(metadata: Fields, key: str, kind: str) -> int | float | None:
    """Return a number; None where there is none, and where what is there is refused."""
    text = text_of(metadata, key)
    if text is None:
        return None
    if found := placeholder(text):
        metadata.refused(key, why=not_filled_in(found), kind=kind)
        return None
    number = parsed(text)
    if number is None:
        metadata.refused(key, why="is no number, without which KEDA fails", kind=kind)
    return number


def parsed(text: object) -> int | float | None:
    """Read a number as KEDA does; None for what is none."""
    if not isinstance(text, str) or len(text) > _LONGEST_NUMBER:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number) or "_" in text:
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def is_true(text: object) -> bool:
    """Return whether Go reads a text as true."""
    return text in _TRUE


def is_false(text: object) -> bool:
    """Return whether Go reads a text as false."""
    return text in _FALSE
