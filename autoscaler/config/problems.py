"""Errors in a configuration: their places, lines and values, and the exception for all."""

import io
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import yaml
from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

from autoscaler.config.documents import (
    Location,
    Tally,
    TooMuchError,
    child,
    describe,
    events_of,
    kind_of,
    line_of,
    one_line,
    path_of,
    scalar,
)
from autoscaler.config.settings import Sources

_MOST_PLAIN = 10_000
"""The most distinct texts that are stored as written."""

_SHORT = 500
"""The entries of a scan; for longer lists the places of later entries are stored."""


class Place(NamedTuple):
    """The place of a value: its line (from 1), and the text of a plain scalar if it differs."""

    line: int
    plain: str | None = None


class Places:
    """The place of each part of a text's first document, in 16 bytes. Raises yaml.YAMLError."""

    def __init__(self, text: str | bytes) -> None:
        # One row for each entry of a list or a mapping, in order, followed by everything within it.
        self._lines = array("I")
        self._ends = array("I")
        self._keys = array("q")
        self._first = Place(1)
        self._plain: dict[int, str] = {}
        self._texts: dict[str, str] = {}
        self._entries: dict[int, tuple[array[int], dict[int, int]]] = {}
        self._tally = Tally()
        self._events = events_of(text, self._tally)
        if any(isinstance(event, DocumentStartEvent) for event in self._events):
            first = next(self._events)
            self._first = Place(line_of(first), self._written(first))
            self._within(first)

    def __getitem__(self, location: Location) -> Place:
        """Return the place of a location, or of its nearest ancestor with a place."""
        place = self._first
        begin, end = 0, len(self._ends)
        for key in location:
            row = self._row(key, begin, end)
            if row is None:
                return Place(place.line)
            place = Place(self._lines[row], self._plain.get(row))
            begin, end = row + 1, self._ends[row]
        return place

    def _within(self, event: Event) -> None:
        if not isinstance(event, CollectionStartEvent):
            return
        in_mapping = isinstance(event, MappingStartEvent)
        while not isinstance(first := next(self._events), CollectionEndEvent):
            row, value = len(self._lines), first
            self._tally.values += 1
            self._lines.append(line_of(first))
            self._ends.append(0)
            self._keys.append(hash(first.value) if isinstance(first, ScalarEvent) else 0)
            if in_mapping:
                self._within(first)  # No location leads into a key.
                value = next(self._events)
            written = self._written(value)
            if written is not None:
                self._plain[row] = written
            self._within(value)
            self._ends[row] = len(self._lines)

    def _written(self, event: Event) -> str | None:
        """Return the plain text of a value that would be shown differently."""
        if not isinstance(event, ScalarEvent) or not event.implicit[0]:
            return None
        text: str = event.value
        if text in self._texts:
            return self._texts[text]
        value = scalar(text)
        if isinstance(value, str) or str(value) == text or len(self._texts) >= _MOST_PLAIN:
            return None
        return self._texts.setdefault(text, text)

    def _row(self, key: str | int, begin: int, end: int) -> int | None:
        entries = self._entries.get(begin)
        if entries is None:
            rows = array("I")
            at = begin
            while at < end:
                rows.append(at)
                at = self._ends[at]
            # Of a repeated key the first counts.
            entries = rows, {self._keys[row]: row for row in reversed(rows)}
            if end - begin > _SHORT:
                self._entries[begin] = entries
        rows, by_key = entries
        if isinstance(key, int):
            return rows[key] if key < len(rows) else None
        return by_key.get(hash(key))


MOST_PROBLEMS = 100
"""The most reported problems, one of each kind first: nobody fixes more at once."""

MOST_LOOKED_AT = 20_000
"""The most collected problems, so that one kind in every target does not hide others."""

_POSITION = re.compile(r"\[[0-9]+\]")
_NAMED = re.compile(r"^(queries|resourceQueries)(\.[^.\[]+|\[\".*?\"\])")
_MOST_CHARACTERS = 2000


class Finding(NamedTuple):
    """A fault at a place of a document, before its line and value are looked up.

    ``meant`` are the probable places of an unknown key, ``missing`` the places of keys that would
    fix the fault.
    """

    location: Location
    message: str
    show_value: bool = True
    meant: tuple[Location, ...] = ()
    missing: tuple[Location, ...] = ()


def below(location: Location, finding: Finding) -> Finding:
    """Return a finding in a part of a document as a finding in the whole."""
    return finding._replace(
        location=(*location, *finding.location),
        meant=tuple((*location, *place) for place in finding.meant),
        missing=tuple((*location, *place) for place in finding.missing),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration, as a sentence with the correct form.

    ``line`` counts from 1 and is None without a text; ``value`` is the faulty value, shortened, and
    None if it is missing or may be a secret.
    """

    file: str
    line: int | None
    path: str
    value: str | None
    message: str

    @property
    def kind(self) -> tuple[str, str]:
        """The common text of problems that differ only in their places and names."""
        words = self.message.split(maxsplit=2)[:2]
        return _NAMED.sub(r"\1.*", _POSITION.sub("[]", self.path)), " ".join(words)

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        path = f"{self.path}: " if self.path else ""
        got = f" (got {self.value})" if self.value is not None else ""
        text = f"{place}: {path}{self.message}{got}"
        return one_line(text, _MOST_CHARACTERS)  # Names of files and keys may contain anything.


class ConfigError(Exception):
    """A configuration is refused: every fault in order, and the files that were read."""

    def __init__(self, problems: Sequence[Problem], sources: Sources | None = None) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)
        self.sources = Sources({}) if sources is None else sources

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def chosen(problems: Sequence[Problem], file: str, *, more: bool) -> list[Problem]:
    """Return the problems to report, in order, and a last one that counts the others.

    No kind of problem is hidden by the many of another. ``file`` is the main one; ``more`` means
    that the search stopped early.
    """
    if len(problems) <= MOST_PROBLEMS and not more:
        return list(problems)
    seen: Counter[tuple[str, str]] = Counter()
    rounds = []
    for index, problem in enumerate(problems):
        rounds.append((seen[problem.kind], index))
        seen[problem.kind] += 1
    told = sorted(index for _, index in sorted(rounds)[:MOST_PROBLEMS])
    count = f"more than {len(problems):,}" if more else f"{len(problems):,}"
    message = f"these are {len(told)} of {count} mistakes, of each kind the first; mend these first"
    return [*(problems[index] for index in told), Problem(file, None, "", None, message)]


_SHOWN_OF_PROMETHEUS: tuple[Location, ...] = (
    ("timeout",),
    ("tls", "insecureSkipVerify"),
    ("tls", "serverName"),
)
"""The values of a server that are neither secrets nor URLs."""


def one_per_place(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each place, and none for a missing key that was only misspelt."""
    first: dict[Location, Finding] = {}
    for finding in findings:
        first.setdefault(finding.location, finding)
    meant = {place for finding in first.values() for place in finding.meant}
    return [finding for finding in first.values() if meant.isdisjoint(finding.missing)]


def located(
    findings: Iterable[Finding], document: object, file: str, places: Places
) -> list[Problem]:
    """Look up the findings in a document."""
    problems = []
    for finding in findings:
        place = places[finding.location]
        at, value = _as_written(finding.location, document), _value_text(finding, document, place)
        problems.append(Problem(file, place.line, path_of(at), value, finding.message))
    return problems


def _as_written(location: Location, document: object) -> Location:
    """Omit `query` if the user wrote the PromQL directly."""
    if location[-1:] == ("query",) and isinstance(child(document, *location[:-1]), str):
        return location[:-1]
    return location


def _value_text(finding: Finding, document: object, place: Place) -> str | None:
    location = _as_written(finding.location, document)
    if not finding.show_value or (location and child(document, *location[:-1]) is None):
        return None
    value = child(document, *location)
    if location[:1] in {(), ("prometheus",)}:
        of_server = location[3:] if location[1:2] == ("servers",) else location[1:]
        if of_server not in _SHOWN_OF_PROMETHEUS:
            return None if isinstance(value, str) else kind_of(value)
    if place.plain and not isinstance(value, str):
        return one_line(place.plain)
    return describe(value)


_SYNTAX = {
    "found character that cannot start any token": "a tab or another character that cannot "
    "begin a value; indent with spaces, and put texts that begin with @, ` or % in quotes",
    "mapping values are not allowed in this context": 'a ":" that YAML does not expect; check '
    'the indentation, and put texts with ": " in quotes',
    "did not find expected alphabetic or numeric character": "a text that begins with * or & needs "
    'quotes, as in "*/5 8 * * *"',
    "could not find expected ':'": 'a ":" is missing after a key',
    "did not find expected key": "a key is expected; check the indentation, commas and brackets",
}
_LONGEST_LINE = 2000
_LABELS = re.compile(r"""\{[^{}'"]*(?:=|!=|=~|!~) *["'].*""")


def syntax_problem(error: yaml.YAMLError, file: str, text: bytes) -> Problem:
    """Return where a text ceases to be YAML, and why; nothing of the text is quoted."""
    line, message = None, "not YAML: the file holds a character that YAML does not allow"
    if isinstance(error, TooMuchError):
        line, message = error.line, error.message
    elif isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = _SYNTAX.get(error.problem or "", error.problem or "it cannot be read")
        message = f"not YAML: {reason}"
        if mark is not None:
            hint = _hint(text, mark.line, error.context_mark)
            line, message = mark.line + 1, f"not YAML at column {mark.column + 1}: {reason}{hint}"
    return Problem(file, line, "", None, message)


def _hint(text: bytes, line: int, begin: yaml.Mark | None) -> str:
    first = line if begin is None else max(begin.line, line - 1)
    lines = islice(io.TextIOWrapper(io.BytesIO(text), "utf-8", "replace"), first, line + 1)
    near = "\n".join(line[:_LONGEST_LINE] for line in lines)
    if "{{" in near:
        return "; {{ is of a template, which has to be rendered first (such as by `helm template`)"
    if _LABELS.search(near):
        return "; PromQL at such a place belongs in single quotes, as in 'sum(a{b=\"c\"})'"
    return ""
