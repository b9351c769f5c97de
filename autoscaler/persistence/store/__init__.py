"""The state directory: what targets remember, in a small SQLite database, beyond a restart.

`SqliteHistoryStore` is the port `HistoryStore`.  It never delays scaling: if nothing can be kept
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
