"""The pods that known selectors match, mirrored."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import TypedDict, cast
from urllib.parse import quote

from autoscaler.adapters.cluster.caches import EACH_NAMESPACE
from autoscaler.adapters.cluster.failures import MALFORMED, JsonObject
from autoscaler.adapters.cluster.pods import PodJson, PodReader
from autoscaler.adapters.cluster.selector_index import SelectorIndex
from autoscaler.adapters.cluster.watch_scopes import ALL
from autoscaler.core.observation import Pod

Selectors = Mapping[str, frozenset[str]]
"""Selectors in string form, by namespace."""

_Members = dict[str, Pod | None]
"""Pods by name; None is one that cannot be read."""


class _MetadataJson(TypedDict, total=False):
    namespace: str
    name: str
    labels: dict[str, str] | None


class _ObjectJson(TypedDict, total=False):
    metadata: _MetadataJson


@dataclass(slots=True)
class _Namespace:
    """The pods of one namespace, by the selectors that match them."""

    index: SelectorIndex
    members: dict[str, _Members]
    matched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By pod, the selectors that match it."""
    tuples: dict[str, tuple[Pod, ...] | None] = field(default_factory=dict)
    """What was answered for a selector since its pods last changed."""

    def put(self, name: str, matching: tuple[str, ...], pod: Pod | None) -> None:
        for selector in self.matched.get(name, ()):
            if selector not in matching:
                del self.members[selector][name]
                self.tuples.pop(selector, None)
        for selector in matching:
            members = self.members[selector]
            if pod is None or members.get(name) != pod:
                members[name] = pod
                self.tuples.pop(selector, None)
        if matching:
            self.matched[name] = matching
        else:
            self.matched.pop(name, None)

    def pods(self, selector: str) -> tuple[Pod, ...] | None:
        if selector not in self.tuples:
            members = self.members[selector]
            pods = [pod for _, pod in sorted(members.items()) if pod is not None]
            self.tuples[selector] = tuple(pods) if len(pods) == len(members) else None
        return self.tuples[selector]


class PodCache:
    """Fits `caches.Cache` for the pods of one namespace, or of ALL.

    Pods that none of the selectors match, as ``selectors`` gives them when a list begins, are
    dropped as they come in; of the others only the core's Pod is kept.  ``ready`` may wait, until
    a deadline, for the selectors to be known.
    """

    def __init__(
        self,
        namespace: str,
        selectors: Callable[[], Selectors],
        ready: Callable[[float], None],
        reader: PodReader,
    ) -> None:
        every = namespace == ALL
        self.name = "pods" if every else f'pods in namespace "{namespace}"'
        self.instead = EACH_NAMESPACE if every else "they are listed for one target after the other"
        self._namespace = namespace
        self._selectors = selectors
        self._ready = ready
        self._reader = reader
        self._lock = threading.Lock()
        self._namespaces: dict[str, _Namespace] = {}
        self._listing: dict[str, _Namespace] = {}

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | None:
        """Return the pods that match, by name; None where they must be listed directly."""
        with self._lock:
            found = self._namespaces.get(namespace)
            if found is None or selector not in found.members:
                return None
            return found.pods(selector)

    def expects(self, namespace: str, selector: str) -> bool:
        """Tell whether a list that goes on will bring the pods that match."""
        listing = self._listing.get(namespace)
        return listing is not None and selector in listing.members

    def path(self, deadline: float) -> str:
        """Return the path of the pods."""
        self._ready(deadline)
        if self._namespace == ALL:
            return "/api/v1/pods"
        return f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods"

    def begin(self) -> None:
        """Begin a list of the pods that are wanted now."""
        listing = {}
        for namespace, selectors in self._selectors().items():
            if self._namespace in {ALL, namespace}:
                index = SelectorIndex(selectors)
                members: dict[str, _Members] = {selector: {} for selector in index.selectors}
                listing[namespace] = _Namespace(index, members)
        self._listing = listing

    def add(self, items: list[JsonObject]) -> None:
        """Take in a page.  Raises one of MALFORMED for what has no name."""
        for obj in items:
            self._put(self._listing, obj, "ADDED")

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Put the list in force."""
        with self._lock:
            self._namespaces, self._listing = self._listing, {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Take in an event.  Raises one of MALFORMED for what has no name."""
        if kind != "BOOKMARK":
            self._put(self._namespaces, obj, kind)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._namespaces, self._listing = {}, {}

    def _put(self, into: dict[str, _Namespace], obj: JsonObject, kind: str) -> None:
        metadata = cast("_ObjectJson", obj)["metadata"]
        name = metadata["name"]
        namespace = into.get(metadata["namespace"])
        if namespace is None:
            return
        matching: tuple[str, ...] = ()
        pod: Pod | None = None
        if kind != "DELETED":
            matching = namespace.index.matching(metadata.get("labels") or {})
            pod = self._read(obj) if matching else None
        if matching or name in namespace.matched:
            with self._lock:
                namespace.put(intern(name), matching, pod)

    def _read(self, obj: JsonObject) -> Pod | None:
        try:
            return self._reader.read(cast("PodJson", obj))
        except MALFORMED:
            return None  # the direct list says what is the matter with it
