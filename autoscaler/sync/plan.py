"""A plan: one sync of its own that reads everything and writes nothing.

It is decided as if nobody else controlled a target; who does is told beside it.
"""

from autoscaler.core.history import History
from autoscaler.core.observation import Scale, Unchecked
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import NotWritten


class NoWrites:
    """A `ScaleWriter` that writes nothing, and says so."""

    def write(
        self,
        namespace: str,  # noqa: ARG002 - the shape of a ScaleWriter
        ref: ScaleTargetRef,  # noqa: ARG002
        scale: Scale,  # noqa: ARG002
        replicas: int,  # noqa: ARG002
        deadline: float,  # noqa: ARG002
    ) -> NotWritten:
        """Leave the scale as it is."""
        return NotWritten()


class NothingCached:
    """Fits `CacheReader`: everything is read, and no other autoscaler stands in the way."""

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> None:
        """Know nothing."""

    def cached_pods(self, namespace: str, selector: str) -> None:
        """Know nothing."""

    def cached_controller(self, namespace: str, ref: ScaleTargetRef) -> None:
        """Know of none."""


def controller_of(seen: str | Unchecked | None, history: History) -> str:
    """Return who else controls a target, in words, empty for nobody.

    Where it cannot be checked, who did when that was last known still does to the daemon.
    """
    if isinstance(seen, Unchecked):
        if not history.controller:
            return ""
        return f"{history.controller} (as last known; it cannot be checked now: {seen.message})"
    return seen or ""
