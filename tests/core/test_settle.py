"""What follows from the answer to a write (semantics 1.5)."""

from dataclasses import replace

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History, PendingWrite, Recommendation, ScaleEvent, shifted
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.writes import intend, resolve, settle, settle_failure
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


# -- writes whose outcome is not known, and what the next read tells -------------------------------


SPEC = spec(external(average("10")), maximum=20, behavior=behavior())
PENDING = PendingWrite(2, 4, BASE, "7")


def after_a_crash(scale: Scale, now: float = BASE + 1) -> tuple[Decision, History]:
    """Sync with a history that was kept before the write of 2 -> 4 under version 7 was sent."""
    history = History(recommendations=(), desired_replicas=2, pending=PENDING)
    seen = Observation(scale, pods(scale.spec_replicas), (values(scale.spec_replicas * 10),))
    return decide(SPEC, Flags(), seen, history, now)


def test_an_intended_write_is_noted_with_the_version_that_it_replaces() -> None:
    """What is kept before the request: both counts, the instant, the version."""
    scale = Scale(2, 2, "app=web", "7")
    seen = Observation(scale, pods(2), (values(40),))
    decision, history = decide(SPEC, Flags(), seen, History(), BASE)
    assert intend(decision, history).pending == PENDING


def test_a_write_that_landed_counts_from_the_instant_of_its_decision() -> None:
    """The count is the intended one under another version: the event is recorded as if settled."""
    decision, history = after_a_crash(Scale(4, 2, "app=web", "8"))
    assert history.pending is None
    assert history.scale_ups == (ScaleEvent(2, BASE),)
    assert history.last_scale_time == BASE
    assert decision.foreign is None


def test_a_write_that_did_not_land_counts_for_nothing() -> None:
    """The old count under another version: it can land no more."""
    _, history = after_a_crash(Scale(2, 2, "app=web", "8"))
    assert (history.pending, history.scale_ups) == (None, ())


def test_a_write_that_may_still_arrive_stays_pending() -> None:
    """Under the version that it replaces a late request would still be accepted."""
    _, history = after_a_crash(Scale(2, 2, "app=web", "7"))
    assert (history.pending, history.scale_ups) == (PENDING, ())


def test_a_third_count_counts_the_write_and_tells_of_the_other() -> None:
    """Somebody set 9 after it or before it: the limit is kept rather than freed."""
    decision, history = after_a_crash(Scale(9, 9, "app=web", "8"))
    assert history.scale_ups == (ScaleEvent(2, BASE),)
    assert decision.foreign is not None
    assert (decision.foreign.before, decision.foreign.after) == (4, 9)


def test_a_write_to_zero_that_landed_is_remembered_as_ours() -> None:
    """So that a raised minReplicas brings the target back."""
    down = replace(PENDING, before=2, after=0)
    history = resolve(SPEC, History(pending=down), Scale(0, 0, "app=web", "8"))
    assert history.zeroed_by_us
    assert history.scale_downs == (ScaleEvent(2, BASE),)


@pytest.mark.parametrize("unknown", [True, False])
def test_only_an_unknown_outcome_leaves_a_write_pending(unknown: bool) -> None:  # noqa: FBT001
    """A refusal is certain; a time-out is not."""
    scale = Scale(2, 2, "app=web", "7")
    seen = Observation(scale, pods(2), (values(40),))
    decision, decided = decide(SPEC, Flags(), seen, History(), BASE)
    intended = intend(decision, decided)
    pending = intended.pending if unknown else None
    _, history = settle_failure(decision, intended, History(), "timed out", pending)
    assert (history.pending is not None) is unknown


def test_an_accepted_write_is_no_longer_pending() -> None:
    """And it is counted once."""
    scale = Scale(2, 2, "app=web", "7")
    seen = Observation(scale, pods(2), (values(40),))
    decision, decided = decide(SPEC, Flags(), seen, History(), BASE)
    _, history = settle(SPEC, decision, intend(decision, decided))
    assert history.pending is None
    assert history.scale_ups == (ScaleEvent(2, BASE),)
    assert resolve(SPEC, history, Scale(4, 4, "app=web", "8")) == history


def test_a_clock_that_is_set_moves_what_is_pending_and_what_was_reversed() -> None:
    """All instants of a history move together."""
    history = History(pending=PENDING)
    history = replace(history, contention=replace(history.contention, reversals=(BASE,)))
    moved = shifted(history, -100.0)
    assert moved.pending is not None
    assert moved.pending.time == BASE - 100
    assert moved.contention.reversals == (BASE - 100,)
