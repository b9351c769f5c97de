"""Histories as lines of JSON, which a daemon serves and `plan` reads.

The first line is the header; each other line is a target's key and its history. They are written
and read one at a time, since there may be thousands.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from autoscaler.core.history import History, shifted
from autoscaler.persistence.codec import UnreadableError, plain, reader_of

VERSION = 2
"""The version of the format, the only one that can be read."""

_CLOCKS_AGREE_SECONDS = 2.0

_HEADER = ("version", "now", "leads", "targets")
_history_of = reader_of(History)


class FormatError(Exception):
    """The lines do not have this format; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class DisplayedHistories:
    """A daemon's histories by its own clock, its time ``now``, and whether it writes."""

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
    """Yield the lines, each created when it is needed."""
    header = {"version": VERSION, "now": now, "leads": leads, "targets": len(histories)}
    yield _line(header)
    for key, history in histories.items():
        yield _line({"target": key, "history": plain(history)})


def read(shown: Iterable[bytes], wanted: AbstractSet[str]) -> DisplayedHistories:
    """Read the histories of the wanted targets. Raises FormatError."""
    rest = iter(shown)
    first = next(rest, b"")
    if not first:
        raise FormatError("it broke off before the first line")
    header = _object(first)
    version, now, leads, targets = (header.get(key) for key in _HEADER)
    if version != VERSION:
        raise FormatError(f"histories of version {VERSION} are needed, and it has {version}")
    if type(now) is not float or type(leads) is not bool or type(targets) is not int:
        raise FormatError("the first line is not a header")
    histories, count = {}, 0
    for count, line in enumerate(rest, 1):  # noqa: B007 - the number of lines
        entry = _object(line)
        key = entry.get("target")
        if isinstance(key, str) and key in wanted:
            try:
                histories[key] = _history_of(entry.get("history"))
            except UnreadableError as error:
                raise FormatError(f"{key}: {error}") from None
    if count < targets:
        raise FormatError(f"it broke off after {count} of {targets} targets")
    return DisplayedHistories(now, leads, histories)


def _line(document: object) -> bytes:
    # Python's own JSON, both ways: it supports infinities, NaN and lone surrogates.
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, object]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FormatError("it sent a line that is not JSON")
    return document
