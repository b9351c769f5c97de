"""The daemon's health: whether its syncs complete, and whether its components work."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from autoscaler import clock
from autoscaler.rendering.answers import ComponentState

PERIODS_ALLOWED = 3
"""A sync that does not end within this number of periods hangs."""

NOT_ASKED = "no target needs it"
_NOT_HEARD_OF = "no answer so far"
ANSWERS_COUNT_SECONDS = 60.0
"""A server that answered within this time, in seconds, is up despite later failures."""


class Component(StrEnum):
    """A part of the daemon that may fail."""

    CONFIGURATION = "configuration"
    PROMETHEUS = "prometheus"
    KUBERNETES = "kubernetes"
    CACHES = "caches"
    STATE = "state"
    RECORD = "record"
    RELOAD = "reload"
    LEADERSHIP = "leadership"
    BREAKER = "scale-down breaker"


REQUIRED = (Component.CONFIGURATION, Component.PROMETHEUS, Component.KUBERNETES, Component.CACHES)
"""Without one of these the daemon is not ready; the others only inform. A named Prometheus server
is not one of them: it affects only the targets that query it."""


OF_CLUSTERS = (Component.KUBERNETES, Component.CACHES, Component.LEADERSHIP)
"""Each named cluster has its own; the daemon is ready while one of several works."""


def part_of(component: Component, name: str) -> str:
    """Return the component of a server or a cluster with this name, which may be empty."""
    return f"{component}/{name}" if name else component


def _part(name: str) -> str:
    return name.partition("/")[0]


class SyncsState(NamedTuple):
    """The syncs of one period: their number, and the longest time since one of them completed."""

    period: float
    syncs: int
    ago: float


class Health:
    """The states of all components, and when each sync last completed. Thread-safe.

    Messages are sentences for operators, without secrets: the pages show them.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = clock.monotonic,
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._lock = threading.Lock()
        self._periods: dict[str, float] = {}
        self._completed: dict[str, float] = {}
        self._suspended = False
        self._answered: dict[str, float] = {}
        self._away: dict[str, float] = {}
        """Servers that do not answer, and when that began (monotonic)."""
        self._states: dict[str, ComponentState] = {}
        """By a `Component`, or by a named server or cluster (`part_of`)."""
        self.report_unheard()

    # -- liveness --------------------------------------------------------------------------

    def expect(self, periods: Mapping[str, float]) -> None:
        """Watch these syncs from now on: by name, the period of each in seconds."""
        now = self._monotonic()
        with self._lock:
            self._completed = {name: self._completed.get(name, now) for name in periods}
            self._periods = dict(periods)

    def sync_completed(self, name: str) -> None:
        """Note that a sync has ended."""
        now = self._monotonic()
        with self._lock:
            if name in self._periods:
                self._completed[name] = now

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not count the time of the block; a sync that hung before still hangs afterwards."""
        begun = self._monotonic()
        with self._lock:
            self._suspended = True
        try:
            yield
        finally:
            now = self._monotonic()
            with self._lock:
                self._suspended = False
                self._completed = {
                    name: min(now, at + now - begun) for name, at in self._completed.items()
                }

    def stalled(self) -> str | None:
        """Return the sentence about a hanging sync; None without one."""
        now = self._monotonic()
        with self._lock:
            waits = [
                (now - completed, self._periods[name])
                for name, completed in self._completed.items()
                if now - completed > PERIODS_ALLOWED * self._periods[name]
            ]
            if self._suspended or not waits:
                return None
        longest, period = max(waits)
        others = f", nor did {len(waits) - 1} others in time" if len(waits) > 1 else ""
        return f"a sync that is due every {period:g} s has not ended for {longest:.0f} s{others}"

    def syncs(self) -> tuple[SyncsState, ...]:
        """Return the syncs of each period, the shortest first."""
        now = self._monotonic()
        ages: dict[float, list[float]] = {}
        with self._lock:
            for name, period in self._periods.items():
                ages.setdefault(period, []).append(now - self._completed[name])
        return tuple(SyncsState(age, len(ages[age]), max(ages[age])) for age in sorted(ages))

    # -- readiness -------------------------------------------------------------------------

    def expect_servers(self, servers: AbstractSet[str]) -> None:
        """Watch these Prometheus servers from now on: the names of those that targets use."""
        with self._lock:
            self._expect(Component.PROMETHEUS, servers | {""})
            if "" not in servers:
                self._away.pop(Component.PROMETHEUS, None)
                self._set(Component.PROMETHEUS, ok=True, message=NOT_ASKED)

    def expect_clusters(self, clusters: AbstractSet[str]) -> None:
        """Watch these clusters from now on, by name; the only cluster may have an empty name."""
        with self._lock:
            for component in OF_CLUSTERS:
                self._expect(component, clusters)

    def _expect(self, component: Component, names: AbstractSet[str]) -> None:
        """Forget the parts of a component with other names; new ones have no state yet."""
        expected = {part_of(component, name) for name in names}
        known = {name for name in self._states if _part(name) == component}
        for gone in known - expected:
            self._away.pop(gone, None)
            del self._states[gone]
        for name in expected - known if component in REQUIRED else ():
            self._set(name, ok=False, message=_NOT_HEARD_OF)

    def report_unheard(self) -> None:
        """Reset all required components to "no state yet"."""
        for name in REQUIRED:
            self.report(name, ok=False, message=_NOT_HEARD_OF)

    def report(self, name: str, *, ok: bool, message: str) -> None:
        """Set the state of a component."""
        with self._lock:
            self._set(name, ok=ok, message=message)

    def request_ended(self, name: str, problem: str | None = None) -> float | None:
        """Note that a server answered, or the ``problem`` if it did not.

        A problem counts once there was no answer for a minute: a single failure means nothing.
        Returns the seconds without an answer when that has just begun or ended.
        """
        now = self._monotonic()
        with self._lock:
            if name not in self._states:  # A late answer of a server that no target uses any more.
                return None
            if problem is None:
                self._answered[name] = now
                self._set(name, ok=True, message="answers")
                away = self._away.pop(name, None)
                return None if away is None else now - away
            answered = self._answered.get(name, -math.inf)
            if now - answered < ANSWERS_COUNT_SECONDS:
                return None
            self._set(name, ok=False, message=problem)
            if name in self._away:
                return None
            self._away[name] = self._answered.get(name, now)
            return now - self._away[name]

    @property
    def ready(self) -> bool:
        """Whether all required components work."""
        with self._lock:
            return all(self._is_well(name) for name in REQUIRED)

    def _is_well(self, component: Component) -> bool:
        if component in self._states:
            return self._states[component].ok
        return any(state.ok for name, state in self._states.items() if _part(name) == component)

    def components(self) -> tuple[ComponentState, ...]:
        """Return the state of each known or required component, in a fixed order."""
        order: list[str] = list(Component)
        with self._lock:
            states = sorted(self._states.items())
        return tuple(
            state for _, state in sorted(states, key=lambda item: order.index(_part(item[0])))
        )

    def _set(self, name: str, *, ok: bool, message: str) -> None:
        known = self._states.get(name)
        if known is not None and (known.ok, known.message) == (ok, message):
            return
        since = known.since if known is not None and known.ok is ok else self._wall()
        required = name in REQUIRED
        self._states[name] = ComponentState(
            name=name, ok=ok, required=required, message=message, since=since
        )
