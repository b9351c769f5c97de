"""What is measured, as data: windows of time, steps, and one autoscaler's figures."""

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Window:
    """What servers did in `seconds` in which nothing had to change.

    `cpu` is in seconds and `resident` in bytes, both by process; `api` counts API requests by
    verb and resource, `queries` the instant queries of Prometheus.
    """

    seconds: float
    cpu: Mapping[str, float]
    resident: Mapping[str, int]
    api: Mapping[str, int]
    queries: int


@dataclass(frozen=True)
class Steady:
    """A window, with what the servers spend when no autoscaler runs (CPU seconds per second).

    `decisions` counts how often a target was decided in it: for a daemon that keeps its period,
    targets times the periods in the window.
    """

    targets: int
    decisions: int
    window: Window
    idle: Mapping[str, float]

    @property
    def syncs(self) -> float:
        """How often all targets were decided."""
        return self.decisions / self.targets

    @property
    def interval(self) -> float:
        """Seconds from one decision of a target to its next."""
        return self.window.seconds / self.syncs

    def cpu(self, process: str) -> float | None:
        """CPU seconds of a process in the window, above what it spends without autoscaler."""
        if process not in self.window.cpu:
            return None
        idle = self.idle.get(process, 0.0) * self.window.seconds
        return max(0.0, self.window.cpu[process] - idle)

    @property
    def cpu_of_all(self) -> float:
        """The same, of all processes together."""
        return sum(self.cpu(process) or 0.0 for process in self.window.cpu)


@dataclass(frozen=True)
class Step:
    """A change of all series, and when the writes landed that followed from it (Unix times).

    `began` is when the sync began that saw the new values, where that is known: of the HPA only
    its first write is seen. `cpu` is in seconds, from the change to the last write, by process.
    """

    replicas: int
    changed: float
    began: float | None
    landings: list[float]
    cpu: Mapping[str, float]

    @property
    def seconds(self) -> float | None:
        """Seconds from the begin of the sync, or else the first write, to the last write."""
        if not self.landings:
            return None
        return self.landings[-1] - (self.landings[0] if self.began is None else self.began)


@dataclass
class Figures:
    """One autoscaler at one number of targets; `start` is seconds to the end of its first sync."""

    name: str
    targets: int
    start: float | None = None
    steady: Steady | None = None
    ups: list[Step] = field(default_factory=list)
    downs: list[Step] = field(default_factory=list)

    @property
    def up(self) -> Step | None:
        """The step up whose time is the median of all."""
        if not self.ups:
            return None
        times = [step.seconds or float("inf") for step in self.ups]
        return self.ups[times.index(statistics.median_low(times))]


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what was added to counters, where it is not 0."""
    return dict(sorted((Counter(after) - Counter(before)).items()))
