"""Whether a database holds nothing but what this program writes.

A file that was tampered with is a damaged one: an instant of the year 3000 would hold a target for
as long, and a view in place of a table could keep a start waiting for ever.
"""

import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from itertools import chain

from autoscaler.adapters.store.clocks import Stamp
from autoscaler.adapters.store.contents import Contents, MalformedError
from autoscaler.adapters.store.schema import SCRIPTS, migrate, version_of
from autoscaler.core.history import History
from autoscaler.core.numbers import INT32_MAX, INT32_MIN

_AHEAD_SECONDS = 86400.0
"""By so much an instant may be later than the save: a clock may be set in between."""

_BEHIND_SECONDS = 100 * 366 * 86400.0
"""By so much it may be earlier: a machine may begin in 1970, and have its clock set later."""

_COUNT = f"BETWEEN 0 AND {INT32_MAX}"
_INSTANT = "BETWEEN :earliest AND :latest"
_FLAG = "IN (0, 1)"
_EVENT = (
    f"change {_COUNT} AND time {_INSTANT} AND outdated {_FLAG}"
    f" AND coalesce(earliest {_INSTANT}, TRUE)"
)

_SOUND = {
    # What metrics ask for may be negative, before it is limited.
    "recommendations": f"replicas BETWEEN {INT32_MIN} AND {INT32_MAX} AND time {_INSTANT}"
    f" AND first {_FLAG}",
    "scale_ups": _EVENT,
    "scale_downs": _EVENT,
    "states": f"desired_replicas {_COUNT} AND coalesce(last_scale_time {_INSTANT}, TRUE)"
    f" AND has_recommendations {_FLAG} AND zeroed_by_us {_FLAG} AND unobserved {_FLAG}"
    f" AND coalesce(unseen {_INSTANT}, TRUE) AND generation >= 0",
    "decided": f"time {_INSTANT}",
}
"""What is true of each row of a table."""

_Objects = frozenset[tuple[str, str, str]]


def check_tables(connection: sqlite3.Connection) -> None:
    """Look for other tables than those of the database's version, and for views and triggers.

    Raises MalformedError.
    """
    version = version_of(connection)
    if not 0 <= version <= len(SCRIPTS):
        raise MalformedError(f"its tables have version {version}")
    odd = _objects(connection) ^ _expected(version)
    if odd:
        name = min(name for _, name, _ in odd)
        raise MalformedError(f'"{name:.60}" is not the table of version {version}')


def check_rows(connection: sqlite3.Connection, stamp: Stamp | None) -> None:
    """Look for a row that this program never wrote.  Raises MalformedError."""
    earliest, latest = _bounds(stamp)
    limits = {"earliest": earliest, "latest": latest}
    for table, sound in _SOUND.items():
        query = f"SELECT 1 FROM {table} WHERE ({sound}) IS NOT TRUE LIMIT 1"  # noqa: S608 - ours
        if connection.execute(query, limits).fetchone() is not None:
            raise MalformedError(f"{table}: a row holds a number that cannot be")


def check_contents(contents: Contents) -> None:
    """Look for values within texts that this program never wrote.  Raises MalformedError."""
    stamp = contents.stamp
    if stamp is not None and not all(map(math.isfinite, (stamp.wall, stamp.steady))):
        raise MalformedError("clock: a number that cannot be")
    earliest, latest = _bounds(stamp)
    for key, record in contents.records.items():
        history = record.history
        instants, counts, texts = _nested(history)
        if not (
            all(earliest <= one <= latest for one in instants)
            and all(type(one) is int and 0 <= one <= INT32_MAX for one in counts)
            and all(type(one) is str for one in texts)
            and all(
                math.isfinite(one)
                for gap in history.gaps
                for one in (gap.until, *chain.from_iterable(gap.losses))
            )
            and INT32_MIN <= history.contention.our_step <= INT32_MAX
        ):
            raise MalformedError(f"{key:.60}: a condition, gap, write or rivalry that cannot be")


def _nested(history: History) -> tuple[Iterable[float], Iterable[int], Iterable[str]]:
    """Return the instants, counts and texts of what is kept as JSON."""
    instants = [one.last_transition for one in history.conditions]
    instants += history.contention.reversals
    texts = [text for one in history.conditions for text in (one.type, one.reason, one.message)]
    instants += [one.since for one in history.gaps if one.since is not None]
    texts += [text for one in history.gaps for text in one.key]
    counts = [] if history.contention.known is None else [history.contention.known]
    pending = history.pending
    if pending is not None:
        instants.append(pending.time)
        counts += [pending.before, pending.after]
        texts.append(pending.resource_version)
    return instants, counts, texts


def _bounds(stamp: Stamp | None) -> tuple[float, float]:
    """Return the earliest and the latest instant that can have been kept."""
    if stamp is None or not math.isfinite(stamp.wall):
        return -1e300, 1e300
    return stamp.wall - _BEHIND_SECONDS, stamp.wall + _AHEAD_SECONDS


def _objects(connection: sqlite3.Connection) -> _Objects:
    """Return the type, name and text of all that was created, however that is spaced."""
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
    return frozenset(
        (kind, name, "".join(sql.split()))
        for kind, name, sql in rows
        if not name.startswith("sqlite_")
    )


@cache
def _expected(version: int) -> _Objects:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, SCRIPTS[:version])
        return _objects(connection)
