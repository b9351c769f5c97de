"""What one decision costs: `python -m benchmarks.core`.

Prints microseconds per decision, the least and the median of several repeats, and the ratio
to a fixed loop of pure-Python arithmetic that is timed between them: microseconds compare
runs on one machine, ratios compare machines.
"""

import argparse
import statistics
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoscaler.core.decide import decide
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions, Fallback, Idle, Schedule
from autoscaler.core.history import History
from autoscaler.core.observation import (
    ContainerRequests,
    Observation,
    OpenWindow,
    Pod,
    PodRequests,
    PodSamples,
    Reading,
    Sample,
    Scale,
    Values,
)
from autoscaler.core.spec import (
    Behavior,
    ConditionStatus,
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    PolicyType,
    ResourceMetric,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
)
from autoscaler.core.writes import settle

NOW = 1_767_225_600.0
SYNC_PERIOD = 15.0
KEYS = ("0123456789abcdef",)
"""A sync knows the keys of a target's metrics beforehand."""

SYNCS = 40
"""Syncs before the measurement: twice the stabilization window of five minutes."""

QUEUE = ExternalMetric(
    MetricIdentifier("queue"), MetricTarget(TargetType.AVERAGE_VALUE, average_value=30_000)
)
CPU = ResourceMetric("cpu", MetricTarget(TargetType.UTILIZATION, average_utilization=60))
FAST = ScalingPolicy(PolicyType.PERCENT, 100, 15)
BEHAVIOR = Behavior(
    ScalingRules(0, SelectPolicy.MAX, (ScalingPolicy(PolicyType.PODS, 4, 15), FAST)),
    ScalingRules(300, SelectPolicy.MAX, (FAST,)),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Microseconds per call: the least and the median of the repeats."""

    name: str
    least: float
    median: float


def baseline() -> int:
    """Run a fixed amount of pure-Python arithmetic, some ten microseconds of it."""
    total = 0
    for number in range(200):
        total += number * number % 7
    return total


def _pods(count: int) -> tuple[Pod, ...]:
    started = NOW - 7200.0
    return tuple(
        Pod(
            f"web-{index}",
            "Running",
            ConditionStatus.TRUE,
            started + 5.0,
            started,
            deleted=False,
            # Each pod has its own, as they come from the API.
            requests=PodRequests(
                (
                    ContainerRequests("app", {"cpu": 500 * 10**6}),
                    ContainerRequests("log", {"cpu": 50 * 10**6}),
                )
            ),
        )
        for index in range(count)
    )


def _load(sync: int) -> int:
    """Return a load in percent of the target that is never twice the same in a row."""
    return 130 + sync * 37 % 60


def _reading(metric: MetricSpec, pods: Sequence[Pod], replicas: int, load: int) -> Reading:
    if isinstance(metric, ExternalMetric):
        return Values((30 * replicas * load * 10,))
    return PodSamples({pod.name: Sample(330 * load // 100, NOW, 60.0) for pod in pods})


SCHEDULE = Schedule("office", "0 8 * * 1-5", "0 18 * * 1-5", "UTC", min_replicas=2)
EVERYTHING = Extensions(idle=Idle(), fallback=Fallback(6), schedules=(SCHEDULE,), ignore_surge=True)


def _observation(
    scale: Scale, pods: tuple[Pod, ...], reading: Reading, extensions: Extensions
) -> Observation:
    if extensions is NO_EXTENSIONS:
        return Observation(scale, pods, (reading,), metric_keys=KEYS)
    return Observation(
        scale,
        pods,
        (reading,),
        windows=(OpenWindow(SCHEDULE, NOW + 3600.0, "18:00 UTC"),),
        min_replicas_reading=Values((1500,)),
        max_replicas_reading=Values((90_000,)),
        metric_keys=KEYS,
    )


def decision_of(
    metric: MetricSpec, replicas: int, extensions: Extensions = NO_EXTENSIONS
) -> Callable[[], object]:
    """Return one decision to be timed, its history warmed up over a full window."""
    spec = HorizontalPodAutoscalerSpec(
        ScaleTargetRef("apps/v1", "Deployment", "web"), 1, replicas, (metric,), BEHAVIOR
    )
    flags, history = Flags(), History()
    pods = _pods(replicas)
    scale = Scale(replicas, replicas, "app=web")
    for sync in range(SYNCS):
        reading = _reading(metric, pods, replicas, _load(sync))
        seen = _observation(scale, pods, reading, extensions)
        now = NOW - SYNC_PERIOD * (SYNCS - sync)
        decision, history = decide(spec, flags, seen, history, now, extensions=extensions)
        if decision.rescale:
            _, history = settle(spec, decision, history)
    last = _observation(scale, pods, _reading(metric, pods, replicas, 50), extensions)
    return lambda: decide(spec, flags, last, history, NOW, extensions=extensions)


def measure(name: str, call: Callable[[], object], repeats: int, number: int) -> Measurement:
    """Time a call ``number`` times in each of ``repeats``."""
    seconds = timeit.repeat(call, repeat=repeats, number=number)
    each = [second / number * 1e6 for second in seconds]
    return Measurement(name, min(each), statistics.median(each))


def loop() -> float:
    """Return the microseconds of the baseline loop: the least of five repeats."""
    return measure("baseline loop", baseline, 5, 2000).least


def run(repeats: int, number: int) -> list[Measurement]:
    """Time the baseline and the decisions; the largest one runs fewer times."""
    cases: tuple[tuple[str, Callable[[], object], int], ...] = (
        ("baseline loop", baseline, number),
        ("one External metric", decision_of(QUEUE, 10), number),
        ("the same with every extension", decision_of(QUEUE, 10, EVERYTHING), number),
        ("CPU utilization over 5 pods", decision_of(CPU, 5), number),
        ("CPU utilization over 100 pods", decision_of(CPU, 100), max(number // 10, 1)),
    )
    return [measure(name, call, repeats, times) for name, call, times in cases]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the time of one decision.")
    parser.add_argument("--repeats", type=int, default=9, help="how often to measure (9)")
    parser.add_argument("--number", type=int, default=2000, help="calls per measurement (2000)")
    arguments = parser.parse_args()
    measured = run(arguments.repeats, arguments.number)
    print(f"{'':32}{'min µs':>10}{'median µs':>12}{'min / baseline':>17}")
    for result in measured:
        print(f"{result.name:32}{result.least:10.1f}{result.median:12.1f}", end="")
        print(f"{result.least / measured[0].least:17.2f}")


if __name__ == "__main__":
    main()
