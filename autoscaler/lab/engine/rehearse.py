"""One rehearsal of many targets, from its begin to its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.breaker import Breaker
from autoscaler.core.reconcile import LONGEST_WINDOW_SECONDS
from autoscaler.core.spec import Flags, down_window
from autoscaler.core.step import Step
from autoscaler.core.target import Target
from autoscaler.lab.engine.building import Built
from autoscaler.lab.engine.outcome import MOST_PARTS, Explain, OutcomeWatcher, TargetOutcome
from autoscaler.lab.engine.world import World

_MOST_REASONS = 20_000
"""Of all targets together."""


__all__ = ["Explain", "Rehearsal", "own_reason", "reach", "rehearse"]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What became of all targets; mappings are by the keys of these."""

    begin: float
    end: float
    outcomes: tuple[TargetOutcome, ...]
    models: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """The name of each metric, and how its reading followed the count."""
    assumed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What was assumed, in sentences."""
    refused: tuple[str, ...] = ()
    """The targets that could not be rehearsed, and why."""


def own_reason(step: Step) -> str:
    """Return the reason of a decision in the HPA's words, which costs nothing."""
    return step.decision.reason


def reach(target: Target, flags: Flags) -> float:
    """Return how far back the decisions of a target look, in seconds (semantics 4)."""
    behavior, spec = target.spec.behavior, target.spec
    rules = () if behavior is None else (behavior.scale_up, behavior.scale_down)
    periods = [policy.period_seconds for one in rules for policy in one.policies]
    windows = [one.stabilization_window_seconds or 0 for one in rules]
    longest = max([down_window(spec.behavior, flags), *periods, *windows])
    periods_of_grid = -(-min(longest, LONGEST_WINDOW_SECONDS) // target.sync_period) + 1
    return periods_of_grid * target.sync_period


def rehearse(  # noqa: PLR0913 - each is a fact of one rehearsal
    targets: Sequence[Built],
    begin: float,
    end: float,
    *,
    breaker: Breaker | None = None,
    warm_up: float = 0.0,
    explain: Explain = own_reason,
    progress: Callable[[float], object] = lambda _: None,
    refused: tuple[str, ...] = (),
) -> Rehearsal:
    """Rehearse all targets; ``progress`` is called with each instant that has been reached.

    For so many seconds before the begin they follow the count that really was (`World.warm_up`).

    What it raises ends the rehearsal there: a KeyboardInterrupt leaves what is done.
    """
    most_reasons = _MOST_REASONS // max(len(targets), 1)
    watcher = OutcomeWatcher(begin, end, explain, min(most_reasons, MOST_PARTS))
    world = World([one.target for one in targets], watcher, breaker)
    until = begin
    try:
        if warm_up:
            world.warm_up(begin - warm_up, begin)
        for until in world.run(begin, end):
            progress(until)
    except KeyboardInterrupt:
        end = until
    return Rehearsal(
        begin,
        end,
        tuple(watcher.outcomes()),
        models={one.target.key: _models(one) for one in targets},
        assumed={one.target.key: tuple(one.assumed) for one in targets if one.assumed},
        refused=refused,
    )


def _models(one: Built) -> tuple[tuple[str, str], ...]:
    return tuple((name, load.model.value) for name, load in one.named_loads())
