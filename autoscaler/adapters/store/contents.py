"""What is kept of each target, and how it is read from the tables."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from autoscaler.adapters.store.clocks import (
    Resumption,
    Stamp,
    seconds_between,
    seconds_to_move,
)
from autoscaler.adapters.store.decisions import Summary, from_json
from autoscaler.core.history import (
    Condition,
    Contention,
    History,
    PendingWrite,
    ReadingGap,
    Recommendation,
    ScaleEvent,
    shifted,
)
from autoscaler.core.observation import ConditionStatus


class MalformedError(Exception):
    """The tables hold what this program never wrote; the message says what."""


class Record(NamedTuple):
    """What is kept of a target: its history, and when what was decided last, if anything was."""

    history: History
    decided: float | None = None
    decision: Summary | None = None

    def shifted(self, seconds: float) -> "Record":
        """Move every instant."""
        decided = None if self.decided is None else self.decided + seconds
        return Record(shifted(self.history, seconds), decided, self.decision)


@dataclass(slots=True)
class Contents:
    """What is in a file: records and numbers by target, and when it was saved (None: never)."""

    stamp: Stamp | None
    records: dict[str, Record] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


def resume(saved: Stamp, records: Mapping[str, Record], now: Stamp) -> Resumption:
    """Return what to go on with ``now`` of records that were saved."""
    moved = seconds_to_move(saved, now)
    return Resumption(
        now,
        {
            target: shifted(record.history, moved) if moved else record.history
            for target, record in records.items()
        },
        moved,
        seconds_between(saved, now),
        {
            target: saved.wall - record.decided
            for target, record in records.items()
            if record.decided is not None
        },
        earlier=True,
    )


def read(connection: sqlite3.Connection) -> Contents:
    """Read all that is in the file.

    Raises MalformedError, or what a value raises that cannot be taken apart (TypeError,
    ValueError).
    """
    contents = Contents(stamp_of(connection))
    recommendations = _slots(connection, "recommendations", _recommendation)
    ups = _slots(connection, "scale_ups", _scale_event)
    downs = _slots(connection, "scale_downs", _scale_event)
    conditions = dict(connection.execute("SELECT target, conditions FROM conditions"))
    decisions = dict(connection.execute("SELECT target, decision FROM decisions"))
    decided = dict(connection.execute("SELECT target, time FROM decided"))
    states = {row[0]: row[1:] for row in connection.execute("SELECT * FROM states")}
    for target, key in connection.execute("SELECT target, key FROM targets"):
        history = _history(
            tuple(recommendations.get(target, ())),
            tuple(ups.get(target, ())),
            tuple(downs.get(target, ())),
            _conditions(conditions.get(target, "[]")),
            states.get(target),
        )
        decision = decisions.get(target)
        contents.numbers[key] = target
        contents.records[key] = Record(
            history, decided.get(target), None if decision is None else from_json(decision)
        )
    return contents


def stamp_of(connection: sqlite3.Connection) -> Stamp | None:
    """Return when a file was saved; None where nothing was."""
    row = connection.execute("SELECT wall, steady, boot_id FROM clock").fetchone()
    return None if row is None else Stamp(*row)


Slot = TypeVar("Slot")


def _slots(
    connection: sqlite3.Connection, table: str, make: Callable[..., Slot]
) -> dict[int, list[Slot]]:
    """Read lists by target, made of what follows a row's slot, which follow one another."""
    found: dict[int, list[Slot]] = defaultdict(list)
    for slot, target, *values in connection.execute(
        f"SELECT * FROM {table} ORDER BY slot, target"  # noqa: S608 - a table's name
    ):
        slots = found[target]
        if len(slots) != slot:
            raise MalformedError(f"{table}: slot {len(slots)} of a target is missing")
        slots.append(make(*values))
    return found


def _recommendation(replicas: int, time: float, first: int) -> Recommendation:
    return Recommendation(replicas, time, bool(first))


def _scale_event(change: int, time: float, outdated: int, earliest: float | None) -> ScaleEvent:
    return ScaleEvent(change, time, bool(outdated), earliest)


def _history(
    recommendations: tuple[Recommendation, ...],
    ups: tuple[ScaleEvent, ...],
    downs: tuple[ScaleEvent, ...],
    conditions: tuple[Condition, ...],
    state: tuple[Any, ...] | None,
) -> History:
    if state is None:
        return History(recommendations or None, ups, downs, conditions)
    has_recommendations, desired, last_scale_time, zeroed_by_us, *rest = state
    pending, rivalry, unobserved, gaps, unseen, generation, controller = rest
    known, our_step, reversals = json.loads(rivalry)
    return History(
        recommendations if has_recommendations else None,
        ups,
        downs,
        conditions,
        desired,
        last_scale_time,
        bool(zeroed_by_us),
        None if pending is None else PendingWrite(*json.loads(pending)),
        Contention(known, our_step, tuple(reversals), generation),
        bool(unobserved),
        tuple(_gap(*one) for one in json.loads(gaps)),
        unseen,
        json.loads(controller),
    )


def _gap(
    metric: str,
    pod: str,
    since: float | None,
    until: float,
    first: bool,  # noqa: FBT001
    losses: Iterable[tuple[float, float]],
) -> ReadingGap:
    lost = tuple((end, seconds) for end, seconds in losses)
    return ReadingGap(metric, pod, since, until, first, lost)


def _conditions(text: str) -> tuple[Condition, ...]:
    return tuple(
        Condition(type_, ConditionStatus(status), reason, message, last_transition)
        for type_, status, reason, message, last_transition in json.loads(text)
    )
