"""Reads the pods of one sync, and finds out which targets select the same ones."""

from collections.abc import Mapping

from autoscaler.core.observation import Pod, Unavailable
from autoscaler.sync.ports import Ports

Pods = tuple[Pod, ...] | Unavailable | None
"""None: the pods were not read, because the decision does not need them."""


class PodReads:
    """Reads pods before an instant of `clock.monotonic`; many threads may do so at once."""

    def __init__(self, ports: Ports, deadline: float) -> None:
        self._ports = ports
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
