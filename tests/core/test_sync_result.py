"""Entries of the record: what is read back is what was written, and is decided again the same."""

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.decide import decide
from autoscaler.core.decision import Calculation, Decision
from autoscaler.core.extensions import Extensions
from autoscaler.core.history import History, PendingWrite
from autoscaler.core.observation import Observation, Scale, Values
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.step import recompute, step_of
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import HoldQuery, Query, Target
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
    WriteOutcome,
    intend,
    settle,
    settle_failure,
)
from autoscaler.persistence.codec import UnreadableError, dumps, is_same, loads
from autoscaler.persistence.record.changes import result_of, texts_of
from tests.adapters.store.opening import same
from tests.core import strategies
from tests.core.builders import BASE, QUEUE, spec
from tests.core.deciding import decided, observe

SCALE = Scale(3, 3, "app=web", "12")
OUTCOMES: tuple[WriteOutcome, ...] = (
    AcceptedWrite(SCALE),
    WriteConflict(SCALE),
    WriteConflict(SCALE, uncertain=True),
    WriteFailure("refused"),
    WriteFailure("no answer", unknown=True),
    SkippedWrite(SkippedWriteReason.NOT_LEADING),
)


def synced(data: st.DataObject) -> SyncResult:
    """Draw a sync of any target: its decision, perhaps held, perhaps written."""
    of, extensions = data.draw(strategies.specs()), data.draw(strategies.extensions)
    observation = data.draw(strategies.extended_observations(of, extensions))
    history = data.draw(strategies.extended_histories)
    if data.draw(st.booleans()):
        history = replace(history, pending=PendingWrite(2, 4, BASE - 15, "11"))
    queries = tuple(Query(f"sum(up{{of='{n}'}})", server="mimir") for n in range(len(of.metrics)))
    asks = data.draw(st.booleans())
    hold = HoldQuery(Query("up == 0"), condition=True) if asks else None
    target = Target(
        "shop", of, queries, extensions=extensions, min_replicas_query=Query("a"), hold=hold
    )
    if asks:
        observation = replace(observation, hold=data.draw(strategies.hold_readings))
    rules = Rules(target, data.draw(strategies.flags))
    stamp = BASE - data.draw(st.sampled_from((0.0, 0.001, 1.5)))
    inputs = Inputs(observation, history, BASE, stamp)
    step = step_of(rules, inputs)
    if data.draw(st.booleans()):
        step = step.held_back({"mimir": BASE + 600})
    if step.decision.rescale:
        step = step.settled(data.draw(st.sampled_from(OUTCOMES)))
    return step.result


def stored(entry: SyncResult) -> SyncResult:
    return result_of(*texts_of(entry))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_an_entry_is_read_back_as_it_was_and_decided_again_the_same(data: st.DataObject) -> None:
    entry = synced(data)
    back = stored(entry)
    assert back.rules == entry.rules
    assert back.inputs == entry.inputs
    assert back.write == entry.write
    assert is_same(back.decision, entry.decision)
    assert is_same(recompute(back), entry.decision)


def test_entries_are_drawn_with_every_outcome_of_a_write() -> None:
    assert {type(item) for item in OUTCOMES} == set(get_args(WriteOutcome))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_changed_decision_is_not_the_same(data: st.DataObject) -> None:
    entry = synced(data)
    changed = replace(entry.decision, desired=entry.decision.desired + 1)
    assert not is_same(recompute(entry), changed)
    other = replace(entry.decision, conditions=())
    assert is_same(entry.decision, other) == (entry.decision.conditions == ())


@pytest.mark.parametrize("ratio", [math.inf, -math.inf, math.nan])
def test_infinities_and_nan_are_read_back(ratio: float) -> None:
    """A ratio may be any of them, where usage or target is 0."""
    seen = observe(3, Values((40_000,)))
    decision, _ = decided(spec(QUEUE), seen)
    (metric,) = decision.metrics
    assert isinstance(metric.outcome, Calculation)
    odd = replace(metric, outcome=replace(metric.outcome, ratio=ratio))
    decision = replace(decision, metrics=(odd,))
    inputs = Inputs(seen, History(), BASE, BASE)
    back = stored(SyncResult(Target("shop", spec(QUEUE), ()), decision, given=inputs))
    assert is_same(back.decision, decision)
    assert not is_same(recompute(back), decision)


DAMAGED = ["", "[]", "[1]", "{}", "[" * 100_000, "null", '{"decision":{"type":"scale"}}', "3"]


@pytest.mark.parametrize("body", DAMAGED)
def test_a_damaged_entry_is_unreadable(body: str) -> None:
    rules = dumps(Rules(Target("shop", spec(QUEUE), ()), Flags()))
    with pytest.raises(UnreadableError):
        result_of(rules, body)


# -- A restart at any step changes no decision: all that a target carries is in its history --------


ANNOTATIONS = (
    (),
    (),
    (("autoscaler/paused", "true"),),
    (("autoscaler/paused", "scale-down"),),
    (("autoscaler/paused-replicas", "7"),),
)


def observed(
    data: st.DataObject, of: HorizontalPodAutoscalerSpec, extensions: Extensions, replicas: int
) -> Observation:
    """Draw what is read where the target has that count."""
    drawn = data.draw(strategies.extended_observations(of, extensions))
    assert isinstance(drawn.scale, Scale)
    annotations = data.draw(st.sampled_from(ANNOTATIONS))
    status = max(replicas + drawn.scale.status_replicas - drawn.scale.spec_replicas, 0)
    scale = replace(
        drawn.scale, spec_replicas=replicas, status_replicas=status, annotations=annotations
    )
    ranges = tuple(data.draw(st.sampled_from((0.0, 30.0))) for _ in of.metrics)
    return replace(drawn, scale=scale, ranges=ranges)


class Life:
    """A target that lives through the same syncs, with restarts or without."""

    def __init__(
        self, of: HorizontalPodAutoscalerSpec, extensions: Extensions, *, restarts: bool
    ) -> None:
        self.history = History()
        self._of, self._extensions, self._restarts = of, extensions, restarts

    def sync(self, seen: Observation, now: float, *, write_fails: bool) -> Decision:
        """Decide, and write; there may be a restart before, and one just before the write."""
        before = self.history = self._resumed(self.history)
        decision, history = decide(
            self._of, Flags(), seen, before, now, extensions=self._extensions
        )
        if decision.rescale:
            history = self._resumed(replace(intend(decision, history), pending=None))
            if write_fails:
                decision, history = settle_failure(decision, history, before, "refused")
            else:
                decision, history = settle(self._of, decision, history)
        self.history = history
        return decision

    def _resumed(self, history: History) -> History:
        return loads(History, dumps(history)) if self._restarts else history


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_restart_at_every_step_changes_nothing(data: st.DataObject) -> None:
    of, extensions = data.draw(strategies.specs()), data.draw(strategies.extensions)
    whole, restarted = (Life(of, extensions, restarts=item) for item in (False, True))
    now, replicas = BASE, data.draw(st.integers(0, 12))
    for _ in range(data.draw(st.integers(2, 8))):
        now += data.draw(st.sampled_from((15.0, 15.0, 61.0, 400.0)))
        seen = observed(data, of, extensions, replicas)
        write_fails = data.draw(st.integers(0, 5)) == 0
        decision = whole.sync(seen, now, write_fails=write_fails)
        assert is_same(restarted.sync(seen, now, write_fails=write_fails), decision)
        assert same(restarted.history, whole.history)
        by_hand = data.draw(st.integers(0, 12)) if data.draw(st.integers(0, 9)) == 0 else None
        replicas = decision.desired if by_hand is None else by_hand
