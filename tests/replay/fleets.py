"""Simulated targets of all metric types, with behaviors and loads that differ."""

import math
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from autoscaler.core.extensions import Idle
from autoscaler.core.spec import (
    Behavior,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    ScaleTargetRef,
)
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Query, Target
from autoscaler.lab.engine.answers import AnswerChunk, Answers, RecordedSeries, answers_from
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuiltTarget, ReplayData
from autoscaler.lab.engine.loads import (
    MetricLoad,
    RecordedLoad,
    SharedLoad,
    labels_of,
    target_per_pod,
    totals_of_answers,
)
from autoscaler.lab.engine.measures import Measures
from autoscaler.lab.engine.replay import Replay, ReplayPlan, run_replay
from autoscaler.lab.engine.workloads import SimulatedWorkload, requests_of
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.lab.rendering import ReplayAnswer, ReplayedLines, answer_of
from tests.core.builders import (
    BASE,
    average,
    container_cpu,
    cpu,
    external,
    of_object,
    per_pod,
    percent_policy,
    pods_policy,
    rules,
    utilization,
    value,
)

PERIOD = 15.0
_METRICS: tuple[MetricSpec, ...] = (
    external(average("30")),
    external(value("40")),
    per_pod("10"),
    cpu(utilization(60)),
    container_cpu(utilization(70)),
    cpu(average("300m")),
    of_object(average("25")),
)
_BEHAVIORS = (
    None,
    Behavior(rules(percent_policy(50, 60), window=0), rules(pods_policy(1, 60), window=60)),
    Behavior(
        rules(pods_policy(4), percent_policy(100)), rules(percent_policy(10, 120), window=120)
    ),
)


def series(values: list[float], begin: float, labels: dict[str, str]) -> Answers:
    times = array("d", [begin + PERIOD * number for number in range(len(values))])
    manifest = RecordedSeries(labels, times, array("d", values))
    return answers_from([AnswerChunk(begin, math.inf, [manifest])], PERIOD)


def measures(**known: float) -> Measures:
    """Return measures; all others are 0 or unknown."""
    needed = ("scored_seconds", "gap_seconds", "replica_hours", "changes", "at_max_seconds")
    return Measures.model_validate(dict.fromkeys(needed, 0) | known)


def promql_of(name: str) -> str:
    """Return the query of a target; it returns what was sampled at the very instant."""
    return f'last_over_time(load{{target="{name}"}}[10s])'


def fleet(begin: float, syncs: int, seed: int, count: int = 20) -> list[SimulatedTarget]:
    """Return targets with loads that rise, fall and jump; some can sleep."""
    return list(_targets(begin, syncs, random.Random(seed), count))  # noqa: S311 - no secret


@dataclass(frozen=True)
class FleetPlan(ReplayPlan):
    """A plan of targets that are built already; ``happens`` gets those of each process."""

    fleet: Sequence[SimulatedTarget] = ()
    happens: Callable[[Sequence[int], list[BuiltTarget]], object] = lambda *_: None
    refuses: bool = False

    @override
    def build(self, numbers: Sequence[int]) -> tuple[list[BuiltTarget], tuple[str, ...]]:
        targets = [BuiltTarget(self.fleet[number], ["ready in time"]) for number in numbers]
        self.happens(numbers, targets)
        return targets, tuple(f"no {number}" for number in numbers if self.refuses)


def plan_of(fleet: Sequence[SimulatedTarget], syncs: int) -> FleetPlan:
    targets, end = [target.rules.target for target in fleet], BASE + syncs * PERIOD
    return FleetPlan(targets, Flags(), ReplayData(), Assumptions(), BASE, end, fleet=fleet)


def replayed(count: int, syncs: int = 240, seed: int = 5) -> Replay:
    """Return the replay of a fleet, next to the count that really ran."""
    targets = fleet(BASE, syncs, seed, count)
    for target in targets:
        target.ran = series([float(4 + sync // 60 % 3) for sync in range(syncs)], BASE, {})
    return run_replay(plan_of(targets, syncs))


def with_lines(short: Sequence[int | None]) -> ReplayAnswer:
    """Return the answer of one target, whose demand and ready pods both are 2 to 9 in each part.

    ``short`` has the missing pods of each part; None where the demand is unknown.
    """
    answer = answer_of(replayed(1, 4))
    known = [None if number is None else 1 for number in short]
    lines = ReplayedLines(
        times=tuple(BASE + PERIOD * part for part in range(len(short))),
        demand=tuple(facts and 5 for facts in known),
        demand_low=tuple(facts and 2 for facts in known),
        demand_high=tuple(facts and 9 for facts in known),
        ready=(5,) * len(short),
        ready_low=(2,) * len(short),
        ready_high=(9,) * len(short),
        short=tuple(short),
        replicas=(5,) * len(short),
        ran=(None,) * len(short),
    )
    (target,) = answer.targets
    drawn = target.model_copy(update={"lines": lines, "end": BASE + PERIOD * len(short)})
    return answer.model_copy(update={"targets": (drawn,)})


def _targets(begin: float, syncs: int, rng: random.Random, count: int) -> Iterator[SimulatedTarget]:
    for number in range(count):
        metric = _METRICS[number % len(_METRICS)]
        name = f"t{number}"
        spec = HorizontalPodAutoscalerSpec(
            ScaleTargetRef("apps/v1", "StatefulSet", name),
            1,
            rng.choice([8, 20, 60]),
            (metric,),
            rng.choice(_BEHAVIORS),
        )
        target = Target("shop", spec, (Query(promql_of(name)),))
        if number % 2 == 0 and not metric.of_pods:
            idle = Idle()
            target = replace(target, extensions=replace(target.extensions, idle=idle))
        requests = requests_of({"app": {"cpu": 500 * 10**6}})
        replicas = rng.randint(1, 8)
        workload = SimulatedWorkload(
            name, begin, replicas, rng.choice([0.0, 20.0, 45.0, 90.0]), requests
        )
        load = _load(target, workload, begin, _course(rng, syncs))
        yield SimulatedTarget(Rules(target, Flags()), workload, [load])


def _course(rng: random.Random, syncs: int) -> list[float]:
    """Return a load in pods at each sync: waves, noise and a few jumps; sometimes nothing."""
    phase, length = rng.random() * 6, rng.uniform(20, 80)
    jumps = {rng.randrange(syncs): rng.uniform(0, 6) for _ in range(3)}
    level, found = 3.0, []
    for sync in range(syncs):
        level = jumps.get(sync, level)
        wave = level * (1.2 + math.sin(phase + sync / length))
        found.append(max(0.0, wave + rng.gauss(0, 0.2)) if level > 0.5 else 0.0)
    return found


def _load(
    target: Target, workload: SimulatedWorkload, begin: float, course: list[float]
) -> MetricLoad:
    metric, query = target.spec.metrics[0], target.queries[0]
    item = target_per_pod(metric, workload) or 15.0
    values = [round(pods * item, 3) for pods in course]
    labels = labels_of(metric, query, target.namespace)
    if not metric.of_pods:
        return RecordedLoad(series(values, begin, labels), item)
    totals = totals_of_answers(series(values, begin, {}))
    return SharedLoad(totals, metric, query, target.namespace, item)
