"""Changes the `mode` of one target in the text of its file, and no other byte.

What it does is checked by what the text says then: anchors, merges and forms of YAML that nobody
thought of end in a refusal, never in another configuration.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from autoscaler.config.documents import Tally, Value, events_of, read
from autoscaler.config.queries import targets_in
from autoscaler.config.reading import Source, sources_of
from autoscaler.config.settings import Config
from autoscaler.core.extensions import Mode

_KEY = "mode"
_LINE_END = re.compile(r"\r\n|[\n\r]|\Z")
_BLANKS = re.compile(r"[ \t]*")
_COMMA = re.compile(r"[ \t]*,[ \t]*")


class NotEditableError(Exception):
    """The text cannot be changed without changing more than the target; the text says why."""


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """Where a target stands: a file of the configuration, and the position in its `targets`."""

    source: Source
    index: int


def places_of(config: Config) -> dict[str, TargetPlace]:
    """Return where each target of a valid configuration stands, by the targets' keys."""
    places = (TargetPlace(*place) for place in targets_in(sources_of(config, None)))
    # The targets are in the order of the files.
    return {target.key: at for target, at in zip(config.targets, places, strict=False)}


def with_mode(content: bytes, index: int, mode: Mode) -> bytes:
    """Return the content of a file with another `mode` of one of its targets; live is no key.

    Raises NotEditableError where only a person can do that.
    """
    bare = content.removeprefix(codecs.BOM_UTF8)
    text = bare.decode()
    before, entry = _parsed(text), _entry(text, index)
    for candidate in _live(text, entry) if mode is Mode.LIVE else _in_shadow(text, entry):
        if _is_the_same_but(before, _parsed(candidate), index, mode):
            return content[: len(content) - len(bare)] + candidate.encode()
    raise NotEditableError(
        "the lines of the target stand for others too, by an anchor (&, *, <<), or are written in "
        "a form that is not changed automatically"
    )


# -- what the text says --------------------------------------------------------------------------


def _parsed(text: str) -> Value:
    """Return the document; None where the text has any fault."""
    faults: list[str] = []
    try:
        value = read(text, lambda *fault: faults.append(fault[2]))
    except yaml.YAMLError:
        return None
    return None if faults else value


def _is_the_same_but(before: Value, after: Value, index: int, mode: Mode) -> bool:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    old, new = before.get("targets"), after.get("targets")
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return False
    one, other = old[index], new[index]
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    if other.get(_KEY, Mode.LIVE.value) != mode.value:
        return False
    rest = {**before, "targets": [*old[:index], {**one, _KEY: None}, *old[index + 1 :]]}
    return rest == {**after, "targets": [*new[:index], {**other, _KEY: None}, *new[index + 1 :]]}


# -- where it says it ----------------------------------------------------------------------------


class _Pair(NamedTuple):
    """A key of a mapping and its value, by their indices; ``end`` is right behind a scalar."""

    key: str | None
    begin: int
    column: int
    value: int
    end: int
    is_short: bool
    """Whether the value is one scalar that ends on its last line."""


class _Entry(NamedTuple):
    """A mapping in the text."""

    flow: bool
    pairs: tuple[_Pair, ...]

    @property
    def own(self) -> _Pair | None:
        """The pair of the mode."""
        return next((pair for pair in self.pairs if pair.key == _KEY), None)


def _is_key(event: Event, name: str) -> bool:
    return isinstance(event, ScalarEvent) and event.value == name


def _entry(text: str, index: int) -> _Entry:
    events = events_of(text, Tally())
    if any(isinstance(event, MappingStartEvent) for event in events):
        while not isinstance(key := next(events), MappingEndEvent):
            value = next(events)
            if _is_key(key, "targets") and isinstance(value, SequenceStartEvent):
                return _item(events, index)
            _skip(events, value)
    return _Entry(flow=False, pairs=())


def _item(events: Iterator[Event], index: int) -> _Entry:
    position = 0
    while not isinstance(event := next(events), SequenceEndEvent):
        if position == index:
            found = isinstance(event, MappingStartEvent)
            return _mapping(events, event) if found else _Entry(flow=False, pairs=())
        _skip(events, event)
        position += 1
    return _Entry(flow=False, pairs=())


def _mapping(events: Iterator[Event], start: Event) -> _Entry:
    pairs = []
    while not isinstance(key := next(events), MappingEndEvent):
        _skip(events, key)
        value = next(events)
        _skip(events, value)
        name = key.value if isinstance(key, ScalarEvent) else None
        pairs.append(_Pair(name, *_begin(key), _begin(value)[0], _end(value), _is_short(value)))
    return _Entry(bool(getattr(start, "flow_style", False)), tuple(pairs))


def _begin(event: Event) -> tuple[int, int]:
    """Return the index and the column at which an event begins."""
    mark = event.start_mark
    return (0, 0) if mark is None else (mark.index, mark.column)


def _end(event: Event) -> int:
    return 0 if event.end_mark is None else event.end_mark.index


def _skip(events: Iterator[Event], first: Event) -> None:
    """Pass what a value has behind its first event."""
    depth = int(isinstance(first, CollectionStartEvent))
    while depth:
        event = next(events)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)


# -- ways to say it otherwise --------------------------------------------------------------------


def _live(text: str, entry: _Entry) -> Iterator[str]:
    """Yield texts in which the target may be live, the nicest first."""
    if entry.own is not None:
        yield _without(text, entry, entry.own)
        yield _replaced(text, entry.own, Mode.LIVE)
    # What it merges may say otherwise.
    yield from _inserted(text, entry, Mode.LIVE)


def _in_shadow(text: str, entry: _Entry) -> Iterator[str]:
    if entry.own is not None:
        yield _replaced(text, entry.own, Mode.SHADOW)
    else:
        yield from _inserted(text, entry, Mode.SHADOW)


def _replaced(text: str, pair: _Pair, mode: Mode) -> str:
    return text[: pair.value] + mode.value + text[pair.end :]


def _without(text: str, entry: _Entry, own: _Pair) -> str:
    start, end = own.begin, own.end
    if entry.flow:
        return _cut(text, *_with_comma(text, start, end))
    end = _behind(_BLANKS, text, end)
    line_end = _line_end(text, end)
    before = text[_line_start(text, start) : start]
    if end < line_end or not before.strip(" \t"):
        return _cut(text, start, end)
    # It stands behind the dash of the entry: the next key moves there, if nothing is in between.
    next_key = next((one.begin for one in entry.pairs if one.begin > start), end)
    if not text[end:next_key].strip():
        return text[:start] + text[next_key:]
    return text[:start].rstrip(" \t") + text[end:]


def _with_comma(text: str, start: int, end: int) -> tuple[int, int]:
    comma = _COMMA.match(text, end)
    if comma is not None:
        return start, comma.end()
    at = start
    while at and text[at - 1].isspace():
        at -= 1
    return (at - 1, end) if at and text[at - 1] == "," else (start, end)


def _cut(text: str, start: int, end: int) -> str:
    """Return the text without a part, and without its line if nothing else is on it."""
    begin, line_end = _line_start(text, start), _line_end(text, end)
    if text[begin:start].strip(" \t") or text[end:line_end].strip(" \t"):
        return text[:start] + text[end:]
    return text[:begin] + text[_behind(_LINE_END, text, line_end) :]


def _inserted(text: str, entry: _Entry, mode: Mode) -> Iterator[str]:
    """Yield texts with the key behind the first one that has a short value, or before the first."""
    said = f"{_KEY}: {mode.value}"
    for pair in entry.pairs:
        if not pair.is_short:
            continue
        if entry.flow:
            yield f"{text[: pair.end]}, {said}{text[pair.end :]}"
        else:
            at = _line_end(text, pair.end)
            indent = " " * pair.column
            yield f"{text[:at]}{_newline(text)}{indent}{said}{text[at:]}"
        break
    for pair in entry.pairs[:1]:
        at = pair.begin
        between = ", " if entry.flow else _newline(text) + " " * pair.column
        yield f"{text[:at]}{said}{between}{text[at:]}"


def _is_short(value: Event) -> bool:
    if isinstance(value, AliasEvent):
        return True
    return isinstance(value, ScalarEvent) and value.style not in {"|", ">"}


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_end(text: str, at: int) -> int:
    found = _LINE_END.search(text, at)
    return len(text) if found is None else found.start()


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _newline(text: str) -> str:
    """Return what ends the text's lines."""
    found = _LINE_END.search(text)
    return (found and found.group()) or "\n"
