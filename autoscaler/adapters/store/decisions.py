"""The last decision of each target: what of it is kept, and how it is read back."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoscaler.adapters.store.files import DATABASE, read_only
from autoscaler.core.decision import Calculation, Decision, MetricResult, Stage

Summary = tuple[Any, ...]
"""A decision without its time, as plain values: what is compared, and what is written."""


@dataclass(frozen=True, slots=True)
class KeptMetric:
    """One metric's part: the replicas that it proposed, or the reason why it failed."""

    name: str
    proposal: int | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class KeptDecision:
    """The last decision about a target, in the terms of `autoscaler.core.decision.Decision`."""

    time: float
    zone: str
    outcome: str
    current: int | None
    desired: int
    reason: str
    written: bool
    metrics: tuple[KeptMetric, ...]
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Nothing could be read; the message is for the operator."""

    message: str


def summary(decision: Decision) -> Summary:
    """Return what is kept of a decision besides its time."""
    return (
        decision.zone,
        decision.outcome,
        decision.current,
        decision.desired,
        decision.reason,
        decision.written,
        tuple([_metric(one) for one in decision.metrics]),
        _stages(decision),
    )


def from_json(text: str) -> Summary:
    """Read a summary that was written as JSON.  Raises ValueError or TypeError."""
    *plain, metrics, stages = json.loads(text)
    return (*plain, tuple(map(tuple, metrics)), tuple(map(tuple, stages)))


def _metric(result: MetricResult) -> tuple[str, int | None, str | None]:
    outcome = result.outcome
    if isinstance(outcome, Calculation):
        return result.name, outcome.proposal, None
    return result.name, None, outcome.reason


def _stages(decision: Decision) -> tuple[tuple[str, int, int, str], ...]:
    """Return `Decision.stages` as plain values; where all ran, without making them first."""
    combined, stabilized, limited = decision.combination, decision.stabilization, decision.limit
    if combined is None or stabilized is None or limited is None:
        return tuple([(one.name, one.before, one.after, one.reason) for one in decision.stages])
    return (
        ("combine", combined.before, combined.after, decision.reason),
        ("stabilize", stabilized.before, stabilized.after, stabilized.reason),
        ("limit", limited.before, limited.after, limited.reason),
    )


def last_decisions(directory: Path) -> Mapping[str, KeptDecision] | Unreadable:
    """Read every target's last decision from a state directory, also while a daemon writes it."""
    path = directory / DATABASE
    try:
        with closing(read_only(path)) as connection:
            rows = connection.execute(
                "SELECT key, time, decision FROM decisions"
                " JOIN decided USING (target) JOIN targets USING (target)"
            ).fetchall()
        return {key: _kept(time, from_json(decision)) for key, time, decision in rows}
    except (sqlite3.Error, ValueError, TypeError) as error:
        return Unreadable(f"{path} cannot be read: {error}")


def _kept(time: float, parts: tuple[Any, ...]) -> KeptDecision:
    zone, outcome, current, desired, reason, written, metrics, stages = parts
    return KeptDecision(
        time,
        zone,
        outcome,
        current,
        desired,
        reason,
        written,
        tuple(KeptMetric(*one) for one in metrics),
        tuple(Stage(*one) for one in stages),
    )
