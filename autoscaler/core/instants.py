"""The instants of a sync: when it counts as having been, and when it is decided (semantics 7.1).

The HPA waits one period after each reconcile has finished, so that nothing it remembers is ever
younger than a whole number of its periods.  Syncs here are due on a grid and begin a little after
it, or before it where the clock is adjusted: read from the clock, an event of the last sync would
be now a little older than the period, now a little younger, and a policy or a window of whole
periods would hold a sync longer each second time.
"""

from typing import NamedTuple

_ON_TIME_SECONDS = 0.25
_ON_TIME_PART = 0.1
AFTER_DUE_SECONDS = 0.001
"""A decision is at least so much later than its stamp."""
_EARLIEST_SECONDS = 1.0


class Instants(NamedTuple):
    """Unix seconds: what a sync remembers is stamped ``stamp``, and ages are taken at ``now``."""

    stamp: float
    now: float


def instants_of(due: float, now: float, period: float) -> Instants:
    """Return the instants of a decision that is taken at ``now``, in a sync that was ``due``.

    What is on time, no later than a tenth of the ``period`` or a quarter of a second, is stamped
    as due, and no decision is taken before it was due: an age is then never less than the
    schedule makes it, however late single syncs are.  What comes later is stamped that tenth
    before its own instant: the next syncs see when it really was, to within the tenth.
    """
    if due > now + _EARLIEST_SECONDS:
        due = now  # no jitter: the clock was set
    allowance = max(_ON_TIME_SECONDS, _ON_TIME_PART * period)
    # Later than due by more than floating-point numbers are off, as the HPA's reconcile is.
    return Instants(max(due, now - allowance), max(now, due + AFTER_DUE_SECONDS))
