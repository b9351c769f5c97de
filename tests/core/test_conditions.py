"""How conditions are set (semantics 1.6)."""

from collections.abc import Sequence

from autoscaler.core.history import Condition
from autoscaler.core.observation import ConditionStatus
from autoscaler.core.status import StatusRecorder
from tests.core.builders import FALSE, TRUE

ABLE = Condition("AbleToScale", TRUE, "SucceededGetScale", "read", 100.0)
ACTIVE = Condition("ScalingActive", TRUE, "ValidMetricFound", "queue", 100.0)


def with_condition(
    before: Sequence[Condition], type_: str, status: ConditionStatus, reason: str, now: float
) -> tuple[Condition, ...]:
    """Return the conditions after one is set, with its reason as the message."""
    recorder = StatusRecorder(tuple(before), now)
    setter = recorder.set_true if status is TRUE else recorder.set_false
    setter(type_, reason, reason)
    return recorder.conditions


def test_a_new_condition_is_appended() -> None:
    """Its transition is now."""
    active = Condition("ScalingActive", TRUE, "Valid", "Valid", 100.0)
    assert with_condition((ABLE,), "ScalingActive", TRUE, "Valid", 100.0) == (ABLE, active)


def test_a_condition_keeps_its_place() -> None:
    """The order is that of the first setting."""
    after = with_condition((ABLE, ACTIVE), "AbleToScale", TRUE, "Ready", 200.0)
    assert [condition.type for condition in after] == ["AbleToScale", "ScalingActive"]
    assert after[1] == ACTIVE


def test_the_transition_is_that_of_the_status() -> None:
    """A new reason or message alone does not move it; a flip does, each time."""
    kept = with_condition((ABLE,), "AbleToScale", TRUE, "Ready", 200.0)
    assert kept == (Condition("AbleToScale", TRUE, "Ready", "Ready", 100.0),)
    flipped = with_condition(kept, "AbleToScale", FALSE, "Failed", 300.0)
    assert flipped == (Condition("AbleToScale", FALSE, "Failed", "Failed", 300.0),)
    assert with_condition(flipped, "AbleToScale", TRUE, "Ready", 400.0)[0].last_transition == 400.0


def test_two_flips_in_one_decision_are_a_transition() -> None:
    """But what takes the place of another condition is as old as before the decision."""
    recorder = StatusRecorder((ABLE,), 200.0)
    recorder.set_false("AbleToScale", "Failed", "failed")
    recorder.set_true("AbleToScale", "Ready", "ready")
    assert recorder.conditions[0].last_transition == 200.0
    recorder.override("AbleToScale", TRUE, "Ready", "ready")
    assert recorder.conditions[0].last_transition == 100.0
