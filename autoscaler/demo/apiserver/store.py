"""The objects of the cluster, with one resourceVersion for all of them, as etcd has.

An object in the store is never changed in place: every write puts a new one there, so that
readers need no copy.
"""

import copy
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.demo.apiserver import status
from autoscaler.demo.apiserver.objects import KubeObject, key, meta
from autoscaler.demo.apiserver.resources import Resource

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    """One change: ``current`` is None for a deletion, ``previous`` for a creation."""

    version: int
    resource: str
    previous: KubeObject | None
    current: KubeObject | None


class ObjectStore:
    """Objects by resource, and the latest changes, for watches.

    Its methods raise `ApiError` for what the API server would refuse.
    """

    def __init__(self, kept_events: int = 4096) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._objects: dict[str, dict[Key, KubeObject]] = {}
        self._events: deque[Event] = deque()
        self._kept_events = kept_events
        self._version = 1
        self._oldest = 1

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        with self._changed:
            return self._version

    @property
    def oldest(self) -> int:
        """The oldest resourceVersion after which all changes are still known."""
        with self._changed:
            return self._oldest

    def create(self, resource: Resource, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        """Store a new object.  Raises AlreadyExists."""
        with self._changed:
            name = meta(obj)["name"]
            if key(obj) in self._all(resource):
                raise status.already_exists(resource, name)
            return obj if dry_run else self._put(resource, None, obj)

    def get(self, resource: Resource, namespace: str, name: str) -> KubeObject:
        """Return an object.  Raises NotFound."""
        with self._changed:
            found = self._all(resource).get((namespace, name))
        if found is None:
            raise status.not_found(resource, name)
        return found

    def list_all(self, resource: Resource) -> tuple[list[KubeObject], int]:
        """Return all objects, ordered by namespace and name, and the store's version."""
        with self._changed:
            ordered = sorted(self._all(resource).items())
            return [obj for _, obj in ordered], self._version

    def list_at(self, resource: Resource, version: int) -> list[KubeObject]:
        """Return all objects as they were at a version.  Raises Expired."""
        with self._changed:
            if version < self._oldest:
                raise status.expired("The provided continue parameter is too old")
            objects = dict(self._all(resource))
            for event in reversed(self._events):
                if event.version <= version:
                    break
                if event.resource != resource.qualified:
                    continue
                if event.previous is not None:
                    objects[key(event.previous)] = event.previous
                elif event.current is not None:
                    del objects[key(event.current)]
        return [obj for _, obj in sorted(objects.items())]

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[KubeObject], KubeObject],
        *,
        dry_run: bool = False,
    ) -> KubeObject:
        """Replace an object by the result of ``change`` on a copy of it, atomically.

        If nothing changes, the resourceVersion stays.  Raises NotFound, and what ``change``
        raises.
        """
        with self._changed:
            previous = self.get(resource, namespace, name)
            current = change(copy.deepcopy(previous))
            if current == previous or dry_run:
                return current
            return self._put(resource, previous, current)

    def delete(self, resource: Resource, namespace: str, name: str) -> KubeObject:
        """Remove an object and return its last state.  Raises NotFound."""
        with self._changed:
            previous = self.get(resource, namespace, name)
            del self._all(resource)[namespace, name]
            self._record(Event(self._next(), resource.qualified, previous, None))
            return previous

    def events_after(self, version: int, timeout: float) -> list[Event]:
        """Return the changes after a version; wait up to ``timeout`` seconds for the first.

        Raises Expired when not all of them are known any more.
        """
        with self._changed:
            if version < self._oldest:
                raise status.expired(f"too old resource version: {version} ({self._oldest})")
            if version >= self._version:
                self._changed.wait(timeout)
            return [event for event in self._events if event.version > version]

    def wait_beyond(self, version: int, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a write after a version, or for `wake`."""
        with self._changed:
            if self._version == version:
                self._changed.wait(timeout)

    def wake(self) -> None:
        """Wake all threads that wait for changes, as at a shutdown."""
        with self._changed:
            self._changed.notify_all()

    def compact(self) -> None:
        """Forget all changes up to now: older watches and continue tokens expire."""
        with self._changed:
            self._events.clear()
            self._oldest = self._version

    def _all(self, resource: Resource) -> dict[Key, KubeObject]:
        return self._objects.setdefault(resource.qualified, {})

    def _put(self, resource: Resource, previous: KubeObject | None, obj: KubeObject) -> KubeObject:
        version = self._next()
        stored = {**obj, "metadata": {**meta(obj), "resourceVersion": str(version)}}
        self._all(resource)[key(stored)] = stored
        self._record(Event(version, resource.qualified, previous, stored))
        return stored

    def _next(self) -> int:
        self._version += 1
        return self._version

    def _record(self, event: Event) -> None:
        self._events.append(event)
        while len(self._events) > self._kept_events:
            self._oldest = self._events.popleft().version
        self._changed.notify_all()
