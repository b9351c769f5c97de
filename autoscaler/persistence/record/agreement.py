"""The agreement of targets with the HPAs that control their workloads: intervals in the record."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from autoscaler.config.comparison import FieldChange
from autoscaler.persistence.codec import UnreadableError, dumps, loads

DAY = 86400.0
_MOST = 1e15
"""The largest number that is written."""
_LENGTH = "end - max(begin, :since)"


class Agreement(StrEnum):
    """The relation between the counts of a target and of its HPA at an instant."""

    EQUAL = "equal"
    WITHIN_PERIOD = "withinPeriod"
    """They were equal at the previous or next sync of the same step."""
    DIFFERENT = "different"
    NOT_COMPARED = "notCompared"


@dataclass(frozen=True, slots=True)
class DifferingReading:
    """A metric with different values, in percent of the request or in milli-units."""

    metric: str
    ours: int
    theirs: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class AgreementInterval:
    """An interval with one relation, in Unix seconds.

    The counts are the pair that differs most; ``fields`` and ``readings`` are other differences.
    ``why`` is the reason if nothing was compared.
    """

    begin: float
    end: float
    kind: Agreement
    ours: int = 0
    theirs: int = 0
    fields: tuple[FieldChange, ...] = ()
    readings: tuple[DifferingReading, ...] = ()
    why: str = ""


def joined(last: AgreementInterval, following: AgreementInterval) -> AgreementInterval | None:
    """Return two intervals as one; None if they are apart, or of different kinds."""
    is_next = last.end == following.begin and last.kind is following.kind
    if not is_next or (last.fields, last.why) != (following.fields, following.why):
        return None
    most = max(last, following, key=lambda reading: abs(reading.ours - reading.theirs))
    readings = sorted((*last.readings, *following.readings), key=_distance)
    by_metric = {reading.metric: reading for reading in readings}
    return replace(most, begin=last.begin, end=following.end, readings=tuple(by_metric.values()))


def _distance(reading: DifferingReading) -> float:
    return abs(reading.theirs - reading.ours) / (abs(reading.ours) or 1)


class KindTotal(NamedTuple):
    """A target's time of one kind: seconds in total and in the last day, intervals, the longest."""

    begin: float
    seconds: float
    last_day: float
    stretches: int
    longest: float


Totals = Mapping[Agreement, KindTotal]


@dataclass(frozen=True, slots=True)
class RecordedAgreement:
    """The agreement of a target since an instant: the ``different`` intervals, longest first.

    ``not_compared`` has the seconds of each reason.
    """

    totals: Totals
    different: tuple[AgreementInterval, ...] = ()
    not_compared: Mapping[str, float] = field(default_factory=dict)


# -- in the file -----------------------------------------------------------------------------------

TABLES = """
    CREATE TABLE agreement (
        id INTEGER PRIMARY KEY, target INTEGER NOT NULL, begin REAL NOT NULL, end REAL NOT NULL,
        kind TEXT NOT NULL, why TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (target, begin)
    ) STRICT;
    CREATE INDEX agreement_by_end ON agreement (end);
"""


def put(connection: sqlite3.Connection, rows: Iterable[tuple[int, AgreementInterval]]) -> None:
    """Write intervals of targets, or extend them: an existing one has the same begin."""
    connection.executemany(
        "INSERT INTO agreement (target, begin, end, kind, why, body)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        " ON CONFLICT DO UPDATE SET end = ?3, kind = ?4, why = ?5, body = ?6",
        [
            (
                *(target, interval.begin, interval.end, interval.kind.value, interval.why),
                dumps(interval) if interval.kind is Agreement.DIFFERENT else "",
            )
            for target, interval in rows
        ],
    )


def kept_of(
    connection: sqlite3.Connection,
    targets: Collection[str] | None,
    since: float,
    now: float,
    limit: int,
) -> Mapping[str, RecordedAgreement]:
    """Return the agreement of some or all targets since a Unix time, by key.

    A ``limit`` of 0 returns only the totals.
    """
    found = defaultdict[str, dict[Agreement, KindTotal]](dict)
    of_some = "" if targets is None else "AND key IN (SELECT value FROM json_each(:targets)) "
    for key, kind, *numbers in connection.execute(
        f"SELECT key, kind, min(max(begin, :since)), sum({_LENGTH}),"  # noqa: S608 - constants
        f" sum(max(0, end - max(begin, :since, :day))), count(*), max({_LENGTH})"
        f" FROM agreement JOIN targets ON targets.id = target WHERE end > :since {of_some}"
        "GROUP BY target, kind",
        {"since": since, "day": now - DAY, "targets": json.dumps([*(targets or ())])},
    ):
        found[key][Agreement(kind)] = KindTotal(*map(_checked, numbers))  # type: ignore[arg-type]
    return {
        key: RecordedAgreement(totals, *(_details(connection, key, since, limit) if limit else ()))
        for key, totals in found.items()
    }


def _details(
    connection: sqlite3.Connection, key: str, since: float, limit: int
) -> tuple[tuple[AgreementInterval, ...], Mapping[str, float]]:
    """Return the longest intervals with different counts, and why others were not compared."""
    values = {"key": key, "since": since, "limit": limit}
    of_target = "FROM agreement JOIN targets ON targets.id = target WHERE key = :key"
    bodies = connection.execute(
        f"SELECT body {of_target} AND end > :since AND kind = 'different'"
        f" ORDER BY {_LENGTH} DESC, begin DESC LIMIT :limit",
        values,
    )
    reasons = connection.execute(
        f"SELECT why, sum({_LENGTH}) {of_target} AND end > :since AND kind = 'notCompared'"
        " GROUP BY why ORDER BY 2 DESC",
        values,
    )
    return (
        tuple(_stretch(body, since) for (body,) in bodies),
        {why: _checked(seconds) for why, seconds in reasons},
    )


def _stretch(body: str, since: float) -> AgreementInterval:
    interval = loads(AgreementInterval, body)
    read = (number for each in interval.readings for number in (each.ours, each.theirs))
    for number in (interval.begin, interval.end, interval.ours, interval.theirs, *read):
        _checked(number)
    return replace(interval, begin=max(interval.begin, since))


def _checked(number: float) -> float:
    if not abs(number) <= _MOST:
        raise UnreadableError(f"{number!s:.30} is not a number that was written")
    return number
