"""The files of a configuration: what they hold, and where in them a value stands."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from autoscaler.config.document import DEEPEST, Place, TooDeepError, Value, place_of, read
from autoscaler.config.problems import Location, Problem, path_of


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


class Reading:
    """Reads files one after another; ``problems`` are those of their text, in order.

    ``digests`` tell the content of each, by absolute path; None where it could not be read.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.digests: dict[Path, str | None] = {}

    def source(self, path: Path, of_what: str) -> Source | None:
        """Read and parse a file; ``of_what`` says what it should hold, for one that is empty."""
        file = str(path)
        text = self._text(path)
        if text is None:
            return None
        before = len(self.problems)

        def report(location: Location, line: int, message: str) -> None:
            self.problems.append(Problem(file, line, path_of(location), None, message))

        try:
            value = read(text, report)
        except yaml.YAMLError as error:
            self.problems.append(_syntax_problem(error, file))
            return None
        if value is None:
            if len(self.problems) == before:
                message = f"the file is empty; {of_what}"
                self.problems.append(Problem(file, None, "", None, message))
            return None
        return Source(path, text, value)

    def _text(self, path: Path) -> str | None:
        file = str(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            self.digests[path.absolute()] = None
            reason = {
                FileNotFoundError: "there is no such file",
                IsADirectoryError: "this is a folder; name a YAML file",
                PermissionError: "this user may not read the file",
            }.get(type(error), f"the file cannot be read: {error.strerror}")
            self.problems.append(Problem(file, None, "", None, reason))
            return None
        self.digests[path.absolute()] = digest(data)
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


def _syntax_problem(error: yaml.YAMLError, file: str) -> Problem:
    if isinstance(error, TooDeepError):
        message = f"lists and mappings stand more than {DEEPEST} deep in one another"
        return Problem(file, error.line, "", None, f"{message}; a configuration needs 12")
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
