"""The state directory: what targets remember, in a small SQLite database, beyond a restart.

`SqliteHistoryStore` is the port `HistoryStore`.  It never delays scaling: if nothing can be kept
it goes on from memory, reports that, and tries again.
"""

from autoscaler.adapters.store.database import Saved, Unreadable, read_saved
from autoscaler.adapters.store.releases import Release
from autoscaler.adapters.store.rows import Clocks, Resumption, Stamp
from autoscaler.adapters.store.store import DiskTimeouts, SqliteHistoryStore

__all__ = [
    "Clocks",
    "DiskTimeouts",
    "Release",
    "Resumption",
    "Saved",
    "SqliteHistoryStore",
    "Stamp",
    "Unreadable",
    "read_saved",
]
