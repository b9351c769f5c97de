"""Which objects a HorizontalPodAutoscaler controls, whether made by hand or by KEDA."""

import threading
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TypedDict, cast

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.objects import JsonObject, MetadataJson, path_of
from autoscaler.adapters.cluster.watch_requests import WatchRequests, WatchTimings
from autoscaler.adapters.cluster.watch_scopes import ALL, EACH_NAMESPACE
from autoscaler.core.observation import Unchecked
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.text import printable
from autoscaler.transport.observer import Observer

_FORBIDDEN = 403
_KEDA_KIND = "ScaledObject"
_KEDA_LABEL = "scaledobject.keda.sh/name"
_LONGEST_NAME = 253

_Controlled = tuple[str, str, str, str]
"""Namespace, group, kind and name of an object; as for the HPA, the version does not matter."""

_Name = tuple[str, str]
"""Namespace and name of a HorizontalPodAutoscaler."""

_Entry = tuple[_Controlled, str]
"""What a HorizontalPodAutoscaler controls, and its name for messages."""


class _TargetJson(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str


class _SpecJson(TypedDict):
    scaleTargetRef: _TargetJson


class _AutoscalerJson(TypedDict):
    metadata: MetadataJson
    spec: _SpecJson


class AutoscalerCache:
    """Fits `watch_requests.Cache` for the HorizontalPodAutoscalers of one namespace, or of ALL.

    It finds them by what they control.  When they may not be listed any more, the last list stays.
    """

    def __init__(self, namespace: str) -> None:
        name = "HorizontalPodAutoscaler.autoscaling"
        self.name = name if namespace == ALL else f'{name} in namespace "{namespace}"'
        self.instead = (
            EACH_NAMESPACE
            if namespace == ALL
            else "a target that one of them controls is refused there only if that was seen before"
        )
        self.listed = False
        """Whether there was a list."""
        self._namespace = namespace
        self._listing: dict[_Name, _Entry] = {}
        self._lock = threading.Lock()
        self._entries: dict[_Name, _Entry] = {}
        self._words: dict[_Controlled, dict[_Name, str]] = {}

    def controller(self, namespace: str, ref: ScaleTargetRef) -> str | None:
        """Return the name of the one that controls an object; None if none is known."""
        with self._lock:
            words = self._words.get((namespace, ref.group, ref.kind, ref.name))
            return None if words is None else min(words.values())

    def path(self, deadline: float) -> str:  # noqa: ARG002 - every server has them there
        """Return the path; autoscaling/v2 is served by every version since 1.23."""
        return path_of("autoscaling/v2", "horizontalpodautoscalers", self._namespace)

    def begin(self) -> None:
        """Begin a list."""
        self._listing = {}

    def add(self, items: list[JsonObject]) -> None:
        """Add a page.  Raises one of MALFORMED for what names no target."""
        self._listing.update(map(_read, items))

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        with self._lock:
            self._entries, self._words = {}, {}
            for name, entry in self._listing.items():
                self._put(name, entry)
            self.listed = True
        self._listing = {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event.  Raises one of MALFORMED for what names no target."""
        if kind != "BOOKMARK":
            name, entry = _read(obj)
            with self._lock:
                self._put(name, None if kind == "DELETED" else entry)

    def clear(self) -> None:
        """Keep what is known, as over a restart (`History.controller`): not to write is safe."""

    def _put(self, name: _Name, entry: _Entry | None) -> None:
        old = self._entries.pop(name, None)
        if old is not None:
            words = self._words[old[0]]
            del words[name]
            if not words:
                del self._words[old[0]]
        if entry is not None:
            self._entries[name] = entry
            self._words.setdefault(entry[0], {})[name] = entry[1]


class ListedAutoscalers:
    """The HorizontalPodAutoscalers of some namespaces, listed once, when they are first needed.

    All namespaces at once, or one by one where that is forbidden; the ``observer`` is called
    if neither works.
    """

    def __init__(self, api: Api, namespaces: Collection[str], observer: Observer) -> None:
        self._api = api
        self._namespaces = sorted(set(namespaces))
        self._observer = observer

    def controller(self, namespace: str, ref: ScaleTargetRef) -> str | Unchecked | None:
        """Return the name of the one that controls an object; None without one.

        Unchecked says that those of its namespace cannot be listed.
        """
        listed = self._by_namespace[namespace]
        if isinstance(listed, Failure):
            return Unchecked(listed.message)
        return listed.controller(namespace, ref)

    @cached_property
    def _by_namespace(self) -> Mapping[str, AutoscalerCache | Failure]:
        if len(self._namespaces) > 1:
            listed = self._list(ALL)
            if not (isinstance(listed, Failure) and listed.status == _FORBIDDEN):
                return dict.fromkeys(self._namespaces, listed)
        found: dict[str, AutoscalerCache | Failure] = {}
        for namespace in self._namespaces:
            found[namespace] = listed = self._list(namespace)
            if isinstance(listed, Failure) and listed.status != _FORBIDDEN:
                return dict.fromkeys(self._namespaces, listed) | found
        return found

    def _list(self, scope: str) -> AutoscalerCache | Failure:
        cache = AutoscalerCache(scope)
        listed = WatchRequests(self._api, cache, WatchTimings()).list_all(cache.path(0.0))
        if not isinstance(listed, Failure):
            return cache
        if scope != ALL or listed.status != _FORBIDDEN:
            self._observer.watch_changed(
                ok=False,
                sentence="it is not known whether a HorizontalPodAutoscaler controls a target too: "
                f"{listed.message}",
            )
        return listed


def _read(obj: JsonObject) -> tuple[_Name, _Entry]:
    autoscaler = cast("_AutoscalerJson", obj)
    metadata, target = autoscaler["metadata"], autoscaler["spec"]["scaleTargetRef"]
    namespace, name = metadata["namespace"], metadata["name"]
    group = target.get("apiVersion", "").rpartition("/")[0]
    words = f'HorizontalPodAutoscaler "{printable(name, _LONGEST_NAME)}"'
    keda = printable(_scaled_object(metadata), _LONGEST_NAME)
    if keda:
        words = f'{words} of {_KEDA_KIND} "{keda}"'
    return (namespace, name), ((namespace, group, target["kind"], target["name"]), words)


def _scaled_object(metadata: MetadataJson) -> str:
    """Return the name of the ScaledObject for which KEDA made it; empty for none."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == _KEDA_KIND:
            return owner.get("name", "")
    return (metadata.get("labels") or {}).get(_KEDA_LABEL, "")
