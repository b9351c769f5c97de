"""What a replay costs, with its data at hand: `python -m benchmarks.replay_speed`.

A day of 100 targets with one External metric each, synced every 15 s, divided over processes as
`autoscaler replay` does.  A step is one sync of one target with all that follows: its reading, its
decision, its write, the pods, the measures.  Its time is that of the CPU, so that a busy machine
counts little; the ratio is to the baseline loop of `benchmarks.core`.  The second table has the
memory of one process for a day and for a week: it is not to grow with the days.
"""

import argparse
import math
import multiprocessing
import os
import resource
import time
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from typing_extensions import override

from autoscaler.core.spec import (
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricTarget,
    ScaleTargetRef,
    TargetType,
)
from autoscaler.core.target import Query, Target
from autoscaler.lab.engine.answers import AnswerChunk, Answers, RecordedSeries, answers_from
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import ReplayData
from autoscaler.lab.engine.replay import ReplayPlan, run_replay
from benchmarks.core import loop
from benchmarks.tables import markdown

BEGIN = 1_767_225_600.0
PERIOD, DAY = 15.0, 86_400.0
_PART_SECONDS = 6 * 3600.0
_MOST_PODS, _EACH = 20, 30.0
_METRIC = ExternalMetric(
    MetricIdentifier("requests"), MetricTarget(TargetType.AVERAGE_VALUE, average_value=30_000)
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a replay: seconds that it took, and of the CPU; bytes of its largest process."""

    seconds: float
    cpu: float
    memory: int


class _Data(ReplayData):
    """Loads that go up and down over the day, with noise, each by the number of its target."""

    def __init__(self, end: float) -> None:
        self._end = end

    @override
    def reading(self, target: Target, number: int) -> Answers:
        name = target.spec.scale_target_ref.name
        return answers_from(_load(int(name.removeprefix("web")), self._end), PERIOD)

    @override
    def replicas(self, target: Target) -> int:
        return 5


def _target(number: int) -> Target:
    name = f"web{number}"
    spec = HorizontalPodAutoscalerSpec(
        ScaleTargetRef("apps/v1", "Deployment", name), 1, _MOST_PODS, (_METRIC,)
    )
    return Target("shop", spec, (Query(name),))


def _load(number: int, end: float) -> Iterator[AnswerChunk]:
    begin = BEGIN
    while begin < end:
        until = min(begin + _PART_SECONDS, end)
        times = array("d", (begin + PERIOD * at for at in range(int((until - begin) / PERIOD))))
        values = array("d", (_value(number, at) for at in times))
        yield AnswerChunk(begin, until, [RecordedSeries({}, times, values)])
        begin = until


def _value(number: int, at: float) -> float:
    day = math.sin(2 * math.pi * (at / DAY + number / 100))
    noise = math.sin(at * (number + 1)) + math.sin(at / 400)
    return _EACH * (9.0 + 6.0 * day + noise)


def cost_of(targets: int, days: float, processes: int) -> Cost:
    """Replay so many targets; the processes are new ones, so that each has its own memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(_measured, targets, days, processes).result()


def _measured(targets: int, days: float, processes: int) -> Cost:
    end, chosen = BEGIN + days * DAY, [_target(number) for number in range(targets)]
    plan = ReplayPlan(chosen, Flags(), _Data(end), Assumptions(), BEGIN, end)
    before, begun = os.times(), time.monotonic()
    run_replay(plan, processes)
    took, after = time.monotonic() - begun, os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    who = resource.RUSAGE_SELF if processes == 1 else resource.RUSAGE_CHILDREN
    return Cost(took, cpu, resource.getrusage(who).ru_maxrss * 1024)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Measure what a replay costs.")
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    loop_microseconds = loop()
    steps = int(options.targets * options.days * DAY / PERIOD)
    rows = []
    for processes in sorted({1, options.processes}):
        cost = cost_of(options.targets, options.days, processes)
        each = cost.cpu / steps * 1e6
        rows.append(
            [
                str(processes),
                f"{cost.seconds:.1f}",
                f"{each:.1f}",
                f"{each / loop_microseconds:.1f}",
            ]
        )
    print(f"{options.targets} targets, {options.days:g} days, {steps} steps:")
    print(markdown(["processes", "seconds", "CPU of a step, µs", "/ baseline loop"], rows))
    print()
    grown = [
        [f"{days:g}", f"{cost_of(options.targets // 10 or 1, days, 1).memory / 2**20:.0f}"]
        for days in (options.days, 7 * options.days)
    ]
    print(f"{options.targets // 10 or 1} targets in one process:")
    print(markdown(["days", "memory, MiB"], grown))


if __name__ == "__main__":
    main()
