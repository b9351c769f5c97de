"""YAML text to plain values, in one pass over libyaml's events; and plain values to YAML.

Building from events takes a fifth of the time and memory of PyYAML's node tree, and also finds
repeated keys, and keys that YAML 1.1 converts to booleans or numbers.
"""

import contextlib
import re
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""The plain values of a document."""

Location = tuple[str | int, ...]
"""A place in a document: the keys and list positions that lead to it."""

Report: TypeAlias = Callable[[Location, int, str], None]
"""Receives a fault: the location, the line (from 1) and the sentence."""


class TooMuchError(yaml.YAMLError):
    """The document is larger than any configuration; ``line`` says where, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Document(NamedTuple):
    """One of the documents of a text, and the lines (from 1) of it and of its `items`."""

    value: Value
    line: int
    items: Sequence[int]

    def line_of(self, location: Location) -> int:
        """Return the line of one of the `items`, if the location is in one, or of the document."""
        match location:
            case ("items", int() as index, *_) if index < len(self.items):
                return self.items[index]
        return self.line


TWICE = "duplicate key; keep one"
"""The fault of a key."""
SECOND = "a second YAML document starts here; keep one per file"
"""The fault of a text with several documents."""

_MOST_OF_A_KEY = 200
_MOST_OF_A_PATH = 1000
DEEPEST = 40
"""The most nested levels of lists and mappings; a configuration has 12."""

MOST_VALUES = 2_500_000
"""The most keys and values of all files; 20,000 targets of 25 lines have 2.4 million."""

MOST_OF_A_PART = 200_000
"""The most values of one target, and of each top-level key: a part is checked in one piece."""

MOST_MEMORY = 72 * 2**20
"""The most bytes of the keys and values of all files; 10,000 targets of 25 lines take 59 million.
Their results take as much again at most, so a refused file costs under 150 MiB."""

LONGEST_TEXT = 64 << 10
"""The most characters of one key or value; PromQL of a page has 4,000."""

LONGEST_GAP = 4 * 2**20
"""The most bytes from one key or value to the next, such as comments; 4,000 targets of 25 lines
have 4 MB."""

MOST_DIRECTIVES = 100
"""The most lines that may begin with %: libyaml compares each with all previous ones."""

_ENDS_OF_LINES = (b"\n", b"\r", "\u0085".encode(), "\u2028".encode(), "\u2029".encode())

_MOST_OF_MANIFESTS = 32 * 2**20
"""The most bytes of documents that are read only to describe them."""

_OF_AN_ENTRY = 160
"""The memory of a distinct text in the tables of known texts, in bytes."""

MOST_ALIASED = 2_000_000
"""The most values that aliases may repeat; a short line can repeat any number of values."""

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {form for word in ("true", "yes", "on") for form in (word, word.title(), word.upper())}
_FALSE = {form for word in ("false", "no", "off") for form in (word, word.title(), word.upper())}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,400})|0x[0-9a-fA-F]{1,400}|0o[0-7]{1,400}")
_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
)
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_KINDS = {
    type(None): "nothing",
    bool: "a boolean",
    **dict.fromkeys((int, float), "a number"),
    str: "a text",
    list: "a list",
    dict: "a mapping",
}
_LISTS_OF_PARTS: tuple[list[str | int], ...] = ([], ["targets"], ["items"])
_TAG = "tag:yaml.org,2002:"
_QUOTE = "put a text that begins so in quotes"


def scalar(text: str) -> str | int | float | bool | None:
    """Resolve a scalar as YAML 1.1, but dates, ``1:30``, ``010`` are texts, ``1e3`` a number."""
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
    """Counts what was read: values, values that aliases repeat, and their memory."""

    values: int = 0
    aliased: int = 0
    memory: int = 0
    _stop: int = MOST_OF_A_PART

    def begin_part(self) -> None:
        """Count the values of another part."""
        self._stop = min(MOST_VALUES, self.values + MOST_OF_A_PART)

    def add(self, values: int, event: Event) -> None:
        """Count values.  Raises TooMuchError."""
        self.values += values
        if self.values <= self._stop:
            return
        message = f"a target, or a key at the top, has more than {MOST_OF_A_PART:,} keys and values"
        message += ", with those that aliases (*) stand for; a large target has 120"
        if self.values > MOST_VALUES:
            message = f"the configuration has more than {MOST_VALUES:,} keys and values"
            message += "; 10,000 large targets have 1,200,000"
        raise TooMuchError(message, line_of(event))

    def add_alias(self, values: int, event: Event) -> None:
        """Count the values that an alias repeats.  Raises TooMuchError."""
        self.aliased += values
        if self.aliased > MOST_ALIASED:
            message = f"aliases (*) stand for more than {MOST_ALIASED:,} keys and values"
            message += "; 10,000 large targets have 1,200,000; let them stand for smaller parts, "
            raise TooMuchError(f"{message}or share the targets between two daemons", line_of(event))
        self.add(values, event)

    def add_memory(self, size: int, event: Event) -> None:
        """Count bytes.  Raises TooMuchError."""
        self.memory += size
        if self.memory > MOST_MEMORY:
            message = f"the configuration takes more than {MOST_MEMORY // 2**20} MiB of memory, "
            message += "mostly for its lists and mappings; 10,000 large targets take 56; "
            raise TooMuchError(f"{message}share the targets between two daemons", line_of(event))


class _Pieces:
    """Passes bytes to libyaml in pieces: other threads run in between, and it needs less memory."""

    def __init__(self, data: bytes, tally: Tally) -> None:
        self._data = data
        self._at = 0
        self._tally = tally
        self._values = 0
        self._since = 0

    def read(self, size: int = 2**14, /) -> bytes:
        """Return the next bytes, empty at the end. Raises TooMuchError."""
        if self._tally.values != self._values:
            self._values, self._since = self._tally.values, self._at
        if self._at - self._since > LONGEST_GAP:
            message = f"no key and no value ends in {LONGEST_GAP // 2**20} MiB from here: is a "
            message += "quote missing? Leave out comments that are so long"
            raise TooMuchError(message, self._data.count(b"\n", 0, self._since) + 1)
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece


def events_of(text: str | bytes, tally: Tally) -> Iterator[Event]:
    """Return libyaml's events, with the values counted in ``tally``.  Raises yaml.YAMLError."""
    data = text.encode() if isinstance(text, str) else text
    if sum(data.count(end + b"%") for end in _ENDS_OF_LINES) > MOST_DIRECTIVES:
        message = f"more than {MOST_DIRECTIVES} lines begin with %, as directives of YAML do"
        raise TooMuchError(f"{message}; a configuration cannot have one", 1)
    return yaml.parse(_Pieces(data, tally), Loader=yaml.CSafeLoader)


class _AnchorSize(NamedTuple):
    """The size of a value with an anchor: the number of values in it, and of levels."""

    value: Value
    values: int
    levels: int


def read(text: str | bytes, report: Report, tally: Tally | None = None) -> Value:
    """Build the one document of a UTF-8 text; faults go to ``report``.  Raises yaml.YAMLError."""
    return _Builder(text, report, tally or Tally()).document()


def documents(text: str | bytes, report: Report = lambda *_: None) -> Iterator[Document]:
    """Build the documents of a text one by one up to an error; faults go to ``report``."""
    tally = Tally(memory=MOST_MEMORY - _MOST_OF_MANIFESTS)
    with contextlib.suppress(yaml.YAMLError):  # The values before it are sufficient.
        yield from _Builder(text, report, tally).documents()


class _Builder:
    def __init__(self, text: str | bytes, report: Report, tally: Tally) -> None:
        self._events = events_of(text, tally)
        self._report = report
        self._entry_lines = array("I")
        self._path: list[str | int] = []
        self._tally = tally
        self._depth = 0
        self._deepest = 0
        self._anchors: dict[str, _AnchorSize] = {}
        # Documents repeat themselves: each distinct text is resolved and stored once.
        self._plain: dict[str, str | int | float | bool | None] = {}
        self._texts: dict[str, str] = {}

    def document(self) -> Value:
        starts = (event for event in self._events if isinstance(event, DocumentStartEvent))
        value = None if next(starts, None) is None else self._node(next(self._events))
        second = next(starts, None)
        if second is not None:
            self._fault(second, SECOND)
        return value

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._anchors, self._entry_lines = {}, array("I")
                self._tally.begin_part()
                self._tally.add_memory(_OF_AN_ENTRY, event)
                first = next(self._events)
                yield Document(self._node(first), line_of(first), self._entry_lines)

    def _fault(self, event: Event, message: str, *keys: str | int) -> None:
        self._report((*self._path, *keys), line_of(event), message)

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
        self._anchors[event.anchor] = _AnchorSize(value, values, levels)
        self._tally.add_memory(2 * _OF_AN_ENTRY + len(event.anchor), event)
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
            raise TooMuchError(f"{message}; a configuration needs 12", line_of(event))
        self._deepest = max(self._deepest, self._depth + levels)

    def _collection(self, event: CollectionStartEvent) -> Value:
        # Keys may also be collections, which the path does not show.
        self._descend(1, event)
        if event.tag and event.tag not in {_TAG + "map", _TAG + "seq"}:
            self._fault(event, f"a tag (!) has no meaning here: leave it out; {_QUOTE}")
        self._depth += 1
        value = self._mapping() if isinstance(event, MappingStartEvent) else self._sequence()
        self._depth -= 1
        self._tally.add_memory(sys.getsizeof(value), event)
        return value

    def _scalar(self, event: ScalarEvent) -> str | int | float | bool | None:
        text: str = event.value
        if len(text) > LONGEST_TEXT:
            message = f"a key or a value has {len(text):,} characters, and may have "
            raise TooMuchError(f"{message}{LONGEST_TEXT:,}", line_of(event))
        if event.implicit[0]:
            if text not in self._plain:
                self._plain[text] = scalar(self._counted(text, event))
            return self._plain[text]
        if text not in self._texts:
            self._texts[text] = self._counted(text, event)
        text = self._texts[text]
        if event.tag in {None, "!", _TAG + "str"}:
            return text
        value = scalar(text)
        names = {int: "int", float: "float", bool: "bool", type(None): "null"}
        if event.tag == _TAG + names.get(type(value), "str"):
            return value
        self._fault(event, f"a tag (!) has no meaning here: leave it out; {_QUOTE}")
        return text

    def _counted(self, text: str, event: Event) -> str:
        self._tally.add_memory(sys.getsizeof(text) + _OF_AN_ENTRY, event)
        return text

    def _sequence(self) -> list[Value]:
        items: list[Value] = []
        path = self._path
        of_parts = path in _LISTS_OF_PARTS
        path.append(0)
        while not isinstance(event := next(self._events), SequenceEndEvent):
            path[-1] = len(items)
            if of_parts:
                self._tally.begin_part()
                self._entry_lines.append(line_of(event))
            items.append(self._node(event))
        path.pop()
        return items

    def _mapping(self) -> dict[str, Value]:
        result: dict[str, Value] = {}
        merged: list[Value] = []
        at_top = not self._path
        while not isinstance(event := next(self._events), MappingEndEvent):
            if at_top:
                self._tally.begin_part()
            key = self._key(event)
            self._path.append("?" if key is None else key)
            value = self._node(next(self._events))
            self._path.pop()
            if key is None:
                continue
            if key == "<<" and isinstance(event, ScalarEvent) and event.implicit[0]:
                sources = value if isinstance(value, list) else [value]
                merged.extend(sources)
                if not all(isinstance(source, dict) for source in sources):
                    self._fault(event, "<< merges mappings only", key)
            elif key in result:
                self._fault(event, TWICE, key)
            else:
                result[key] = value
        for source in merged:
            if isinstance(source, dict):
                for name, value in source.items():
                    result.setdefault(name, value)
        return result

    def _key(self, event: Event) -> str | None:
        """Return a mapping's key; None, with a fault, for a key that is not a string."""
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


def line_of(event: Event) -> int:
    """Return the line that an event begins at, from 1."""
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def child(value: object, *keys: str | int) -> object:
    """Follow keys and positions into a document; None if there is no such place."""
    for key in keys:
        # An isinstance check for Mapping takes ten times as long, and there are very many.
        if type(value) is dict or isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def entries(value: object, *keys: str) -> Iterator[tuple[int, object]]:
    """Enumerate the list at a place; empty if there is no list."""
    listed = child(value, *keys)
    if isinstance(listed, list | tuple):
        yield from enumerate(listed)


def path_of(location: Location) -> str:
    """Format a location as ``targets[3].metrics[0].external``."""
    path = ""
    for key in location:
        if len(path) > _MOST_OF_A_PATH:
            return f"{path}…"
        if isinstance(key, int):
            path += f"[{key}]"
        elif key and all(c.isalnum() or c in "_-:/" for c in key[:_MOST_OF_A_KEY]):
            path += f"{'.' if path else ''}{one_line(key, _MOST_OF_A_KEY)}"
        else:
            path += f'["{one_line(key)}"]'
    return path


def one_line(text: str, limit: int = 60) -> str:
    """Shorten a text to one printable line."""
    flat = "".join(c if c.isprintable() else " " for c in text[:limit])
    return flat if len(text) <= limit else flat[: limit - 1] + "…"


def describe(value: object) -> str:
    """Return a short text for a value of a document: scalars as written, others by their kind."""
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
    """Return the kind of a value as text, without the value."""
    return _KINDS.get(type(value), "something else")


class _Dumper(yaml.CSafeDumper):
    """Writes lists in mappings without indentation, like most of Kubernetes' manifests."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature of PyYAML
        """Repeat equal values, instead of using aliases."""
        return True


class _Blocks(_Dumper):
    """Writes texts of several lines as blocks, without escapes."""


_Blocks.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        _TAG + "str", text, style="|" if "\n" in text.rstrip("\n") else None
    ),
)
_LONGEST_LINE = 10_000
"""Longer lines are folded."""


def as_yaml(value: object, *, blocks: bool = False) -> str:
    """Return a value as YAML in printable ASCII, without a final line end.

    With ``blocks`` texts of several lines are blocks where YAML permits it.
    """
    dumper = _Blocks if blocks else _Dumper
    return yaml.dump(value, Dumper=dumper, sort_keys=False, width=_LONGEST_LINE).rstrip("\n")


def as_flow(value: object) -> str:
    """Return a value as YAML on one line, such as ``{a: 1, b: [2]}``."""
    flow = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=10**9, default_flow_style=True)
    return flow.removesuffix("...\n").rstrip("\n")
