"""How conditions are set (semantics 1.6)."""

from autoscaler.core.history import Condition
from autoscaler.core.status import with_condition
from tests.core.builders import FALSE, TRUE, UNKNOWN

ABLE = Condition("AbleToScale", TRUE, "SucceededGetScale", "read", 100.0)
ACTIVE = Condition("ScalingActive", TRUE, "ValidMetricFound", "queue", 100.0)


def test_a_new_condition_is_appended() -> None:
    """Its transition is now."""
    assert with_condition((ABLE,), "ScalingActive", TRUE, "ValidMetricFound", "queue", 100.0) == (
        ABLE,
        ACTIVE,
    )


def test_a_condition_keeps_its_place() -> None:
    """The order is that of the first setting."""
    after = with_condition((ABLE, ACTIVE), "AbleToScale", TRUE, "ReadyForNewScale", "ready", 200.0)
    assert [one.type for one in after] == ["AbleToScale", "ScalingActive"]
    assert after[1] == ACTIVE


def test_the_transition_is_that_of_the_status() -> None:
    """A new reason or message alone does not move it; a flip does, each time."""
    kept = with_condition((ABLE,), "AbleToScale", TRUE, "ReadyForNewScale", "ready", 200.0)
    assert kept == (Condition("AbleToScale", TRUE, "ReadyForNewScale", "ready", 100.0),)
    flipped = with_condition(kept, "AbleToScale", FALSE, "FailedGetScale", "gone", 300.0)
    assert flipped == (Condition("AbleToScale", FALSE, "FailedGetScale", "gone", 300.0),)
    unknown = with_condition(flipped, "AbleToScale", UNKNOWN, "FailedGetScale", "gone", 400.0)
    assert unknown[0].last_transition == 400.0


def test_the_given_conditions_stay_as_they_are() -> None:
    """The result is another tuple."""
    before = (ABLE, ACTIVE)
    with_condition(before, "ScalingActive", FALSE, "ScalingDisabled", "zero", 200.0)
    assert before == (ABLE, ACTIVE)
