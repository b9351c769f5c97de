"""The objects of the cluster, with one resourceVersion for all of them, as etcd has."""

import copy
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from autoscaler import clock

KubeObject = dict[str, Any]
"""A JSON object; `Any` because its shape is its kind's, and a client may send any."""

ObjectKey = tuple[str, str]
"""Namespace (empty for a cluster-wide object) and name."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource of a group and version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def group_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name in error messages, and under which its objects are stored."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


DEPLOYMENTS = ServedResource("apps", "v1", "deployments", "Deployment")
PODS = ServedResource("", "v1", "pods", "Pod")
EVENTS = ServedResource("", "v1", "events", "Event")
LEASES = ServedResource("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACES = ServedResource("", "v1", "namespaces", "Namespace", namespaced=False)
AUTOSCALERS = ServedResource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
"""Empty; the autoscaler looks for them."""
RESOURCES = (DEPLOYMENTS, PODS, EVENTS, LEASES, NAMESPACES, AUTOSCALERS)


def timestamp(wall: float) -> str:
    """Write Unix seconds as `metav1.Time` does, to the second."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(obj: Mapping[str, Any]) -> KubeObject:
    """Return the metadata, empty if missing."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def labels(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels."""
    return meta(obj).get("labels") or {}


def key(obj: Mapping[str, Any]) -> ObjectKey:
    """Return namespace and name."""
    return meta(obj).get("namespace", ""), meta(obj).get("name", "")


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod's Ready condition is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def typed(resource: ServedResource, obj: KubeObject) -> KubeObject:
    """Return the object with its kind and apiVersion."""
    return {**obj, "kind": resource.kind, "apiVersion": resource.group_version}


def deployment(name: str, replicas: int) -> KubeObject:
    """Return a Deployment of pause pods, labelled `app: <name>`."""
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }


# -- refusals ------------------------------------------------------------------------------------


class StatusError(Exception):
    """A request that fails, with the `metav1.Status` to send, in the API server's own words."""

    def __init__(
        self, code: int, reason: str, message: str, details: KubeObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: KubeObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if details is not None:
            self.status["details"] = details


class UnknownPathError(Exception):
    """Nothing is served below this path; the answer is text, not a Status."""


def refused_object(
    code: int, reason: str, resource: ServedResource, name: str, message: str
) -> StatusError:
    """Return the refusal of a request for one object, whose name replaces {} in the message."""
    parts = {"name": name, "group": resource.group, "kind": resource.plural}
    details = {field: value for field, value in parts.items() if value}
    return StatusError(code, reason, message.format(f'{resource.qualified} "{name}"'), details)


def bad_request(message: str) -> StatusError:
    """Return the refusal of a request that cannot be understood."""
    return StatusError(400, "BadRequest", message)


@contextmanager
def if_there() -> Iterator[None]:
    """Suppress 404: a client has deleted the object meanwhile."""
    try:
        yield
    except StatusError as refused:
        if refused.code != 404:
            raise


# -- the store -------------------------------------------------------------------------------------


class StoreChange(NamedTuple):
    """One change: ``current`` is None for a deletion, ``previous`` for a creation."""

    version: int
    resource: str
    previous: KubeObject | None
    current: KubeObject | None


class ObjectStore:
    """Objects by resource, and the latest changes, for watches.

    Its methods raise `StatusError` for what the API server would refuse.
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
                raise StatusError(410, "Expired", message)
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
