"""The tables, and how a database of an older version becomes one of this version.

`user_version` counts the scripts that a database has seen.  What was released is never edited: a
change is a further script.

Slots lead the keys of the lists, so that what one sync changes lies close together in the file.
Nested values (conditions, a pending write, a rivalry, gaps, a decision) are JSON arrays of their
fields in order; a controller's words are a JSON string, since a server may send what is no UTF-8.
"""

import sqlite3
from collections.abc import Sequence

SCRIPTS: Sequence[str] = (
    """
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
    """,
    """
    ALTER TABLE scale_ups ADD COLUMN earliest REAL;
    ALTER TABLE scale_downs ADD COLUMN earliest REAL;
    ALTER TABLE states ADD COLUMN gaps TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE states ADD COLUMN unseen REAL;
    ALTER TABLE states ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE states ADD COLUMN controller TEXT NOT NULL DEFAULT '""';
    """,
)

OF_A_TARGET = (
    "recommendations",
    "scale_ups",
    "scale_downs",
    "conditions",
    "states",
    "decisions",
    "decided",
    "targets",
)
"""Every table with rows of single targets, by a column `target`."""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database; 0 of one that is new."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, scripts: Sequence[str] = SCRIPTS) -> None:
    """Run the scripts that a database has not seen, each in a transaction.

    After an error the connection is left within it, and is to be closed.
    """
    for version in range(version_of(connection) + 1, len(scripts) + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {scripts[version - 1]}; PRAGMA user_version = {version:d}; COMMIT;"
        )
