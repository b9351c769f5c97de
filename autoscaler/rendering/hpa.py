"""The decision of the HPA of a target in shadow, as text and as an answer."""

from collections.abc import Iterator

from autoscaler.config.written import parts_of, without_nothing
from autoscaler.core.decision import Calculation, Decision, MetricResult
from autoscaler.core.observation import LONGEST_SENTENCE, Hpa, HpaStatus
from autoscaler.core.spec import SOURCES, name_of
from autoscaler.core.status import ABLE_TO_SCALE, SCALING_ACTIVE
from autoscaler.core.text import printable
from autoscaler.quantities import format_milli
from autoscaler.rendering import answers

_LONGEST_NAME = 100


def hpa_answer(hpa: Hpa) -> answers.HpaState:
    """Return an HPA as an answer."""
    status = hpa.status
    if status is None:
        return answers.HpaState(name=hpa.name, scaled_object=hpa.scaled_object)
    return answers.HpaState(
        name=hpa.name,
        scaled_object=hpa.scaled_object,
        current_replicas=status.current_replicas,
        desired_replicas=status.desired_replicas,
        metrics=tuple(_metrics(hpa)),
        inactive=inactive_text(status),
    )


def hpa_text(hpa: Hpa) -> str:
    """Return the text of an HPA's decision.

    For example `HorizontalPodAutoscaler "web" wants 4 replicas, and found 3; cpu 93% of 70%`.
    """
    of = f' of ScaledObject "{hpa.scaled_object}"' if hpa.scaled_object else ""
    name, status = f'HorizontalPodAutoscaler "{hpa.name}"{of}', hpa.status
    if status is None:
        return undecided_text(hpa, name)
    counts = f"wants {status.desired_replicas} replicas, and found {status.current_replicas}"
    parts = (f"{name} {counts}", ", ".join(_metrics(hpa)), inactive_text(status))
    return printable("; ".join(filter(None, parts)), LONGEST_SENTENCE)


def _metrics(hpa: Hpa) -> Iterator[str]:
    """Yield each metric with its value and target; a failed one has no value."""
    spec, status = hpa.spec, hpa.status
    if spec is None or status is None:
        return
    for metric, value in zip(spec.metrics, status.values, strict=False):
        target, name = metric.target, printable(name_of(metric), _LONGEST_NAME)
        percent = target.average_utilization
        goal = format_milli(target.average_value or target.value or 0)
        goal = goal if percent is None else f"{percent}%"
        if value is None:
            yield f"{name} without a value, target {goal}"
        else:
            read = format_milli(value) if percent is None else f"{value}%"
            yield f"{name} {read} of {goal}"


def inactive_text(status: HpaStatus) -> str:
    """Return why an HPA does not scale by metrics; empty if it does."""
    for condition in status.conditions:
        if condition.type in {SCALING_ACTIVE, ABLE_TO_SCALE} and not condition.true:
            return f"{condition.type} is False: {condition.reason}"
    return ""


def undecided_text(hpa: Hpa, name: str = "the HPA") -> str:
    """Return the text for an HPA that has decided nothing yet, and why."""
    why = f": {hpa.undecided}" if hpa.undecided else ""
    return f"{name} has decided nothing yet{why}"


# -- what we would report as an HPA's status -----------------------------------------------------

Json = dict[str, object]


def current_metrics(decision: Decision) -> list[Json]:
    """Return `HorizontalPodAutoscalerStatus.currentMetrics`; a failed metric's entry is empty."""
    return [_metric_status(result) for result in decision.metrics]


def _metric_status(result: MetricResult) -> Json:
    if not isinstance(result.outcome, Calculation):
        return {"type": ""}
    metric, current = result.metric, result.outcome.current
    body: Json = without_nothing(parts_of(metric))
    del body["target"]
    binary = metric.of_resource and metric.name == "memory"
    value, average = (
        None if milli is None else format_milli(milli, binary=binary)
        for milli in (current.value, current.average_value)
    )
    known = {
        "value": value,
        "averageValue": average,
        "averageUtilization": current.average_utilization,
    }
    body["current"] = {key: value for key, value in known.items() if value is not None}
    return {"type": metric.type, SOURCES[metric.type]: body}
