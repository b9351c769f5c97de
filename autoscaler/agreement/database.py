"""How targets in shadow agree with their HPAs, in a file: sums over time, and each disagreement.

A thread of its own writes it: no sync waits for the disk.
"""

import math
import sqlite3
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autoscaler import clock
from autoscaler.agreement.comparison import Agreement, Stretch
from autoscaler.persistence.codec import UnreadableError, dumps, loads
from autoscaler.persistence.sqlite_files import (
    NAME_CLUSTER,
    Opened,
    Place,
    Schema,
    SqliteWorker,
    open_to_write,
    opened_to_read,
    version_of,
)
from autoscaler.persistence.state_directory import AGREEMENT, AGREEMENT_LOCK, UnusableError

_MINUTE, _HOUR = 60.0, 3600.0
_FINE_SECONDS = 6 * _HOUR
"""Sums are by the minute for so long, and by the hour of what is older."""
_MOST = 1e15
"""No number that was written is larger."""
_MEANWHILE = "how targets in shadow agree is not kept until it can be"
_ROOM = 100_000
"""So many rows may wait to be written."""
_MOST_STRETCHES = 100_000
"""So many disagreements are kept, the last ones."""

SCHEMA = Schema(
    2,
    """
    CREATE TABLE targets (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE sums (
        target INTEGER NOT NULL, minute INTEGER NOT NULL, agreement TEXT NOT NULL,
        begin REAL NOT NULL,
        seconds REAL NOT NULL, stretches INTEGER NOT NULL, longest REAL NOT NULL,
        replicas REAL NOT NULL, free REAL NOT NULL,
        PRIMARY KEY (target, minute, agreement)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE stretches (
        id INTEGER PRIMARY KEY, target INTEGER NOT NULL,
        begin REAL NOT NULL, end REAL NOT NULL, agrees INTEGER NOT NULL, body TEXT NOT NULL,
        UNIQUE (target, begin)
    ) STRICT;
    CREATE INDEX stretches_in_time ON stretches (end);
    """,
    # The last seconds may be lost with the power; the file is whole all the same.
    "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 1048576;",
)
_SUM = (
    "INSERT INTO sums VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    " ON CONFLICT DO UPDATE SET begin = min(begin, ?4), seconds = seconds + ?5,"
    " stretches = stretches + ?6, longest = max(longest, ?7), replicas = replicas + ?8,"
    " free = free + ?9"
)
_FOLD = (
    "INSERT INTO sums SELECT target, minute / 60 * 60, agreement, min(begin), sum(seconds),"
    " sum(stretches), max(longest), sum(replicas), sum(free) FROM sums"
    " WHERE minute < ?1 AND minute % 60 GROUP BY target, minute / 60, agreement"
    " ON CONFLICT DO UPDATE SET begin = min(begin, excluded.begin),"
    " seconds = seconds + excluded.seconds, stretches = stretches + excluded.stretches,"
    " longest = max(longest, excluded.longest), replicas = replicas + excluded.replicas,"
    " free = free + excluded.free"
)
_TOLD = frozenset(Agreement) - {Agreement.EQUAL, Agreement.TIMING, Agreement.NOT_COMPARED}
"""What is kept with its cause."""


class AgreementRow(NamedTuple):
    """What became known of a target: ``seconds`` more of a stretch, as it is now.

    ``replicas`` and ``free`` are the counts meanwhile: of the object, and of the free run.
    """

    target: str
    stretch: Stretch
    seconds: float
    begins: bool
    replicas: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """A target's time of one kind, in seconds: the stretches, the longest, and replica-seconds."""

    seconds: float
    stretches: int
    longest: float
    replicas: float
    free: float


@dataclass(frozen=True, slots=True)
class KeptAgreement:
    """What is kept of a target: ``begin`` is the first instant of it, in Unix seconds."""

    begin: float
    sums: Mapping[Agreement, Sum]
    stretches: tuple[Stretch, ...]
    """The disagreements, the longest ones first."""
    other_readings: tuple[Stretch, ...] = ()
    """The same of times in which only the readings differed."""


class AgreementError(Exception):
    """Nothing can be read of how targets agree; the text is a sentence for the operator."""


class NothingComparedError(AgreementError):
    """No target has been compared yet."""


class _File(Opened):
    """The file, with the ids of its targets."""

    def __init__(self, file: Opened, ids: dict[str, int]) -> None:
        super().__init__(file.path, file.connection, file.identity, file.held)
        self._ids = ids
        self._folded = 0

    def write(self, rows: Collection[AgreementRow], oldest: float, now: float) -> None:
        """Write rows, and forget what ended before an instant."""
        with self.transaction() as connection:
            for row in rows:
                stretch, target = row.stretch, self._id(row.target)
                begin, kind = stretch.end - row.seconds, stretch.agreement
                length = stretch.end - stretch.begin
                connection.execute(
                    _SUM,
                    (
                        *(target, int(begin // _MINUTE), kind.value, begin),
                        *(row.seconds, int(row.begins), length),
                        *(row.replicas * row.seconds, row.free * row.seconds),
                    ),
                )
                if kind in _TOLD or stretch.readings:
                    connection.execute(
                        "INSERT INTO stretches (target, begin, end, agrees, body)"
                        " VALUES (?1, ?2, ?3, ?4, ?5)"
                        " ON CONFLICT DO UPDATE SET end = ?3, agrees = ?4, body = ?5",
                        (
                            *(target, stretch.begin, stretch.end),
                            *(int(kind not in _TOLD), dumps(stretch)),
                        ),
                    )
            # An hour that is kept in part counts as a whole.
            fine = int((now - _FINE_SECONDS) // _HOUR) * 60
            if fine != self._folded:
                last = int(oldest // _HOUR) * 60
                connection.execute(_FOLD, (fine,))
                gone = "DELETE FROM sums WHERE minute < ?1 OR minute < ?2 AND minute % 60"
                connection.execute(gone, (last, fine))
                self._folded = fine
            connection.execute(
                "DELETE FROM stretches WHERE end < ?1"
                " OR id <= (SELECT max(id) FROM stretches) - ?2",
                (oldest, _MOST_STRETCHES),
            )

    def _id(self, key: str) -> int:
        known = self._ids.get(key)
        if known is None:
            inserted = self.connection.execute("INSERT INTO targets (key) VALUES (?)", (key,))
            known = self._ids[key] = int(inserted.lastrowid or 0)
        return known


class AgreementWriter:
    """Keeps rows in `agreement.db` of a directory; ``on_state`` is as `SqliteWorker` calls it.

    What is kept of targets without a cluster is from now on of those in ``cluster``.
    """

    def __init__(
        self,
        directory: Path,
        on_state: Callable[[bool, str], None],
        max_age: float,
        batch_seconds: float = 5.0,
        pause_seconds: float = 30.0,
        cluster: str = "",
    ) -> None:
        self._directory = directory
        self._max_age = max_age
        self._batch_seconds = batch_seconds
        self._cluster = cluster
        self._rows: deque[AgreementRow] = deque(maxlen=_ROOM)
        self._stop = threading.Event()
        self._aside = ""
        self._worker = SqliteWorker(
            "agreement", directory / AGREEMENT, self._run, self._open, on_state, pause_seconds
        )

    def start(self) -> None:
        """Begin to write."""
        self._worker.start()

    def put(self, row: AgreementRow) -> None:
        """Hand in a row; any thread may.  Of too many that wait the oldest are dropped."""
        self._rows.append(row)

    def close(self) -> None:
        """Write what is left, for seconds at most."""
        self._stop.set()
        self._worker.join(5.0)

    def _run(self) -> None:
        while not self._stop.wait(self._batch_seconds):
            self._turn()
        self._turn()
        self._worker.close_file()

    def _turn(self) -> None:
        if not self._rows or self._worker.rests:
            return
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        now = clock.wall()
        oldest = now - self._max_age
        _, failure = self._worker.attempt(lambda: self._worker.file.write(rows, oldest, now))
        if failure:
            self._worker.report(ok=False, sentence=f"{failure}; {_MEANWHILE}")
        else:
            kept = f"how targets in shadow agree is kept in {self._worker.path}{self._aside}"
            self._worker.report(ok=True, sentence=kept)

    def _open(self, damage: str) -> _File:
        place = Place(self._directory, AGREEMENT, AGREEMENT_LOCK, keeps_one=True)
        return _File(
            *open_to_write(place, SCHEMA, self._begin, clock.wall(), self._set_aside, damage)
        )

    def _begin(self, connection: sqlite3.Connection) -> dict[str, int]:
        if self._cluster:
            connection.execute(NAME_CLUSTER, (self._cluster,))
        return _ids_of(connection)

    def _set_aside(self, fate: str) -> None:
        self._aside = f"; the one before {fate}"


class DirectoryAgreement:
    """Reads what is kept in a directory, also while it is written; raises AgreementError."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / AGREEMENT

    def targets(self) -> list[str]:
        """Return the keys of the targets that something is kept of, sorted."""
        with self._opened() as connection:
            return sorted(_ids_of(connection))

    def of(self, targets: Collection[str], since: float, limit: int) -> Mapping[str, KeptAgreement]:
        """Return what is kept of targets since a Unix time, by their keys, of which it is.

        With each are at most ``limit`` disagreements, the longest ones.  Sums begin with the first
        whole minute, or whole hour of what is old.
        """
        with self._opened() as connection:
            ids = _ids_of(connection)
            found = {
                key: _agreement_of(connection, ids[key], since, limit)
                for key in targets
                if key in ids
            }
        return {key: one for key, one in found.items() if one is not None}

    def times(self, since: float) -> Mapping[str, Mapping[Agreement, float]]:
        """Return for how many seconds each target agreed how since a Unix time, by its key."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT key, agreement, sum(seconds) FROM sums JOIN targets ON id = target"
                " WHERE minute >= ? GROUP BY target, agreement",
                (math.ceil(since / _MINUTE),),
            )
            found = defaultdict[str, dict[Agreement, float]](dict)
            for key, kind, seconds in rows:
                _check(seconds)
                found[key][_kind(kind)] = seconds
        return found

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        path = self._path
        nothing = f"no target has been compared with an HPA in {path.parent} yet"
        try:
            with opened_to_read(path, SCHEMA) as connection:
                if not version_of(connection):
                    raise NothingComparedError(nothing)
                yield connection
        except (FileNotFoundError, NotADirectoryError):
            raise NothingComparedError(f"{nothing}: there is no {path.name}") from None
        except UnreadableError as error:
            raise AgreementError(f"{path} cannot be read: {error}") from None
        except UnusableError as error:
            raise AgreementError(str(error)) from None


def _agreement_of(
    connection: sqlite3.Connection, target: int, since: float, limit: int
) -> KeptAgreement | None:
    minute = math.ceil(since / _MINUTE)
    rows = connection.execute(
        "SELECT min(begin), agreement, sum(seconds), sum(stretches), max(longest), sum(replicas),"
        " sum(free) FROM sums WHERE target = ? AND minute >= ? GROUP BY agreement",
        (target, minute),
    ).fetchall()
    if not rows:
        return None
    differing, agreeing = (
        tuple(
            loads(Stretch, body)
            for (body,) in connection.execute(
                "SELECT body FROM stretches WHERE target = ? AND end > ? AND agrees = ?"
                " ORDER BY end - begin DESC, begin DESC LIMIT ?",
                (target, since, agrees, limit),
            )
        )
        for agrees in (0, 1)
    )
    for begin, _, *numbers in rows:
        _check(begin, *numbers)
    for stretch in (*differing, *agreeing):
        read = (number for one in stretch.readings for number in (one.ours, one.theirs, one.lag))
        instants = (stretch.begin, stretch.end, stretch.remembered)
        _check(*(n for n in (*instants, stretch.ours, stretch.theirs, *read) if n is not None))
    sums = {_kind(kind): Sum(*rest) for _, kind, *rest in rows}
    return KeptAgreement(min(row[0] for row in rows), sums, differing, agreeing)


def _check(*numbers: object) -> None:
    for number in numbers:
        if not isinstance(number, int | float) or not abs(number) <= _MOST:
            raise UnreadableError(f"{number!s:.30} is no number that was written")


def _kind(word: str) -> Agreement:
    try:
        return Agreement(word)
    except ValueError:
        raise UnreadableError(f"{word!a:.30} is no kind of agreement") from None


def _ids_of(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT key, id FROM targets"))
