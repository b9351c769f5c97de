"""Plays recorded scenarios of the real HPA controller through the core and compares everything.

The form of the files is one JSON object a line: a spec, flags, and ticks of what was observed
and what the controller made of it.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoscaler.config import to_core
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec as SpecModel
from autoscaler.core.decision import Decision
from autoscaler.core.history import History
from autoscaler.core.observation import (
    ContainerRequests,
    Gap,
    GapKind,
    Observation,
    Pod,
    PodRequests,
    PodSamples,
    Reading,
    Sample,
    Scale,
    Values,
)
from autoscaler.core.spec import ConditionStatus, Flags
from autoscaler.core.step import Step, step_of
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import AcceptedWrite
from autoscaler.quantities import parse_quantity
from autoscaler.rendering.hpa import current_metrics
from tests.config.api_form import defaulted

Json = Mapping[str, Any]
"""Recorded JSON; its shape is the file format's."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One tick (or the defaulting) that came out differently."""

    scenario: str
    tick: float | None
    field: str
    expected: object
    got: object
    observed: object

    def __str__(self) -> str:
        where = "defaulting" if self.tick is None else f"t={self.tick:g}"
        return (
            f"{self.scenario} at {where}: {self.field}\n"
            f"  expected {json.dumps(self.expected)}\n"
            f"  got      {json.dumps(self.got)}\n"
            f"  observed {json.dumps(self.observed)}"
        )


@dataclass(frozen=True, slots=True)
class Score:
    """What playing a file gave."""

    scenarios: int
    ticks: int
    mismatches: tuple[Mismatch, ...]


def scenarios(path: Path) -> Iterator[Json]:
    """Read a file's scenarios, plain or gzip."""
    with path.open("rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rt") if packed else path.open("rt") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def play_file(path: Path) -> Score:
    """Play every scenario of a file."""
    count = ticks = 0
    mismatches: list[Mismatch] = []
    for scenario in scenarios(path):
        count += 1
        ticks += len(scenario["ticks"])
        mismatches.extend(play(scenario))
    return Score(count, ticks, tuple(mismatches))


def play(scenario: Json) -> Iterator[Mismatch]:
    """Play one scenario from an empty history and yield whatever differs."""
    name = scenario["name"]
    model = SpecModel.model_validate(scenario["spec"])
    if defaulted(model) != scenario["defaultedSpec"]:
        yield Mismatch(
            name,
            None,
            "defaultedSpec",
            scenario["defaultedSpec"],
            defaulted(model),
            scenario["spec"],
        )
    for tick, step in steps_of(scenario):
        yield from differences(name, tick, step)


def differences(name: str, tick: Json, step: Step) -> Iterator[Mismatch]:
    """Yield what came out otherwise than was recorded of a scenario's tick."""
    got = outcome_of(step.decision, step.history)
    for field, expected in tick["expected"].items():
        if got[field] != expected:
            yield Mismatch(name, tick["t"], field, expected, got[field], tick["observed"])


def rules_of(scenario: Json) -> Rules:
    """Return the target of a scenario, and its flags."""
    spec = to_core(SpecModel.model_validate(scenario["spec"]))
    queries = tuple(Query(f"metric_{index}") for index in range(len(spec.metrics)))
    return Rules(Target(scenario["name"], spec, queries), flags_of(scenario["flags"]))


def play_tick(rules: Rules, tick: Json, history: History) -> Step:
    """Take the step of one tick; the recorded API server accepts every write."""
    seen, now = observation_of(tick["observed"]), tick["t"]
    step = step_of(rules, Inputs(seen, history, now, now))
    if step.decision.rescale and isinstance(seen.scale, Scale):
        return step.settled(AcceptedWrite(seen.scale))
    return step


def all_scenarios() -> Iterator[Json]:
    """Yield the scenarios of both files."""
    for name in ("documented.jsonl.gz", "random.jsonl.gz"):
        yield from scenarios(Path(__file__).parent / name)


def steps_of(scenario: Json, rules: Rules | None = None) -> Iterator[tuple[Json, Step]]:
    """Yield each tick with its step, by the rules of the scenario unless others are given."""
    rules, history = rules or rules_of(scenario), History()
    for tick in scenario["ticks"]:
        step = play_tick(rules, tick, history)
        history = step.history
        yield tick, step


def played_ticks() -> Iterator[SyncResult]:
    """Yield what comes of every recorded tick."""
    for scenario in all_scenarios():
        yield from (step.result for _, step in steps_of(scenario))


def outcome_of(decision: Decision, history: History) -> Json:
    """Render a decision in the recorded form of `expected`."""
    return {
        "specReplicas": decision.desired,
        "desiredReplicas": history.desired_replicas,
        "rescaled": decision.written,
        "conditions": [
            {"type": condition.type, "status": condition.status.value, "reason": condition.reason}
            for condition in decision.conditions
        ],
        "events": [
            f"{event.type} {event.reason}" + (f" {event.message}" if event.type == "Normal" else "")
            for event in decision.events
        ],
        "currentMetrics": current_metrics(decision),
        "outcome": decision.outcome.value,
    }


def flags_of(flags: Json) -> Flags:
    """Read a scenario's flags, without the rules that are not the HPA's."""
    return Flags(
        tolerance=float(flags["tolerance"]),
        downscale_stabilization=float(flags["downscaleStabilizationSeconds"]),
        cpu_initialization_period=float(flags["cpuInitializationPeriodSeconds"]),
        initial_readiness_delay=float(flags["initialReadinessDelaySeconds"]),
        hold_after_reversals=0,
        keep_above_target=False,
    )


def observation_of(observed: Json) -> Observation:
    """Return what a tick observed."""
    return Observation(
        Scale(observed["specReplicas"], observed["statusReplicas"], "app=target"),
        tuple(_pod(pod) for pod in observed["pods"] or ()),
        tuple(_reading(metric) for metric in observed["metrics"] or ()),
    )


def _pod(pod: Json) -> Pod:
    ready = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: None}[pod["ready"]]
    containers = pod["requests"] or {"app": {}}
    return Pod(
        name=pod["name"],
        phase=pod["phase"],
        ready=ready,
        ready_transition=pod["readyTransition"],
        start_time=pod["startTime"],
        deleted=pod["deleted"],
        requests=PodRequests(
            tuple(
                ContainerRequests(
                    name, {res: parse_quantity(text) for res, text in requests.items()}
                )
                for name, requests in containers.items()
            )
        ),
    )


def _reading(metric: Json) -> Reading:
    if "error" in metric:
        return Gap(GapKind.ERROR, metric["error"])
    if metric.get("samples"):
        return PodSamples(
            {
                pod: Sample(value["milli"], value["timestamp"], value["window"])
                for pod, value in metric["samples"].items()
            }
        )
    if metric.get("values"):
        return Values(tuple(metric["values"]))
    return Gap(GapKind.EMPTY, "empty")
