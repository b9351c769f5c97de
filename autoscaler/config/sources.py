"""The files of a configuration: which there are, reading them, and those that they name."""

import fnmatch
import functools
import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, get_args

import yaml
from pydantic import BaseModel

from autoscaler.config.document import (
    SECOND,
    Location,
    Place,
    Tally,
    Value,
    child,
    entries,
    path_of,
    place_of,
    read,
)
from autoscaler.config.fields import FilePath, absolute
from autoscaler.config.manifests import (
    SOMETHING_ELSE,
    is_configuration,
    manifest_problems,
    what_it_is,
)
from autoscaler.config.model_base import InnerModel, inner_models
from autoscaler.config.problems import MOST_LOOKED_AT, Problem, syntax_problem
from autoscaler.config.settings import KEYS, Config, MainFile
from autoscaler.file_contents import NoFileError, TooLargeError, kind_of, read_bytes

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
    """Collects the faults that reading a text finds; raises _EnoughError for the last that fits."""

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

    def unquoted(self) -> list[Problem]:
        """Return those that quote none but the keys of a configuration, and what is below them."""
        return [
            one if not location or location[0] in KEYS else replace(one, path="")
            for location, one in self._found
            if not location or location[0] in KEYS or f'"{location[-1]}"' not in one.message
        ]


class Reading:
    """Reads files one after another; ``problems`` are those of their text, in order.

    Nothing is quoted from a file that has none of the keys of a configuration.
    ``digests`` tell the content of each, by absolute path; None where it could not be read.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.digests: dict[Path, str | None] = {}
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
            self.problems += [*faults.unquoted(), problem]
            return None
        except _EnoughError:
            nothing = Problem(file, None, "", None, f"{SOMETHING_ELSE}; {of_what}")
            self.problems += faults.unquoted() or [nothing]
            return None
        if is_configuration(value):
            self._take(faults, file, text)
            return Source(path, text, value)
        manifests = manifest_problems(file, text)
        if manifests:
            self.problems += manifests
            return None
        found, sentence = faults.unquoted(), what_it_is(value, of_what)
        if sentence and not (found and value is None):
            found.append(Problem(file, None, "", None, sentence))
        self.problems += found
        return None if sentence or value is None else Source(path, text, value)

    def _take(self, faults: "_Faults", file: str, text: str) -> None:
        """Add the faults of a configuration; manifests behind it are reported as manifests."""
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
    """Return a hash, which differs where contents differ."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Inclusion:
    """What names and patterns stand for at one moment."""

    files: dict[Path, os.stat_result | None]
    """The files, in the order in which they are read; None for a link that leads nowhere."""
    faults: dict[Path, str]
    """The patterns that stand for nothing that they could mean, each with a sentence."""


def patterns_of(document: object, folder: Path) -> dict[int, Path]:
    """Return each pattern of the document by its position; relative ones begin at ``folder``."""
    return {
        index: absolute(pattern, folder)
        for index, pattern in entries(document, "include")
        if isinstance(pattern, str) and pattern.strip()
    }


def included(patterns: Iterable[Path], main: Path) -> Inclusion:
    """Find the files, in the order of the patterns and sorted within each.

    Each file comes once, whatever names it has, and the main one never.  `*`, `?` and `[...]`
    match within one name of the path, and no dot at its beginning: editors keep their locks and
    copies in hidden files, Kubernetes the versions of a mounted ConfigMap.  What a pattern matches
    must lie in the pattern's folder, links followed: who may make a link there could have any
    file read.  A file that is named may be a link to anywhere.
    """
    found = Inclusion({}, {})
    known = {_identity(main, stat_of(main))}
    for pattern in patterns:
        try:
            matches = _matches(pattern)
            fault = _misuse(pattern, matches) or _strays(pattern, matches)
        except (OSError, ValueError) as error:
            matches, fault = {}, _fault(error)
        if fault is not None:
            found.faults[pattern] = fault
            continue
        for file, status in matches.items():
            identity = _identity(file, status)
            if identity not in known and (status is None or stat.S_ISREG(status.st_mode)):
                known.add(identity)
                found.files[file] = status
    return found


def folder_of(pattern: Path) -> Path | None:
    """Return the folder that a pattern begins with; None for a name, which is no pattern."""
    parts = pattern.parts
    first = next((index for index, part in enumerate(parts) if glob.has_magic(part)), None)
    return None if first is None else Path(*parts[:first])


def stat_of(file: Path) -> os.stat_result | None:
    """Look at a file, links followed; None where nothing can be seen."""
    try:
        return file.stat()
    except (OSError, ValueError):
        return None


def _identity(file: Path, status: os.stat_result | None) -> object:
    return str(file) if status is None else (status.st_dev, status.st_ino)


def _is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def _matches(pattern: Path) -> dict[Path, os.stat_result | None]:
    """Return everything that has a matching name, be it a file or not.

    Raises OSError where a folder cannot be listed: that is not the same as one without matches.
    """
    found = [Path(pattern.anchor)]
    literal = True
    for part in pattern.parts[1 if pattern.anchor else 0 :]:
        if not glob.has_magic(part):
            found = [folder / part for folder in found]
            continue
        # The folder that the pattern begins with must be there; of its matches some are files.
        folders = found if literal else [path for path in found if _is_folder(stat_of(path))]
        found = [folder / name for folder in folders for name in _names(folder, part)]
        literal = False
    looks = ((path, stat_of(path)) for path in found)
    # A link to nothing stays: it is to be reported when it is read, not passed over.
    return {path: status for path, status in looks if status is not None or _is_there(path)}


def _names(folder: Path, part: str) -> list[str]:
    names = fnmatch.filter((path.name for path in folder.iterdir()), part)
    return sorted(name for name in names if part.startswith(".") or not name.startswith("."))


def _is_there(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _misuse(pattern: Path, matches: dict[Path, os.stat_result | None]) -> str | None:
    if "**" in pattern.parts:
        return "** is not known here: * matches within one name; write a pattern for each folder"
    if glob.has_magic(str(pattern)):
        return None
    if not matches:
        return f"must name a file or be a pattern such as *.yaml, and there is no file {pattern}"
    status = matches[pattern]
    if _is_folder(status):
        return f"must name files, and {pattern} is a folder; those in it are {pattern}/*.yaml"
    other = None if status is None else kind_of(status.st_mode)
    if other is not None:
        return f"must name a file, and {pattern} is {other}"
    return None


def _strays(pattern: Path, matches: dict[Path, os.stat_result | None]) -> str | None:
    folder = folder_of(pattern)
    if folder is None:
        return None
    linked, real = {folder: False}, os.path.realpath(folder)
    for file, status in matches.items():
        readable = status is None or stat.S_ISREG(status.st_mode)
        if not readable or not _is_linked(file, linked):
            continue
        if not Path(os.path.realpath(file)).is_relative_to(real):
            return (
                f"{file} leads out of {folder} by a link; right is a file there, or here the name "
                "of the file that it leads to"
            )
    return None


def _is_linked(path: Path, known: dict[Path, bool]) -> bool:
    """Return whether a path has a link, below what is known."""
    if path not in known:
        known[path] = path.is_symlink() or _is_linked(path.parent, known)
    return known[path]


def _fault(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"must begin with a folder, and there is no folder {error.filename}"
    if isinstance(error, PermissionError):
        return f"this user may not list the folder {error.filename}"
    return "must be the name of a file, or a pattern such as targets.d/*.yaml"


class NamedFile(NamedTuple):
    """A file that the main one names, as for a secret, and that cannot be used."""

    location: Location
    path: Path
    fault: str


def unusable_files(document: object, folder: Path) -> Iterator[NamedFile]:
    """Find the files that a document names and that cannot be used, as they may be later."""
    for keys, name in _names_of_files(document, MainFile):
        if name.strip():
            path = absolute(name, folder)
            fault = _unusable(name, path)
            if fault is not None:
                yield NamedFile(keys, path, fault)


def _names_of_files(
    value: object, model: type[BaseModel], location: Location = ()
) -> Iterator[tuple[Location, str]]:
    """Yield what stands in a document where the type is FilePath."""
    own, inner = _keys_to_files(model)
    for key in own:
        name = child(value, key)
        if isinstance(name, str):
            yield (*location, key), name
    for key, within_of, many in inner:
        within = child(value, key)
        if many is None:
            yield from _names_of_files(within, within_of, (*location, key))
        elif many is dict and isinstance(within, Mapping):
            for name, one in within.items():
                yield from _names_of_files(one, within_of, (*location, key, str(name)))


@functools.cache
def _keys_to_files(model: type[BaseModel]) -> tuple[tuple[str, ...], tuple[InnerModel, ...]]:
    """Return the keys of a model whose type is FilePath, and those that lead to models with some.

    No list has any.
    """
    own = [
        field.alias or name
        for name, field in model.model_fields.items()
        if FilePath in get_args(field.annotation) or get_args(FilePath)[1] in field.metadata
    ]
    inner = [one for one in inner_models(model) if any(_keys_to_files(one.model))]
    return tuple(own), tuple(inner)


def _unusable(name: str, path: Path) -> str | None:
    # A secret that was written where its file's name belongs must not reach the error text.
    shown = str(path) if _reads_as_path(name, path) else f"of that name in {path.parent}"
    try:
        mode = path.stat().st_mode
        allowed = os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)
    except PermissionError:
        mode, allowed = 0, False
    except (FileNotFoundError, NotADirectoryError):
        return f"must name a file, and there is no file {shown}"
    except (OSError, ValueError):
        return "must name a file that can be read"
    if stat.S_ISDIR(mode):
        return f"must name a file, and {shown} is a folder"
    other = kind_of(mode)
    if other is not None:
        return f"must name a file, and {shown} is {other}"
    if not allowed:
        return f"must name a file that this user may read: permission denied for {shown}"
    return None


def _reads_as_path(name: str, path: Path) -> bool:
    if len(name) > 200:
        return False
    if name.startswith(("/", "./", "../", "~/")):
        return True
    try:
        return path.exists() or ("/" in name and path.parent.is_dir())
    except (OSError, ValueError):
        return False


def sources_of(config: Config, content: bytes | None) -> Sequence[Source]:
    """Read the files of a valid configuration again; ``content`` as for `load`."""
    reading = Reading()
    main = config.path.absolute()
    others = [path for path in config.sources.digests if path != main]
    read = [reading.source(config.path, "", content), *(reading.source(one, "") for one in others)]
    return [source for source in read if source is not None]
