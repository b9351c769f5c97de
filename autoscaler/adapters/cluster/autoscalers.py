"""Which objects a HorizontalPodAutoscaler controls, made by hand or by KEDA, and its status."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from autoscaler.adapters.cluster.api import Api, JsonObject, path_of
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.watch_requests import ALL, Cache, WatchRequests, WatchTimings
from autoscaler.core.observation import Unchecked
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.text import printable
from autoscaler.transport import Observer

_FORBIDDEN = 403
KEDA_KIND = "ScaledObject"
_KEDA_LABEL = "scaledobject.keda.sh/name"
_LONGEST_NAME = 253
_LONGEST_METRIC_NAME = 100
_LONGEST_STATUS = 500
_MOST_METRICS = 10
_SOURCES = ("external", "pods", "object", "resource", "containerResource")
_NUMBERS = (("averageUtilization", "%"), ("averageValue", ""), ("value", ""))

_Controlled = tuple[str, str, str, str]
"""Namespace, group, kind and name of an object; as for the HPA, the version does not matter."""

_Name = tuple[str, str]
"""Namespace and name of a HorizontalPodAutoscaler."""

_Entry = tuple[_Controlled, str]
"""What a HorizontalPodAutoscaler controls, and its name for messages."""


class AutoscalerCache(Cache):
    """Finds HorizontalPodAutoscalers by what they control; the last list outlives a refusal."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            "HorizontalPodAutoscaler.autoscaling",
            namespace,
            "a target that one of them controls is refused there only if that was seen before",
        )
        self.listed = False
        """Whether there was a list."""
        self._listing: dict[_Name, _Entry] = {}
        self._entries: dict[_Name, _Entry] = {}
        self._words: dict[_Controlled, dict[_Name, str]] = {}

    def controller(self, namespace: str, ref: ScaleTargetRef) -> str | None:
        """Return the name of the one that controls an object; None if none is known."""
        with self._lock:
            words = self._words.get((namespace, ref.group, ref.kind, ref.name))
            return None if words is None else min(words.values())

    def path(self, deadline: float) -> str:  # noqa: ARG002 - every server has them there
        """Return the path; autoscaling/v2 is served by every version since 1.23."""
        return path_of("autoscaling/v2", "horizontalpodautoscalers", self.namespace)

    def begin(self) -> None:
        """Begin a list."""
        self._listing = {}

    def add(self, items: list[JsonObject]) -> None:
        """Add a page; what names no target is malformed."""
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
        """Apply an event."""
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


class _WithStatus(AutoscalerCache):
    """Keeps what each one has decided last, too."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self._statuses: dict[_Name, str] = {}

    def add(self, items: list[JsonObject]) -> None:
        """As the base."""
        super().add(items)
        self._statuses.update((_read(obj)[0], status_words(obj)) for obj in items)

    def status(self, namespace: str, ref: ScaleTargetRef) -> str:
        """Return in words what the one that controls an object has decided; empty for none."""
        with self._lock:
            words = self._words.get((namespace, ref.group, ref.kind, ref.name)) or {}
            name = min(words, key=lambda each: words[each], default=None)
            return "" if name is None else f"{words[name]} {self._statuses[name]}"


class ListedAutoscalers:
    """HorizontalPodAutoscalers, listed when first needed; ``observer`` is told if that fails."""

    def __init__(self, api: Api, namespaces: Collection[str], observer: Observer) -> None:
        self._api = api
        self._namespaces = sorted(set(namespaces))
        self._observer = observer

    def controller(self, namespace: str, ref: ScaleTargetRef) -> str | Unchecked | None:
        """Return who controls an object; None without one, Unchecked where none can be listed."""
        listed = self._by_namespace[namespace]
        if isinstance(listed, Failure):
            return Unchecked(listed.message)
        return listed.controller(namespace, ref)

    def status(self, namespace: str, ref: ScaleTargetRef) -> str:
        """Return in words what the one that controls an object has decided; empty if unknown."""
        listed = self._by_namespace[namespace]
        return "" if isinstance(listed, Failure) else listed.status(namespace, ref)

    @cached_property
    def _by_namespace(self) -> Mapping[str, _WithStatus | Failure]:
        if len(self._namespaces) > 1:
            listed = self._list(ALL)
            if not (isinstance(listed, Failure) and listed.status == _FORBIDDEN):
                return dict.fromkeys(self._namespaces, listed)
        by_namespace: dict[str, _WithStatus | Failure] = {}
        for namespace in self._namespaces:
            by_namespace[namespace] = listed = self._list(namespace)
            if isinstance(listed, Failure) and listed.status != _FORBIDDEN:
                return dict.fromkeys(self._namespaces, listed) | by_namespace
        return by_namespace

    def _list(self, scope: str) -> _WithStatus | Failure:
        cache = _WithStatus(scope)
        listed = WatchRequests(self._api, cache, WatchTimings()).list_all(cache.path(0.0))
        if not isinstance(listed, Failure):
            return cache
        if scope != ALL or listed.status != _FORBIDDEN:
            unknown = "it is not known whether a HorizontalPodAutoscaler controls a target too"
            self._observer.watch_changed(ok=False, sentence=f"{unknown}: {listed.message}")
        return listed


def _read(obj: JsonObject) -> tuple[_Name, _Entry]:
    metadata, target = obj["metadata"], obj["spec"]["scaleTargetRef"]
    namespace, name = metadata["namespace"], metadata["name"]
    group = target.get("apiVersion", "").rpartition("/")[0]
    controlled = (namespace, group, target["kind"], target["name"])
    return (namespace, name), (controlled, words_of(metadata))


def words_of(metadata: JsonObject) -> str:
    """Name a HorizontalPodAutoscaler, and the ScaledObject if KEDA made it."""
    words = f'HorizontalPodAutoscaler "{printable(metadata["name"], _LONGEST_NAME)}"'
    keda = printable(scaled_object_of(metadata), _LONGEST_NAME)
    return f'{words} of {KEDA_KIND} "{keda}"' if keda else words


def scaled_object_of(metadata: JsonObject) -> str:
    """Return the name of the ScaledObject for which KEDA made it; empty for none."""
    owners = metadata.get("ownerReferences") or ()
    labelled = (metadata.get("labels") or {}).get(_KEDA_LABEL, "")
    owned = (owner.get("name", "") for owner in owners if owner.get("kind") == KEDA_KIND)
    name: str = next(owned, labelled)
    return name


def status_words(autoscaler: JsonObject) -> str:
    """Return for example `wants 4 replicas, and found 3; cpu 93% of 70%, orders 41 of 30`."""
    status, spec = _part(autoscaler, "status"), _part(autoscaler, "spec")
    wants, current = status.get("desiredReplicas"), status.get("currentReplicas")
    if not isinstance(wants, int):
        return "has decided nothing yet"
    counts = f"wants {wants} replicas, and found {current if isinstance(current, int) else 0}"
    metrics = ", ".join(_metrics(status.get("currentMetrics"), spec.get("metrics")))
    return printable("; ".join(filter(None, (counts, metrics, _inactive(status)))), _LONGEST_STATUS)


def _part(of: Mapping[str, object], key: str) -> Mapping[str, object]:
    part = of.get(key)
    return part if isinstance(part, dict) else {}


def _entries(of: object) -> list[Mapping[str, object]]:
    return [entry for entry in of if isinstance(entry, dict)] if isinstance(of, list) else []


def _metrics(current: object, specified: object) -> Iterator[str]:
    """Yield each metric with what it is and what it should be; one that failed has no value."""
    values = _entries(current)
    for index, metric in enumerate(_entries(specified)[:_MOST_METRICS]):
        name, goal = _name(metric), _number(_source(metric), "target")
        # They have the order of the spec; the entry of one that failed is empty.
        read = values[index] if index < len(values) else {}
        value = _number(_source(read), "current") if _name(read) == name else ""
        yield f"{name} {value} of {goal}" if value else f"{name} without a value, target {goal}"


def _source(metric: Mapping[str, object]) -> Mapping[str, object]:
    """Return the source of a metric, which stands under the key of its type."""
    return next((_part(metric, key) for key in _SOURCES if key in metric), {})


def _name(metric: Mapping[str, object]) -> str:
    source = _source(metric)
    name = source.get("name") or _part(source, "metric").get("name") or "a metric"
    container = source.get("container")
    full = f"{name} of {container}" if container else str(name)
    return printable(full, _LONGEST_METRIC_NAME)


def _number(source: Mapping[str, object], key: str) -> str:
    numbers = _part(source, key)
    for name, unit in _NUMBERS:
        if numbers.get(name) is not None:
            return printable(f"{numbers[name]}{unit}", _LONGEST_METRIC_NAME)
    return ""


def _inactive(status: Mapping[str, object]) -> str:
    """Say why it is not scaling, if it is not."""
    for condition in _entries(status.get("conditions")):
        kind = condition.get("type")
        if kind in {"ScalingActive", "AbleToScale"} and condition.get("status") == "False":
            return f"{kind} is False: {condition.get('reason')}"
    return ""
