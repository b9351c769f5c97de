"""A HorizontalPodAutoscaler that controls a target's object, as its API object shows it."""

from dataclasses import dataclass

from autoscaler.core.spec import HorizontalPodAutoscalerSpec


@dataclass(frozen=True, slots=True)
class HpaCondition:
    """A condition of the status: whether it is True, and its reason."""

    type: str
    true: bool
    reason: str


@dataclass(frozen=True, slots=True)
class HpaStatus:
    """`HorizontalPodAutoscalerStatus`, received at ``time`` (Unix seconds).

    The controller writes it where it changes.  ``values`` are of `currentMetrics` in the order of
    the spec, each as its target is: percent of the request, else milli-units.  One that the
    controller could not read is None.
    """

    time: float
    current_replicas: int
    desired_replicas: int
    values: tuple[int | None, ...] = ()
    conditions: tuple[HpaCondition, ...] = ()

    def reason(self, type_: str) -> str:
        """Return the reason of a condition; empty where there is none of that type."""
        return next((one.reason for one in self.conditions if one.type == type_), "")


@dataclass(frozen=True, slots=True)
class Hpa:
    """A HorizontalPodAutoscaler: its last ``statuses``, the one in force last.

    ``spec`` is None where it holds what cannot be read here; ``scaled_object`` is the name of the
    ScaledObject for which KEDA made it, empty if it did not.
    """

    name: str
    scaled_object: str = ""
    spec: HorizontalPodAutoscalerSpec | None = None
    statuses: tuple[HpaStatus, ...] = ()
    undecided: str = ""
    """Why it has decided nothing yet, if it says so: `FailedGetExternalMetric`."""

    @property
    def status(self) -> HpaStatus | None:
        """The status in force; None where it has decided nothing yet."""
        return self.statuses[-1] if self.statuses else None


def undecided_text(hpa: Hpa, name: str = "the HPA") -> str:
    """Say that an HPA, by its name in words, has decided nothing yet, and why."""
    why = f": {hpa.undecided}" if hpa.undecided else ""
    return f"{name} has decided nothing yet{why}"
