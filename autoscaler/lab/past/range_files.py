"""Answers to range queries on disk: nothing is fetched twice.

A folder for each query has a file for each part, named by its instants. A file has a checksum, a
line of JSON, and the values of all series, compressed. It is written atomically; a damaged file, or
one of another query, is ignored.
"""

import json
import os
import re
import sys
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.file_contents import read_bytes, with_home, write_below
from autoscaler.lab.past.ranges import Grid, Matrix, MatrixSeries, cut

MOST_BYTES = 1 << 30
"""The size limit of all files of a folder."""
_MOST_OF_A_FILE = 1 << 28
_FLOAT_BYTES = 8
_VERSION = 2
_SUFFIX = ".range"
_DIGEST_BYTES = 16
_FOLDER = re.compile(r"[0-9a-f]{32}")
_FASTEST = 1
_HEAD = TypeAdapter(tuple[str, list[str], list[tuple[dict[str, str], list[tuple[int, int]]]]])
"""The line of JSON: the key, the warnings, and the labels and runs of each series."""


def default_folder() -> Path | None:
    """Return the default folder, in the user's cache folder; None without one."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base and Path(base).is_absolute() else with_home("~/.cache")
    return folder / "autoscaler" / "ranges" if folder.is_absolute() else None


@dataclass(frozen=True, slots=True)
class RangeKey:
    """The subject of files: ``server`` by `identity_of`; ``made`` is how answers are processed."""

    server: str
    promql: str
    grid: Grid
    made: str = ""

    @property
    def text(self) -> str:
        """The key as text in a file."""
        grid = self.grid
        form = f"{_VERSION}-{sys.byteorder}"
        return json.dumps([form, self.server, self.promql, grid.step, grid.phase, self.made])

    @property
    def digest(self) -> str:
        """The name of the folder."""
        return _digest(self.text)


def identity_of(settings: PrometheusSettings) -> str:
    """Return a digest of what a server's answers depend on: its URL, and the credentials."""
    headers = {name: header.get_secret_value() for name, header in settings.headers.items()}
    names = ("url", "query_parameters", "basic_auth", "oauth2", "sigv4", "google_iam", "azuread")
    asked = settings.model_dump(mode="json", include={*names, "bearer_token_file", "headers_files"})
    return _digest(json.dumps([asked, headers], sort_keys=True))


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


class StoredPart(NamedTuple):
    """Instants of a grid from the number ``begin`` to ``end``, and their file."""

    begin: int
    end: int
    file: Path


class RangeFiles:
    """The files in a folder. Raises OSError if a file cannot be written."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def covering(self, key: RangeKey, begin: int, end: int) -> Iterator[StoredPart]:
        """Yield the stored parts of a range, in order and without overlaps; there may be holes."""
        known = sorted(self._parts(key))
        at = begin
        while at < end:
            # The longest of the parts with this instant.
            having = [
                answer_part for answer_part in known if answer_part.begin <= at < answer_part.end
            ]
            if having:
                best = max(having, key=lambda answer_part: answer_part.end)
                if _is_whole(key, best.file):
                    yield StoredPart(at, min(best.end, end), best.file)
                    at = best.end
                else:
                    known.remove(best)
                continue
            at = min(
                (answer_part.begin for answer_part in known if answer_part.begin > at), default=end
            )

    def write(self, key: RangeKey, begin: int, end: int, matrix: Matrix) -> StoredPart:
        """Store a part."""
        names = key.digest, f"{begin}-{end}{_SUFFIX}"
        return StoredPart(
            begin, end, write_below(self._folder, names, _content(key, matrix), force=True)
        )

    def prune(self) -> None:
        """Remove the least recently used files, until the rest is within the limit."""
        found = []
        for file in (file for folder in self._folders() for file in folder.glob("*")):
            with suppress(OSError):
                status = file.lstat()
                found.append((status.st_mtime_ns, status.st_size, file))
        size = sum(interval[1] for interval in found)
        for _, own, file in sorted(found):
            if size <= self._most_bytes:
                break
            with suppress(OSError):
                file.unlink()
                size -= own
        for folder in self._folders():
            with suppress(OSError):
                folder.rmdir()  # Only if it is empty.

    def _folders(self) -> list[Path]:
        """Return the folders of queries; anything else belongs to somebody else."""
        with suppress(OSError):
            found = [folder for folder in self._folder.iterdir() if _FOLDER.fullmatch(folder.name)]
            return [interval for interval in found if not interval.is_symlink()]
        return []

    def _parts(self, key: RangeKey) -> Iterator[StoredPart]:
        for file in (self._folder / key.digest).glob(f"*{_SUFFIX}"):
            begin, _, end = file.name.removesuffix(_SUFFIX).partition("-")
            if begin.isdecimal() and end.isdecimal() and file.name.isascii():
                yield StoredPart(int(begin), int(end), file)


@lru_cache(maxsize=8)
def read_part(key: RangeKey, part: StoredPart) -> Matrix:
    """Return a stored part. Raises OSError, and ValueError if it is damaged.

    The last ones are cached in memory, for targets that read series of the same part.
    """
    return cut(_read(key, part.file), part.begin, part.end)


def _content(key: RangeKey, matrix: Matrix) -> bytes:
    series = [(dict(samples.labels), samples.runs) for samples in matrix.series]
    head = json.dumps((key.text, matrix.warnings, series), separators=(",", ":")).encode()
    values = b"".join(samples.values.tobytes() for samples in matrix.series)
    body = head + b"\n" + zlib.compress(values, _FASTEST)
    return b"%08x\n" % zlib.crc32(body) + body


def _is_whole(key: RangeKey, file: Path) -> bool:
    """Return whether the whole file is readable; it counts as used now."""
    try:
        _read(key, file)
        os.utime(file)
    except (OSError, ValueError):
        return False
    return True


def _read(key: RangeKey, file: Path) -> Matrix:
    """Return the content of a file. Raises OSError, and ValueError for another form."""
    content = read_bytes(file, _MOST_OF_A_FILE)
    check, body = content[:9], content[9:]
    if check != b"%08x\n" % zlib.crc32(body):
        raise ValueError(f"{file} is damaged")
    line, _, packed = body.partition(b"\n")
    about, warnings, stored = _HEAD.validate_json(line, strict=True)
    if about != key.text:
        raise ValueError(f"{file} is about another query")
    least, most = map(int, file.name.removesuffix(_SUFFIX).split("-"))
    for _, runs in stored:
        following = least
        for first, count in runs:
            if first < following or not 0 < count <= most - first:
                raise ValueError(f"{file} has instants that it is not about")
            following = first + count
    counts = [sum(count for _, count in runs) for _, runs in stored]
    values = array("d", _unpacked(packed, sum(counts) * _FLOAT_BYTES))
    series = [
        MatrixSeries(labels, runs, values[end - count : end])
        for (labels, runs), count, end in zip(stored, counts, accumulate(counts), strict=True)
    ]
    return Matrix(series, tuple(warnings))


def _unpacked(packed: bytes, size: int) -> bytes:
    """Return a number of bytes. Raises ValueError if there are fewer or more, or too many."""
    try:
        fits = size <= _MOST_OF_A_FILE
        found = zlib.decompressobj().decompress(packed, size + 1) if fits else b""
    except zlib.error as error:
        raise ValueError(f"the values are damaged: {error}") from None
    if len(found) != size:
        raise ValueError("there are other values than the head says, or too many")
    return found
