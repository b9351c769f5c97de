"""Targets that live through their syncs without servers: real decisions, each write accepted."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from autoscaler.core.history import History
from autoscaler.core.observation import Gap, GapKind, Hpa, Observation, Pod, Reading, Scale, Values
from autoscaler.core.spec import Flags
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import FIELD_MANAGER, AcceptedWrite, SkippedWrite, SkippedWriteReason
from autoscaler.schedules import open_windows

NO_ANSWER = Gap(GapKind.ERROR, "Prometheus: connection refused")


@dataclass(frozen=True, slots=True)
class Moment:
    """The observation of a sync; ``replicas`` is a count that another ``manager`` has set."""

    readings: tuple[Reading, ...]
    replicas: int | None = None
    manager: str = "kubectl-scale"
    annotations: tuple[tuple[str, str], ...] = ()
    controller: str | None = None
    hpa: Hpa | None = None


Play = Callable[[float, int], Moment]
"""Returns the observation some seconds after the first sync, at a number of replicas."""


@dataclass(slots=True)
class Player:
    """One target and what becomes of it; ``replicas`` is what it has at first."""

    target: Target
    play: Play
    replicas: int = 1
    _by: str = ""
    _generation: int = 1
    _history: History = field(default_factory=History)

    def sync(self, now: float, elapsed: float) -> SyncResult:
        moment = self.play(elapsed, self.replicas)
        if moment.replicas is not None:
            self.replicas, self._by = moment.replicas, moment.manager
            self._generation += 1
        observation = self._observation(moment, now)
        inputs = Inputs(observation, self._history, now, now)
        step = step_of(Rules(self.target, Flags()), inputs)
        if step.decision.shadow:
            if step.decision.rescale:
                step = step.settled(SkippedWrite(SkippedWriteReason.SHADOW))
        elif step.decision.rescale and isinstance(observation.scale, Scale):
            self.replicas, self._by = step.decision.desired, FIELD_MANAGER
            self._generation += 1
            step = step.settled(
                AcceptedWrite(replace(observation.scale, spec_replicas=self.replicas))
            )
        self._history = step.history
        return step.result

    def _observation(self, moment: Moment, now: float) -> Observation:
        scale = Scale(
            self.replicas,
            self.replicas,
            "app=it",
            resource_version=str(self._generation),
            uid=self.target.key,
            replicas_by=self._by,
            generation=self._generation,
            annotations=moment.annotations,
        )
        pods: tuple[Pod, ...] = ()
        return Observation(
            scale,
            pods,
            moment.readings,
            controller=moment.controller,
            hpa=moment.hpa,
            ranges=(0.0,) * len(moment.readings),
            windows=open_windows(self.target.extensions.schedules, now),
        )


def played(players: list[Player], begin: float, end: float) -> Iterator[SyncResult]:
    """Yield the results of all syncs from ``begin`` to ``end``, both included, in their order."""
    period = players[0].target.sync_period if players else 15.0
    for index in range(math.floor((end - begin) / period) + 1):
        for player in players:
            yield player.sync(begin + index * period, index * period)


def value(number: float) -> Values:
    return Values((round(number * 1000),))
