"""What a sync needs of the outside world.  Adapters fit these by shape.

A deadline is an instant of `autoscaler.clock.monotonic`; no call returns later than that, all
of its tries included.  Failures are values: none of these methods raises for what the network
or a server does.
"""

from dataclasses import dataclass
from typing import Protocol

from autoscaler.core.observation import Pod, Scale, Unavailable
from autoscaler.core.series import Answer, QueryFailure
from autoscaler.core.spec import ScaleTargetRef


@dataclass(frozen=True, slots=True)
class Written:
    """The API server said yes; ``scale`` is its answer."""

    scale: Scale


@dataclass(frozen=True, slots=True)
class Superseded:
    """Somebody else changed the count between our read and our write; theirs stands."""

    scale: Scale


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """Nothing was written, or it is not known whether; the message is for the operator."""

    message: str


WriteOutcome = Written | Superseded | WriteFailed


class MetricsReader(Protocol):
    """Answers PromQL."""

    def query(self, promql: str, deadline: float) -> Answer | QueryFailure:
        """Evaluate an instant query now."""
        ...


class ScaleClient(Protocol):
    """Reads and writes the scale subresource of any kind that has one."""

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale."""
        ...

    def write(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas of the scale that was read, if nobody else did in the meantime.

        ``scale`` is the scale as it was read; its resourceVersion guards the write.
        """
        ...


class PodLister(Protocol):
    """Lists pods."""

    def pods(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[Pod, ...] | Unavailable:
        """List the pods of a namespace that match a selector in string form."""
        ...
