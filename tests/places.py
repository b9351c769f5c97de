"""The places of the values in a document, as paths of keys and indexes."""

from collections.abc import Iterator

from autoscaler.config.documents import Location


def places(document: object, location: Location = ()) -> Iterator[Location]:
    """Yield the place of each value of a document, its own first."""
    yield location
    if isinstance(document, dict | list):
        entries = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in entries:
            yield from places(value, (*location, key))
