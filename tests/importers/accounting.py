"""Whether a report accounts for each key of a document."""

from typing import Any

from autoscaler.config.documents import path_of
from tests.places import places


def unaccounted(value: Any, keys: list[dict[str, Any]]) -> list[str]:
    """Return the values that no entry of a report accounts for.

    The entries of a text that contains YAML or JSON are those of its values.
    """
    paths = {key["path"] for key in keys}
    in_texts = {path[:at] for path in paths for at, sign in enumerate(path) if sign in ".["}
    locations = list(places(value))
    parents = {location[:-1] for location in locations if location}
    return [
        path_of(location)
        for location in locations
        if location not in parents
        and path_of(location) not in in_texts
        and not any(path_of(location[:length]) in paths for length in range(len(location) + 1))
    ]
