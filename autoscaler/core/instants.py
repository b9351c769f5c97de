"""The instants of a sync: the one it is recorded as, and the one ages are taken at (semantics 7.1).

The HPA waits one period after each reconcile, so that every age is a little more than a whole
number of periods.  Syncs here are due on a grid and begin with some jitter.  By the clock an
event of the last sync would be a little older than the period at one sync and a little younger at
the next, and a policy or window of whole periods would last one sync too long each second time.
"""

from typing import NamedTuple

_ON_TIME_SECONDS = 0.25
_ON_TIME_PART = 0.1
AFTER_DUE_SECONDS = 0.001
"""The least time from the stamp to the decision: more than the error of a double."""
_EARLIEST_SECONDS = 1.0


class Instants(NamedTuple):
    """Unix seconds: the sync is recorded as of ``stamp``, and ages are taken at ``now``."""

    stamp: float
    now: float


def instants_of(due: float, now: float, period: float) -> Instants:
    """Return the instants of a decision taken at ``now`` in a sync that was ``due``.

    A sync is on time if it is late by at most a tenth of the ``period``, or 0.25 s.  It is then
    recorded as of ``due`` and never decided before that, so that no age is less than by the
    schedule.  A later sync is recorded as of its own instant minus that allowance.
    """
    if due > now + _EARLIEST_SECONDS:
        due = now  # this is no jitter: the clock was set
    allowance = max(_ON_TIME_SECONDS, _ON_TIME_PART * period)
    return Instants(max(due, now - allowance), max(now, due + AFTER_DUE_SECONDS))
