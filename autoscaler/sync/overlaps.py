"""Detects targets whose selectors match the same pods (semantics 1.3.1, AmbiguousSelector).

Selectors that require different values of one label by matchLabels have no common pod; of all other
pairs, the candidates, the pods are compared.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from autoscaler.core.observation import Pod, ReadFailure
from autoscaler.core.selectors import parse
from autoscaler.sync.ports import Cluster

Pods = tuple[Pod, ...] | ReadFailure | None
"""None: the pods were not read, because the decision does not need them."""

Place = tuple[str, str]
"""A cluster and a namespace of it (`Target.place`)."""

_Labels = tuple[tuple[str, ...], tuple[str, ...]]
"""The keys that a selector requires by matchLabels, sorted, and their values."""


class _Selector(NamedTuple):
    """The last selector of a target; an empty or malformed one selects nothing, has no labels."""

    place: Place
    text: str
    labels: _Labels | None


class Overlaps:
    """The last selectors of the targets, and the pairs that may match the same pods."""

    def __init__(self) -> None:
        self._selectors: dict[str, _Selector] = {}
        self._targets: dict[Place, dict[tuple[str, ...], dict[tuple[str, ...], set[str]]]] = {}
        """By place, label keys and their values, so that few selectors are compared."""
        self._candidates: dict[str, set[str]] = defaultdict(set)
        # Syncs of different targets run at the same time.
        self._lock = threading.RLock()

    def __contains__(self, target: str) -> bool:
        """Return whether a target is registered, even with a selector that cannot be parsed."""
        return target in self._selectors

    def register(self, target: str, place: Place, selector: str) -> None:
        """Register a target's selector."""
        before = self._selectors.get(target)
        if before is not None and (before.place, before.text) == (place, selector):
            return
        labels = _labels_of(selector)
        with self._lock:
            self.forget(target)
            self._selectors[target] = _Selector(place, selector, labels)
            if labels is None:
                return
            keys, values = labels
            by_keys = self._targets.setdefault(place, {})
            for other in _overlapping(by_keys, keys, values):
                self._candidates[target].add(other)
                self._candidates[other].add(target)
            by_keys.setdefault(keys, {}).setdefault(values, set()).add(target)

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all other targets."""
        for gone in self._selectors.keys() - targets:
            self.forget(gone)

    def forget(self, target: str) -> None:
        """Forget a target and its selector."""
        with self._lock:
            selector = self._selectors.pop(target, None)
            if selector is None or selector.labels is None:
                return
            keys, values = selector.labels
            by_keys = self._targets[selector.place]
            by_keys[keys][values].discard(target)
            # Remove entries that are empty.
            if not by_keys[keys][values]:
                del by_keys[keys][values]
            if not by_keys[keys]:
                del by_keys[keys]
            if not by_keys:
                del self._targets[selector.place]
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


def _labels_of(selector: str) -> _Labels | None:
    try:
        parsed = parse(selector)
    except ValueError:
        return None
    required = dict(sorted(parsed.match_labels))
    return None if parsed.empty else (tuple(required), tuple(required.values()))


def _overlapping(
    by_keys: Mapping[tuple[str, ...], Mapping[tuple[str, ...], AbstractSet[str]]],
    keys: tuple[str, ...],
    values: tuple[str, ...],
) -> Iterator[str]:
    """Yield the targets that require no different value of any label."""
    required = dict(zip(keys, values, strict=True))
    for other_keys, by_values in by_keys.items():
        if other_keys == keys:
            yield from by_values.get(values, ())
            continue
        for other_values, targets in by_values.items():
            others = zip(other_keys, other_values, strict=True)
            if all(required.get(key, value) == value for key, value in others):
                yield from targets


class PodReads:
    """Reads pods before an instant of `clock.monotonic`. Thread-safe."""

    def __init__(self, cluster: Cluster, deadline: float) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self._names_of: dict[tuple[str, str], frozenset[str]] = {}

    def read(
        self, namespace: str, selector: str, candidates: Mapping[str, str]
    ) -> tuple[Pods, tuple[str, ...]]:
        """Return the pods of a target's selector, and the candidates that select one of them."""
        pods = self._pods(namespace, selector)
        if isinstance(pods, ReadFailure):
            return pods, ()
        names = {pod.name for pod in pods}
        shared: list[str] = []
        for candidate, its_selector in candidates.items():
            others = self._names(namespace, its_selector)
            if isinstance(others, ReadFailure):
                return others, ()
            if not names.isdisjoint(others):
                shared.append(candidate)
        return pods, tuple(shared)

    def _names(self, namespace: str, selector: str) -> frozenset[str] | ReadFailure:
        """Return the names of a selector's pods; many targets may be compared with them."""
        names = self._names_of.get((namespace, selector))
        if names is None:
            pods = self._pods(namespace, selector)
            if isinstance(pods, ReadFailure):
                return pods
            names = frozenset(pod.name for pod in pods)
            self._names_of[namespace, selector] = names
        return names

    def _pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | ReadFailure:
        cached = self._cluster.cached_pods(namespace, selector)
        if cached is None:
            return self._cluster.list_pods(namespace, selector, self._deadline)
        return cached
