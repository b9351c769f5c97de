"""The state directory: what targets remember, in a small SQLite database, beyond a restart.

`Store` fits the journal's port.  It never stands in the way of scaling: where nothing can be kept
it goes on from memory, says so, and tries again.
"""

from autoscaler.adapters.store.clocks import Clocks, Resumption, Stamp
from autoscaler.adapters.store.decisions import KeptDecision, KeptMetric, Unreadable, last_decisions
from autoscaler.adapters.store.look import Saved, look
from autoscaler.adapters.store.store import DiskTimeouts, Store

__all__ = [
    "Clocks",
    "DiskTimeouts",
    "KeptDecision",
    "KeptMetric",
    "Resumption",
    "Saved",
    "Stamp",
    "Store",
    "Unreadable",
    "last_decisions",
    "look",
]
