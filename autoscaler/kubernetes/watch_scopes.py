"""The watches that cover the needed namespaces: one of all namespaces, or one for each."""

import threading
from collections.abc import Callable, Collection
from typing import Generic

from autoscaler import clock
from autoscaler.kubernetes.reflector import CacheT, OperatorNotes, Reflector, WatchState
from autoscaler.kubernetes.watch_requests import ALL

_MOST_WATCHES = 100
"""The most watches of single namespaces; objects of further namespaces are read directly."""

Changed = Callable[[Reflector[CacheT]], None]


class WatchScopes(Generic[CacheT]):
    """The watches of one resource.

    Up to ``most_namespaces`` each namespace has its own watch; beyond, one watch covers all of
    them, and while it is refused, confirmed or not, each has its own again. ``create`` makes a
    watch of a namespace, or of ALL; ``changed`` is called, on any thread, when one becomes ready or
    is refused.
    """

    def __init__(
        self,
        create: Callable[[str, Changed[CacheT]], Reflector[CacheT]],
        most_namespaces: int,
        notes: OperatorNotes,
        changed: Callable[[], None],
    ) -> None:
        self._create = create
        self._most = most_namespaces
        self._notes = notes
        self._changed = changed
        self._lock = threading.RLock()
        self._needed: frozenset[str] = frozenset()
        self._one_by_one = True
        """Whether each namespace has a watch of its own."""
        self._of_all: Reflector[CacheT] | None = None
        """None if there were never many namespaces."""
        self._of_each: dict[str, Reflector[CacheT]] = {}
        self._retired: list[Reflector[CacheT]] = []
        self._closed = False

    def find(self, namespace: str) -> Reflector[CacheT] | None:
        """Return the watch that covers a namespace; None without one."""
        with self._lock:
            watch = self._of_all
            if watch is not None and watch.state is WatchState.SYNCED:
                return watch
            if watch is not None and watch.refused and not self._one_by_one:
                # The refusal is new; the watch has not reported it yet.
                self._arrange()
            return self._of_each.get(namespace) or watch

    def watches(self) -> list[Reflector[CacheT]]:
        """Return the watches that run now."""
        with self._lock:
            every = (self._of_all, *self._of_each.values())
            return [watch for watch in every if watch is not None]

    def covering(self, namespace: str) -> list[Reflector[CacheT]]:
        """Return every watch that includes a namespace, ready or not."""
        with self._lock:
            watches = (self._of_all, self._of_each.get(namespace))
            return [watch for watch in watches if watch is not None]

    @property
    def settled(self) -> bool:
        """Whether every namespace is covered or refused, confirmed or not."""
        with self._lock:
            if self._of_all is not None and not self._one_by_one:
                return self._of_all.state is WatchState.SYNCED
            each = self._of_each.values()
            return all(watch.refused or watch.state is not WatchState.STARTING for watch in each)

    def need(self, namespaces: Collection[str]) -> None:
        """Cover these namespaces and no others."""
        with self._lock:
            self._needed = frozenset(namespaces)
            self._arrange()

    def end(self) -> None:
        """End the watches soon."""
        with self._lock:
            self._closed = True
            for watch in self.watches():
                watch.end()

    def join(self, deadline: float) -> None:
        """Wait until a deadline for the threads of watches that are ending."""
        with self._lock:
            watches = [*self.watches(), *self._retired]
        for watch in watches:
            watch.join(deadline - clock.monotonic())

    def _arrange(self) -> None:
        """Begin the watches that are needed now, and end the others."""
        if self._closed:
            return
        if self._of_all is None and len(self._needed) > self._most:
            self._of_all = self._begin(ALL)
        state = None if self._of_all is None else self._of_all.state
        self._one_by_one = self._of_all is None or self._of_all.refused
        # Until the watch of all namespaces is ready, the watches of each continue.
        still = frozenset() if state is WatchState.SYNCED else self._needed
        superfluous = self._of_each.keys() - still
        if self._one_by_one:
            room = max(0, _MOST_WATCHES - len(self._of_each) + len(superfluous))
            # Start watches before ending any, so that a failed start changes nothing.
            for namespace in self._unwatched()[:room]:
                self._of_each[namespace] = self._begin(namespace)
        for namespace in superfluous:
            watch = self._of_each.pop(namespace)
            watch.end()
            # If it is needed and refused again, that is reported again.
            self._notes.forget(watch.cache.name)
            self._retired = [*(old for old in self._retired if old.alive), watch]
        if state is WatchState.REFUSED:
            self._say_unwatched(self._unwatched())

    def _unwatched(self) -> list[str]:
        """Return the namespaces without a watch of their own."""
        return sorted(self._needed - self._of_each.keys())

    def _begin(self, namespace: str) -> Reflector[CacheT]:
        watch = self._create(namespace, self._on_change)
        watch.start()
        return watch

    def _on_change(self, watch: Reflector[CacheT]) -> None:
        with self._lock:
            if watch is self._of_all:
                self._arrange()
        self._changed()

    def _say_unwatched(self, namespaces: list[str]) -> None:
        if namespaces and self._of_all is not None:
            name, instead = self._of_all.cache.name, self._of_each[min(self._of_each)].cache.instead
            self._notes.notify(
                f"{name}, too many namespaces",
                f"{name} in {_MOST_WATCHES} namespaces are watched one by one, because the watch "
                f"of all is refused; {len(namespaces)} more are not watched: {instead}",
            )
