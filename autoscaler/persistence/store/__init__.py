"""The state directory: the state of targets beyond a restart, in a small SQLite database.

`SqliteHistoryStore` is the port `HistoryStore`. It never delays scaling: if nothing can be stored
it continues from memory, reports that, and tries again.
"""

from autoscaler.persistence.store.database import read_saved
from autoscaler.persistence.store.releases import Release
from autoscaler.persistence.store.rows import Clocks, Resumption, Stamp
from autoscaler.persistence.store.store import DiskTimeouts, SqliteHistoryStore

__all__ = [
    "Clocks",
    "DiskTimeouts",
    "Release",
    "Resumption",
    "SqliteHistoryStore",
    "Stamp",
    "read_saved",
]
