"""Detects targets whose selectors match the same pods (semantics 1.3.1, AmbiguousSelector).

Selectors that require different values of one label by matchLabels share no pod; the pods of other
pairs, the candidates, are compared.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from autoscaler.core.observation import Pod, Unavailable
from autoscaler.core.selectors import parse
from autoscaler.core.spec import LabelSelector
from autoscaler.sync.ports import Cluster

_Labels = tuple[str, ...]
Pods = tuple[Pod, ...] | Unavailable | None
"""None: the pods were not read, because the decision does not need them."""


Place = tuple[str, str]
"""A cluster and a namespace of it (`Target.place`)."""


class _Selector(NamedTuple):
    place: Place
    text: str
    parsed: LabelSelector


class Overlaps:
    """The selectors of the targets as last read, and the pairs that may match the same pods."""

    def __init__(self) -> None:
        self._registered: set[str] = set()
        self._selectors: dict[str, _Selector] = {}
        self._namespaces: dict[Place, _Namespace] = defaultdict(_Namespace)
        self._candidates: dict[str, set[str]] = defaultdict(set)
        # Syncs of different targets run at the same time.
        self._lock = threading.RLock()

    def __contains__(self, target: str) -> bool:
        """Return whether a target is registered, be it with a selector that cannot be parsed."""
        return target in self._registered

    def register(self, target: str, place: Place, selector: str) -> None:
        """Register a target's selector; an empty or malformed one has no candidates."""
        before = self._selectors.get(target)
        if before is not None and (before.place, before.text) == (place, selector):
            return
        with self._lock:
            self.forget(target)
            self._registered.add(target)
            try:
                parsed = parse(selector)
            except ValueError:
                return
            if parsed.empty:
                return
            for other in self._namespaces[place].add(target, parsed):
                self._candidates[target].add(other)
                self._candidates[other].add(target)
            self._selectors[target] = _Selector(place, selector, parsed)

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all other targets."""
        for gone in self._registered - targets:
            self.forget(gone)

    def forget(self, target: str) -> None:
        """Forget a target and its selector."""
        with self._lock:
            self._registered.discard(target)
            selector = self._selectors.pop(target, None)
            if selector is not None:
                in_namespace = self._namespaces[selector.place]
                in_namespace.remove(target, selector.parsed)
                if in_namespace.empty:
                    del self._namespaces[selector.place]
            for other in self._candidates.pop(target, set()):
                self._candidates[other].discard(target)

    def candidates(self, target: str) -> dict[str, str]:
        """Return the other targets that may select the same pods, with their selectors."""
        if not self._candidates.get(target):
            return {}
        with self._lock:
            return {
                other: self._selectors[other].text for other in sorted(self._candidates[target])
            }


class _Namespace:
    """Selectors of one namespace by their matchLabels, so that few are compared."""

    def __init__(self) -> None:
        self._by_label_keys: dict[_Labels, dict[_Labels, set[str]]] = {}

    def add(self, target: str, selector: LabelSelector) -> set[str]:
        """Add a selector, and return the targets whose selectors may match the same pods."""
        required = dict(sorted(selector.match_labels))
        overlapping: set[str] = set()
        for keys, by_values in self._by_label_keys.items():
            if keys == tuple(required):
                overlapping |= by_values.get(tuple(required.values()), set())
                continue
            for values, targets in by_values.items():
                others = zip(keys, values, strict=True)
                if all(required.get(key, value) == value for key, value in others):
                    overlapping |= targets
        mine = self._by_label_keys.setdefault(tuple(required), {})
        mine.setdefault(tuple(required.values()), set()).add(target)
        return overlapping

    def remove(self, target: str, selector: LabelSelector) -> None:
        required = dict(sorted(selector.match_labels))
        keys, values = tuple(required), tuple(required.values())
        by_values = self._by_label_keys[keys]
        by_values[values].discard(target)
        if not by_values[values]:
            del by_values[values]
        if not by_values:
            del self._by_label_keys[keys]

    @property
    def empty(self) -> bool:
        return not self._by_label_keys


class PodReads:
    """Reads pods before an instant of `clock.monotonic`; many threads may do so at once."""

    def __init__(self, cluster: Cluster, deadline: float) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self._names_of: dict[tuple[str, str], frozenset[str]] = {}

    def read(
        self, namespace: str, selector: str, candidates: Mapping[str, str]
    ) -> tuple[Pods, tuple[str, ...]]:
        """Return the pods of a target's selector, and the candidates that select one of them."""
        pods = self._pods(namespace, selector)
        if isinstance(pods, Unavailable):
            return pods, ()
        names = {pod.name for pod in pods}
        shared: list[str] = []
        for candidate, its_selector in candidates.items():
            others = self._names(namespace, its_selector)
            if isinstance(others, Unavailable):
                return others, ()
            if not names.isdisjoint(others):
                shared.append(candidate)
        return pods, tuple(shared)

    def _names(self, namespace: str, selector: str) -> frozenset[str] | Unavailable:
        """Return the names of a selector's pods; many targets may be compared with them."""
        names = self._names_of.get((namespace, selector))
        if names is None:
            pods = self._pods(namespace, selector)
            if isinstance(pods, Unavailable):
                return pods
            names = frozenset(pod.name for pod in pods)
            self._names_of[namespace, selector] = names
        return names

    def _pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable:
        cached = self._cluster.cached_pods(namespace, selector)
        if cached is not None:
            return cached
        return self._cluster.list_pods(namespace, selector, self._deadline)
