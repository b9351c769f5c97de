"""The sources of decisions: the record in a state directory, or a running daemon."""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import TypeAdapter, ValidationError

from autoscaler import clock
from autoscaler.agreement.sentences import agreement_answer, kept_of
from autoscaler.cli import times
from autoscaler.cli.options import DaemonOptions, SourceOptions
from autoscaler.cli.output import CommandError
from autoscaler.cli.target_names import UnknownTargetError, chosen
from autoscaler.config import Address, ConfigError, load
from autoscaler.config.documents import Value, child, documents
from autoscaler.config.fields import Listen
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.reading import MOST_OF_A_FILE
from autoscaler.config.settings import LISTEN, STATE_DIRECTORY
from autoscaler.config.shards import Shard
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable, rfc3339_milli, visible
from autoscaler.daemon.client import (
    Daemon,
    NoDaemonError,
    NotFoundError,
    PageError,
    PageLimits,
    read_page,
)
from autoscaler.file_contents import read_bytes
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.answers import (
    AgreementList,
    AnswerModel,
    Change,
    ChangeList,
    DaemonHealth,
    Explanation,
    Lapse,
    TargetDetail,
    TargetList,
    path_of_target,
)
from autoscaler.rendering.instant import (
    change_of,
    explanation_at,
    recorded_object,
    recorded_targets,
)
from autoscaler.rendering.wording import has_target
from autoscaler.transport.answers import DocumentTooLargeError, parse

_LIMITS = PageLimits(connect_seconds=5.0, silence_seconds=10.0, most_bytes=64 << 20)
"""A page of 10,000 targets is 7 MB."""
_MOST_MEMORY = 512 << 20
_LISTEN_TYPE: TypeAdapter[Address | None] = TypeAdapter(Listen | None)
_LINE = re.compile(r"^listen[ \t]*:.*$", re.MULTILINE)
_PAGE = 1000
_LONGEST_LINE = 2 * LONGEST_SENTENCE
"""The limit with the name of its stage, or of the target, before the sentence."""


class NoAddressError(CommandError):
    """The address of a configuration's daemon is unknown."""

    code = 2


class NotRunningError(CommandError):
    """No daemon listens at an address."""

    advice = (
        "; start it with `autoscaler run`, or say where to read with -c, --url or --state-directory"
    )

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence}{self.advice}")
        self.sentence = sentence


# -- daemon or directory -------------------------------------------------------------------------


def source_of(place: SourceOptions) -> "DecisionSource":
    """Return the source of the past: a directory with a record, or a daemon."""
    directory, nothing = _directory_of(place), ""
    if directory is not None:
        if place.state_directory is not None or directory.holds_something():
            return directory
        nothing = f"nothing is recorded in {directory.path}, and "
    try:
        return daemon_of(place, nothing)
    except NoAddressError as error:
        raise CommandError(f"{nothing}{error}") from None


def live_of(place: SourceOptions) -> tuple["DecisionSource", TargetList]:
    """Return the source of the present, a daemon or else a directory, and the states of targets."""
    directory = _directory_of(place)
    if directory is None or place.state_directory is None:
        daemon = daemon_of(place)
        try:
            return daemon, daemon.standings()
        except NotRunningError as error:
            if directory is None or not directory.holds_something():
                raise
            note = f"{error.sentence}; the data shown were recorded until"
    else:
        note = f"from {directory.name}, as it was at"
    standings = directory.standings()
    print(f"{note} {times.local(standings.time)}", file=sys.stderr)
    return directory, standings


def _directory_of(place: SourceOptions) -> "DirectorySource | None":
    if place.url is not None:
        return None
    directory = place.state_directory or Path(STATE_DIRECTORY)
    if place.state_directory is None and place.config is not None:
        try:
            found = load(place.config, namespace_or_anywhere).state_directory
        except ConfigError:  # Its `listen` may be readable nevertheless.
            return None
        if found is None:
            return None
        directory = found
    return DirectorySource(directory)


def daemon_of(place: SourceOptions, why: str = "") -> "DaemonSource":
    """Return the named daemon, the configuration's, or the usual one; raises NoAddressError.

    Of an invalid file only `listen` and `web` count. Raises ConfigError if it cannot be read.
    """
    url, file, mistakes = place.url or LISTEN.url(), place.config, ""
    if place.url is None and file is not None:
        try:
            config = load(file, namespace_or_anywhere)  # No Lease is needed.
            listen, tls = config.web_listen, config.web.tls is not None
        except ConfigError as error:
            try:
                text = read_bytes(file, MOST_OF_A_FILE).decode("utf-8-sig", "replace")
            except OSError:
                raise error from None
            listen, tls = _address_in(text)
            mistakes = f"{file} has mistakes (`autoscaler validate {file}` tells them)"
        if listen is None:
            raise NoAddressError(f"the daemon of {file} serves no pages: `listen` is null")
        if listen.port == 0:
            raise NoAddressError(
                f"the daemon of {file} listens on any free port (`listen` is {listen}): "
                "set --url to the URL in its log"
            )
        url = listen.url("https" if tls else "http")
    if mistakes:
        print(f"{mistakes}; the daemon at {url} is asked", file=sys.stderr)
    return DaemonSource(daemon_at(place, url), why)


def daemon_at(place: DaemonOptions, url: str) -> Daemon:
    """Return the daemon at an address, with the credentials of the options."""
    key = place.ca_file, place.cert_file, place.key_file
    return Daemon(url, *key, place.token_file, place.user, place.password_file)


def _address_in(text: str) -> tuple[Address | None, bool]:
    """Return the API's address in invalid YAML, and whether it has TLS; else the default.

    If the file cannot be parsed as a whole, it is from the line of `listen`.
    """
    found: list[Value] = [document.value for document in islice(documents(text), 1)]
    if not found:
        found = [document.value for line in _LINE.findall(text) for document in documents(line)]
    for value in found:
        for listen in (child(value, "web"), value):
            if isinstance(listen, dict) and "listen" in listen:
                with suppress(ValidationError):
                    address = _LISTEN_TYPE.validate_python(listen["listen"])
                    if address is not None or listen is value:
                        return address, child(value, "web", "tls") is not None
    return LISTEN, False


# -- what a directory or a daemon answers; methods raise RecordError, CommandError ---------------


class DirectorySource:
    """Reads the record in a state directory, whether or not its daemon runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = f"the record in {path}"
        self.record: DirectoryRecord = DirectoryRecord(path)

    def holds_something(self) -> bool:
        """Return whether there is a readable record."""
        with suppress(RecordError):
            return self.record.span() is not None
        return False

    def standings(self) -> TargetList:
        """Return the last state of all targets."""
        return recorded_targets(self.record)

    def targets(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return by key the object's name of all targets, empty if no name is of its namespace."""
        found = dict.fromkeys(self.record.targets(), "")
        for key in found:
            if any(name.startswith(f"{key.rsplit('/', 2)[0]}/") for name in names):
                found[key] = recorded_object(self.record, key)
        return found

    def explanation(self, target: str, at: float) -> Explanation | None:
        """Return the explanation of an instant; None if nothing is recorded."""
        return explanation_at(self.record, target, at)

    def last_change(self, target: str, until: float) -> float | None:
        """Return when the count last changed; None if it never did."""
        change = self.record.last_count_change(target, until)
        return None if change is None else change.time

    def changes(
        self, targets: Collection[str] | None, begin: float, end: float, limit: int
    ) -> ChangeList:
        """Return the last changes of a time, the newest first."""
        rows = self.record.changes(targets, begin, end, limit=limit)
        lapses = self.record.lapses(None, rows[-1].time, rows[0].time) if rows else ()
        changes = tuple(change_of(row, self.record) for row in rows)
        return ChangeList(changes=changes, lapses=tuple(map(Lapse.model_validate, lapses)))

    def agreement(self, targets: Sequence[str], since: float) -> AgreementList:
        """Return the agreement of targets, or of all that were last in shadow, with their HPAs."""
        known, now = self.standings().targets, clock.wall()
        in_shadow = [state.target for state in known if state.in_shadow]
        keys = targets or in_shadow
        kept = kept_of(self.record, keys, since, now)
        return AgreementList(
            time=now,
            live=len(known) - len(in_shadow),
            shadow=len(in_shadow),
            targets=tuple(agreement_answer(key, kept.get(key)) for key in keys),
        )


_A = TypeVar("_A", bound=AnswerModel)


class DaemonSource:
    """Asks a running daemon; ``why`` precedes the message that no daemon listens."""

    def __init__(self, daemon: Daemon, why: str = "") -> None:
        self.name = str(daemon)
        self._daemon = daemon
        self._why = why

    def standings(self) -> TargetList:
        """Return the states of all targets."""
        return self._answer(TargetList, "/targets")

    def targets(self, names: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - as above
        """Return by key the object's name of all targets, empty without one."""
        return objects_of(self.standings())

    def target(self, key: str) -> TargetDetail | None:
        """Return a target with the configuration in force; None for an unknown target."""
        return self._read(TargetDetail, path_of_target(key))

    def health(self) -> DaemonHealth:
        """Return the state of the daemon itself."""
        return self._answer(DaemonHealth, "/health")

    def explanation(self, target: str, at: float) -> Explanation | None:
        """Return the explanation of an instant; None if nothing is recorded."""
        return self._explained(target, {"at": rfc3339_milli(at)})

    def last_change(self, target: str, until: float) -> float | None:
        """Return when the count last changed; None if it never did."""
        explained = self._explained(target, {"at": rfc3339_milli(until), "lastChange": "true"})
        return None if explained is None else explained.time

    def changes(
        self, targets: Collection[str] | None, begin: float, end: float, limit: int
    ) -> ChangeList:
        """Return the last changes of a time, the newest first."""
        query = [("target", target) for target in targets or ()]
        query += [("from", rfc3339_milli(begin)), ("to", rfc3339_milli(end))]
        changes: tuple[Change, ...] = ()
        lapses: tuple[Lapse, ...] = ()
        more: list[tuple[str, str]] = []
        while (missing := limit - len(changes)) > 0:
            parameters = urlencode([*query, ("limit", str(min(missing, _PAGE))), *more])
            page = self._read(ChangeList, f"/changes?{parameters}")
            if page is None:
                break
            changes, lapses = (*changes, *page.changes), (*lapses, *page.lapses)
            if page.continue_ is None:
                break
            more = [("continue", page.continue_)]
        return ChangeList(changes=changes, lapses=lapses)

    def agreement(self, targets: Sequence[str], since: float) -> AgreementList:
        """Return the agreement of targets, or of all in shadow, with their HPAs."""
        query = [("target", target) for target in targets] + [("since", rfc3339_milli(since))]
        try:
            return self._answer(AgreementList, f"/agreement?{urlencode(query)}")
        except NotFoundError as error:
            raise CommandError(str(error)) from None

    def _explained(self, target: str, query: Mapping[str, str]) -> Explanation | None:
        explained = self._read(
            Explanation, f"{path_of_target(target)}/explanation?{urlencode(query)}"
        )
        if explained is None:
            return None
        lines = tuple(visible(line, _LONGEST_LINE) for line in explained.lines)
        return explained.model_copy(update={"lines": lines})

    def _read(self, kind: type[_A], path: str) -> _A | None:
        """Return an answer; None if the daemon has nothing for it."""
        with suppress(NotFoundError):
            return self._answer(kind, path)
        return None

    def shard(self) -> Shard | None:
        """Return the shard of the daemon; None if it serves all targets."""
        known = self.health().shard
        return None if known is None else Shard(known.number, known.shards, known.urls)

    def _answer(self, kind: type[_A], path: str) -> _A:
        """Return the answer at a path below /api/v1; raises NotThereError for a 404."""
        it = f"the server at {self._daemon.url} is not an autoscaler"
        try:
            page = read_page(self._daemon, f"/api/v1{path}", b"\n".join, _LIMITS)
            document = parse(page, _MOST_MEMORY)
        except NotFoundError:
            raise
        except NoDaemonError as error:
            raise NotRunningError(f"{self._why}{error}") from None
        except PageError as error:
            raise CommandError(str(error)) from None
        except (ValueError, RecursionError):
            raise CommandError(f"{it}: it sent no JSON") from None
        except DocumentTooLargeError as error:
            raise CommandError(f"{self.name} sent {error}") from None
        try:
            return kind.model_validate(document)
        except ValueError:
            version = "or one of a version that this program does not understand"
            raise CommandError(f"{it}, {version}") from None


DecisionSource = DirectorySource | DaemonSource


def objects_of(standings: TargetList) -> Mapping[str, str]:
    """Return the names of the targets' objects by key, empty without an object."""
    return {target.target: target.object_name for target in standings.targets}


def chosen_from(
    source: DecisionSource, names: Sequence[str], objects: Mapping[str, str]
) -> frozenset[str]:
    """Return the named targets of the source; raises UnknownTargetError."""
    try:
        return chosen(names, [*objects], objects)
    except UnknownTargetError:
        shard = source.shard() if isinstance(source, DaemonSource) else None
        for name in names:
            if shard is not None and (other := shard.other(name)):
                raise UnknownTargetError(f"{printable(name)}: {has_target(*other)}") from None
        raise
