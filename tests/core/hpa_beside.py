"""A target in shadow beside an HPA, each with syncs of its own phase, readings and configuration.

The HPA is a target of ours that is written: what it decides is the HPA's decision.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoscaler.agreement.comparison import HpaComparison
from autoscaler.agreement.differences import counterpart_of
from autoscaler.config.comparison import FieldChange
from autoscaler.core.decision import Calculation, Decision
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.observation import Hpa, HpaCondition, HpaStatus
from autoscaler.core.spec import ConditionStatus, Flags, HorizontalPodAutoscalerSpec
from autoscaler.persistence.record.agreement import Agreement, AgreementInterval
from tests.core.builders import BASE
from tests.core.timeline import Timeline

Load = Callable[[float, int], Mapping[str, float | None]]
"""The readings at a time in seconds with a number of replicas."""


def status_of(decision: Decision, time: float) -> HpaStatus:
    """Return what an HPA would report of a decision."""
    values = []
    for result in decision.metrics:
        outcome = result.outcome
        values.append(outcome.current.number if isinstance(outcome, Calculation) else None)
    conditions = tuple(
        HpaCondition(condition.type, condition.status is ConditionStatus.TRUE, condition.reason)
        for condition in decision.conditions
    )
    current = decision.current or 0
    return HpaStatus(time, current, decision.desired, tuple(values), conditions)


@dataclass
class Side:
    """One of both, with the time of its next sync and its period."""

    line: Timeline
    at: float
    period: float
    load: Load

    def read(self, now: float, replicas: int) -> None:
        """Sync with the load of an instant."""
        readings: dict[str, Any] = dict(self.load(now, replicas))
        self.line.sync(f"{now}s", **readings)


@dataclass
class HpaBeside:
    """Plays both, and collects the intervals of their agreement."""

    ours: HorizontalPodAutoscalerSpec
    load: Load
    theirs: HorizontalPodAutoscalerSpec | None = None
    their_load: Load | None = None
    their_flags: Flags = field(default_factory=Flags)
    replicas: int = 3
    phase: float = 7.0
    """How many seconds after the HPA ours syncs."""
    extensions: Extensions = field(default_factory=Extensions)
    stretches: list[AgreementInterval] = field(default_factory=list)
    state: HpaComparison = field(default_factory=HpaComparison)

    def __post_init__(self) -> None:
        of = self.theirs or self.ours
        shadow = replace(self.extensions, mode=Mode.SHADOW)
        shadowed = Timeline(self.ours, replicas=self.replicas, extensions=shadow)
        live = Timeline(of, replicas=self.replicas, flags=self.their_flags)
        self.hpa = Hpa("web", spec=of)
        self.sides = (
            Side(live, 0.0, 15.1, self.their_load or self.load),
            Side(shadowed, self.phase, 15.0, self.load),
        )

    def play(self, until: float) -> "HpaBeside":
        """Sync both until a time in seconds."""
        live, shadowed = self.sides
        while (side := min(self.sides, key=lambda item: item.at)).at < until:
            now = side.at
            side.at = now + side.period
            if side is live:
                self._sync_theirs(now)
                continue
            if shadowed.line.replicas != live.line.replicas:
                shadowed.line.by_hand(live.line.replicas, "kube-controller-manager")
            shadowed.line.beside(self.hpa)
            shadowed.read(now, live.line.replicas)
            self.stretches += self.state.add(shadowed.line.result)
            # The port gives what is new since the last sync, and what is in force.
            self.hpa = replace(self.hpa, statuses=self.hpa.statuses[-1:])
        return self

    def _sync_theirs(self, now: float) -> None:
        line = self.sides[0].line
        self.sides[0].read(now, line.replicas)
        status = status_of(line.decision, BASE + now + 0.05)
        last = self.hpa.status
        if last is None or replace(last, time=status.time) != status:
            self.hpa = replace(self.hpa, statuses=(*self.hpa.statuses, status)[-8:])

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """Return the fields that differ."""
        return counterpart_of(self.sides[1].line.result.target, Flags(), self.hpa.spec).fields

    def seconds(self) -> Counter[Agreement]:
        """Return the seconds of each kind."""
        total: Counter[Agreement] = Counter()
        for stretch in self.stretches:
            total[stretch.kind] += stretch.end - stretch.begin  # type: ignore[assignment]
        return total

    def share(self, *agreements: Agreement) -> float:
        """Return the share of the time that is compared and of these kinds."""
        seconds = self.seconds()
        del seconds[Agreement.NOT_COMPARED]
        return math.fsum(seconds[kind] for kind in agreements) / math.fsum(seconds.values())

    def stretches_of(self, agreement: Agreement) -> list[AgreementInterval]:
        """Return the stretches of a kind."""
        return [stretch for stretch in self.stretches if stretch.kind is agreement]
