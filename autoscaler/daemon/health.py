"""How the daemon is: whether its syncs turn, and whether all that it needs is there."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from autoscaler import clock

PERIODS_ALLOWED = 3
"""A sync that did not end within so many of its periods means that its loop hangs."""

ANSWERS_COUNT_SECONDS = 60.0
"""How long an answer outweighs the failures after it."""


class Component(StrEnum):
    """What the daemon's readiness is made of."""

    CONFIGURATION = "configuration"
    PROMETHEUS = "prometheus"
    KUBERNETES = "kubernetes"
    CACHES = "caches"
    STATE = "state"
    RELOAD = "reload"
    LEADERSHIP = "leadership"


REQUIRED = (
    Component.CONFIGURATION,
    Component.PROMETHEUS,
    Component.KUBERNETES,
    Component.CACHES,
)
"""Without one of these the daemon is not ready; the others only inform."""


@dataclass(frozen=True, slots=True)
class ComponentState:
    """How one component is; ``since`` is the Unix time at which ``ok`` last changed."""

    name: Component
    ok: bool
    message: str
    since: float


class Health:
    """Gathers what the parts of the daemon say of themselves; any thread may tell and ask.

    Messages are sentences for operators and hold no secret: they are shown to whoever asks.
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
        self._turned: dict[str, float] = {}
        self._suspended = False
        self._answered: dict[Component, float] = {}
        self._away: dict[Component, float] = {}
        """Servers that do not answer, and since when (monotonic) they have not."""
        self._on_server: Callable[[Component, str, float], None] = lambda *_: None
        begun = wall()
        self._states = {
            name: ComponentState(name, ok=False, message="not heard of yet", since=begun)
            for name in REQUIRED
        }

    # -- liveness --------------------------------------------------------------------------

    def expect(self, periods: Mapping[str, float]) -> None:
        """Take in which syncs turn from now on, by name, and every how many seconds each."""
        now = self._monotonic()
        with self._lock:
            self._turned = {name: self._turned.get(name, now) for name in periods}
            self._periods = dict(periods)

    def sync_completed(self, name: str) -> None:
        """Take in that a sync has ended as it should."""
        now = self._monotonic()
        with self._lock:
            if name in self._periods:
                self._turned[name] = now

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave out the time of the block, in which syncs wait for each other.

        None of them hangs for that, and one that hung before still does afterwards.
        """
        begun = self._monotonic()
        with self._lock:
            self._suspended = True
        try:
            yield
        finally:
            now = self._monotonic()
            with self._lock:
                self._suspended = False
                self._turned = {
                    name: min(now, turned + now - begun) for name, turned in self._turned.items()
                }

    def stalled(self) -> str | None:
        """Say which sync hangs; None while all of them turn."""
        now = self._monotonic()
        with self._lock:
            if self._suspended:
                return None
            waits = [
                (now - turned, self._periods[name])
                for name, turned in self._turned.items()
                if now - turned > PERIODS_ALLOWED * self._periods[name]
            ]
        if not waits:
            return None
        longest, period = max(waits)
        others = f", nor did {len(waits) - 1} others in time" if len(waits) > 1 else ""
        return f"a sync that is due every {period:g} s has not ended for {longest:.0f} s{others}"

    # -- readiness -------------------------------------------------------------------------

    def tell(self, name: Component, *, ok: bool, message: str) -> None:
        """Take in how a component is."""
        with self._lock:
            self._tell(name, ok=ok, message=message)

    def heard(self, name: Component, problem: str | None = None) -> None:
        """Take in that a server answered, or the ``problem`` because of which it did not.

        A problem counts once there was no answer for a minute: one request that fails among
        others that succeed says nothing of the server.
        """
        now = self._monotonic()
        with self._lock:
            turned = self._hear(name, problem, now)
        if turned is not None:
            self._on_server(name, problem or "", turned)

    def follow_servers(self, on_server: Callable[[Component, str, float], None]) -> None:
        """Have it told when a server no longer answers, and when it does again.

        ``on_server`` is given the problem, empty where it answers, and for how many seconds it
        has not answered.
        """
        self._on_server = on_server

    def _hear(self, name: Component, problem: str | None, now: float) -> float | None:
        """Return for how long a server has not answered, where that is news."""
        if problem is None:
            self._answered[name] = now
            self._tell(name, ok=True, message="answers")
            away = self._away.pop(name, None)
            return None if away is None else now - away
        answered = self._answered.get(name)
        if answered is not None and now - answered < ANSWERS_COUNT_SECONDS:
            return None
        self._tell(name, ok=False, message=problem)
        if name in self._away:
            return None
        self._away[name] = now if answered is None else answered
        return now - self._away[name]

    @property
    def ready(self) -> bool:
        """Whether all that is required is well."""
        with self._lock:
            return all(self._states[name].ok for name in REQUIRED)

    def components(self) -> tuple[ComponentState, ...]:
        """Return how each component is that was heard of or is required, in a fixed order."""
        with self._lock:
            return tuple(self._states[name] for name in Component if name in self._states)

    def _tell(self, name: Component, *, ok: bool, message: str) -> None:
        known = self._states.get(name)
        if known is not None and (known.ok, known.message) == (ok, message):
            return
        since = known.since if known is not None and known.ok is ok else self._wall()
        self._states[name] = ComponentState(name, ok, message, since)
