"""A replay as an answer: for `-o json` and for a report."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import Field

from autoscaler.core.text import duration
from autoscaler.lab.engine.measures import DayCounts, Measures
from autoscaler.lab.engine.outcome import TargetOutcome
from autoscaler.lab.engine.replay import Replay
from autoscaler.rendering.answers import AnswerModel, ExactInstant, Sentence, Text


class ReplayedChangeAnswer(AnswerModel):
    """A change of the count."""

    time: ExactInstant
    before: int
    after: int
    text: Sentence
    """The reason."""


class ReasonAnswer(AnswerModel):
    """The reason for the count, from a time on."""

    time: ExactInstant
    text: Sentence


class ReplayedLines(AnswerModel):
    """Lines over time, in parts that each last until the next. Null is unknown."""

    times: tuple[ExactInstant, ...]
    """The begin of each part."""
    demand: tuple[int | None, ...]
    """The demand in pods, at the end of the part."""
    demand_low: tuple[int | None, ...]
    """The least demand."""
    demand_high: tuple[int | None, ...]
    """The greatest demand."""
    ready: tuple[int, ...]
    """The ready pods, at the end of the part."""
    ready_low: tuple[int, ...]
    """The fewest ready pods."""
    ready_high: tuple[int, ...]
    """The most ready pods."""
    short: tuple[int | None, ...]
    """The most missing pods at an instant of the part."""
    replicas: tuple[int, ...]
    """The count, at the end of the part."""
    ran: tuple[int | None, ...]
    """The actual count, at the end of the part."""


class ReplayedTarget(AnswerModel):
    """The outcome of one target."""

    target: Text
    begin: ExactInstant = Field(alias="from")
    end: ExactInstant = Field(alias="to")
    models: dict[Text, Text] = Field(default_factory=dict)
    """The load model of each metric: recorded, shared or queue."""
    assumed: tuple[Sentence, ...] = ()
    """The assumptions."""
    first_replicas: int
    last_replicas: int
    measures: Measures
    ran: Measures | None = None
    """The measures of the actual count, with the same demand."""
    days: tuple[Measures, ...]
    """The measures of each day since the begin."""
    failed_seconds: float
    """The time in which a metric had no proposal."""
    censored_seconds: float
    """The time in which the recorded pods were at capacity: demand may have been higher."""
    changes: tuple[ReplayedChangeAnswer, ...]
    """The first changes."""
    unlisted_changes: int = 0
    """The number of later changes, which are not listed."""
    reasons: tuple[ReasonAnswer, ...]
    lines: ReplayedLines


class ReplayAnswer(AnswerModel):
    """A replay of some targets; the largest changes come first."""

    begin: ExactInstant = Field(alias="from")
    end: ExactInstant = Field(alias="to")
    targets: tuple[ReplayedTarget, ...]
    refused: tuple[Sentence, ...] = ()
    """The targets that could not be replayed, and why."""


def answer_of(replay: Replay) -> ReplayAnswer:
    """Return a replay as an answer."""
    return ReplayAnswer(
        begin=replay.begin,
        end=replay.end,
        targets=tuple(_target(replay, outcome) for outcome in by_change(replay.outcomes)),
        refused=replay.refused,
    )


def by_change(outcomes: Iterable[TargetOutcome]) -> list[TargetOutcome]:
    """Return outcomes, the largest difference from the actual one first."""

    def changed(outcome: TargetOutcome) -> tuple[float, int]:
        ran = outcome.ran
        moved = 0.0 if ran is None else abs(outcome.measures.replica_hours - ran.replica_hours)
        return moved, outcome.measures.changes

    return sorted(outcomes, key=changed, reverse=True)


def _target(replay: Replay, outcome: TargetOutcome) -> ReplayedTarget:
    names = [name for name in ReplayedLines.model_fields if name != "times"]
    lines = {name: tuple(getattr(part, name) for part in outcome.parts) for name in names}
    same = {
        name: getattr(outcome, name)
        for name in ReplayedTarget.model_fields
        if hasattr(outcome, name)
    }
    return ReplayedTarget(
        target=outcome.key,
        models=dict(replay.models.get(outcome.key, ())),
        assumed=replay.assumed.get(outcome.key, ()),
        unlisted_changes=outcome.measures.changes - len(outcome.changes),
        lines=ReplayedLines(times=tuple(part.begin for part in outcome.parts), **lines),
        **same,
    )


def day_counts_document(counts: DayCounts) -> dict[str, object]:
    """Return the number of days on which each was better, as JSON."""
    return {
        "days": counts.days,
        "betterDays": counts.better,
        "worseDays": counts.worse,
        "chance": counts.chance,
        "sure": counts.sure,
    }


class MeasureText(NamedTuple):
    """The name of a measure, its meaning and its unit."""

    field: str
    heading: str
    meaning: str
    unit: str


MEASURES = (
    MeasureText("tau_under", "under-provisioned time", "share with too few pods", "%"),
    MeasureText("theta_under", "under-provisioning", "missing pods, % of demand", "%"),
    MeasureText("theta_over", "over-provisioning", "excess pods, % of demand", "%"),
    MeasureText("tau_over", "over-provisioned time", "share with too many pods", "%"),
    MeasureText("upsilon", "instability", "demand and pods changed in different directions", "%"),
    MeasureText("replica_hours", "replica-hours", "of all desired pods", "h"),
    MeasureText("shortage_pod_hours", "missing pod-hours", "of all missing pods", "h"),
    MeasureText("changes", "changes", "of the count", ""),
    MeasureText("worst_shortage", "worst shortage", "the most missing pods", "pods"),
    MeasureText("longest_shortage_seconds", "longest shortage", "time until recovery", "s"),
    MeasureText("at_max_seconds", "at maximum", "time at maxReplicas", "s"),
    MeasureText("longest_queue", "longest queue", "the longest queue", ""),
    MeasureText("mean_wait_seconds", "mean wait", "in a queue", "s"),
    MeasureText("longest_wait_seconds", "longest wait", "in a queue", "s"),
)
"""The measures in the order of the output."""
_OF_QUEUE = {"longest_queue", "mean_wait_seconds", "longest_wait_seconds"}
_SMALL_HOURS = 10.0
"""Below this, hours have two decimals."""


def measure_text(measure: MeasureText, value: float | None) -> str:
    """Format a measure; "-" without a value."""
    if value is None:
        return "-"
    if measure.unit == "%":
        return f"{value:.2%}"
    if measure.unit == "s":
        return duration(value)
    if measure.unit == "h":
        return f"{value:.2f}" if value < _SMALL_HOURS else f"{value:.1f}"
    return f"{value:.6g}"


def told_measures(measured: Sequence[Measures]) -> list[MeasureText]:
    """Return the measures to print for some replays; queue measures only if one has any."""
    return [
        measure
        for measure in MEASURES
        if measure.field not in _OF_QUEUE
        or any(getattr(measures, measure.field) is not None for measures in measured)
    ]
