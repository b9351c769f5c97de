"""HorizontalPodAutoscalers, made by hand or by KEDA: which objects they control, and their JSON."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

from autoscaler import clock
from autoscaler.config import to_core
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec as SpecModel
from autoscaler.core.observation import Hpa, HpaCondition, HpaStatus, UncheckedControl
from autoscaler.core.spec import SOURCES, HorizontalPodAutoscalerSpec, ScaleTargetRef
from autoscaler.core.status import SCALING_ACTIVE
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject, path_of
from autoscaler.kubernetes.discovery import checked_count
from autoscaler.kubernetes.failures import Failure, typed
from autoscaler.kubernetes.watch_requests import ALL, Cache, WatchRequests, WatchTimings, weight
from autoscaler.quantities import parse_milli
from autoscaler.transport import Observer

_HPAS = ("autoscaling/v2", "horizontalpodautoscalers")
"""All API servers since 1.23 serve them."""
_FORBIDDEN = 403
_LONGEST_NAME = 253
_MOST_STATUSES = 8
"""The most statuses kept from one sync to the next."""

Controlled = tuple[str, str, str, str]
"""Namespace, group, kind and name of an object; as for the HPA, the version does not matter."""

_Name = tuple[str, str]
"""Namespace and name of a HorizontalPodAutoscaler."""


class _HpaTarget(NamedTuple):
    """The object that a HorizontalPodAutoscaler controls, its name, and all of it if needed."""

    controlled: Controlled
    words: str
    hpa: Hpa | None = None


class AutoscalerCache(Cache):
    """Finds HorizontalPodAutoscalers by the objects they control; a refusal keeps the last list.

    For the ``wanted`` objects it also keeps spec and status.
    """

    def __init__(self, namespace: str, wanted: Callable[[Controlled], bool] | None = None) -> None:
        super().__init__(
            "HorizontalPodAutoscaler.autoscaling",
            namespace,
            "a target that one of them controls is refused there only if that was seen before",
            path_of(*_HPAS, namespace),
        )
        self.listed = False
        """Whether a list has been read."""
        self._wanted = wanted or (lambda _: False)
        self._listing: dict[_Name, _HpaTarget] = {}
        self._entries: dict[_Name, _HpaTarget] = {}
        self._words: dict[Controlled, dict[_Name, str]] = {}

    def controller(self, namespace: str, ref: ScaleTargetRef) -> str | None:
        """Return the name of the HPA that controls an object; None if unknown."""
        with self._lock:
            words = self._words.get((namespace, ref.group, ref.kind, ref.name))
            return None if words is None else min(words.values())

    def hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:
        """Return the HPA that controls a wanted object, with its statuses since a Unix time.

        These include the status in force at that time.  None without an HPA, or with several.
        """
        with self._lock:
            words = self._words.get((namespace, ref.group, ref.kind, ref.name)) or {}
            hpa = self._entries[next(iter(words))].hpa if len(words) == 1 else None
        if hpa is None or not hpa.statuses:
            return hpa
        *earlier, last = hpa.statuses
        kept = [status for status, next_ in pairwise(hpa.statuses) if next_.time > since]
        return hpa if len(kept) == len(earlier) else replace(hpa, statuses=(*kept, last))

    def begin(self) -> None:
        """Begin a list."""
        self._drop_listed()
        self._listing = {}

    def add(self, items: list[JsonObject]) -> None:
        """Add a page; an HPA without a target reference is malformed."""
        for name, entry in map(self._read, items):
            self._count(weight(self._listing.get(name)), weight(entry), listed=True)
            self._listing[name] = entry

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        with self._lock:
            self._use_listed()
            before, self._entries, self._words = self._entries, {}, {}
            for name, entry in self._listing.items():
                self._put(name, entry, before.get(name))
            self.listed = True
        self._listing = {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event."""
        if kind != "BOOKMARK":
            name, entry = self._read(obj)
            new = None if kind == "DELETED" else entry
            self._count(weight(self._entries.get(name)), weight(new))
            with self._lock:
                self._put(name, new)

    def clear(self) -> None:
        """Keep the last list, as after a restart (`History.controller`): not to write is safe."""

    def _read(self, obj: JsonObject) -> tuple[_Name, _HpaTarget]:
        name, entry = _read(obj)
        if self._wanted(entry.controlled):
            entry = entry._replace(hpa=hpa_of(obj, clock.wall()))
        return name, entry

    def _put(self, name: _Name, entry: _HpaTarget | None, before: _HpaTarget | None = None) -> None:
        old = self._entries.pop(name, None)
        if old is not None:
            words = self._words[old.controlled]
            del words[name]
            if not words:
                del self._words[old.controlled]
        if entry is not None:
            old = old or before
            if old is not None and old.controlled != entry.controlled:
                old = None  # Wanted for another object.
            if entry.hpa is not None and old is not None and old.hpa is not None:
                entry = entry._replace(hpa=_following(old.hpa, entry.hpa))
            self._entries[name] = entry
            self._words.setdefault(entry.controlled, {})[name] = entry.words


def _following(old: Hpa, new: Hpa) -> Hpa:
    """Return an HPA with its earlier statuses; an unchanged status keeps its time."""
    last, status = old.status, new.status
    if last is None or status is None:
        return new
    same = replace(status, time=last.time) == last
    spec = old.spec if old.spec == new.spec else new.spec
    statuses = old.statuses if same else (*old.statuses, status)[-_MOST_STATUSES:]
    return replace(new, spec=spec, statuses=statuses)


class ListedAutoscalers:
    """HorizontalPodAutoscalers, listed on first use; ``observer`` is informed of failures.

    ``forbidden`` has the API server's messages for lists that it does not permit. They are not
    reported to the observer: `rights.missing_rights` names the missing right once.
    """

    def __init__(self, api: Api, namespaces: Collection[str], observer: Observer) -> None:
        self._api = api
        self._namespaces = sorted(set(namespaces))
        self._observer = observer
        self.forbidden: list[str] = []

    def controller(self, namespace: str, ref: ScaleTargetRef) -> str | UncheckedControl | None:
        """Return who controls an object; None without one, Unchecked if HPAs cannot be listed."""
        listed = self._by_namespace[namespace]
        if isinstance(listed, Failure):
            return UncheckedControl(listed.message)
        return listed.controller(namespace, ref)

    def hpa(self, namespace: str, ref: ScaleTargetRef) -> Hpa | None:
        """Return the HPA that controls an object; None without one, with several, or if unknown."""
        listed = self._by_namespace[namespace]
        return None if isinstance(listed, Failure) else listed.hpa(namespace, ref, math.inf)

    @cached_property
    def _by_namespace(self) -> Mapping[str, AutoscalerCache | Failure]:
        if len(self._namespaces) > 1:
            listed = self._list(ALL)
            if not (isinstance(listed, Failure) and listed.status == _FORBIDDEN):
                return dict.fromkeys(self._namespaces, listed)
        by_namespace: dict[str, AutoscalerCache | Failure] = {}
        for namespace in self._namespaces:
            by_namespace[namespace] = listed = self._list(namespace)
            if isinstance(listed, Failure) and listed.status != _FORBIDDEN:
                return dict.fromkeys(self._namespaces, listed) | by_namespace
        return by_namespace

    def _list(self, scope: str) -> AutoscalerCache | Failure:
        cache = AutoscalerCache(scope, lambda _: True)
        listed = WatchRequests(self._api, cache, WatchTimings()).list_all(path_of(*_HPAS, scope))
        if not isinstance(listed, Failure):
            return cache
        unknown = "it is not known whether a HorizontalPodAutoscaler controls a target too"
        sentence = f"{unknown}: {listed.message}"
        if listed.status != _FORBIDDEN:
            self._observer.watch_changed(ok=False, sentence=sentence)
        elif scope != ALL:
            self.forbidden.append(sentence)
        return listed


def _read(obj: JsonObject) -> tuple[_Name, _HpaTarget]:
    metadata, target = obj["metadata"], obj["spec"]["scaleTargetRef"]
    namespace, name = metadata["namespace"], metadata["name"]
    group = target.get("apiVersion", "").rpartition("/")[0]
    controlled = (namespace, group, target["kind"], target["name"])
    if not all(
        isinstance(text, str) and len(text) <= _LONGEST_NAME for text in (*controlled, name)
    ):
        raise ValueError("a name is not a string, or too long")
    return (namespace, name), _HpaTarget(controlled, words_of(metadata))


def words_of(metadata: JsonObject) -> str:
    """Return the name of a HorizontalPodAutoscaler, with its ScaledObject if KEDA created it."""
    words = f'HorizontalPodAutoscaler "{printable(metadata["name"], _LONGEST_NAME)}"'
    keda = printable(scaled_object_of(metadata), _LONGEST_NAME)
    return f'{words} of {KEDA_KIND} "{keda}"' if keda else words


# -- autoscaling/v2 as JSON -> `Hpa`; invalid parts are left out -----------------------------------

# The API server has validated and defaulted them; another program may have written the status.

KEDA_KIND = "ScaledObject"
_KEDA_LABEL = "scaledobject.keda.sh/name"
_LONGEST_REASON = 100
_MOST_ENTRIES, _MOST_CONDITIONS = 100, 10
"""The most entries of each list and mapping that are read."""
_Read = TypeVar("_Read")


def hpa_of(obj: JsonObject, received: float = 0.0) -> Hpa:
    """Return an HPA, whose status was received at a Unix time."""
    metadata = obj["metadata"]
    spec = _or_none(lambda given: typed(_spec(given)), obj.get("spec"))
    metrics = obj["spec"].get("metrics")
    number = min(len(metrics), _MOST_ENTRIES) if isinstance(metrics, list) else 0
    status = _or_none(lambda given: typed(_status(given, number, received)), obj.get("status"))
    return Hpa(
        printable(metadata["name"], _LONGEST_NAME),
        printable(scaled_object_of(metadata), _LONGEST_NAME),
        spec,
        () if status is None else (status,),
        "" if status is not None else _or_none(_why_undecided, obj.get("status")) or "",
    )


def scaled_object_of(metadata: JsonObject) -> str:
    """Return the name of the ScaledObject for which KEDA created it; empty for none."""
    owners = metadata.get("ownerReferences") or ()
    labelled = (metadata.get("labels") or {}).get(_KEDA_LABEL, "")
    owned = (owner.get("name", "") for owner in owners if owner.get("kind") == KEDA_KIND)
    name: str = next(owned, labelled)
    return name


def _or_none(read: Callable[[Any], _Read], given: object) -> _Read | None:
    """Return the result of a read, or None for malformed data."""
    try:
        return read(given)
    except MALFORMED:
        return None


def _spec(given: Mapping[str, Any]) -> HorizontalPodAutoscalerSpec:
    """Read a spec like the spec of a target, with no more of its lists than are compared.

    A later version may have more keys.
    """
    return to_core(SpecModel.model_validate(_shortened(given), extra="ignore"))


def _shortened(part: object) -> object:
    if isinstance(part, Mapping):
        return {key: _shortened(inner) for key, inner in islice(part.items(), _MOST_ENTRIES)}
    return list(map(_shortened, part[:_MOST_ENTRIES])) if isinstance(part, list) else part


# -- the status ----------------------------------------------------------------------------------


def _why_undecided(given: Mapping[str, Any]) -> str:
    reasons = (
        printable(condition.get("reason") or "", _LONGEST_REASON)
        for condition in (given.get("conditions") or [])[:_MOST_CONDITIONS]
        if condition["type"] == SCALING_ACTIVE and condition["status"] != "True"
    )
    return next(reasons, "")


def _status(given: Mapping[str, Any], metrics: int, received: float) -> HpaStatus | None:
    """Return a status; None before the first decision, which is not a count of 0."""
    conditions = tuple(
        HpaCondition(
            printable(condition["type"], _LONGEST_REASON),
            condition["status"] == "True",
            printable(condition.get("reason") or "", _LONGEST_REASON),
        )
        for condition in (given.get("conditions") or [])[:_MOST_CONDITIONS]
    )
    current = checked_count(given.get("currentReplicas", 0))
    desired = checked_count(given["desiredReplicas"])
    inactive = any(
        condition.type == SCALING_ACTIVE and not condition.true for condition in conditions
    )
    if desired == 0 and (not conditions or (inactive and current > 0)):
        return None
    read = (given.get("currentMetrics") or [])[:metrics]
    values = [_or_none(_value, metric) for metric in read]
    return HpaStatus(
        received,
        current,
        desired,
        # They are in the order of the spec; the entry of a failed metric is empty.
        (*values, *(None,) * (metrics - len(values))),
        conditions,
    )


def _value(given: Mapping[str, Any]) -> int | None:
    current = given[SOURCES[given["type"]]]["current"]
    percent = current.get("averageUtilization")
    if percent is not None:
        return int(percent)
    value = current.get("averageValue", current.get("value"))
    return None if value is None else parse_milli(str(value))
