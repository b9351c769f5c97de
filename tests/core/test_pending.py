"""Writes whose outcome is not known, and what the next read tells (semantics 7.7)."""

from dataclasses import replace

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History, PendingWrite, ScaleEvent, shifted
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import Flags
from autoscaler.core.writes import intend, resolve, settle, settle_failure
from tests.core.builders import BASE, average, behavior, external, pods, spec, values

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
