"""Which targets' selectors may match the same pods (semantics 1.3.1, AmbiguousSelector).

Two selectors that demand different values of one label share no pod.  Only for the pairs
that this does not rule out must the cluster be asked.
"""

import threading
from collections import defaultdict

from autoscaler.core.selectors import LabelSelector, parse

_Shape = tuple[str, ...]
_Values = tuple[str, ...]


class Overlaps:
    """The selectors of the targets as last read, and the pairs that may overlap."""

    def __init__(self) -> None:
        self._selectors: dict[str, tuple[str, str]] = {}
        self._namespaces: dict[str, _Namespace] = defaultdict(_Namespace)
        self._partners: dict[str, set[str]] = defaultdict(set)
        # Syncs of different targets run at the same time.
        self._lock = threading.RLock()

    def register(self, target: str, namespace: str, selector: str) -> None:
        """Take in a target's selector; one that cannot be read matches nothing."""
        if self._selectors.get(target) == (namespace, selector):
            return
        with self._lock:
            self.forget(target)
            try:
                parsed = parse(selector)
            except ValueError:
                return
            if not parsed.empty:
                self._add(target, namespace, selector, parsed)

    def _add(self, target: str, namespace: str, selector: str, parsed: LabelSelector) -> None:
        for partner in self._namespaces[namespace].add(target, parsed):
            self._partners[target].add(partner)
            self._partners[partner].add(target)
        self._selectors[target] = (namespace, selector)

    def forget(self, target: str) -> None:
        """Drop a target that is no longer there."""
        with self._lock:
            namespace, selector = self._selectors.pop(target, ("", ""))
            if selector:
                in_namespace = self._namespaces[namespace]
                in_namespace.remove(target, parse(selector))
                if in_namespace.empty:
                    del self._namespaces[namespace]
            for partner in self._partners.pop(target, set()):
                self._partners[partner].discard(target)

    def partners(self, target: str) -> dict[str, str]:
        """Return the other targets that may select the same pods, with their selectors."""
        if not self._partners.get(target):
            return {}
        with self._lock:
            return {
                partner: self._selectors[partner][1] for partner in sorted(self._partners[target])
            }


class _Namespace:
    """Selectors of one namespace, by the labels that they demand, so that few are compared."""

    def __init__(self) -> None:
        self._by_shape: dict[_Shape, dict[_Values, set[str]]] = {}

    def add(self, target: str, selector: LabelSelector) -> set[str]:
        """Add a selector and return the targets that it may overlap."""
        demanded = dict(sorted(selector.match_labels))
        found: set[str] = set()
        for shape, by_values in self._by_shape.items():
            if shape == tuple(demanded):
                found |= by_values.get(tuple(demanded.values()), set())
                continue
            for values, targets in by_values.items():
                others = zip(shape, values, strict=True)
                if all(demanded.get(key, value) == value for key, value in others):
                    found |= targets
        mine = self._by_shape.setdefault(tuple(demanded), {})
        mine.setdefault(tuple(demanded.values()), set()).add(target)
        return found

    def remove(self, target: str, selector: LabelSelector) -> None:
        demanded = dict(sorted(selector.match_labels))
        shape, values = tuple(demanded), tuple(demanded.values())
        targets = self._by_shape[shape][values]
        targets.discard(target)
        if not targets:
            del self._by_shape[shape][values]
        if not self._by_shape[shape]:
            del self._by_shape[shape]

    @property
    def empty(self) -> bool:
        return not self._by_shape
