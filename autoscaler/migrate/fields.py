"""A source document whose keys are accounted for: converted, different or refused."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from autoscaler.config.documents import Location, Value, child, describe, one_line

_UNKNOWN = "nothing is known of this key: leave it out there, or write here what it is for"


class KeyOutcome(Enum):
    """The outcome of a key."""

    CARRIED = "carried"
    """It has the same meaning here."""
    DIFFERENT = "different"
    """It is carried over with a difference, which a sentence describes."""
    IGNORED = "ignored"
    """It has no effect here, and needs none; a sentence says why."""
    REFUSED = "refused"
    """It is lost; a sentence says what to do. Each is an entry of `undecided` of its target."""


class KeyEntry(NamedTuple):
    """The outcome of a key and of all keys below it without their own."""

    location: Location
    outcome: KeyOutcome
    why: str = ""
    kind: str = ""
    """The type of its trigger or metric, if that matters."""
    shown: str = ""
    """The value to show; empty for a list, a mapping and possible secrets."""

    @property
    def sentence(self) -> str:
        """The message, with the value if the reason lacks it."""
        named = not self.shown or self.shown.strip('"') in self.why
        return self.why if named else f"{self.why} (got {self.shown})"


@dataclass(frozen=True)
class _Entries:
    by_location: dict[Location, KeyEntry] = field(default_factory=dict)
    secret: set[Location] = field(default_factory=set)


class Fields:
    """A mapping or list in a document; its readers record the outcome of each key.

    ``get`` records a key as carried over; ``different``, ``ignored`` and ``refused`` record other
    outcomes, before or after. An outcome applies to all keys below it without their own; ``peek``
    and ``within`` record nothing. ``refuse_the_rest`` refuses all other keys at the end.
    """

    def __init__(
        self, value: object, location: Location = (), entries: _Entries | None = None
    ) -> None:
        self._held = value
        self.value: Mapping[str, Value] = value if isinstance(value, Mapping) else {}
        """The mapping; empty without one."""
        self.location = location
        self._entries = _Entries() if entries is None else entries

    def peek(self, *keys: str | int) -> object:
        """Return a value without an outcome; None without a value."""
        return child(self._held, *keys)

    def get(self, *keys: str | int) -> object:
        """Return a value, which is converted unless it gets another outcome."""
        value = self.peek(*keys)
        if value is not None and (*self.location, *keys) not in self._entries.by_location:
            self._say(keys, KeyOutcome.CARRIED)
        return value

    def within(self, *keys: str | int) -> "Fields":
        """Return the mapping at a place, or an empty one."""
        return Fields(self.peek(*keys), (*self.location, *keys), self._entries)

    def each(self, *keys: str) -> Iterator["Fields"]:
        """Yield the mappings in a list; other items are left, and so refused."""
        listed = self.peek(*keys)
        for index, value in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(value, dict):
                yield Fields(value, (*self.location, *keys, index), self._entries)

    def parsed(self, *keys: str | int, value: object) -> "Fields":
        """Return a view of the data in the text at a key; `refuse_the_rest` ignores it."""
        return Fields(value, (*self.location, *keys), self._entries)

    def carried(self, *keys: str | int) -> None:
        """Record that a key means the same here, whatever was recorded; no keys: all of it."""
        self._say(keys, KeyOutcome.CARRIED)

    def different(self, *keys: str | int, why: str) -> None:
        """Record that a key was carried over with a difference."""
        self._say(keys, KeyOutcome.DIFFERENT, why)

    def ignored(self, *keys: str | int, why: str) -> None:
        """Record that a key has no effect here, and needs none."""
        self._say(keys, KeyOutcome.IGNORED, why)

    def refused(self, *keys: str | int, why: str, kind: str = "") -> None:
        """Record that a key is lost, and what to do."""
        self._say(keys, KeyOutcome.REFUSED, why, kind)

    def secret(self, *keys: str | int) -> None:
        """Never show the value of a key."""
        location = (*self.location, *keys)
        self._entries.secret.add(location)
        entry = self._entries.by_location.get(location)
        if entry is not None:
            self._entries.by_location[location] = entry._replace(shown="")

    def refuse_the_rest(self, why: str = _UNKNOWN) -> None:
        """Refuse keys without an outcome, at the highest level below which nothing is known."""
        known = {
            location[:length]
            for location in self._entries.by_location
            for length in range(len(location) + 1)
        }
        for location in list(self._left(self._held, self.location, known)):
            self.refused(*location[len(self.location) :], why=why)

    def outcome(self, *keys: str | int) -> KeyEntry | None:
        """Return the outcome of a key, or of the nearest key above it."""
        location = (*self.location, *keys)
        nearest = (location[:length] for length in range(len(location), -1, -1))
        entries = self._entries.by_location
        return next((entries[location] for location in nearest if location in entries), None)

    def entries(self) -> list[KeyEntry]:
        """Return all outcomes of the document, in the order of its keys."""
        said = self._entries.by_location
        order = [location for location in _locations(self._held, self.location) if location in said]
        others = said.keys() - set(order)
        return [said[other] for other in (*sorted(others, key=str), *order)]

    def _say(
        self, keys: tuple[str | int, ...], outcome: KeyOutcome, why: str = "", kind: str = ""
    ) -> None:
        location, value = (*self.location, *keys), self.peek(*keys)
        hidden = value is None or isinstance(value, dict | list) or location in self._entries.secret
        shown = "" if hidden else describe(value)
        self._entries.by_location[location] = KeyEntry(location, outcome, why, kind, shown)

    def _left(self, value: object, location: Location, known: set[Location]) -> Iterator[Location]:
        if self._entries.by_location.get(location) is not None:
            return  # It covers the keys below, which may have entries of their own.
        if location not in known and location != self.location:
            yield location
            return
        for key, inner in items_of(value):
            yield from self._left(inner, (*location, key), known)


def items_of(value: object) -> Iterator[tuple[str | int, object]]:
    """Yield the keys and values of a mapping, or the positions and entries of a list."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _locations(value: object, location: Location) -> Iterator[Location]:
    yield location
    for key, inner in items_of(value):
        yield from _locations(inner, (*location, key))


_PLACEHOLDER = re.compile(r"\$\{[^{}]{0,200}\}|\{\{[^{}]{0,500}\}\}|<no value>")
_LONGEST_JSON = 256 << 10


def placeholder(value: object) -> str:
    """Return the first placeholder in a text, such as ``${MAX}`` or ``{{ .Values.max }}``."""
    found = _PLACEHOLDER.search(value) if isinstance(value, str) else None
    return one_line(found[0]) if found else ""


def not_filled_in(found: str) -> str:
    """Return what to do about a placeholder."""
    return (
        f"{found} is a placeholder that nothing fills in here: import the manifest as your tool "
        "renders it, or write the value"
    )


def placeholders(value: object, location: Location = ()) -> Iterator[tuple[Location, str]]:
    """Yield the places and texts of placeholders in a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from placeholders(inner, (*location, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from placeholders(inner, (*location, index))
    elif found := placeholder(value):
        yield location, found


def json_of(text: object) -> object:
    """Parse the JSON of an annotation; None if it is invalid or far too long."""
    if not isinstance(text, str) or len(text) > _LONGEST_JSON:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
