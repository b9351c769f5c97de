"""What the pages show of each target: its last result, without large readings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from autoscaler.core.classification import Mark, State
from autoscaler.core.decision import Calculation, Decision, MetricResult, Outcome
from autoscaler.core.observation import LONGEST_SENTENCE, Gap, Reading, Values
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.text import printable
from autoscaler.core.writes import WriteFailure
from autoscaler.persistence.record.rows import LastState
from autoscaler.rendering import wording
from autoscaler.rendering.reasons import verdict

_MOST = 10
"""The most values of an External metric, or names of pods, that are kept."""
_NOTHING = Values(())
NOT_SYNCED_YET = "not synced yet since the daemon started, or since its metrics were changed"
NOT_SYNCED = "none"
"""The outcome of a target before its first sync."""


@dataclass(slots=True)
class TargetState:
    """One target's last sync, without large readings. Immutable.

    ``since`` is the first sync of this state, by the clock at the start of this process; ``first``
    is set if this process has seen no other state of the target.
    """

    result: SyncResult
    succeeded: float | None
    marks: Mark
    state: State
    since: float
    first: bool
    foreign_changes: int


@dataclass(frozen=True, slots=True)
class TargetLabels:
    """A target's labels as text, without the closing brace.

    Metrics are in the spec's order; their types follow, values are in base units.
    """

    target: str
    info: str
    metrics: tuple[str, ...]
    target_types: tuple[str, ...]
    target_values: tuple[float, ...] = field(compare=False)


class TargetRow(NamedTuple):
    """The values of one target for the page."""

    labels: TargetLabels
    decision: Decision
    marks: int
    succeeded: float | None
    foreign_changes: int


class TargetFacts(NamedTuple):
    """The state of one target; ``last`` and ``since`` are None before its first sync."""

    target: Target
    last: SyncResult | None
    state: State
    marks: Mark
    since: float | None
    finding: str = ""
    """Which series exist if a query found none; empty if unknown."""

    @property
    def in_shadow(self) -> bool:
        """Whether it is never written, if that is known."""
        return self.target.in_shadow or bool(self.marks & (Mark.SHADOW | Mark.CONTROLLED))

    @property
    def message(self) -> str:
        """The decision and its reason, and which series exist if a query found none."""
        if self.last is None:
            return NOT_SYNCED_YET
        said = verdict(self.last)
        return printable(f"{said}; {self.finding}" if self.finding else said, LONGEST_SENTENCE)


class TargetStates:
    """The last state of each target; neither syncs nor pages wait for the other."""

    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}
        """By key, in the order of the configuration."""
        self._labels: dict[str, TargetLabels] = {}
        self._states: dict[str, TargetState] = {}
        self._of_other_metrics: dict[str, TargetState] = {}
        """The states of targets whose metrics were changed, until their next sync."""
        self._findings: dict[str, str] = {}
        self._recorded: dict[str, LastState] = {}
        """The recorded states of targets from before this process, until they are used."""
        self._clock_set = 0.0
        self._versions = count()
        self.version = next(self._versions)
        """Changes with any state; must be read before the states that it describes."""

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Keep the states of these targets, and forget all others.

        No changed or removed target may be in a sync. A target with other metrics has no state
        until its next sync, since the old proposals are not theirs. The same state then continues.
        """
        labels = {target.key: _labels(target) for target in targets}
        known = {
            key for key, label_values in labels.items() if label_values == self._labels.get(key)
        }
        for key in self._states.keys() - known:
            self._of_other_metrics[key] = self._states.pop(key)
        for key in self._of_other_metrics.keys() - labels.keys():
            del self._of_other_metrics[key]
        self._findings = {}
        self._labels = labels
        self._targets = {target.key: target for target in targets}
        self.version = next(self._versions)

    def find(self, key: str, finding: str) -> None:
        """Note which series exist if a query of a target found none; empty when it is over."""
        self._findings[key] = finding
        self.version = next(self._versions)

    def resume(self, standings: Mapping[str, LastState]) -> None:
        """Resume the recorded states at the next sync of each target."""
        self._recorded = dict(standings)

    def note(self, result: SyncResult) -> None:
        """Keep a target's result. It is fast, since each sync calls it for every target."""
        decision, key = result.decision, result.target.key
        before = self._states.get(key)
        if decision.outcome is Outcome.BLOCKED or type(result.write) is WriteFailure:
            succeeded = None if before is None else before.succeeded
        else:
            succeeded = decision.time
        marks, state, *_ = result.classified()
        stood = before or self._of_other_metrics.pop(key, None)
        goes_on = stood is not None and stood.state is state
        since = stood.since if stood and goes_on else decision.time - self._clock_set
        first = stood is None or (goes_on and stood.first)
        recorded = self._recorded.pop(key, None) if self._recorded else None
        if recorded is not None and first and recorded.state == state:
            since = min(since, recorded.since)
        foreign = (stood.foreign_changes if stood else 0) + (decision.foreign is not None)
        self._states[key] = TargetState(
            _to_keep(result), succeeded, marks, state, since, first, foreign
        )
        self.version = next(self._versions)

    def clock_set(self, seconds: float) -> None:
        """Follow the system's clock, which was set by a number of seconds."""
        self._clock_set += seconds
        self.version = next(self._versions)

    def known(self) -> list[TargetFacts]:
        """Return the facts of each target, in the order of the configuration."""
        return [self._known(target) for target in self._targets.values()]

    def known_of(self, key: str) -> TargetFacts | None:
        """Return the facts of one target; None if there is no such target."""
        target = self._targets.get(key)
        return None if target is None else self._known(target)

    def _known(self, target: Target) -> TargetFacts:
        state = self._states.get(target.key)
        if state is None:
            return TargetFacts(target, None, State.UNKNOWN, Mark(0), None)
        since, finding = state.since + self._clock_set, self._findings.get(target.key, "")
        return TargetFacts(target, state.result, state.state, state.marks, since, finding)

    def rows(self) -> list[TargetRow]:
        """Return the rows of all targets that have been synced."""
        labels, states = self._labels, self._states.copy()
        return [
            TargetRow(
                *(labels[key], state.result.decision, int(state.marks)),
                *(state.succeeded, state.foreign_changes),
            )
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


def _to_keep(result: SyncResult) -> SyncResult:
    """Return a result without its large parts; most results have no large part."""
    decision = result.decision
    for metric in decision.metrics:
        if not _is_small(metric.reading):
            metrics = tuple([_reduced(metric) for metric in decision.metrics])
            decision = replace(decision, metrics=metrics)
            break
    return SyncResult(result.target, decision, result.write)


def _is_small(reading: Reading) -> bool:
    if isinstance(reading, Values):
        return len(reading.values) <= _MOST
    return isinstance(reading, Gap)


def _reduced(metric: MetricResult) -> MetricResult:
    outcome = metric.outcome
    if (
        isinstance(outcome, Calculation)
        and (groups := outcome.groups) is not None
        and len(groups.unready) + len(groups.missing) + len(groups.ignored) > _MOST
    ):
        outcome = replace(outcome, groups=None)
    # dataclasses.replace takes twice as long, and every sync calls this for every such target.
    return MetricResult(
        metric.metric,
        metric.name,
        _NOTHING,
        outcome,
        metric.refill,
        metric.fallback,
        metric.activity,
    )


def _labels(target: Target) -> TargetLabels:
    key = wording.target_key(target)
    of = f',cluster="{escaped(target.cluster)}"' if target.cluster else ""
    head, parts = f'{{target="{escaped(key)}"{of}', wording.key_parts(target.key)
    info = (
        f'{head},target_namespace="{escaped(target.namespace)}"'
        f',target_kind="{escaped(parts.kind)}",target_name="{escaped(parts.name)}"'
    )
    metrics: list[str] = []
    seen: Counter[str] = Counter()
    for metric in target.spec.metrics:
        name, kind = wording.metric_name(metric), metric.type
        seen[kind + name] += 1
        if seen[kind + name] > 1:
            # One metric may have several target values; series must differ.
            name = f"{name} #{seen[kind + name]}"
        metrics.append(f'{head},metric_name="{escaped(name)}",type="{kind}"')
    targets = [wording.target_number(metric) for metric in target.spec.metrics]
    return TargetLabels(
        head,
        info,
        tuple(metrics),
        tuple(f',metric_target_type="{kind}"' for kind, _ in targets),
        tuple(value for _, value in targets),
    )


def escaped(value: str) -> str:
    """Escape a label's value for the text formats."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
