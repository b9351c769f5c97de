"""Short ways to decide at `BASE`."""

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History
from autoscaler.core.observation import Gap, GapKind, Observation, Reading, Scale
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from tests.core.builders import BASE, pods

ERROR = Gap(GapKind.ERROR, "connection refused")


def observe(replicas: int, *readings: Reading, selector: str = "app=web") -> Observation:
    """Observe a scale whose pods are all ready."""
    return Observation(Scale(replicas, replicas, selector), pods(replicas), readings)


def decided(
    of: HorizontalPodAutoscalerSpec, seen: Observation, history: History | None = None
) -> tuple[Decision, History]:
    return decide(of, Flags(), seen, history or History(), BASE)


def reasons(decision: Decision) -> dict[str, tuple[str, str]]:
    return {
        condition.type: (condition.status.value, condition.reason)
        for condition in decision.conditions
    }
