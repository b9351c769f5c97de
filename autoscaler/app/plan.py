"""A plan: one sync of its own that reads everything and writes nothing."""

from autoscaler.core.observation import Pod, Scale, Unavailable
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


class NothingAtHand:
    """Fits `AtHand` where everything is read once, when it is needed."""

    def scale_at_hand(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:  # noqa: ARG002
        """Know nothing."""
        return None

    def controller_at_hand(self, namespace: str, ref: ScaleTargetRef) -> str | None:  # noqa: ARG002
        """Know nothing."""
        return None

    def pods_at_hand(self, namespace: str, selector: str) -> tuple[Pod, ...] | Unavailable | None:  # noqa: ARG002
        """Know nothing."""
        return None
