"""How well a count followed a demand: the elasticity measures of the SPEC Research Group.

They are those of Herbst et al., "Ready for Rain? A View from SPEC Research on the Future of Cloud
Metrics" (SPEC RG, 2016), of a demand d and a supply s in pods, over the time T that is scored:

    theta_U = 1/T * integral of max(d - s, 0) / d      theta_O = 1/T * integral of max(s - d, 0) / d
    tau_U   = share of T with s < d                    tau_O   = share of T with s > d
    upsilon = share of T in which d and s change in different directions

Where d is 0, a surplus counts against one pod.  A gap in the data is not scored.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of one target over a time; shares are of 1, times in seconds."""

    scored_seconds: float = 0.0
    gap_seconds: float = 0.0
    """For so long the demand was not known."""
    theta_under: float = 0.0
    theta_over: float = 0.0
    tau_under: float = 0.0
    tau_over: float = 0.0
    upsilon: float = 0.0
    replica_hours: float = 0.0
    """Of all pods that were wanted, ready or not, also in gaps."""
    shortage_pod_hours: float = 0.0
    """Of the pods that were missing."""
    changes: int = 0
    at_max_seconds: float = 0.0
    worst_shortage: int = 0
    """The most pods that were missing at an instant."""
    longest_shortage_seconds: float = 0.0
    """The longest time from a shortage's begin to its end: the time to recover."""
    longest_queue: float | None = None
    mean_wait_seconds: float | None = None
    """By Little's law: the mean length over the mean throughput; None without a queue."""
    longest_wait_seconds: float | None = None
    """The most that a queue's length was over what its pods could serve; or, without any, the time
    that it stood."""


class Score:
    """Adds up the measures of one target, interval after interval."""

    __slots__ = (
        *("_scored", "_gap", "_under", "_over", "_under_seconds", "_over_seconds", "_unstable"),
        *("_replica_seconds", "_changes", "_at_max", "_worst", "_shortage", "_longest_shortage"),
        "_missing_seconds",
        *("_last_demand", "_last_supply"),
        *("_queued", "_queue_area", "_served", "_longest_queue", "_longest_wait"),
    )

    def __init__(self) -> None:
        self._scored = self._gap = self._under = self._over = 0.0
        self._under_seconds = self._over_seconds = self._unstable = self._replica_seconds = 0.0
        self._at_max = self._shortage = self._longest_shortage = self._missing_seconds = 0.0
        self._changes = self._worst = 0
        self._last_demand: int | None = None
        self._last_supply = 0
        self._queued = False
        self._queue_area = self._served = self._longest_queue = self._longest_wait = 0.0

    def interval(
        self, seconds: float, demand: int | None, supply: int, replicas: int, *, at_max: bool
    ) -> None:
        """Add a time in which nothing changed: the demand (None if unknown) and the ready pods."""
        self._replica_seconds += replicas * seconds
        if at_max:
            self._at_max += seconds
        if demand is None:
            self._gap += seconds
            self._last_demand = None
            return
        self._scored += seconds
        before = self._last_demand
        if before is not None:
            risen, followed = demand - before, supply - self._last_supply
            if (risen > 0) - (risen < 0) != (followed > 0) - (followed < 0):
                self._unstable += seconds
        self._last_demand, self._last_supply = demand, supply
        missing = demand - supply
        if missing > 0:
            self._under += missing / demand * seconds
            self._under_seconds += seconds
            self._missing_seconds += missing * seconds
            self._shortage += seconds
            self._worst = max(self._worst, missing)
            self._longest_shortage = max(self._longest_shortage, self._shortage)
            return
        self._shortage = 0.0
        if missing:
            self._over -= missing / (demand or 1) * seconds
            self._over_seconds += seconds

    def changed(self) -> None:
        """Count a change of the count."""
        self._changes += 1

    def queue(self, seconds: float, length: float, served: float, wait: float) -> None:
        """Add a queue's mean length over a time, what it served, and what the last one waits."""
        self._queued = True
        self._queue_area += length * seconds
        self._served += served
        self._longest_queue = max(self._longest_queue, length)
        self._longest_wait = max(self._longest_wait, wait)

    def measures(self) -> Measures:
        """Return the measures of all that was added."""
        scored = self._scored or 1.0
        return Measures(
            scored_seconds=self._scored,
            gap_seconds=self._gap,
            theta_under=self._under / scored,
            theta_over=self._over / scored,
            tau_under=self._under_seconds / scored,
            tau_over=self._over_seconds / scored,
            upsilon=self._unstable / scored,
            replica_hours=self._replica_seconds / 3600.0,
            shortage_pod_hours=self._missing_seconds / 3600.0,
            changes=self._changes,
            at_max_seconds=self._at_max,
            worst_shortage=self._worst,
            longest_shortage_seconds=self._longest_shortage,
            longest_queue=self._longest_queue if self._queued else None,
            mean_wait_seconds=self._mean_wait(),
            longest_wait_seconds=self._longest_wait if self._queued else None,
        )

    def _mean_wait(self) -> float | None:
        if not self._queued:
            return None
        return self._queue_area / self._served if self._served else 0.0
