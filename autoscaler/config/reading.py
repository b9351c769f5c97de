"""Reads the files of a configuration, and describes other files: manifests, rules, ..."""

import codecs
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import yaml

from autoscaler.config.documents import (
    SECOND,
    TWICE,
    Location,
    Tally,
    Value,
    child,
    documents,
    path_of,
    read,
)
from autoscaler.config.error_messages import closest
from autoscaler.config.problems import (
    MOST_LOOKED_AT,
    MOST_PROBLEMS,
    Places,
    Problem,
    syntax_problem,
)
from autoscaler.config.settings import KEYS
from autoscaler.file_contents import NoFileError, TooLargeError, read_bytes

MOST_OF_A_FILE = 16 * 2**20
"""The most bytes of one file of a configuration; 10,000 large targets have 10 million."""

MOST_OF_ALL = 24 * 2**20
"""The most bytes of all files of a configuration."""

_IS_A_LINE_MISSING = "; only the first was read: separate manifests with a line of ---"

_SOMETHING_ELSE = "not a configuration: it has no known key"


@dataclass(frozen=True)
class Source:
    """One file and its document; messages use its path as it was given."""

    path: Path
    text: bytes
    value: Value

    @cached_property
    def places(self) -> Places:
        """The place of every value; computed only if there is a problem."""
        return Places(self.text)

    def name_of(self, location: Location) -> str:
        """Return the text of a place for a message about another file."""
        return f"{self.path}:{self.places[location].line}"


class _EnoughError(Exception):
    """The limit of problems is reached."""


class _Faults(list[tuple[Location, Problem]]):
    """Collects the faults of reading a text; raises _EnoughError at the limit."""

    def __init__(self, file: str, most: int) -> None:
        super().__init__()
        self._file = file
        self._most = most

    def report(self, location: Location, line: int, message: str) -> None:
        self.append((location, Problem(self._file, line, path_of(location), None, message)))
        if len(self) >= self._most:
            raise _EnoughError

    def unquoted(self) -> list[Problem]:
        """Return those that quote only keys of a configuration and their values."""
        return [
            value if not location or location[0] in KEYS else replace(value, path="")
            for location, value in self
            if not location or location[0] in KEYS or f'"{location[-1]}"' not in value.message
        ]


class Reading:
    """Reads files one after another; ``problems`` are the problems of their text, in order.

    Nothing is quoted from a file without any key of a configuration. ``digests`` are of each
    content, by absolute path; None if it could not be read.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.digests: dict[Path, str | None] = {}
        self._tally = Tally()
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether the limit of problems is reached; then the search stops."""
        return len(self.problems) >= MOST_LOOKED_AT

    def source(self, path: Path, of_what: str, content: bytes | None = None) -> Source | None:
        """Read and parse a file, or its ``content``; ``of_what`` describes the expected content."""
        text = self.text_of(path, content)
        if text is None or self.full:
            return None
        file = str(path)
        faults = _Faults(file, MOST_LOOKED_AT - len(self.problems))
        value: Value = None
        try:
            value = read(text, faults.report, tally=self._tally)
        except yaml.YAMLError as error:
            self.problems += [*faults.unquoted(), syntax_problem(error, file, text)]
            return None
        except _EnoughError:
            nothing = Problem(file, None, "", None, f"{_SOMETHING_ELSE}; {of_what}")
            self.problems += faults.unquoted() or [nothing]
            return None
        if _is_configuration(value):
            # Manifests after it are reported as manifests.
            second = [fault for _, fault in faults if fault.message == SECOND]
            manifests = self.manifests(file, text) if second else []
            self.problems += [fault for _, fault in faults if not manifests or fault not in second]
            self.problems += manifests
            return Source(path, text, value)
        manifests = self.manifests(file, text)
        if manifests:
            self.problems += manifests
            return None
        problems, sentence = faults.unquoted(), _what_it_is(value, of_what)
        if sentence and not (problems and value is None):
            problems.append(Problem(file, None, "", None, sentence))
        self.problems += problems
        return None if sentence or value is None else Source(path, text, value)

    def manifests(self, file: str, text: bytes) -> list[Problem]:
        """Return one sentence for each kind of manifest in a file, without quoting more."""
        repeated: dict[int, Problem] = {}

        def report(_: Location, line: int, message: str) -> None:
            if message == TWICE and len(repeated) < MOST_PROBLEMS:
                repeated[line] = Problem(file, line, "", None, f"{message}{_IS_A_LINE_MISSING}")

        said: dict[str, Problem] = {}
        for document in documents(text, report):
            found = described(document.value, ())
            if found is not None:
                location, message = found
                line = document.line_of(location)
                said.setdefault(message, Problem(file, line, "", None, message))
            if len(said) >= MOST_PROBLEMS:
                break
        return [*(repeated.values() if said else ()), *said.values()]

    def text_of(self, path: Path, content: bytes | None = None) -> bytes | None:
        """Return the UTF-8 text of a file, or of its ``content``; None, with a problem."""
        try:
            data = read_bytes(path, MOST_OF_A_FILE) if content is None else content
            if len(data) > MOST_OF_A_FILE:
                raise TooLargeError(path, MOST_OF_A_FILE)
        except OSError as error:
            self.digests[path.absolute()] = None
            self._refuse(path, _unreadable(error))
            return None
        if content is None:
            self.digests[path.absolute()] = digest(data)
        self._bytes += len(data)
        if self._bytes > MOST_OF_ALL:
            message = f"with this file a configuration has more than {MOST_OF_ALL // 2**20} MiB"
            self._refuse(path, f"{message}; leave out some")
            return None
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line, byte = (
                data.count(b"\n", 0, error.start) + 1,
                f"the byte 0x{data[error.start]:02x}",
            )
            self._refuse(path, "the file is not UTF-8; save it as UTF-8", line, byte)
            return None
        return data.removeprefix(codecs.BOM_UTF8)

    def _refuse(
        self, path: Path, message: str, line: int | None = None, value: str | None = None
    ) -> None:
        self.problems.append(Problem(str(path), line, "", value, message))


def _unreadable(error: OSError) -> str:
    reasons = {
        FileNotFoundError: "there is no such file",
        IsADirectoryError: "this is a folder; name a YAML file",
        PermissionError: "this user may not read the file",
        TooLargeError: f"the file has more than {MOST_OF_A_FILE // 2**20} MiB; "
        "`include` lets targets stand in several files",
        NoFileError: f"{error.strerror}; pipe the file to `autoscaler validate -` instead",
    }
    return reasons.get(type(error), f"the file cannot be read: {error.strerror}")


def digest(content: bytes) -> str:
    """Return a hash that differs for different contents."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _is_configuration(value: Value) -> bool:
    """Return whether a document is meant as a configuration, by its top-level keys."""
    if not isinstance(value, dict) or _looks_like_manifest(value):
        return False
    if not value or not KEYS.isdisjoint(value):
        return True
    # Only similar keys: nothing of an unrelated file is quoted.
    return any(closest(key, KEYS, cutoff=0.85) is not None for key in list(value)[:100])


def _looks_like_manifest(value: dict[str, Value]) -> bool:
    known = isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str)
    return known and not {"prometheus", "targets"} & value.keys()


def _what_it_is(value: Value, of_what: str) -> str:
    """Describe a document that is not a configuration; empty for a text or an unknown list."""
    if isinstance(value, list) and value and _is_target(value[0]):
        return "this is a list of targets: write them under the key `targets`"
    if value is None:
        return f"the file is empty; {of_what}"
    if _is_target(value):
        return "this is one target: write it as an entry of the list `targets`"
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("config"), dict):
        return (
            "these are values of the Helm chart: check the configuration in them with "
            "`yq .config FILE | autoscaler validate -`"
        )
    return f"{_SOMETHING_ELSE}; {of_what}"


def _is_target(value: Value) -> bool:
    return isinstance(value, dict) and isinstance(value.get("scaleTargetRef"), dict)


# -- manifests where a configuration or a target belongs -----------------------------------------

HPA, SCALED_OBJECT, SCALED_JOB = "HorizontalPodAutoscaler", "ScaledObject", "ScaledJob"
AUTHENTICATIONS = ("TriggerAuthentication", "ClusterTriggerAuthentication")
OF_KEDA = (SCALED_OBJECT, SCALED_JOB, *AUTHENTICATIONS)
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_MOST_KINDS = 5


def kind_of(value: Mapping[str, Value]) -> str:
    """Return the kind of a manifest; empty for other documents."""
    kind, spec = value.get("kind"), value.get("spec")
    if isinstance(value.get("apiVersion"), str) and isinstance(kind, str):
        return kind if _KIND.fullmatch(kind) else ""
    # Copied manifests sometimes lack the first lines.
    if isinstance(child(spec, "scaleTargetRef"), dict) and "scaleTargetRef" not in value:
        return SCALED_OBJECT if child(spec, "triggers") is not None else HPA
    return ""


def within(value: Value, location: Location = ()) -> Iterator[tuple[Location, Value]]:
    """Yield the objects of a document: the items of a List, else the document."""
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(items, list) and kind_of(value).endswith("List"):
        for index, item in enumerate(items):
            yield from within(item, (*location, "items", index))
    else:
        yield location, value


def described(value: Value, location: Location) -> tuple[Location, str] | None:
    """Describe manifests and how to convert them; None for other documents.

    ``location`` is the place of the value among the targets, empty for a file.
    """
    instead_of = "a target" if location else "a configuration of autoscaler"
    found = [(at, mapping) for at, mapping in within(value, location) if isinstance(mapping, dict)]
    kinds = list(dict.fromkeys(kind for _, mapping in found if (kind := kind_of(mapping))))
    if not kinds:
        return None
    listed = ", ".join(kinds[:_MOST_KINDS]) + (" and others" if len(kinds) > _MOST_KINDS else "")
    message = f"this is a Kubernetes manifest ({listed}), not {instead_of}"
    if {HPA, *OF_KEDA} & set(kinds):
        message += "; `autoscaler import FILE` converts it"
    elif "ConfigMap" in kinds:
        message += "; a configuration in its `data` can be checked as a file of its own"
    return next((at, message) for at, mapping in found if kind_of(mapping))
