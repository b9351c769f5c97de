"""The metadata of a trigger of KEDA: texts, even for numbers and booleans."""

import json
import math
from collections.abc import Collection

from autoscaler.migrate.fields import Fields

_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
"""The booleans as Go reads them."""
_NOT_A_TEXT = (
    "metadata of a trigger is text, and the API server refuses anything else; it is read as the "
    "text of this value"
)
_NOT_READ = "KEDA reads no such key of this trigger, so that it has no effect"
_LONGEST_NUMBER = 40


def texts_of(metadata: Fields, known: Collection[str]) -> dict[str, str]:
    """Return the texts of the known keys without surrounding spaces, as KEDA reads them.

    All other keys are ignored; values other than texts, numbers and booleans are refused.
    """
    texts: dict[str, str] = {}
    for key, value in metadata.value.items():
        if key not in known:
            metadata.ignored(key, why=_NOT_READ)
        elif value is None:
            metadata.ignored(key, why="it has no value")
        elif isinstance(value, dict | list):
            metadata.refused(key, why="must be a text, as all metadata of a trigger")
        else:
            metadata.get(key)
            text = value if isinstance(value, str) else json.dumps(value)
            if text is not value:
                metadata.different(key, why=_NOT_A_TEXT)
            if text.strip():
                texts[key] = text.strip()
    return texts


def parsed(text: object) -> int | float | None:
    """Read a number as KEDA does; None for other texts."""
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
