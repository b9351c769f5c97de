"""Whether a report says of each key of a document what became of it."""

from collections.abc import Iterator
from typing import Any

from autoscaler.config.documents import Location, path_of


def leaves(value: Any, location: Location = ()) -> Iterator[Location]:
    """Yield where the values of a document stand."""
    if isinstance(value, dict | list) and value:
        for key, text in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(text, (*location, key))
    else:
        yield location


def unaccounted(value: Any, keys: list[dict[str, Any]]) -> list[str]:
    """Return the values of which no entry of a report says what became of them.

    Of a text that holds YAML or JSON the entries are of what is in it.
    """
    said = {key["path"] for key in keys}
    in_texts = {path[:at] for path in said for at, sign in enumerate(path) if sign in ".["}
    return [
        path_of(location)
        for location in leaves(value)
        if path_of(location) not in in_texts
        and not any(path_of(location[:length]) in said for length in range(len(location) + 1))
    ]
