"""Histories as lines of JSON, which a daemon serves and `plan` reads.

The first line is the header; each of the others is a target's key and what it remembers.  They are
made and read one by one, since there may be thousands.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from autoscaler.core.history import History, shifted

VERSION = 1
"""The version of the format, the only one that can be read.  New fields do not change it."""

_CLOCKS_AGREE_SECONDS = 2.0

_HEADER = ("version", "now", "leads", "targets")
_HISTORY = TypeAdapter(History)


class FormatError(Exception):
    """The lines are not of this format; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The histories of a daemon by its own clock, which was at ``now`` (Unix seconds) then.

    ``leads`` says whether it was the one that writes.
    """

    now: float
    leads: bool
    histories: Mapping[str, History] = field(default_factory=dict)

    def by_our_clock(self, asked: float, answered: float) -> Mapping[str, History]:
        """Return the histories by our clock, which showed these times around the request."""
        if asked - _CLOCKS_AGREE_SECONDS <= self.now <= answered + _CLOCKS_AGREE_SECONDS:
            return self.histories
        ahead = answered - self.now
        return {key: shifted(history, ahead) for key, history in self.histories.items()}


def lines(now: float, histories: Mapping[str, History], *, leads: bool) -> Iterator[bytes]:
    """Yield the lines, each made when it is taken."""
    header = {"version": VERSION, "now": now, "leads": leads, "targets": len(histories)}
    yield _line(header)
    for key, history in histories.items():
        yield _line({"target": key, "history": _HISTORY.dump_python(history)})


def read(shown: Iterable[bytes], wanted: AbstractSet[str]) -> Shown:
    """Read the histories of the targets that are wanted.  Raises FormatError."""
    rest = iter(shown)
    first = next(rest, b"")
    if not first:
        raise FormatError("it broke off before the first line")
    header = _object(first)
    version, now, leads, targets = (header.get(key) for key in _HEADER)
    if version != VERSION:
        raise FormatError(f"histories of version {VERSION} are needed, and it has {version}")
    if type(now) is not float or type(leads) is not bool or type(targets) is not int:
        raise FormatError("the first line is no header")
    histories, count = {}, 0
    for count, line in enumerate(rest, 1):  # noqa: B007 - the number of lines
        entry = _object(line)
        key = entry.get("target")
        if isinstance(key, str) and key in wanted:
            try:
                histories[key] = _HISTORY.validate_python(entry.get("history"))
            except ValidationError as error:
                where = ".".join(map(str, error.errors()[0]["loc"]))
                raise FormatError(f"{key}: {where} is not what a history has") from None
    if count < targets:
        raise FormatError(f"it broke off after {count} of {targets} targets")
    return Shown(now, leads, histories)


def _line(document: object) -> bytes:
    # Python's own JSON, both ways: it keeps infinities, NaN and lone surrogates.
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, object]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FormatError("it sent what is no line of JSON")
    return document
