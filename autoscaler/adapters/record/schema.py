"""The tables of the record; `user_version` counts the migrations that a file has seen.

What was released is never edited: a change is a further migration.
"""

from autoscaler.adapters.sqlite_files import Migration

_VERSION_1 = """
    CREATE TABLE runs (id INTEGER PRIMARY KEY, begin REAL NOT NULL, end REAL NOT NULL) STRICT;
    CREATE TABLE targets (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE rules (
        id INTEGER PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,
        body BLOB NOT NULL
    ) STRICT;
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY,
        target INTEGER NOT NULL,
        time REAL NOT NULL,
        state TEXT NOT NULL,
        current INTEGER,
        desired INTEGER,
        min_replicas INTEGER NOT NULL,
        max_replicas INTEGER NOT NULL,
        marks INTEGER NOT NULL,
        message TEXT NOT NULL,
        by TEXT NOT NULL,
        rules INTEGER,
        body BLOB
    ) STRICT;
    CREATE INDEX changes_of_targets ON changes (target, time);
    CREATE INDEX changes_in_time ON changes (time);
    CREATE INDEX removals ON changes (target, time) WHERE marks & 16384;
    CREATE TABLE samples (
        id INTEGER PRIMARY KEY,
        target INTEGER NOT NULL,
        begin REAL NOT NULL,
        end REAL NOT NULL,
        period REAL NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX samples_of_targets ON samples (target, begin);
    CREATE TABLE minutes (
        id INTEGER PRIMARY KEY,
        target INTEGER NOT NULL,
        begin REAL NOT NULL,
        end REAL NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX minutes_of_targets ON minutes (target, begin);
    CREATE TABLE open (
        target INTEGER PRIMARY KEY,
        begin REAL NOT NULL,
        period REAL NOT NULL,
        first INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE recent (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    """
"""A run is a time in which all was recorded.  Samples are bytes of `autoscaler.record.packing`:
in `samples` those of some minutes, in `minutes` steps of a minute of some hours.  What is not in
`samples` yet is in `recent`, a row for each batch (`journal`); `open` has the begin of these bytes
and the first row of `recent` that has some of them.  A change without rules and body is the removal
of a target.
"""

MIGRATIONS: tuple[Migration, ...] = (_VERSION_1,)
