"""YAML text -> plain values, in one pass over libyaml's events.

Building from events takes a fifth of the time and memory of PyYAML's node tree, and sees what
that hides: repeated keys, and keys that YAML 1.1 turns into booleans or numbers.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"
"""What a document is made of."""

Location = tuple[str | int, ...]
"""Where something is in a document: the keys and list positions that lead to it."""

Report: TypeAlias = Callable[[Location, int, str], None]
"""Takes a fault: the location, the line (from 1) and the sentence."""


class TooMuchError(yaml.YAMLError):
    """The document is larger than any configuration; ``line`` says where, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Place(NamedTuple):
    """Where a value stands: its line (from 1), and a plain scalar's text as it is written."""

    line: int
    plain: str | None = None


class Document(NamedTuple):
    """One of the documents of a text, and where its values stand."""

    value: Value
    places: dict[Location, Place]


SECOND = "a second YAML document starts here; keep one per file"
"""The fault of a text with several documents."""

_MOST_OF_A_KEY = 200
DEEPEST = 40
"""The levels of lists and mappings that may stand in one another; a configuration has 12."""

MOST_VALUES = 4_000_000
"""The keys and values that all files may hold; 20,000 targets of 25 lines have 2.4 million."""

MOST_ALIASED = 2_000_000
"""Those that aliases may stand for, of which a short line can stand for any number."""

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {form for word in ("true", "yes", "on") for form in (word, word.title(), word.upper())}
_FALSE = {form for word in ("false", "no", "off") for form in (word, word.title(), word.upper())}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,400})|0x[0-9a-fA-F]{1,400}|0o[0-7]{1,400}")
_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
)
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_QUOTE = "put a text that begins so in quotes"


def scalar(text: str) -> str | int | float | bool | None:
    """Resolve a plain scalar.

    As YAML 1.1 does, except where that surprises: dates, ``1:30`` and ``010`` stay texts, and
    ``1e3`` is a number.
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""), 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.lower().replace(".", ""))
    return text


@dataclass(slots=True)
class Tally:
    """How many values were read, and how many of them are what an alias stands for."""

    values: int = 0
    aliased: int = 0

    def add(self, values: int, event: Event) -> None:
        """Count values.  Raises TooMuchError."""
        self.values += values
        if self.values > MOST_VALUES:
            message = f"the configuration has more than {MOST_VALUES:,} keys and values"
            raise TooMuchError(f"{message}; 10,000 large targets have 1,200,000", _line(event))

    def add_alias(self, values: int, event: Event) -> None:
        """Count the values that an alias stands for.  Raises TooMuchError."""
        self.aliased += values
        if self.aliased > MOST_ALIASED:
            message = f"aliases (*) stand for more than {MOST_ALIASED:,} keys and values"
            message += "; 10,000 large targets have 1,200,000; let them stand for smaller parts, "
            raise TooMuchError(f"{message}or share the targets between two daemons", _line(event))
        self.add(values, event)


class _Anchored(NamedTuple):
    """A value with an anchor: how many it is with all in it, and how many levels it has."""

    value: Value
    values: int
    levels: int


def read(
    text: str,
    report: Report,
    places: dict[Location, Place] | None = None,
    tally: Tally | None = None,
) -> Value:
    """Build the value of a text that holds one YAML document; faults go to ``report``.

    ``places`` is filled in where it is given; only a faulty document is worth that time.
    ``tally`` goes on from file to file.  Raises yaml.YAMLError where the text is not YAML, and its
    TooMuchError.
    """
    return _Builder(text, report, places, tally or Tally()).document()


def documents(text: str) -> list[Document]:
    """Build all documents of a text, as far as they can be read, to find out what they are.

    Of places only those of lists' entries and the like are kept, on three levels.
    """
    found: list[Document] = []
    with contextlib.suppress(yaml.YAMLError):  # what comes before it says enough
        for document in _Builder(text, lambda *_: None, {}, Tally(), levels=3).documents():
            found.append(document)  # noqa: PERF402 - what came before a fault is kept
    return found


def place_of(location: Location, places: Mapping[Location, Place]) -> Place:
    """Return the place of a location, or of the nearest part around it that has one."""
    for end in range(len(location), -1, -1):
        place = places.get(location[:end])
        if place is not None:
            return place if end == len(location) else Place(place.line)
    return Place(1)


class _Builder:
    def __init__(
        self,
        text: str,
        report: Report,
        places: dict[Location, Place] | None,
        tally: Tally,
        levels: int = DEEPEST,
    ) -> None:
        self._events: Iterator[Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self._report = report
        self._places = places
        self._levels = levels
        self._path: list[str | int] = []
        self._tally = tally
        self._depth = 0
        self._deepest = 0
        self._anchors: dict[str, _Anchored] = {}
        # Documents repeat themselves: each distinct text is resolved, and kept, once.
        self._plain: dict[str, str | int | float | bool | None] = {}
        self._texts: dict[str, str] = {}

    def document(self) -> Value:
        value: Value = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fault(event, SECOND)
                    break
                value = self._node(next(self._events))
        return value

    def documents(self) -> Iterator[Document]:
        """Yield each document, with the places of its first levels only."""
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._anchors, self._places = {}, {}
                first = next(self._events)
                yield Document(self._node(first), {(): Place(_line(first)), **self._places})

    def _fault(self, event: Event, message: str, *keys: str | int) -> None:
        self._report((*self._path, *keys), _line(event), message)

    def _note_place(self, first: Event, value: Event) -> None:
        if self._places is not None and len(self._path) <= self._levels:
            plain = value.value if isinstance(value, ScalarEvent) and value.implicit[0] else None
            self._places.setdefault(tuple(self._path), Place(_line(first), plain))

    def _node(self, event: Event) -> Value:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        self._tally.add(1, event)
        if not isinstance(event, NodeEvent) or not event.anchor:
            return self._value(event)
        before, deepest = self._tally.values, self._deepest
        self._deepest = self._depth
        value = self._value(event)
        values, levels = self._tally.values - before + 1, self._deepest - self._depth
        self._anchors[event.anchor] = _Anchored(value, values, levels)
        self._deepest = max(deepest, self._deepest)
        return value

    def _value(self, event: Event) -> Value:
        # Names of aliases and tags are not shown: a secret may begin with * or !.
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if isinstance(event, CollectionStartEvent):
            return self._collection(event)
        raise TypeError(f"libyaml gave {event!r} where a value starts")

    def _alias(self, event: AliasEvent) -> Value:
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            self._fault(event, f"* refers to an anchor that is not defined above; {_QUOTE}")
            return None
        self._tally.add_alias(anchored.values, event)
        self._descend(anchored.levels, event)
        return anchored.value

    def _descend(self, levels: int, event: Event) -> None:
        if self._depth + levels > DEEPEST:
            message = f"lists and mappings stand more than {DEEPEST} deep in one another"
            raise TooMuchError(f"{message}; a configuration needs 12", _line(event))
        self._deepest = max(self._deepest, self._depth + levels)

    def _collection(self, event: CollectionStartEvent) -> Value:
        # Keys may be collections too, which the path does not show.
        self._descend(1, event)
        if event.tag and event.tag not in {_TAG + "map", _TAG + "seq"}:
            self._fault(event, f"a tag (!) has no meaning here: leave it out; {_QUOTE}")
        self._depth += 1
        value = self._mapping() if isinstance(event, MappingStartEvent) else self._sequence()
        self._depth -= 1
        return value

    def _scalar(self, event: ScalarEvent) -> str | int | float | bool | None:
        text = event.value
        if event.implicit[0]:
            if text not in self._plain:
                self._plain[text] = scalar(text)
            return self._plain[text]
        text = self._texts.setdefault(text, text)
        if event.tag in {None, "!", _TAG + "str"}:
            return text
        value = scalar(text)
        names = {int: "int", float: "float", bool: "bool", type(None): "null"}
        if event.tag == _TAG + names.get(type(value), "str"):
            return value
        self._fault(event, f"a tag (!) has no meaning here: leave it out; {_QUOTE}")
        return text

    def _sequence(self) -> list[Value]:
        items: list[Value] = []
        path = self._path
        path.append(0)
        while not isinstance(event := next(self._events), SequenceEndEvent):
            path[-1] = len(items)
            self._note_place(event, event)
            items.append(self._node(event))
        path.pop()
        return items

    def _mapping(self) -> dict[str, Value]:
        result: dict[str, Value] = {}
        merged: list[Value] = []
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event)
            self._path.append("?" if key is None else key)
            value_event = next(self._events)
            self._note_place(event, value_event)
            value = self._node(value_event)
            self._path.pop()
            if key is None:
                continue
            if key == _MERGE and isinstance(event, ScalarEvent) and event.implicit[0]:
                sources = value if isinstance(value, list) else [value]
                merged.extend(sources)
                if not all(isinstance(source, dict) for source in sources):
                    self._fault(event, "<< merges mappings only", key)
            elif key in result:
                self._fault(event, "this key stands here twice; keep one of the two", key)
            else:
                result[key] = value
        for source in merged:
            if isinstance(source, dict):
                for name, value in source.items():
                    result.setdefault(name, value)
        return result

    def _key(self, event: Event) -> str | None:
        """Return a mapping's key; None, and a fault, for what is no text."""
        value = self._node(event)
        if isinstance(value, str):
            return value
        if isinstance(event, ScalarEvent):
            shown = event.value or "an empty key"
            advice = f'YAML reads it as {describe(value)}: write "{event.value}", in quotes'
            self._fault(event, f"a key must be a text, and {advice}", shown)
        else:
            message = "a key must be a text, not a list or a mapping; a template with {{ }} has to "
            self._fault(event, f"{message}be rendered first")
        return None


def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def child(value: object, *keys: str | int) -> object:
    """Follow keys and positions into a document; None where the way ends."""
    for key in keys:
        # To ask whether it is a Mapping takes ten times as long, and there are very many.
        if type(value) is dict or isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def entries(value: object, *keys: str) -> Iterator[tuple[int, object]]:
    """Enumerate the list at a place; nothing where there is no list."""
    found = child(value, *keys)
    if isinstance(found, list | tuple):
        yield from enumerate(found)


def path_of(location: Location) -> str:
    """Write a location as ``targets[3].metrics[0].external``."""
    path = ""
    for key in location:
        if isinstance(key, int):
            path += f"[{key}]"
        elif key and all(character.isalnum() or character in "_-:/" for character in key):
            path += f"{'.' if path else ''}{one_line(key, _MOST_OF_A_KEY)}"
        else:
            path += f'["{one_line(key)}"]'
    return path


def one_line(text: str, limit: int = 60) -> str:
    """Shorten a text to one printable line."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def describe(value: object) -> str:
    """Show a value of a document shortly: scalars as written, the rest by its kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{one_line(value)}"'
    if isinstance(value, int | float):
        return one_line(repr(value))
    if value in ([], {}):
        return repr(value)
    return kind_of(value)


def kind_of(value: object) -> str:
    """Name the kind of a value without showing it."""
    kinds: tuple[tuple[type, str], ...] = (
        (type(None), "nothing"),
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a number"),
        (str, "a text"),
        (list, "a list"),
        (dict, "a mapping"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "something else")
