"""A target's pods, and which other targets select one of them too."""

from autoscaler.core.observation import Pod, Unavailable
from autoscaler.sync.ports import Ports

Pods = tuple[Pod, ...] | Unavailable | None
"""None where no decision looks at them."""

PodView = tuple[Pods, tuple[str, ...]]
"""Pods, and the keys of the targets that share one of them."""


class PodViews:
    """Reads pods before an instant of `clock.monotonic`; many threads may do so at once."""

    def __init__(self, ports: Ports, deadline: float) -> None:
        self._ports = ports
        self._deadline = deadline
        self._known: dict[tuple[str, str], frozenset[str]] = {}

    def read(self, namespace: str, selector: str, partners: dict[str, str]) -> PodView:
        """Read the target's pods, and find the partners that select one of them too."""
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
        known = self._known.get((namespace, selector))
        if known is None:
            pods = self._pods(namespace, selector)
            if isinstance(pods, Unavailable):
                return pods
            known = frozenset(pod.name for pod in pods)
            self._known[namespace, selector] = known
        return known

    def _pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable:
        pods = self._ports.cache.cached_pods(namespace, selector)
        if pods is None:
            pods = self._ports.pods.pods(namespace, selector, self._deadline)
        return pods
