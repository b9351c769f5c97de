"""What follows from the answer to a write (semantics 1.5)."""

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History, Recommendation, ScaleEvent
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.writes import settle, settle_failure
from tests.core.builders import BASE, average, behavior, external, pods, spec, values

QUEUE = external(average("10"))
WITH = spec(QUEUE, minimum=0, behavior=behavior())
WITHOUT = spec(QUEUE, minimum=0)
BEFORE = History(recommendations=(), desired_replicas=3)


def rescaling(
    of: HorizontalPodAutoscalerSpec, current: int, queue: int
) -> tuple[Decision, History]:
    """Decide at `BASE` on a count that has to change."""
    seen = Observation(Scale(current, current, "app=web"), pods(current), (values(queue),))
    decision, history = decide(of, Flags(), seen, BEFORE, BASE)
    assert decision.rescale
    return decision, history


@pytest.mark.parametrize(
    ("current", "queue", "ups", "downs"),
    [
        (2, 50, (ScaleEvent(3, BASE),), ()),
        (2, 30, (ScaleEvent(1, BASE),), ()),
        (2, 10, (), (ScaleEvent(1, BASE),)),
        (5, 20, (), (ScaleEvent(3, BASE),)),
    ],
)
def test_an_accepted_write_is_an_event_of_its_direction(
    current: int, queue: int, ups: tuple[ScaleEvent, ...], downs: tuple[ScaleEvent, ...]
) -> None:
    """By as many replicas as changed, at the instant of the decision."""
    _, after = settle(WITH, *rescaling(WITH, current, queue))
    assert (after.scale_ups, after.scale_downs) == (ups, downs)


def test_without_behavior_no_event_is_kept() -> None:
    """Nobody would consult it."""
    _, after = settle(WITHOUT, *rescaling(WITHOUT, 2, 50))
    assert (after.scale_ups, after.scale_downs) == ((), ())


def test_an_accepted_write_is_told() -> None:
    """The event's format is an interface; AbleToScale says SucceededRescale."""
    decision, history = rescaling(WITHOUT, 2, 40)
    settled, after = settle(WITHOUT, decision, history)
    event = settled.events[-1]
    assert (event.type, event.reason, event.message) == (
        "Normal",
        "SuccessfulRescale",
        "New size: 4; reason: external metric queue(nil) above target",
    )
    assert settled.written
    assert not decision.written
    able = settled.conditions[0]
    assert (able.type, able.status.value, able.reason) == (
        "AbleToScale",
        "True",
        "SucceededRescale",
    )
    assert after.conditions == settled.conditions
    assert (after.desired_replicas, after.last_scale_time) == (4, BASE)


def test_zero_by_our_own_write_is_remembered() -> None:
    """And forgotten with the next write that leaves zero."""
    _, after = settle(WITHOUT, *rescaling(WITHOUT, 1, 0))
    assert after.zeroed_by_us
    _, after = settle(WITHOUT, *rescaling(WITHOUT, 0, 30))
    assert not after.zeroed_by_us


def test_zero_is_forgotten_when_somebody_else_leaves_it() -> None:
    """A later zero is then not ours."""
    ours = History(recommendations=(), zeroed_by_us=True)
    seen = Observation(Scale(2, 2, "app=web"), pods(2), (values(20),))
    _, after = decide(WITHOUT, Flags(), seen, ours, BASE)
    assert not after.zeroed_by_us


def test_a_refused_write_keeps_the_recommendation_and_no_event() -> None:
    """The desired count stays the previous one; nothing was scaled."""
    decision, history = rescaling(WITH, 2, 50)
    settled, after = settle_failure(decision, history, BEFORE, "the server said 403")
    event = settled.events[-1]
    assert (event.type, event.reason, event.message) == (
        "Warning",
        "FailedRescale",
        "New size: 5; reason: external metric queue(nil) above target; error: the server said 403",
    )
    assert not settled.written
    able = after.conditions[0]
    assert (able.status.value, able.reason) == ("False", "FailedUpdateScale")
    assert "the server said 403" in able.message
    assert after.conditions == settled.conditions
    assert after.recommendations == (Recommendation(5, BASE),)
    assert (after.scale_ups, after.scale_downs, after.last_scale_time) == ((), (), None)
    assert after.desired_replicas == 3
