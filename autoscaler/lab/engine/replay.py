"""A replay of many targets from its begin to its end, in several processes.

Processes are forked, so that loaded data need not be sent to them.
"""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from autoscaler.cli.output import CommandError
from autoscaler.core.breaker import Breaker
from autoscaler.core.reconcile import LONGEST_WINDOW_SECONDS
from autoscaler.core.spec import Flags, down_window
from autoscaler.core.step import Step
from autoscaler.core.target import Target
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import BuildError, BuiltTarget, ReplayData, built
from autoscaler.lab.engine.loads import RecordedLoad, SharedLoad
from autoscaler.lab.engine.outcome import MOST_PARTS, Explain, OutcomeWatcher, TargetOutcome
from autoscaler.lab.engine.world import World

_MOST_REASONS = 20_000
"""The most reasons of all targets together."""
_POLL_SECONDS = 0.1
_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""A step creates no reference cycles: with the usual 700 objects the collector would take a tenth
of a replay."""

Progress = Callable[[float], object]
"""Called with each instant that a replay has reached."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of a replay: targets, a period and data.

    For ``warm_up`` seconds before the begin, targets follow the actual count.
    """

    targets: Sequence[Target]
    flags: Flags
    data: ReplayData
    assumptions: Assumptions
    begin: float
    end: float
    warm_up: float = 0.0
    breaker: Breaker | None = None
    per_pod: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By target and metric: the capacity of one pod, if the demand is counted in another
    configuration's pods."""

    def yardstick(self) -> dict[tuple[str, str], float]:
        """Return the capacity of one pod by target and metric."""
        targets, _ = self.build(range(len(self.targets)))
        return {
            (target.target.key, name): load.per_pod
            for target in targets
            for name, load in target.named_loads()
            if isinstance(load, RecordedLoad | SharedLoad) and load.per_pod is not None
        }

    def build(self, numbers: Sequence[int]) -> tuple[list[BuiltTarget], tuple[str, ...]]:
        """Return the targets with these numbers, and why others of them cannot be replayed."""
        found, refused, begin = [], [], self.begin - self.warm_up
        for target in (self.targets[number] for number in numbers):
            try:
                target_built = built(target, self.flags, self.data, self.assumptions, begin)
            except BuildError as error:
                refused.append(f"{target.key}: {error}")
                continue
            for name, load in target_built.named_loads():
                if isinstance(load, RecordedLoad | SharedLoad):
                    load.per_pod = self.per_pod.get((target.key, name), load.per_pod)
            found.append(target_built)
        return found, tuple(refused)


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of all targets; mappings are by their keys."""

    begin: float
    end: float
    outcomes: tuple[TargetOutcome, ...]
    models: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """The name of each metric, and its load model."""
    assumed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The assumptions, as sentences."""
    refused: tuple[str, ...] = ()
    """The targets that could not be replayed, and why."""


def own_reason(step: Step) -> str:
    """Return the reason of a decision in the HPA's words, which is cheap."""
    return step.decision.reason


def reach(target: Target, flags: Flags) -> float:
    """Return how far back the decisions of a target look, in seconds (semantics 4)."""
    behavior, spec = target.spec.behavior, target.spec
    rules = () if behavior is None else (behavior.scale_up, behavior.scale_down)
    periods = [policy.period_seconds for rule in rules for policy in rule.policies]
    windows = [rule.stabilization_window_seconds or 0 for rule in rules]
    longest = max([down_window(spec.behavior, flags), *periods, *windows])
    periods_of_grid = -(-min(longest, LONGEST_WINDOW_SECONDS) // target.sync_period) + 1
    return periods_of_grid * target.sync_period


def run_replay(
    plan: ReplayPlan,
    processes: int = 1,
    progress: Progress = lambda _: None,
    explain: Explain = own_reason,
) -> Replay:
    """Replay all targets of a plan; with a breaker, which they share, in one process.

    ``progress`` receives the instant that the slowest process has reached. An interrupt ends all
    processes, and the results so far are returned. Raises CommandError if one of them dies, and
    exceptions of a part.
    """
    targets = len(plan.targets)
    processes = 1 if plan.breaker is not None else max(1, min(processes, targets))
    if processes == 1:
        return _replay_part(plan, range(targets), explain, progress)
    context = multiprocessing.get_context("fork")
    reached = context.Array("d", processes, lock=False)
    ends: list[tuple[Any, Connection]] = []
    for number in range(processes):
        receiving, sending = context.Pipe(duplex=False)
        share = range(number, targets, processes)
        arguments = (plan, share, explain, sending, reached, number)
        child = context.Process(target=_run, args=arguments)
        child.start()
        sending.close()
        ends.append((child, receiving))
    return _merged(_gathered(ends, lambda: progress(min(reached))))


def _replay_part(
    plan: ReplayPlan, numbers: Sequence[int], explain: Explain, progress: Progress
) -> Replay:
    """Replay the targets with these numbers; a KeyboardInterrupt keeps the results so far."""
    targets, refused = plan.build(numbers)
    begin, end = plan.begin, plan.end
    most_reasons = _MOST_REASONS // max(len(targets), 1)
    watcher = OutcomeWatcher(begin, end, explain, min(most_reasons, MOST_PARTS))
    world = World([target.target for target in targets], watcher, plan.breaker)
    until, usual = begin, gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        if plan.warm_up:
            world.warm_up(begin - plan.warm_up, begin)
        for until in world.run(begin, end):
            progress(until)
    except KeyboardInterrupt:
        end = until
    finally:
        gc.set_threshold(*usual)
    return Replay(
        begin,
        end,
        tuple(watcher.outcomes()),
        models={target.target.key: _models(target) for target in targets},
        assumed={target.target.key: tuple(target.assumed) for target in targets if target.assumed},
        refused=refused,
    )


def _models(target: BuiltTarget) -> tuple[tuple[str, str], ...]:
    return tuple((name, load.model.value) for name, load in target.named_loads())


# -- processes -------------------------------------------------------------------------------------


def _gathered(ends: Sequence[tuple[Any, Connection]], tell: Callable[[], object]) -> list[Replay]:
    """Wait for all processes; an interrupt is passed on to them once."""
    results: dict[int, Replay] = {}
    interrupted = False
    try:
        while len(results) < len(ends):
            try:
                waiting = [end for number, (_, end) in enumerate(ends) if number not in results]
                for end in wait(waiting, _POLL_SECONDS):
                    number = next(
                        at for at, (_, end_of_part) in enumerate(ends) if end_of_part is end
                    )
                    result = ends[number][1].recv()
                    if isinstance(result, Exception):
                        raise result
                    results[number] = result
                tell()
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                for child, _ in ends:
                    with suppress(ProcessLookupError):
                        os.kill(child.pid, signal.SIGINT)
    except EOFError:
        raise CommandError("a process of the replay has died: is there enough memory?") from None
    finally:
        for child, end in ends:
            if len(results) < len(ends):
                child.terminate()
            child.join()
            end.close()
    return [results[number] for number in range(len(ends))]


def _run(
    plan: ReplayPlan,
    share: Sequence[int],
    explain: Explain,
    end: Connection,
    reached: Any,
    number: int,
) -> None:
    """Replay a part in its own process; only the first interrupt counts."""

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)

    def tell(instant: float) -> None:
        reached[number] = instant

    result: Replay | Exception
    try:
        result = _replay_part(plan, share, explain, tell)
    except Exception as error:  # noqa: BLE001 - it is raised where the parts are gathered
        result = error
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end.send(result)
    end.close()


def _merged(parts: Sequence[Replay]) -> Replay:
    """Return the parts as one, with the targets sorted by key."""
    outcomes = (outcome for part in parts for outcome in part.outcomes)
    return Replay(
        parts[0].begin,
        min(part.end for part in parts),
        tuple(sorted(outcomes, key=lambda outcome: outcome.key)),
        {key: value for part in parts for key, value in part.models.items()},
        {key: value for part in parts for key, value in part.assumed.items()},
        tuple(sentence for part in parts for sentence in part.refused),
    )
