"""A plan: one sync of its own that reads everything and writes nothing."""

from autoscaler.core.observation import Scale
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
