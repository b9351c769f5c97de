"""The files of a configuration: those that `include` matches, and those that it names."""

import fnmatch
import functools
import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias, get_args

from pydantic import BaseModel

from autoscaler.config.documents import Location, child, entries
from autoscaler.config.fields import FilePath, absolute
from autoscaler.config.models import InnerModel, fields_by_key, inner_models
from autoscaler.config.settings import MainFile
from autoscaler.file_contents import kind_of

MOST_FILES = 10_000
"""The most files that a pattern may match, and the most entries of `include`."""

_Files: TypeAlias = dict[Path, os.stat_result | None]


class _ManyError(ValueError):
    """A pattern matches more files than the limit."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The result of matching names and patterns at one moment."""

    files: _Files
    """The files, in the order of reading; None for a broken link."""
    faults: dict[Path, str]
    """The patterns without a usable match, each with a sentence."""


def patterns_of(document: object, folder: Path) -> dict[int, Path]:
    """Return the first patterns of the document by position; relative ones begin at ``folder``."""
    return {
        index: absolute(pattern, folder)
        for index, pattern in islice(entries(document, "include"), MOST_FILES + 1)
        if isinstance(pattern, str) and pattern.strip()
    }


def included(patterns: Iterable[Path], main: Path) -> Inclusion:
    """Return the files, in the order of the patterns and sorted within each.

    Each file occurs once, whatever names it has, and the main one never. `*`, `?` and `[...]` match
    within one name of the path, and no leading dot: editors keep locks and copies in hidden files,
    Kubernetes the versions of a mounted ConfigMap. A pattern's matches must be in the pattern's
    folder, links resolved: otherwise whoever may create a link there could have any file read. A
    file that is named may be a link to anywhere.
    """
    inclusion = Inclusion({}, {})
    known = {_identity(main, stat_of(main))}
    for pattern in patterns:
        try:
            matches = _matches(pattern)
            fault = _misuse(pattern, matches)
        except (OSError, ValueError) as error:
            matches, fault = {}, _fault(error)
        if fault is not None:
            inclusion.faults[pattern] = fault
            continue
        for file, status in matches.items():
            identity = _identity(file, status)
            if identity not in known and (status is None or stat.S_ISREG(status.st_mode)):
                known.add(identity)
                inclusion.files[file] = status
    return inclusion


def folder_of(pattern: Path) -> Path | None:
    """Return the folder at the start of a pattern; None for a plain name."""
    parts = pattern.parts
    first = next((index for index, part in enumerate(parts) if glob.has_magic(part)), None)
    return None if first is None else Path(*parts[:first])


def stat_of(file: Path) -> os.stat_result | None:
    """Return the stat of a file, links followed; None if it is not visible."""
    try:
        return file.stat()
    except (OSError, ValueError):
        return None


def _identity(file: Path, status: os.stat_result | None) -> object:
    return str(file) if status is None else (status.st_dev, status.st_ino)


def _is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def _matches(pattern: Path) -> _Files:
    """Return all matches of a name. Raises OSError of a folder's listing, and _ManyError."""
    matches = [Path(pattern.anchor)]
    literal = True
    for part in pattern.parts[1 if pattern.anchor else 0 :]:
        if not glob.has_magic(part):
            matches = [folder / part for folder in matches]
            continue
        # The folder at the start of the pattern must exist; some of its matches are files.
        folders = matches if literal else [path for path in matches if _is_folder(stat_of(path))]
        matches = [folder / name for folder in folders for name in _names(folder, part)]
        literal = False
        if len(matches) > MOST_FILES:
            raise _ManyError
    looks = ((path, stat_of(path)) for path in matches)
    # A broken link stays: reading it reports the error.
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


def _misuse(pattern: Path, matches: _Files) -> str | None:
    if "**" in pattern.parts:
        return "** is not known here: * matches within one name; write a pattern for each folder"
    folder = folder_of(pattern)
    if folder is not None:
        return _strays(folder, matches)
    if not matches:
        return f"must name a file or be a pattern such as *.yaml, and there is no file {pattern}"
    status = matches[pattern]
    if _is_folder(status):
        return f"must name files, and {pattern} is a folder; those in it are {pattern}/*.yaml"
    other = None if status is None else kind_of(status.st_mode)
    return None if other is None else f"must name a file, and {pattern} is {other}"


def _strays(folder: Path, matches: _Files) -> str | None:
    linked, real = {folder: False}, os.path.realpath(folder)
    for file, status in matches.items():
        readable = status is None or stat.S_ISREG(status.st_mode)
        led_out = readable and _is_linked(file, linked)
        if led_out and not Path(os.path.realpath(file)).is_relative_to(real):
            return (
                f"{file} leads out of {folder} by a link; right is a file there, or here the name "
                "of the file that it leads to"
            )
    return None


def _is_linked(path: Path, known: dict[Path, bool]) -> bool:
    if path not in known:
        known[path] = path.is_symlink() or _is_linked(path.parent, known)
    return known[path]


def _fault(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"must begin with a folder, and there is no folder {error.filename}"
    if isinstance(error, PermissionError):
        return f"this user may not list the folder {error.filename}"
    if isinstance(error, _ManyError):
        return f"matches more than {MOST_FILES:,} files; put several targets into one"
    return "must be the name of a file, or a pattern such as targets.d/*.yaml"


class NamedFile(NamedTuple):
    """A file that the main one names, such as a secret, and that cannot be used."""

    location: Location
    path: Path
    fault: str


def unusable_files(document: object, folder: Path) -> Iterator[NamedFile]:
    """Return the files that a document names and that cannot be used now."""
    for keys, name in named_files(document, MainFile):
        if isinstance(name, str) and name.strip():
            path = absolute(name, folder)
            if (fault := _unusable(name, path)) is not None:
                yield NamedFile(keys, path, fault)


def named_files(
    value: object, model: type[BaseModel], location: Location = ()
) -> Iterator[tuple[Location, str | Path]]:
    """Yield the values of type FilePath in a document, or in a dump of a model."""
    own, inner = _keys_to_files(model)
    for key in own:
        name = child(value, key)
        if isinstance(name, str | Path):
            yield (*location, key), name
        elif isinstance(name, Mapping):
            each = ((str(of), path) for of, path in name.items() if isinstance(path, str | Path))
            yield from (((*location, key, of), path) for of, path in each)
    for field in inner:
        for place, part in field.values(value):
            yield from named_files(part, field.model, (*location, *place))


@functools.cache
def _keys_to_files(model: type[BaseModel]) -> tuple[tuple[str, ...], tuple[InnerModel, ...]]:
    """Return a model's keys of FilePaths, also by name, and keys to models that have some."""
    own = [
        key
        for key, field in fields_by_key(model).items()
        if FilePath in get_args(field.annotation) or get_args(FilePath)[1] in field.metadata
    ]
    inner = [field for field in inner_models(model) if any(_keys_to_files(field.model))]
    return tuple(own), tuple(inner)


def _unusable(name: str, path: Path) -> str | None:
    # The error text must not contain a secret that was written in place of its file's name.
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
    other = "a folder" if stat.S_ISDIR(mode) else kind_of(mode)
    if other is not None:
        return f"must name a file, and {shown} is {other}"
    if allowed:
        return None
    return f"must name a file that this user may read: permission denied for {shown}"


def _reads_as_path(name: str, path: Path) -> bool:
    if len(name) > 200:
        return False
    if name.startswith(("/", "./", "../", "~/")):
        return True
    try:
        return path.exists() or ("/" in name and path.parent.is_dir())
    except (OSError, ValueError):
        return False
