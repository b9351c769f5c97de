"""The tables, and how a database of an older version becomes one of this version.

`user_version` counts the migrations that a database has seen.  What was released is never edited:
a change is a further migration.  A new field of a history needs none: all of them but the
recommendations are one JSON text (`autoscaler.core.history_json`).

A sync changes one recommendation of each target.  They are rows for that, and slots lead their
keys, so that what one sync changes lies close together in the file.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from autoscaler.adapters.sqlite_files import Migration

_VERSION_1 = """
    CREATE TABLE targets (target INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE recommendations (
        slot INTEGER NOT NULL,
        target INTEGER NOT NULL,
        replicas INTEGER NOT NULL,
        time REAL NOT NULL,
        first INTEGER NOT NULL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE scale_ups (
        slot INTEGER NOT NULL,
        target INTEGER NOT NULL,
        change INTEGER NOT NULL,
        time REAL NOT NULL,
        outdated INTEGER NOT NULL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE scale_downs (
        slot INTEGER NOT NULL,
        target INTEGER NOT NULL,
        change INTEGER NOT NULL,
        time REAL NOT NULL,
        outdated INTEGER NOT NULL,
        PRIMARY KEY (slot, target)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE conditions (target INTEGER PRIMARY KEY, conditions TEXT NOT NULL) STRICT;
    CREATE TABLE states (
        target INTEGER PRIMARY KEY,
        has_recommendations INTEGER NOT NULL,
        desired_replicas INTEGER NOT NULL,
        last_scale_time REAL,
        zeroed_by_us INTEGER NOT NULL,
        pending TEXT,
        rivalry TEXT NOT NULL,
        unobserved INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE decisions (target INTEGER PRIMARY KEY, decision TEXT NOT NULL) STRICT;
    CREATE TABLE decided (target INTEGER PRIMARY KEY, time REAL NOT NULL) STRICT;
    CREATE TABLE clock (
        only INTEGER PRIMARY KEY CHECK (only = 0),
        wall REAL NOT NULL,
        steady REAL NOT NULL,
        boot_id TEXT NOT NULL
    ) STRICT;
    """
_VERSION_2 = """
    ALTER TABLE scale_ups ADD COLUMN earliest REAL;
    ALTER TABLE scale_downs ADD COLUMN earliest REAL;
    ALTER TABLE states ADD COLUMN gaps TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE states ADD COLUMN unseen REAL;
    ALTER TABLE states ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE states ADD COLUMN controller TEXT NOT NULL DEFAULT '""';
    """
_VERSION_4 = """
    CREATE TABLE breakers (
        server TEXT PRIMARY KEY,
        tripped REAL,
        until REAL,
        down INTEGER NOT NULL,
        targets INTEGER NOT NULL,
        query TEXT NOT NULL,
        again INTEGER NOT NULL,
        released_until REAL
    ) STRICT, WITHOUT ROWID;
    """
"""The scale-down breakers that are not as at the start; `tripped` is null without a trip."""


def _version_3(connection: sqlite3.Connection) -> None:
    """Write all of a history but its recommendations as one JSON text, and drop the decisions."""
    connection.execute(
        "CREATE TABLE histories (target INTEGER PRIMARY KEY, history TEXT NOT NULL) STRICT"
    )
    histories: dict[int, dict[str, Any]] = defaultdict(dict)
    for target, *state in connection.execute("SELECT * FROM states"):
        histories[target] = _state_of_version_2(*state)
    for target, conditions in connection.execute("SELECT * FROM conditions"):
        histories[target]["conditions"] = json.loads(conditions)
    for table in ("scale_ups", "scale_downs"):
        for _, target, change, time, outdated, earliest in connection.execute(
            f"SELECT * FROM {table} ORDER BY slot"  # noqa: S608 - a table's name
        ):
            event = [change, time, bool(outdated), earliest]
            histories[target].setdefault(table, []).append(event)
    connection.executemany(
        "INSERT INTO histories VALUES (?, ?)",
        [
            (target, json.dumps(histories[target]))
            for (target,) in connection.execute("SELECT target FROM targets").fetchall()
        ],
    )
    for table in ("scale_ups", "scale_downs", "conditions", "states", "decisions"):
        connection.execute(f"DROP TABLE {table}")


def _state_of_version_2(*state: Any) -> dict[str, Any]:
    has_recommendations, desired, last_scale_time, zeroed_by_us, *rest = state
    pending, rivalry, unobserved, gaps, unseen, generation, controller = rest
    known, our_step, reversals = json.loads(rivalry)
    return {
        "recommendations": [] if has_recommendations else None,
        "desired_replicas": desired,
        "last_scale_time": last_scale_time,
        "zeroed_by_us": bool(zeroed_by_us),
        "pending": None if pending is None else json.loads(pending),
        "contention": [known, our_step, reversals, generation],
        "unobserved": bool(unobserved),
        "gaps": json.loads(gaps),
        "unseen": unseen,
        "controller": json.loads(controller),
    }


MIGRATIONS: Sequence[Migration] = (_VERSION_1, _VERSION_2, _version_3, _VERSION_4)

OF_A_TARGET = ("recommendations", "histories", "decided", "targets")
"""Every table with rows of single targets, by a column `target`."""
