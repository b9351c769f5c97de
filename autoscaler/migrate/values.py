"""Values as manifests have them: texts with placeholders, and JSON within a text."""

import json
import re
from collections.abc import Iterator, Mapping

from autoscaler.config.documents import Location, one_line

_PLACEHOLDER = re.compile(r"\$\{[^{}]{0,200}\}|\{\{[^{}]{0,500}\}\}|<no value>")
_LONGEST_JSON = 256 << 10


def placeholder(value: object) -> str:
    """Return the first placeholder in a text, such as ``${MAX}`` or ``{{ .Values.max }}``."""
    found = _PLACEHOLDER.search(value) if isinstance(value, str) else None
    return one_line(found[0]) if found else ""


def not_filled_in(found: str) -> str:
    """Say what to do about a placeholder."""
    return (
        f"{found} is a placeholder that nothing fills in here: import the manifest as your tool "
        "renders it, or write the value"
    )


def placeholders(value: object, location: Location = ()) -> Iterator[tuple[Location, str]]:
    """Yield where in a value there are placeholders, and which."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from placeholders(inner, (*location, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from placeholders(inner, (*location, index))
    elif found := placeholder(value):
        yield location, found


def json_of(text: object) -> object:
    """Parse JSON as an annotation holds it; None for what is none, or is far too long."""
    if not isinstance(text, str) or len(text) > _LONGEST_JSON:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
