"""The files of a configuration: what they hold, and where in them a value stands."""

import hashlib
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import yaml

from autoscaler.config.document import Place, Tally, TooMuchError, Value, place_of, read
from autoscaler.config.problems import MOST_LOOKED_AT, Location, Problem, path_of
from autoscaler.file_contents import TooLargeError, read_bytes

MOST_OF_A_FILE = 32 * 2**20
"""Bytes of one file of a configuration; 20,000 large targets have 20 million."""

MOST_OF_ALL = 2 * MOST_OF_A_FILE
"""Bytes of all files of a configuration."""


@dataclass(frozen=True)
class Source:
    """One file and the document that it holds; messages call it by its path as it was given."""

    path: Path
    text: str
    value: Value

    @cached_property
    def places(self) -> dict[Location, Place]:
        """Where every value stands; found out only where something is wrong."""
        places: dict[Location, Place] = {}
        read(self.text, lambda *_: None, places)
        return places

    def name_of(self, location: Location) -> str:
        """Name a place for a message about another file."""
        return f"{self.path}:{place_of(location, self.places).line}"


class _EnoughError(Exception):
    """There are as many problems as are looked for."""


class _Faults:
    """Takes the faults that reading a text finds.  Raises _EnoughError for the last that fits."""

    def __init__(self, file: str, most: int) -> None:
        self._file = file
        self._most = most
        self._found: list[tuple[Location, Problem]] = []

    def __call__(self, location: Location, line: int, message: str) -> None:
        problem = Problem(self._file, line, path_of(location), None, message)
        self._found.append((location, problem))
        if len(self._found) >= self._most:
            raise _EnoughError

    @property
    def all(self) -> list[Problem]:
        """Return all, with their paths."""
        return [problem for _, problem in self._found]

    def unquoted(self, keys: AbstractSet[str]) -> list[Problem]:
        """Return those that quote none but these keys, and what is below them."""
        return [
            one if not location or location[0] in keys else replace(one, path="")
            for location, one in self._found
            if not location or location[0] in keys or f'"{location[-1]}"' not in one.message
        ]


class Reading:
    """Reads files one after another; ``problems`` are those of their text, in order.

    ``keys`` are those of a configuration; nothing is quoted from a file that has none of them.
    ``digests`` tell the content of each, by absolute path; None where it could not be read.
    """

    def __init__(self, keys: AbstractSet[str]) -> None:
        self.problems: list[Problem] = []
        self.digests: dict[Path, str | None] = {}
        self._keys = keys
        self._tally = Tally()
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether there are as many problems as are looked for; no more are looked for then."""
        return len(self.problems) >= MOST_LOOKED_AT

    def source(self, path: Path, of_what: str) -> Source | None:
        """Read and parse a file; ``of_what`` says what it should hold, for one that does not."""
        text = self._text(path)
        if text is None or self.full:
            return None
        file = str(path)
        faults = _Faults(file, MOST_LOOKED_AT - len(self.problems))
        try:
            value = read(text, faults, tally=self._tally)
        except yaml.YAMLError as error:
            self.problems += [*faults.unquoted(self._keys), _syntax_problem(error, file)]
            return None
        except _EnoughError:
            self.problems += faults.unquoted(self._keys) or [_no_configuration(file, of_what)]
            return None
        if isinstance(value, dict) and not self._keys.isdisjoint(value):
            self.problems += faults.all
            return Source(path, text, value)
        found = faults.unquoted(self._keys)
        if value is None:
            found = found or [Problem(file, None, "", None, f"the file is empty; {of_what}")]
        elif isinstance(value, dict) and value:
            found.append(_no_configuration(file, of_what))
            value = None
        self.problems += found
        return None if value is None else Source(path, text, value)

    def _text(self, path: Path) -> str | None:
        file = str(path)
        try:
            data = read_bytes(path, MOST_OF_A_FILE)
        except OSError as error:
            self.digests[path.absolute()] = None
            reason = {
                FileNotFoundError: "there is no such file",
                IsADirectoryError: "this is a folder; name a YAML file",
                PermissionError: "this user may not read the file",
                TooLargeError: f"the file has more than {MOST_OF_A_FILE // 2**20} MiB; "
                "`include` lets targets stand in several files",
            }.get(type(error), f"the file cannot be read: {error.strerror}")
            self.problems.append(Problem(file, None, "", None, reason))
            return None
        self.digests[path.absolute()] = digest(data)
        self._bytes += len(data)
        if self._bytes > MOST_OF_ALL:
            message = f"with this file a configuration has more than {MOST_OF_ALL // 2**20} MiB"
            self.problems.append(Problem(file, None, "", None, f"{message}; leave out some"))
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            byte = f"the byte 0x{data[error.start]:02x}"
            message = "the file is not UTF-8; save it as UTF-8"
            self.problems.append(Problem(file, line, "", byte, message))
            return None


def digest(content: bytes) -> str:
    """Return what tells contents apart."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _no_configuration(file: str, of_what: str) -> Problem:
    message = f"the file is no configuration, for it has none of its keys; {of_what}"
    return Problem(file, None, "", None, message)


def _syntax_problem(error: yaml.YAMLError, file: str) -> Problem:
    if isinstance(error, TooMuchError):
        return Problem(file, error.line, "", None, error.message)
    if not isinstance(error, yaml.MarkedYAMLError):
        message = "not YAML: the file holds a character that YAML does not allow"
        return Problem(file, None, "", None, message)
    mark = error.problem_mark or error.context_mark
    where = "" if mark is None else f" at column {mark.column + 1}"
    known = {
        "found character that cannot start any token": "a tab or another character that cannot "
        "begin a value; indent with spaces, and put texts that begin with @ or ` in quotes",
        "mapping values are not allowed in this context": 'a ":" that YAML does not expect; check '
        'the indentation, and put texts with ": " in quotes',
        "could not find expected ':'": 'a ":" is missing after a key',
        "did not find expected key": "a key is expected; check the indentation, commas and "
        "brackets",
    }
    reason = known.get(error.problem or "", error.problem or "it cannot be read")
    line = None if mark is None else mark.line + 1
    return Problem(file, line, "", None, f"not YAML{where}: {reason}")
