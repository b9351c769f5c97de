"""The watches that cover the needed namespaces: one of all namespaces, or one for each."""

import threading
from collections.abc import Callable, Collection
from typing import Generic

from autoscaler import clock
from autoscaler.adapters.cluster.operator_notes import OperatorNotes
from autoscaler.adapters.cluster.reflector import CacheT, Reflector, State

ALL = ""
"""The namespace of a watch of all namespaces."""

_MOST_WATCHES = 100
"""Of single namespaces; where all at once are forbidden, objects of others are read directly."""

EACH_NAMESPACE = "each namespace is watched by itself"
"""What is done where all namespaces at once cannot be watched, for messages."""

Changed = Callable[[Reflector[CacheT]], None]


class WatchScopes(Generic[CacheT]):
    """The watches of one resource.

    Up to ``most_namespaces`` each namespace has its own; beyond that one watch covers all of
    them.  While that one is refused, whether that is confirmed or not, each has its own all the
    same.  ``create`` makes a watch of a namespace, or of ALL; ``changed`` is called, on any
    thread, when one becomes ready or is refused.
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
        self._all: Reflector[CacheT] | None = None
        self._each: dict[str, Reflector[CacheT]] = {}
        self._apart = True
        """Whether each namespace has its own."""
        self._retired: list[Reflector[CacheT]] = []
        self._closed = False

    def find(self, namespace: str) -> Reflector[CacheT] | None:
        """Return the watch that covers a namespace; None where there is none."""
        with self._lock:
            every = self._all
            if every is not None and every.state is State.SYNCED:
                return every
            if every is not None and every.refused and not self._apart and not self._closed:
                # The refusal is new; the watch has not reported it yet.
                self._arrange()
            return self._each.get(namespace) or every

    def watches(self) -> list[Reflector[CacheT]]:
        """Return the watches that run now."""
        with self._lock:
            return [*([self._all] if self._all else []), *self._each.values()]

    def covering(self, namespace: str) -> list[Reflector[CacheT]]:
        """Return every watch that includes a namespace, ready or not."""
        with self._lock:
            return [watch for watch in (self._all, self._each.get(namespace)) if watch is not None]

    @property
    def settled(self) -> bool:
        """Whether every namespace is covered or refused, be that confirmed or not."""
        with self._lock:
            if self._all is not None and not self._apart:
                return self._all.state is State.SYNCED
            each = self._each.values()
            return all(watch.refused or watch.state is not State.STARTING for watch in each)

    def need(self, namespaces: Collection[str]) -> None:
        """Cover these namespaces and no others."""
        with self._lock:
            self._needed = frozenset(namespaces)
            if not self._closed:
                self._arrange()

    def end(self) -> None:
        """End the watches soon."""
        with self._lock:
            self._closed = True
            for watch in self.watches():
                watch.end()

    def join(self, deadline: float) -> None:
        """Wait until a deadline for the threads of watches that were told to end."""
        with self._lock:
            watches = [*self.watches(), *self._retired]
        for watch in watches:
            watch.join(deadline - clock.monotonic())

    def _arrange(self) -> None:
        if self._all is None and len(self._needed) > self._most:
            self._all = self._begin(ALL)
        every = None if self._all is None else self._all.state
        self._apart = self._all is None or self._all.refused
        over = [one for one in self._each if every is State.SYNCED or one not in self._needed]
        if self._apart:
            room = max(0, _MOST_WATCHES - len(self._each) + len(over))
            # Before any ends: if one cannot begin, all stays as it was.
            for namespace in self._rest()[:room]:
                self._each[namespace] = self._begin(namespace)
        for namespace in over:
            self._retire(self._each.pop(namespace))
        if self._apart and every is State.REFUSED:
            self._say_unwatched(self._rest())

    def _rest(self) -> list[str]:
        """Return the namespaces without a watch of their own."""
        return sorted(self._needed - self._each.keys())

    def _begin(self, namespace: str) -> Reflector[CacheT]:
        watch = self._create(namespace, self._on_change)
        watch.start()
        return watch

    def _retire(self, watch: Reflector[CacheT]) -> None:
        watch.end()
        # If it is needed and refused again, that is said again.
        self._notes.forget(watch.cache.name)
        self._retired = [*(old for old in self._retired if old.alive), watch]

    def _on_change(self, watch: Reflector[CacheT]) -> None:
        with self._lock:
            if watch is self._all and not self._closed:
                self._arrange()
        self._changed()

    def _say_unwatched(self, rest: list[str]) -> None:
        if rest and self._all is not None:
            name, instead = self._all.cache.name, self._each[min(self._each)].cache.instead
            self._notes.notify(
                f"{name}, too many namespaces",
                f"{name} in {_MOST_WATCHES} namespaces are watched one by one, because all at once "
                f"are refused; {len(rest)} more are not watched: {instead}",
            )
