"""Where decisions are read from: the record in a state directory, or a running daemon."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from autoscaler.adapters.daemon import (
    Daemon,
    Limits,
    NobodyListensError,
    NotThereError,
    PageError,
    read_page,
)
from autoscaler.adapters.record import DirectoryRecord
from autoscaler.cli.listen_address import api_address_of
from autoscaler.config import ConfigError, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.settings import LISTEN, STATE_DIRECTORY
from autoscaler.core.text import rfc3339_milli
from autoscaler.record.finding import last_count_change
from autoscaler.record.rows import Change, Lapse, Mark, RecordError, RecordReader
from autoscaler.rendering.instant import Explanation, explanation_at
from autoscaler.transport.bodies import TooMuch, parse

_LIMITS = Limits(connect_seconds=5.0, silence_seconds=10.0, most_bytes=64 << 20)
_MOST_MEMORY = 512 << 20
_PAGE = 1000
_ADVICE = "; start it with `autoscaler run`, or say where to read with --url or --state-directory"


_NO_SIGN_IN = Daemon("")


class SourceError(Exception):
    """Nothing can be read; the text is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the command line says of where to read: each part may be missing.

    ``sign_in`` has no address, and says how to sign in at any.
    """

    config: Path | None = None
    directory: Path | None = None
    url: str | None = None
    sign_in: Daemon = _NO_SIGN_IN

    def at(self, url: str) -> Daemon:
        """Return the daemon at an address."""
        return replace(self.sign_in, url=url)


class Source(Protocol):
    """Answers what was decided.  Methods raise SourceError."""

    name: str
    """What is read, in words."""

    def targets(self) -> Sequence[str]:
        """Return the keys of all targets."""
        ...

    def explanation(self, target: str, at: float) -> Explanation | None:
        """Explain what held at an instant; None where nothing is recorded."""
        ...

    def last_change(self, target: str, until: float) -> float | None:
        """Return when the count last changed; None if it never did."""
        ...

    def changes(
        self, targets: Collection[str] | None, begin: float, end: float, limit: int
    ) -> Sequence[Change]:
        """Return the last changes of a time, the last one first."""
        ...

    def lapses(self, changes: Sequence[Change]) -> Sequence[Lapse]:
        """Return when nothing was recorded, between the changes that were returned last."""
        ...


def source_of(place: Place) -> Source:
    """Return what to read: what is named, else the directory, else the address that is usual.

    Of a configuration its state directory is read, or else its daemon is asked.  Raises SourceError
    or ConfigError.
    """
    if place.url is not None:
        return DaemonSource(place.at(place.url))
    if place.directory is not None:
        return DirectorySource(place.directory)
    if place.config is None:
        usual = DirectorySource(Path(STATE_DIRECTORY))
        if usual.holds_something():
            return usual
        return DaemonSource(place.at(LISTEN.url), f"nothing is recorded in {STATE_DIRECTORY}, and ")
    try:
        directory = load(place.config, namespace_or_anywhere).state_directory
    except ConfigError:
        directory = None  # its `listen` may be readable all the same
    if directory is not None and (kept := DirectorySource(directory)).holds_something():
        return kept
    listen, scheme, _ = api_address_of(place.config)
    if listen is None or listen.port == 0:
        raise SourceError(
            f"nothing is recorded in the state directory of {place.config}, and its daemon listens "
            "at no fixed address; name one with --url"
        )
    return DaemonSource(place.at(listen.url_of(scheme)))


# -- a directory ---------------------------------------------------------------------------------


class DirectorySource:
    """Reads the record in a state directory, whether its daemon runs or not."""

    def __init__(self, directory: Path) -> None:
        self.name = f"the record in {directory}"
        self.record: RecordReader = DirectoryRecord(directory)

    def holds_something(self) -> bool:
        """Return whether there is a record that can be read."""
        try:
            return self.record.span() is not None
        except RecordError:
            return False

    def targets(self) -> Sequence[str]:
        """As `Source.targets`."""
        return _raising(self.record.targets)

    def explanation(self, target: str, at: float) -> Explanation | None:
        """As `Source.explanation`."""
        return _raising(lambda: explanation_at(self.record, target, at))

    def last_change(self, target: str, until: float) -> float | None:
        """As `Source.last_change`."""
        found = _raising(lambda: last_count_change(self.record, target, until))
        return None if found is None else found.time

    def changes(
        self, targets: Collection[str] | None, begin: float, end: float, limit: int
    ) -> Sequence[Change]:
        """As `Source.changes`."""
        return _raising(lambda: self.record.changes(targets, begin, end, limit=limit))

    def lapses(self, changes: Sequence[Change]) -> Sequence[Lapse]:
        """As `Source.lapses`."""
        if not changes:
            return ()
        begin, end = changes[-1].time, changes[0].time
        return _raising(lambda: self.record.lapses(None, begin, end))


_T = TypeVar("_T")


def _raising(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except RecordError as error:
        raise SourceError(str(error)) from None


# -- a daemon ------------------------------------------------------------------------------------


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Explanation(_Model):
    target: str
    at: AwareDatetime
    time: AwareDatetime
    until: AwareDatetime | None
    recorded_until: AwareDatetime | None = None
    state: str
    message: str
    lines: tuple[str, ...]
    values: tuple[str, ...]
    differences: tuple[str, ...]
    alternatives: tuple[str, ...]
    others: tuple[str, ...]
    decision: dict[str, object] | None


class _Change(_Model):
    id: int
    target: str
    time: AwareDatetime
    state: str
    message: str
    current_replicas: int | None
    desired_replicas: int | None
    min_replicas: int
    max_replicas: int
    marks: tuple[str, ...]
    by: str | None

    def change(self) -> Change:
        """Return it as the record has it."""
        marks = Mark(0)
        for one in Mark:
            if one.word in self.marks:
                marks |= one
        return Change(
            self.id,
            self.target,
            self.time.timestamp(),
            self.state,
            self.current_replicas,
            self.desired_replicas,
            self.min_replicas,
            self.max_replicas,
            marks,
            self.message,
            self.by or "",
        )


class _Lapse(_Model):
    begin: AwareDatetime
    end: AwareDatetime


class _Changes(_Model):
    changes: tuple[_Change, ...]
    lapses: tuple[_Lapse, ...] = ()
    continue_: str | None = Field(default=None, alias="continue")


class _Target(_Model):
    target: str


class _Targets(_Model):
    targets: tuple[_Target, ...]


_M = TypeVar("_M", bound=_Model)


class DaemonSource:
    """Asks a running daemon."""

    def __init__(self, daemon: Daemon, why: str = "") -> None:
        """``why`` it is asked stands before the sentence that nobody listens."""
        self.name = str(daemon)
        self._daemon = daemon
        self._why = why
        self._lapses: list[Lapse] = []

    def targets(self) -> Sequence[str]:
        """As `Source.targets`."""
        found = self._read(_Targets, "/targets")
        return () if found is None else [one.target for one in found.targets]

    def explanation(self, target: str, at: float) -> Explanation | None:
        """As `Source.explanation`."""
        return self._explained(target, {"at": rfc3339_milli(at)})

    def last_change(self, target: str, until: float) -> float | None:
        """As `Source.last_change`."""
        asked = {"at": rfc3339_milli(until), "lastChange": "true"}
        found = self._explained(target, asked)
        return None if found is None else found.time

    def changes(
        self, targets: Collection[str] | None, begin: float, end: float, limit: int
    ) -> Sequence[Change]:
        """As `Source.changes`."""
        asked = [("target", one) for one in targets or ()]
        asked += [("from", rfc3339_milli(begin)), ("to", rfc3339_milli(end))]
        found: list[Change] = []
        self._lapses = []
        more: list[tuple[str, str]] = []
        while len(found) < limit:
            page = [("limit", str(min(limit - len(found), _PAGE)))]
            shown = self._read(_Changes, f"/changes?{urlencode([*asked, *page, *more])}")
            if shown is None:
                break
            found += [one.change() for one in shown.changes]
            self._lapses += [
                Lapse(one.begin.timestamp(), one.end.timestamp()) for one in shown.lapses
            ]
            if shown.continue_ is None:
                break
            more = [("continue", shown.continue_)]
        return found

    def lapses(self, changes: Sequence[Change]) -> Sequence[Lapse]:  # noqa: ARG002
        """As `Source.lapses`."""
        return self._lapses

    def _explained(self, target: str, asked: Mapping[str, str]) -> Explanation | None:
        path = f"/targets/{quote(target)}/explanation?{urlencode(asked)}"
        found = self._read(_Explanation, path)
        if found is None:
            return None
        return Explanation(
            found.target,
            found.at.timestamp(),
            found.time.timestamp(),
            None if found.until is None else found.until.timestamp(),
            found.state,
            found.message,
            found.lines,
            found.values,
            found.differences,
            found.alternatives,
            found.others,
            found.decision or {},
            None if found.recorded_until is None else found.recorded_until.timestamp(),
        )

    def _read(self, kind: type[_M], path: str) -> _M | None:
        """Return an answer, None if there is nothing of what is asked for."""
        try:
            body = read_page(self._daemon, f"/api/v1{path}", b"\n".join, _LIMITS)
            return kind.model_validate(parse(body, _MOST_MEMORY))
        except NotThereError:
            return None
        except PageError as error:
            if isinstance(error, NobodyListensError):
                raise SourceError(f"{self._why}{error}{_ADVICE}") from None
            raise SourceError(str(error)) from None
        except (ValueError, RecursionError, TooMuch):
            raise SourceError(
                f"what answers at {self._daemon.url} is no autoscaler, or one of a version that "
                "this program does not understand"
            ) from None
