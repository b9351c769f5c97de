"""Targets that select the same pods (semantics 1.3.1, AmbiguousSelector).

Two selectors that demand different values of one label share no pod.  Only for the pairs that this
does not rule out are pods compared.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from autoscaler.core.observation import Pod, Unavailable
from autoscaler.core.selectors import LabelSelector, parse
from autoscaler.sync.ports import Ports

Pods = tuple[Pod, ...] | Unavailable | None
"""None where the decision needs none."""

_Shape = tuple[str, ...]
_Values = tuple[str, ...]


class Overlaps:
    """The selectors of the targets as last read, and the pairs that may overlap."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._selectors: dict[str, tuple[str, str]] = {}
        self._namespaces: dict[str, _Namespace] = defaultdict(_Namespace)
        self._partners: dict[str, set[str]] = defaultdict(set)
        # Syncs of different targets run at the same time.
        self._lock = threading.RLock()

    def __contains__(self, target: str) -> bool:
        return target in self._known

    def register(self, target: str, namespace: str, selector: str) -> None:
        """Remember a target's selector; one that cannot be parsed matches nothing."""
        if self._selectors.get(target) == (namespace, selector):
            return
        with self._lock:
            self.forget(target)
            self._known.add(target)
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

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all other targets."""
        for gone in self._known - targets:
            self.forget(gone)

    def forget(self, target: str) -> None:
        """Forget a target and its selector."""
        with self._lock:
            self._known.discard(target)
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


class PodReads:
    """Reads pods before an instant of `clock.monotonic`; many threads may do so at once."""

    def __init__(self, ports: Ports, deadline: float) -> None:
        self._ports = ports
        self._deadline = deadline
        self._names_of: dict[tuple[str, str], frozenset[str]] = {}

    def read(
        self, namespace: str, selector: str, partners: Mapping[str, str]
    ) -> tuple[Pods, tuple[str, ...]]:
        """Read a target's pods, and return the partners, too, that select one of them."""
        pods = self._pods(namespace, selector)
        if isinstance(pods, Unavailable):
            return pods, ()
        names = {pod.name for pod in pods}
        shared: list[str] = []
        for partner, other in partners.items():
            others = self._names(namespace, other)
            if isinstance(others, Unavailable):
                return others, ()
            if not names.isdisjoint(others):
                shared.append(partner)
        return pods, tuple(shared)

    def _names(self, namespace: str, selector: str) -> frozenset[str] | Unavailable:
        """Return the names of a selector's pods; many targets may be compared with them."""
        known = self._names_of.get((namespace, selector))
        if known is None:
            pods = self._pods(namespace, selector)
            if isinstance(pods, Unavailable):
                return pods
            known = frozenset(pod.name for pod in pods)
            self._names_of[namespace, selector] = known
        return known

    def _pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable:
        pods = self._ports.cache.cached_pods(namespace, selector)
        if pods is None:
            pods = self._ports.pods.pods(namespace, selector, self._deadline)
        return pods
