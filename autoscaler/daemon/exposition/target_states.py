"""What the pages show of each target: its last result, without large readings."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from autoscaler.core.decision import Calculation, Decision, MetricFailure, MetricResult, Outcome
from autoscaler.core.grouping import PodGroups
from autoscaler.core.observation import ConditionStatus, Gap, Reading, Values
from autoscaler.core.status import ABLE_TO_SCALE, SCALING_ACTIVE
from autoscaler.core.target import Target
from autoscaler.core.writes import WriteFailed
from autoscaler.rendering import wording
from autoscaler.rendering.verdict import State, state_of
from autoscaler.sync.ports import SyncResult

_MOST = 10
"""So many values of an External metric, or names of pods, are kept."""
_NOTHING = Values(())
NOT_SYNCED = "none"
"""The outcome of a target before its first sync."""


@dataclass(slots=True)
class TargetState:
    """One target's last sync.  Never changed once it is made.

    The result is without readings and groups that are large, as those of thousands of pods are.
    ``since`` is the first sync of this state, by the clock as it was set when this
    process began.
    """

    result: SyncResult
    succeeded: float | None
    state: State
    since: float


@dataclass(frozen=True, slots=True)
class TargetLabels:
    """A target's labels as the page writes them, without the closing brace.

    ``metrics``, ``target_types`` and ``target_values`` are in the order of the spec's metrics; the
    types' texts stand after those of the metrics, the values are in base units or in percent.
    """

    target: str
    info: str
    metrics: tuple[str, ...]
    target_types: tuple[str, ...]
    target_values: tuple[str, ...] = field(compare=False)


class Row(NamedTuple):
    """What the page writes of one target."""

    labels: TargetLabels
    decision: Decision
    succeeded: float | None
    foreign_changes: int


class Known(NamedTuple):
    """What is known of one target; ``last`` and ``since`` are None before its first sync."""

    target: Target
    last: SyncResult | None
    state: State | None
    since: float | None


class TargetStates:
    """The last state of each target of the configuration.

    Syncs note results while a page is made of them: neither waits for the other.  A target is
    synced by one thread at a time.
    """

    def __init__(self) -> None:
        self._targets: Sequence[Target] = ()
        self._labels: dict[str, TargetLabels] = {}
        self._states: dict[str, TargetState] = {}
        self._of_other_metrics: dict[str, TargetState] = {}
        """The states of targets whose metrics were changed, until their next sync."""
        self._foreign_changes: dict[str, int] = {}
        self._clock_set = 0.0
        self._lock = threading.Lock()
        self._versions = count()
        self.version = next(self._versions)
        """Another one whenever something has changed; to be read before what is shown."""

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Keep the states of these targets, and forget all others.

        To be called while no sync runs.  A target whose metrics are others than before has no
        state until its next sync: the old proposals are not of the new metrics.  If that sync finds
        the same state, it goes on.
        """
        labels = {target.key: _labels(target) for target in targets}
        with self._lock:
            known = {key for key, one in labels.items() if one == self._labels.get(key)}
            for key in self._states.keys() - known:
                self._of_other_metrics[key] = self._states.pop(key)
            for key in self._of_other_metrics.keys() - labels.keys():
                del self._of_other_metrics[key]
            for key in self._foreign_changes.keys() - labels.keys():
                del self._foreign_changes[key]
            self._labels = labels
            self._targets = targets
            self.version = next(self._versions)

    def note(self, result: SyncResult) -> None:
        """Keep a target's result.  It is quick, since each sync does it for every target."""
        decision, key = result.decision, result.target.key
        before = self._states.get(key)
        if decision.outcome is Outcome.BLOCKED or type(result.write) is WriteFailed:
            succeeded = None if before is None else before.succeeded
        else:
            succeeded = decision.time
        state, stood = state_of(result), before or self._of_other_metrics.pop(key, None)
        goes_on = stood is not None and stood.state is state
        since = stood.since if stood and goes_on else decision.time - self._clock_set
        self._states[key] = TargetState(_to_keep(result), succeeded, state, since)
        self.version = next(self._versions)
        if decision.foreign is not None:
            with self._lock:
                self._foreign_changes[key] = self._foreign_changes.get(key, 0) + 1

    def clock_set(self, seconds: float) -> None:
        """Follow the system's clock, which was set by so many seconds."""
        self._clock_set += seconds
        self.version = next(self._versions)

    def known(self) -> list[Known]:
        """Return what is known of each target, in the order of the configuration."""
        targets, states, clock_set = self._targets, self._states.copy(), self._clock_set
        return [_known(target, states.get(target.key), clock_set) for target in targets]

    def known_of(self, key: str) -> Known | None:
        """Return what is known of one target; None if there is no such target."""
        found = next((target for target in self._targets if target.key == key), None)
        return None if found is None else _known(found, self._states.get(key), self._clock_set)

    def rows(self) -> list[Row]:
        """Return what there is to show; a target that was not synced yet is left out."""
        labels, states, changes = self._labels, self._states.copy(), self._foreign_changes.copy()
        return [
            Row(labels[key], state.result.decision, state.succeeded, changes.get(key, 0))
            for key, state in states.items()
            if key in labels
        ]

    def outcomes(self) -> Counter[str]:
        """Count the targets by the outcome of their last sync."""
        labels = self._labels
        counts = Counter({outcome.value: 0 for outcome in Outcome})
        counts.update(
            state.result.decision.outcome.value
            for key, state in self._states.copy().items()
            if key in labels
        )
        counts[NOT_SYNCED] = len(labels) - counts.total()
        return counts


def _known(target: Target, last: TargetState | None, clock_set: float) -> Known:
    if last is None:
        return Known(target, None, None, None)
    return Known(target, last.result, last.state, last.since + clock_set)


def _to_keep(result: SyncResult) -> SyncResult:
    """Return a result without what may be large; most have nothing of that kind."""
    decision = result.decision
    for one in decision.metrics:
        if not _is_small(one.reading):
            metrics = tuple([_reduced(one) for one in decision.metrics])
            decision = replace(decision, metrics=metrics)
            break
    return SyncResult(result.target, decision, result.write, result.controller)


def _is_small(reading: Reading) -> bool:
    if isinstance(reading, Values):
        return len(reading.values) <= _MOST
    return isinstance(reading, Gap)


def _reduced(one: MetricResult) -> MetricResult:
    outcome = one.outcome
    if isinstance(outcome, Calculation) and _names_many(outcome.groups):
        outcome = replace(outcome, groups=None)
    # dataclasses.replace takes twice as long, and this is done for every such target at every sync.
    return MetricResult(
        one.metric, one.name, _NOTHING, outcome, one.refill, one.fallback, one.activity
    )


def _names_many(groups: PodGroups | None) -> bool:
    return groups is not None and (
        len(groups.unready) + len(groups.missing) + len(groups.ignored) > _MOST
    )


def reason_of(decision: Decision) -> str:
    """Return the HPA's reason why a decision is not ok; empty where it is."""
    if decision.outcome is Outcome.BLOCKED:
        for wanted in (ABLE_TO_SCALE, SCALING_ACTIVE):
            for one in decision.conditions:
                if one.type == wanted and one.status is not ConditionStatus.TRUE:
                    return one.reason
    for result in decision.metrics:
        if isinstance(result.outcome, MetricFailure):
            return result.outcome.reason
    return ""


def _labels(target: Target) -> TargetLabels:
    key = wording.target_key(target)
    head = f'{{target="{escaped(key)}"'
    _, kind_and_group, name = wording.key_parts(target)
    info = (
        f'{head},target_namespace="{escaped(target.namespace)}"'
        f',target_kind="{escaped(kind_and_group)}",target_name="{escaped(name)}"'
    )
    metrics: list[str] = []
    seen: Counter[str] = Counter()
    for metric in target.spec.metrics:
        name, kind = wording.metric_name(metric), metric.type
        seen[kind + name] += 1
        if seen[kind + name] > 1:
            # The same metric may be held to several targets; series must differ.
            name = f"{name} #{seen[kind + name]}"
        metrics.append(f'{head},metric_name="{escaped(name)}",type="{kind}"')
    targets = [wording.target_number(metric) for metric in target.spec.metrics]
    return TargetLabels(
        head,
        info,
        tuple(metrics),
        tuple(f',metric_target_type="{kind}"' for kind, _ in targets),
        tuple(repr(value) for _, value in targets),
    )


def escaped(value: str) -> str:
    """Write a label's value as the text formats want it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
