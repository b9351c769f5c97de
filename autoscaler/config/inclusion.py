"""`include`: which files a configuration takes in beside its main one."""

import fnmatch
import glob
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autoscaler.config.document_rules import absolute
from autoscaler.config.spec_rules import entries
from autoscaler.file_contents import kind_of


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
    must lie in the pattern's folder, links followed: whoever may make a link there could have any
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
    """Tell whether a path has a link, below what is known."""
    if path not in known:
        known[path] = path.is_symlink() or _is_linked(path.parent, known)
    return known[path]


def _fault(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"must begin with a folder, and there is no folder {error.filename}"
    if isinstance(error, PermissionError):
        return f"this user may not list the folder {error.filename}"
    return "must be the name of a file, or a pattern such as targets.d/*.yaml"
