"""The objects of the cluster, with one resourceVersion for all of them, as etcd has.

An object in the store is never changed in place: every write puts a new one there, so that
readers need no copy.
"""

import copy
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from autoscaler import clock
from autoscaler.demo.apiserver.objects import (
    DEPLOYMENTS,
    KubeObject,
    ObjectKey,
    Refused,
    ServedResource,
    key,
    meta,
    refused_object,
    timestamp,
    typed,
)


class StoreChange(NamedTuple):
    """One change: ``current`` is None for a deletion, ``previous`` for a creation."""

    version: int
    resource: str
    previous: KubeObject | None
    current: KubeObject | None


class ObjectStore:
    """Objects by resource, and the latest changes, for watches.

    Its methods raise `Refused` for what the API server would refuse.
    """

    def __init__(self, kept_changes: int = 4096) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._objects: dict[str, dict[ObjectKey, KubeObject]] = {}
        self._changes: deque[StoreChange] = deque()
        self._kept_changes = kept_changes
        self._version = 1
        self._oldest = 1
        """The oldest resourceVersion after which all changes are still kept."""

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        with self._changed:
            return self._version

    def create(self, resource: ServedResource, namespace: str, obj: KubeObject) -> KubeObject:
        """Store a new object with what the server adds to it.  Raises AlreadyExists."""
        metadata = {
            **meta(obj),
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamp(clock.wall()),
        }
        if namespace:
            metadata["namespace"] = namespace
        if resource is DEPLOYMENTS:
            metadata["generation"] = 1
        created = typed(resource, {**obj, "metadata": metadata})
        with self._changed:
            if key(created) in self._all(resource):
                name = metadata["name"]
                raise refused_object(409, "AlreadyExists", resource, name, "{} already exists")
            return self._put(resource, None, created)

    def get(self, resource: ServedResource, namespace: str, name: str) -> KubeObject:
        """Return an object.  Raises NotFound."""
        with self._changed:
            obj = self._all(resource).get((namespace, name))
        if obj is None:
            raise refused_object(404, "NotFound", resource, name, "{} not found")
        return obj

    def list_all(self, resource: ServedResource) -> tuple[list[KubeObject], int]:
        """Return all objects, ordered by namespace and name, and the store's version."""
        with self._changed:
            ordered = sorted(self._all(resource).items())
            return [obj for _, obj in ordered], self._version

    def update(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        change: Callable[[KubeObject], KubeObject],
    ) -> KubeObject:
        """Replace an object by the result of ``change`` on a copy of it, atomically.

        If nothing changes, the resourceVersion stays.  Raises NotFound, and what ``change``
        raises.
        """
        with self._changed:
            previous = self.get(resource, namespace, name)
            current = change(copy.deepcopy(previous))
            return previous if current == previous else self._put(resource, previous, current)

    def delete(self, resource: ServedResource, namespace: str, name: str) -> KubeObject:
        """Remove an object and return its last state.  Raises NotFound."""
        with self._changed:
            previous = self.get(resource, namespace, name)
            del self._all(resource)[namespace, name]
            self._version += 1
            self._record(StoreChange(self._version, resource.qualified, previous, None))
            return previous

    def changes_after(self, version: int, timeout: float) -> list[StoreChange]:
        """Return the changes after a version; wait up to ``timeout`` seconds for the first.

        Raises Expired when not all of them are kept any more.
        """
        with self._changed:
            if version < self._oldest:
                message = f"too old resource version: {version} ({self._oldest})"
                raise Refused(410, "Expired", message)
            if version >= self._version:
                self._changed.wait(timeout)
            return [change for change in self._changes if change.version > version]

    def wait_beyond(self, version: int, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a write after a version, or for `wake`."""
        with self._changed:
            if self._version == version:
                self._changed.wait(timeout)

    def wake(self) -> None:
        """Wake all threads that wait for changes, as at a shutdown."""
        with self._changed:
            self._changed.notify_all()

    def _all(self, resource: ServedResource) -> dict[ObjectKey, KubeObject]:
        return self._objects.setdefault(resource.qualified, {})

    def _put(
        self, resource: ServedResource, previous: KubeObject | None, obj: KubeObject
    ) -> KubeObject:
        self._version += 1
        stored = {**obj, "metadata": {**meta(obj), "resourceVersion": str(self._version)}}
        self._all(resource)[key(stored)] = stored
        self._record(StoreChange(self._version, resource.qualified, previous, stored))
        return stored

    def _record(self, change: StoreChange) -> None:
        self._changes.append(change)
        while len(self._changes) > self._kept_changes:
            self._oldest = self._changes.popleft().version
        self._changed.notify_all()
