"""What `autoscaler import` reads: files, folders, standard input; each document by itself."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from autoscaler.config.documents import TWICE, Location, read
from autoscaler.config.problems import Places, syntax_problem
from autoscaler.config.reading import within
from autoscaler.file_contents import NoFileError, TooLargeError, read_bytes
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.manifests import Manifest, parts_of

STANDARD_INPUT = Path("-")
_SHOWN = "standard input"
_SUFFIXES = {".yaml", ".yml", ".json"}
MOST_OF_A_FILE = 64 * 2**20
"""Bytes; what Helm renders for a whole cluster has a few million."""
_MOST_OF_ALL = 256 * 2**20
_MOST_FILES = 50_000
_MOST_DOCUMENTS = 100_000
_TEMPLATE = b"{{"
_OURS = re.compile(
    rb"HorizontalPodAutoscaler|Scaled(?:Object|Job)|TriggerAuth|(?:series|metrics)Query"
)
"""What names an autoscaler, or a rule of prometheus-adapter."""
_A_TEMPLATE = (
    "it is a template, which has to be rendered first: import what `helm template` or your tool "
    "prints"
)


@dataclass(frozen=True)
class Unread:
    """A file or document that could not be read, and why."""

    file: str
    why: str
    document: int | None = None
    line: int | None = None


@dataclass
class ImportSources:
    """The manifests of all that was named, in order, and what could not be read."""

    manifests: list[Manifest] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    _bytes: int = 0
    _in_folder: bool = False
    """Whether the file was found in a folder, where much may be of no concern."""

    def add(self, names: Sequence[Path]) -> None:
        """Read files, the YAML and JSON files of folders, and `-`, which is standard input."""
        files = 0
        for name in names:
            self._in_folder = name != STANDARD_INPUT and name.is_dir()
            for path in _within(name) if self._in_folder else [name]:
                files += 1
                if files > _MOST_FILES:
                    why = f"more than {_MOST_FILES:,} files: import a part at a time"
                    self.unread.append(Unread(str(name), why))
                    return
                self._file(path)

    def _file(self, path: Path) -> None:
        shown = _SHOWN if path == STANDARD_INPUT else str(path)
        try:
            text = _standard_input() if path == STANDARD_INPUT else read_bytes(path, MOST_OF_A_FILE)
        except OSError as error:
            self.unread.append(Unread(shown, _unreadable(error)))
            return
        self._bytes += len(text)
        if self._bytes > _MOST_OF_ALL:
            most = f"{_MOST_OF_ALL // 2**20} MiB together"
            self.unread.append(Unread(shown, f"the files have more than {most}: import fewer"))
            return
        self.text(text, shown)

    def text(self, text: bytes, shown: str) -> None:
        """Read the documents of a text; messages call it ``shown``."""
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            unread = Unread(shown, "it is not UTF-8; save it as UTF-8", None, line)
            self._leave(unread, text)
            return
        for number, (before, part) in enumerate(parts_of(text.removeprefix(b"\xef\xbb\xbf")), 1):
            if number > _MOST_DOCUMENTS:
                why = f"only the first {_MOST_DOCUMENTS:,} documents of it were read"
                self.unread.append(Unread(shown, why, number, before + 1))
                return
            self._document(part, shown, number, before)

    def _leave(self, unread: Unread, text: bytes) -> None:
        """Note what cannot be read; in a folder only if it names something that is imported."""
        if not self._in_folder or _OURS.search(text):
            self.unread.append(unread)
        else:
            number = unread.document or 1
            self.manifests.append(Manifest(Fields(None), unread.file, number))

    def _document(self, part: bytes, shown: str, number: int, before: int) -> None:
        faults: list[tuple[Location, int, str]] = []
        try:
            value = read(part, lambda *fault: faults.append(fault))
        except yaml.YAMLError as error:
            problem = syntax_problem(error, shown, part)
            line = before + (problem.line or 1)
            why = _A_TEMPLATE if _TEMPLATE in part else problem.message
            self._leave(Unread(shown, why, number, line), part)
            return
        broken = next((fault for fault in faults if fault[2] != TWICE), None)
        if broken is not None:
            _, line, why = broken
            why = _A_TEMPLATE if _TEMPLATE in part else why
            self._leave(Unread(shown, why, number, before + line), part)
            return
        if value is None:
            return
        for at, one in within(value):
            manifest = Manifest(Fields(one), shown, number, part, before, at)
            for location, _, why in faults:
                if location[: len(at)] == at:
                    manifest.fields.refused(*location[len(at) :], why=why)
            self.manifests.append(manifest)


def _within(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of those in it, by name; hidden ones are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in _SUFFIXES and not name.startswith("."):
                yield Path(place, name)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise OSError("it is closed")
    if sys.stdin.isatty():
        print("reading standard input; Ctrl-D ends it", file=sys.stderr)
    text = sys.stdin.buffer.read(MOST_OF_A_FILE + 1)
    if len(text) > MOST_OF_A_FILE:
        raise TooLargeError(STANDARD_INPUT, MOST_OF_A_FILE)
    return text


def _unreadable(error: OSError) -> str:
    reasons = {
        FileNotFoundError: "there is no such file",
        PermissionError: "this user may not read it",
        NoFileError: f"{error.strerror}; `-` reads standard input",
    }
    return reasons.get(type(error), f"it cannot be read: {error.strerror or error}")


class Lines:
    """Finds the lines of keys in the documents of manifests."""

    def __init__(self) -> None:
        self._last: tuple[bytes, Places] | None = None

    def line(self, manifest: Manifest, location: Location = ()) -> int | None:
        """Return the line of a key in its file, from 1; None where there is no text."""
        if not manifest.text:
            return None
        if self._last is None or self._last[0] is not manifest.text:
            self._last = (manifest.text, Places(manifest.text))
        return manifest.before + self._last[1][(*manifest.at, *location)].line
