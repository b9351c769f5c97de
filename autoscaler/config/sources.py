"""The files of a configuration: what they hold, and where in them a value stands."""

import hashlib
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import yaml

from autoscaler.config.document import SECOND, Place, Tally, Value, place_of, read
from autoscaler.config.foreign_files import (
    SOMETHING_ELSE,
    is_configuration,
    manifest_problems,
    what_it_is,
)
from autoscaler.config.problems import MOST_LOOKED_AT, Location, Problem, path_of
from autoscaler.config.syntax import syntax_problem
from autoscaler.file_contents import NoFileError, TooLargeError, read_bytes

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

    def source(self, path: Path, of_what: str, content: bytes | None = None) -> Source | None:
        """Read and parse a file; ``of_what`` says what it should hold, for one that does not.

        ``content`` is what it holds where that was read already.
        """
        text = self._text(path, content)
        if text is None or self.full:
            return None
        file = str(path)
        faults = _Faults(file, MOST_LOOKED_AT - len(self.problems))
        value: Value = None
        try:
            value = read(text, faults, tally=self._tally)
        except yaml.YAMLError as error:
            problem = syntax_problem(error, file, text)
            self.problems += [*faults.unquoted(self._keys), problem]
            return None
        except _EnoughError:
            nothing = Problem(file, None, "", None, f"{SOMETHING_ELSE}; {of_what}")
            self.problems += faults.unquoted(self._keys) or [nothing]
            return None
        if is_configuration(value, self._keys):
            self._take(faults, file, text)
            return Source(path, text, value)
        manifests = manifest_problems(file, text)
        if manifests:
            self.problems += manifests
            return None
        found, sentence = faults.unquoted(self._keys), what_it_is(value, of_what)
        if sentence and not (found and value is None):
            found.append(Problem(file, None, "", None, sentence))
        self.problems += found
        return None if sentence or value is None else Source(path, text, value)

    def _take(self, faults: "_Faults", file: str, text: str) -> None:
        """Take in the faults of a configuration; manifests behind it are told as what they are."""
        second = [one for one in faults.all if one.message == SECOND]
        manifests = manifest_problems(file, text) if second else []
        self.problems += [one for one in faults.all if not manifests or one not in second]
        self.problems += manifests

    def _text(self, path: Path, content: bytes | None) -> str | None:
        file = str(path)
        try:
            data = read_bytes(path, MOST_OF_A_FILE) if content is None else content
            if len(data) > MOST_OF_A_FILE:
                raise TooLargeError(path, MOST_OF_A_FILE)
        except OSError as error:
            self.digests[path.absolute()] = None
            self.problems.append(Problem(file, None, "", None, _unreadable(error)))
            return None
        if content is None:
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


def _unreadable(error: OSError) -> str:
    reasons = {
        FileNotFoundError: "there is no such file",
        IsADirectoryError: "this is a folder; name a YAML file",
        PermissionError: "this user may not read the file",
        TooLargeError: f"the file has more than {MOST_OF_A_FILE // 2**20} MiB; "
        "`include` lets targets stand in several files",
        NoFileError: f"{error.strerror}; what is piped to `autoscaler validate -` can be checked",
    }
    return reasons.get(type(error), f"the file cannot be read: {error.strerror}")


def digest(content: bytes) -> str:
    """Return what tells contents apart."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
