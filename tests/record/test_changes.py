"""What counts as a change: timelines in which one thing differs from sync to sync."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.classification import Mark, classify
from autoscaler.core.decision import Activity, Limit
from autoscaler.core.extensions import Pause, PauseMode, Schedule
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.core.target import Target
from autoscaler.core.writes import WriteFailure, WriteOutcome
from autoscaler.persistence.record.changes import Seen, change_key, numbers_of, seen_after
from tests.core.builders import average, external, spec
from tests.core.timeline import Timeline
from tests.narrowing import known
from tests.rendering.test_differences import (
    FAILED,
    FIRST,
    FIRST_ONES,
    HELD,
    OTHERS,
    POLICY,
    SECOND,
)

QUEUE, MAILS = external(average("10")), external(average("10"), "mails")
NIGHT = Schedule("night", "0 22 * * *", "0 6 * * *", "UTC", max_replicas=4)


class Kept(Timeline):
    """A timeline that checks which of its syncs are changes."""

    keys: tuple[Seen, ...] = ()
    rules: Rules | None = None

    def was(self, *, change: bool, write: WriteOutcome | None = None) -> "Kept":
        """Check whether the last sync is a change from the one before."""
        decision = known(self.decision)
        if self.rules is None:
            self.rules = Rules(Target("shop", self.spec, ()), self.flags)
        before = self.keys[-1] if self.keys else None
        result = SyncResult(self.rules.target, decision, write, flags=self.rules.flags)
        key = seen_after(before, change_key(result), decision)
        assert hash(key) is not None
        assert (before != key) == change
        self.keys = (*self.keys, key)
        return self

    def marked(self, marks: Mark) -> "Kept":
        assert self.decision is not None
        assert classify(self.decision).marks == marks
        return self


def timeline_of(*metrics: object) -> Kept:
    return Kept(spec(*metrics), replicas=3)  # type: ignore[arg-type]


def test_values_and_proposals_alone_are_no_change() -> None:
    target = timeline_of(QUEUE)
    target.sync("0s", queue=30).was(change=True).marked(Mark(0))
    for second, queue in ((15, 31.0), (30, 29.0), (45, 32.5)):
        target.sync(f"{second}s", queue=queue).was(change=False)
        assert numbers_of(target.decision) == (3, 3, int(queue * 1000 + 2) // 3, 3)
    assert numbers_of(target.sync("1m", queue=None).decision) == (3, 3, None, None)


def test_a_count_and_the_sync_after_it_are_changes() -> None:
    target = timeline_of(QUEUE)
    target.sync("0s", queue=30).was(change=True)
    target.sync("15s", queue=60).was(change=True).marked(Mark.WRITTEN)
    target.sync("30s", queue=60).was(change=True).marked(Mark(0))
    target.sync("45s", queue=60).was(change=False)
    target.by_hand(9, "kubectl").sync("1m", queue=60).was(change=True)
    assert Mark.FOREIGN in classify(target.decision).marks


def test_a_hold_is_a_change_when_it_begins_first_and_its_end_is_none() -> None:
    target = timeline_of(QUEUE)
    target.sync("0s", queue=30).was(change=True)
    target.sync("15s", queue=20).was(change=True).marked(Mark.STABILIZING)
    target.sync("30s", queue=10).was(change=False)
    target.sync("45s", queue=30).was(change=False).marked(Mark(0))
    target.sync("1m", queue=20).was(change=False).marked(Mark.STABILIZING)
    target.sync("75s", queue=60).was(change=True).marked(Mark.WRITTEN)
    target.sync("90s", queue=60).was(change=True)
    target.sync("105s", queue=50).was(change=True).marked(Mark.STABILIZING)


def test_a_write_failure_and_new_rules_are_changes() -> None:
    target = timeline_of(QUEUE)
    target.sync("0s", queue=30).was(change=True)
    target.sync("15s", queue=30).was(change=True, write=WriteFailure("refused"))
    assert classify(target.decision, WriteFailure("refused")).marks == Mark.FAILED
    target.sync("30s", queue=30).was(change=True)
    target.rules = Rules(Target("shop", target.spec, ()), Flags(tolerance=0.2))
    target.sync("45s", queue=30).was(change=True)
    target.sync("1m", queue=30).was(change=False)


PAUSE = Pause(PauseMode.SCALE_DOWN)
LIMIT = Limit(9, 3, "ScaleUpLimit", 3, POLICY)
ALONE = [
    *((FIRST_ONES.get(name, {}), other) for name, other in OTHERS.items()),
    (
        {"metrics": (replace(FIRST, outcome=FAILED), SECOND)},
        {"metrics": (FIRST, replace(SECOND, outcome=FAILED))},
    ),
    ({}, {"metrics": (replace(FIRST, activity=Activity.ACTIVE), SECOND)}),
    ({"limit": LIMIT}, {"limit": replace(LIMIT, policy=replace(POLICY, value=5))}),
    ({"pause": PAUSE}, {"pause": replace(PAUSE, by="kubectl")}),
]
"""Changes with and without a sentence of their own."""


@pytest.mark.parametrize(("first", "other"), ALONE)
def test_each_field_of_a_decision_alone_is_a_change(
    first: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    target = Target("shop", spec(QUEUE, MAILS), ())
    before, after, same = (replace(HELD.decision, **changed) for changed in (first, other, first))
    assert change_key(SyncResult(target, before)) != change_key(SyncResult(target, after))
    assert change_key(SyncResult(target, same)) == change_key(SyncResult(target, before))
