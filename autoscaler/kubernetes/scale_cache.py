"""A cache of the scales of one kind, read from the objects themselves."""

from collections.abc import Callable
from dataclasses import replace
from sys import intern

from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import FIELD_MANAGER
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject
from autoscaler.kubernetes.discovery import ScalableKinds, ScalableResource, ScaleOf, read_paths
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.watch_requests import Cache, weight

Key = tuple[str, str]
"""Namespace and name."""


class ScaleCache(Cache):
    """The scales of the objects of one kind, in one namespace or in ALL.

    It keeps only objects that ``wanted`` returned when the list began. A scale of None must be read
    directly: its object is malformed, or older than our own last write.
    """

    def __init__(
        self,
        api: Api,
        kinds: ScalableKinds,
        ref: ScaleTargetRef,
        namespace: str,
        wanted: Callable[[], frozenset[Key]],
    ) -> None:
        kind = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
        super().__init__(kind, namespace, "their scales are read one by one")
        self._api = api
        self._kinds = kinds
        self._ref = ref
        self._wanted = wanted
        self._rediscover = False
        self._resource: ScalableResource | None = None
        self._scale_of: ScaleOf | None = None
        self._covered: frozenset[Key] = frozenset()
        self._scales: dict[Key, Scale | None] = {}
        self._version = ""
        """The resourceVersion of the last event that was applied."""
        self._ahead: dict[Key, Scale] = {}
        """Results of our own writes that are newer than the last event."""
        self._listing: dict[Key, Scale | None] | None = None
        self._listing_covers: frozenset[Key] = frozenset()
        self._written_meanwhile: dict[Key, Scale] = {}

    # -- for readers -----------------------------------------------------------------------

    def cached(self, namespace: str, name: str) -> Scale | ReadFailure | None:
        """Return a scale; None if it must be read directly."""
        key = (namespace, name)
        with self._lock:
            if key not in self._covered:
                return None
            if key in self._scales:
                return self._scales[key]
            resource = self._resource
        if resource is None:
            return None
        return ReadFailure(f'{resource.qualified} "{name}" not found in namespace "{namespace}"')

    def put(self, namespace: str, name: str, scale: Scale) -> None:
        """Add a scale that the server returned for our own write.

        Versions of one resource are compared as integers, as KEP-5504 permits; if one is not a
        number, the scale must be read directly until an event has that exact version.
        """
        key = (namespace, name)
        with self._lock:
            if self._listing is not None:
                self._written_meanwhile[key] = scale
            if key in self._covered:
                self._put(key, scale)

    def _put(self, key: Key, scale: Scale) -> None:
        version, old = scale.resource_version, self._scales.get(key)
        if old is not None and old.resource_version == version:
            return
        newer = is_newer(version, self._version)
        if newer is False:
            return  # An event has already shown this write, or a later change.
        ahead = self._ahead.get(key)
        if ahead is not None and is_newer(version, ahead.resource_version) is False:
            return
        if old is not None:
            # The answer to a write contains neither.
            scale = replace(scale, annotations=old.annotations)
            if old.generation:
                scale = replace(scale, generation=old.generation + 1, replicas_by=FIELD_MANAGER)
        self._ahead[key] = scale
        self._scales[key] = scale if newer and old is not None else None

    # -- for the watch ---------------------------------------------------------------------

    def path(self, deadline: float) -> str | Failure:
        """Return the path, once the resource and the way to read its scale are known."""
        resource = self._kinds.find(self._ref, deadline, again=self._rediscover)
        if isinstance(resource, Failure):
            return resource
        scale_of = resource.built_in
        if scale_of is None:
            paths = read_paths(self._api, resource, deadline)
            if isinstance(paths, Failure):
                return paths
            scale_of = paths.read
        self._resource, self._scale_of = resource, scale_of
        return resource.path(self.namespace)

    def begin(self) -> None:
        """Begin a list."""
        with self._lock:
            self._drop_listed()
            self._listing = {}
            self._listing_covers = self._wanted()
            self._written_meanwhile = {}

    def add(self, items: list[JsonObject]) -> None:
        """Add a page.  Raises one of MALFORMED for objects without a name."""
        if self._listing is None:
            return
        for obj in items:
            key = _key(obj)
            if key in self._listing_covers:
                scale = self._read(obj, key)
                self._count(weight(self._listing.get(key)), weight(scale), listed=True)
                self._listing[key] = scale

    def commit(self, version: str) -> None:
        """Use the list from now on; writes that were answered since it began may be newer."""
        with self._lock:
            self._use_listed()
            self._scales = self._listing or {}
            self._covered = self._listing_covers
            self._listing = None
            self._version = version
            self._ahead = {}
            for key, scale in self._written_meanwhile.items():
                if key in self._covered:
                    self._put(key, scale)
            self._written_meanwhile = {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:
        """Apply an event.  Raises one of MALFORMED for an object without a name."""
        if kind == "BOOKMARK":
            with self._lock:
                self._version = version
            return
        key = _key(obj)
        covered = key in self._covered
        scale = self._read(obj, key) if covered and kind != "DELETED" else None
        with self._lock:
            self._version = version
            ahead = self._ahead.get(key)
            if not covered:
                return
            own = version if ahead is None else ahead.resource_version
            if own != version and not is_newer(version, own):
                return  # A version that cannot be compared with our own write may be older.
            self._ahead.pop(key, None)
            self._count(weight(self._scales.get(key)), weight(scale))
            if kind == "DELETED":
                self._scales.pop(key, None)
            else:
                self._scales[key] = scale

    def clear(self) -> None:
        """Forget all; the resource is discovered again next time."""
        with self._lock:
            self._drop_listed()
            self._use_listed()
            self._covered = frozenset()
            self._scales, self._ahead = {}, {}
            self._listing = None
            self._rediscover = True

    def _read(self, obj: JsonObject, key: Key) -> Scale | None:
        if self._scale_of is None:
            return None
        try:
            return self._scale_of(obj, self._scales.get(key))
        except MALFORMED:
            return None  # The direct read reports what is wrong with it.


def is_newer(version: str, other: str) -> bool | None:
    """Compare two resourceVersions of one resource type; None if they are not numbers."""
    if not (version.isdecimal() and other.isdecimal()):
        return None
    return int(version) > int(other)


def _key(obj: JsonObject) -> Key:
    metadata = obj["metadata"]
    return intern(metadata["namespace"]), metadata["name"]
