"""PromqlAutoscaler objects as watches show them: their specs, which nothing has checked yet."""

import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

from autoscaler import clock
from autoscaler.config.objects import API_VERSION, GROUP, MOST_BYTES, PLURAL
from autoscaler.config.settings import NamespaceSelection, ObjectsSettings
from autoscaler.config.spec_model import LabelSelector
from autoscaler.kubernetes.api import Api, JsonObject, path_of
from autoscaler.kubernetes.reflector import OperatorNotes, Reflector, WatchState
from autoscaler.kubernetes.watch_requests import ALL, Cache, ClusterBudget, WatchTimings, weight
from autoscaler.kubernetes.watch_scopes import Changed, WatchScopes
from autoscaler.transport import UNOBSERVED, Observer

_MOST_SCOPES = 20
"""Above this number of namespaces, one watch covers all of them."""
_BYTES_OF_OBJECT, _LEAST_OF_NAMESPACE = 4096, 1 << 20
"""The specs of one namespace are kept up to this number of bytes per object of its quota, or up to
the second number of bytes if that is more."""
_NOT_FOUND = 404
_CLOSE_SECONDS = 1.0
TIMINGS = WatchTimings(refused_pause=10.0)
"""A CustomResourceDefinition that is created later is noticed within seconds."""

ObjectName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectRecord:
    """One object; ``spec`` and ``status`` are JSON."""

    namespace: str
    name: str
    uid: str
    generation: int
    created: str
    """RFC 3339, whose order is the order of time."""
    spec: bytes | None
    """None if it is too large to be kept, or the specs of its namespace are."""
    size: int
    """The bytes of the spec."""
    status: bytes | None


class ObjectCache(Cache):
    """The objects of one namespace or of ALL; a refusal keeps the last ones.

    `version` changes with each object that is added, removed or has another spec.
    """

    def __init__(self, namespace: str, most_of_namespace: Callable[[], int]) -> None:
        """``most_of_namespace`` returns how many bytes of specs are kept of each namespace."""
        path = path_of(API_VERSION, PLURAL, namespace)
        super().__init__(f"{PLURAL}.{GROUP}", namespace, "", path)
        self.instead = "the last known ones stay in force; none are known before the first list"
        self._most = most_of_namespace
        self.listed = False
        """Whether a list has been read."""
        self.version = 0
        self._objects: dict[ObjectName, ObjectRecord] = {}
        self._listing: dict[ObjectName, ObjectRecord] = {}
        self._bytes_of: dict[str, int] = {}
        self._left_out: set[str] = set()
        """Namespaces with a spec that is not kept only because of the others."""

    def objects(self) -> dict[ObjectName, ObjectRecord]:
        """Return all objects."""
        with self._lock:
            return self._objects.copy()

    def needs_list(self) -> bool:
        """Return once whether specs that were left out have room now."""
        with self._lock:
            freed = {
                name
                for name in self._left_out
                if self._bytes_of.get(name, 0) + MOST_BYTES <= self._most()
            }
            self._left_out -= freed
        return bool(freed)

    def begin(self) -> None:
        """Begin a list."""
        self._drop_listed()
        self._listing = {}

    def add(self, items: list[JsonObject]) -> None:
        """Add a page."""
        for obj in items:
            record = _record(obj, self._objects)
            self._count(0, weight(record), listed=True)
            self._listing[record.namespace, record.name] = record

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        with self._lock:
            self._use_listed()
            self._objects, self._bytes_of, self._left_out = {}, {}, set()
            for name, record in self._listing.items():
                self._put(name, record)
            self.listed = True
            self.version += 1
        self._listing = {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event."""
        if kind == "BOOKMARK":
            return
        record = _record(obj, self._objects)
        name = record.namespace, record.name
        old = self._objects.get(name)
        self._count(weight(old), weight(None if kind == "DELETED" else record))
        with self._lock:
            if old is not None:
                del self._objects[name]
                self._bytes_of[record.namespace] -= len(old.spec or b"")
            if kind != "DELETED":
                self._put(name, record)
            if kind == "DELETED" or not is_same(old, self._objects[name]):
                self.version += 1

    def clear(self) -> None:
        """Keep the last objects: a server that refuses them has not deleted them."""

    def _put(self, name: ObjectName, record: ObjectRecord) -> None:
        kept = self._bytes_of.get(record.namespace, 0)
        if record.spec is not None and kept + len(record.spec) > self._most():
            self._left_out.add(record.namespace)
            record = replace(record, spec=None)
        self._bytes_of[record.namespace] = kept + len(record.spec or b"")
        self._objects[name] = record


def is_same(old: ObjectRecord | None, new: ObjectRecord) -> bool:
    """Return whether a record has the object and the spec of an older one."""
    return old is not None and (old.uid, old.spec, old.size) == (new.uid, new.spec, new.size)


def _record(obj: JsonObject, known: Mapping[ObjectName, ObjectRecord]) -> ObjectRecord:
    metadata, spec = obj["metadata"], obj.get("spec")
    namespace, name, uid = intern(metadata["namespace"]), metadata["name"], metadata["uid"]
    generation = int(metadata.get("generation") or 0)
    text = json.dumps(spec, separators=(",", ":")).encode()
    old, kept = known.get((namespace, name)), text if len(text) <= MOST_BYTES else None
    if old is not None and old.spec == kept:
        kept = old.spec
    status = obj.get("status")
    return ObjectRecord(
        namespace,
        name,
        uid,
        generation,
        str(metadata.get("creationTimestamp") or ""),
        kept,
        len(text),
        json.dumps(status, separators=(",", ":")).encode() if status else None,
    )


class NamespaceCache(Cache):
    """The names of the namespaces that a label selector selects."""

    def __init__(self, selector: LabelSelector) -> None:
        super().__init__("namespaces", ALL, "", path_of("v1", "namespaces"))
        self.instead = "the last known ones count"
        self.selector = {"labelSelector": _selector_text(selector)}
        self.listed = False
        self.names: frozenset[str] = frozenset()
        self._listing: set[str] = set()

    def begin(self) -> None:
        """Begin a list."""
        self._listing = set()

    def add(self, items: list[JsonObject]) -> None:
        """Add a page."""
        self._listing |= {obj["metadata"]["name"] for obj in items}

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        self.names, self.listed = frozenset(self._listing), True

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event; a namespace that is selected no longer is DELETED."""
        if kind != "BOOKMARK":
            name = {obj["metadata"]["name"]}
            self.names = self.names - name if kind == "DELETED" else self.names | name

    def clear(self) -> None:
        """Keep the last namespaces."""


def _selector_text(selector: LabelSelector) -> str:
    terms = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for each in selector.match_expressions:
        values = ",".join(each.values)
        terms.append(
            {
                "In": f"{each.key} in ({values})",
                "NotIn": f"{each.key} notin ({values})",
                "Exists": each.key,
                "DoesNotExist": f"!{each.key}",
            }[each.operator]
        )
    return ",".join(terms)


class ObjectWatch:
    """The objects of a cluster in the namespaces that count; thread-safe."""

    def __init__(
        self,
        api: Api,
        *,
        observer: Observer = UNOBSERVED,
        timings: WatchTimings = TIMINGS,
        budget: ClusterBudget | None = None,
    ) -> None:
        self._api, self._timings = api, timings
        self._notes = OperatorNotes(observer.watch_changed)
        self._budget = budget or ClusterBudget()
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._selection: NamespaceSelection | None = None
        self._most_objects = 0
        self._needed: Collection[str] = ()
        self._namespaces: Reflector[NamespaceCache] | None = None
        self._scopes = WatchScopes(self._watch, _MOST_SCOPES, self._notes, self._notify)
        self._ended: list[Reflector[Any]] = []

    def select(self, settings: ObjectsSettings) -> None:
        """Watch the objects of the namespaces that count, if any do."""
        selection, enabled = settings.namespaces or NamespaceSelection(), settings.enabled
        with self._lock:
            self._most_objects = settings.quotas.objects
            before = self._selection and self._selection.selector
            selector = selection.selector if enabled else None
            if self._namespaces is not None and selector != before:
                self._namespaces.end()
                self._ended.append(self._namespaces)
                self._namespaces = None
            if selector is not None and self._namespaces is None:
                self._namespaces = Reflector(
                    *(self._api, NamespaceCache(selector), self._timings, self._notes),
                    lambda _: self._notify(),
                )
                self._namespaces.start()
            self._selection = selection if enabled else None
            self._needed = (selection.names or (ALL,)) if enabled else ()
        self._scopes.need(self._needed)

    def records(self) -> tuple[dict[ObjectName, ObjectRecord], bool]:
        """Return the objects that count, and whether each namespace was listed once."""
        with self._lock:
            selection, needed, watch = self._selection, self._needed, self._namespaces
        found: dict[ObjectName, ObjectRecord] = {}
        complete = watch is None or watch.cache.listed
        for scope in needed:
            objects = self._scopes.find(scope)
            if objects is None or not objects.cache.listed:
                complete = False
            elif not _is_gone(objects):
                found |= objects.cache.objects()
        names = None if selection is None else selection.names
        wanted = watch.cache.names if watch is not None else frozenset(names or ())
        if names or watch is not None:
            found = {name: record for name, record in found.items() if name[0] in wanted}
        return found, complete

    def version(self) -> object:
        """Return a value that differs when `records` may differ."""
        with self._lock:
            cache = None if self._namespaces is None else self._namespaces.cache
            names = None if cache is None else (cache.listed, cache.names)
        watches = self._scopes.watches()
        for watch in watches:
            if watch.cache.needs_list():
                watch.relist()
        return names, [(id(each), each.cache.version, _is_gone(each)) for each in watches]

    def wait_settled(self, deadline: float) -> bool:
        """Wait until each namespace is listed or refused; False if the deadline comes first."""
        with self._changed:
            left = max(0.0, deadline - clock.monotonic())
            return self._changed.wait_for(self._is_settled, timeout=left)

    def _is_settled(self) -> bool:
        watch = self._namespaces
        return self._scopes.settled and (watch is None or watch.state is not WatchState.STARTING)

    def _watch(self, namespace: str, changed: Changed[ObjectCache]) -> Reflector[ObjectCache]:
        cache = ObjectCache(
            namespace, lambda: max(_LEAST_OF_NAMESPACE, self._most_objects * _BYTES_OF_OBJECT)
        )
        cache.budget = self._budget
        return Reflector(self._api, cache, self._timings, self._notes, changed)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the watches, within about a second."""
        self._scopes.end()
        watches = [*self._ended, *([self._namespaces] if self._namespaces else [])]
        for watch in watches:
            watch.end()
        deadline = clock.monotonic() + _CLOSE_SECONDS
        self._scopes.join(deadline)
        for watch in watches:
            watch.join(deadline - clock.monotonic())


def _is_gone(watch: Reflector[ObjectCache]) -> bool:
    """Return whether the server does not know the kind any more, so that no object exists."""
    return watch.state is WatchState.REFUSED and watch.refusal_status == _NOT_FOUND
