"""What follows from the answer to a write (semantics 1.5)."""

from dataclasses import replace

import pytest

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import Contention, History, PendingWrite, Recommendation, ScaleEvent
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.writes import (
    FIELD_MANAGER,
    WriteFailure,
    intend,
    settle,
    settle_failure,
    settle_write,
)
from autoscaler.persistence.codec import dumps, loads
from tests.core.builders import BASE, QUEUE, TRUE, behavior, pods, spec, values

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
    ("current", "queue", "up", "down"), [(2, 50, 3, 0), (2, 30, 1, 0), (2, 10, 0, 1), (5, 20, 0, 3)]
)
def test_an_accepted_write_is_an_event(current: int, queue: int, up: int, down: int) -> None:
    _, after = settle(WITH, *rescaling(WITH, current, queue))
    assert after.scale_ups == ((ScaleEvent(up, BASE),) if up else ())
    assert after.scale_downs == ((ScaleEvent(down, BASE),) if down else ())
    _, after = settle(WITHOUT, *rescaling(WITHOUT, current, queue))
    assert (after.scale_ups, after.scale_downs) == ((), ())


def test_an_accepted_write_has_an_event_and_a_condition() -> None:
    decision, history = rescaling(WITHOUT, 2, 40)
    settled, after = settle(WITHOUT, decision, history)
    event = settled.events[-1]
    assert (event.type, event.reason) == ("Normal", "SuccessfulRescale")
    assert event.message == f"New size: 4; reason: {decision.reason}"
    assert settled.written
    assert not decision.written
    able = settled.conditions[0]
    assert (able.type, able.status, able.reason) == ("AbleToScale", TRUE, "SucceededRescale")
    assert after.conditions == settled.conditions
    assert (after.desired_replicas, after.last_scale_time) == (4, BASE)


def test_zero_by_our_own_write_is_remembered() -> None:
    _, after = settle(WITHOUT, *rescaling(WITHOUT, 1, 0))
    assert after.zeroed_by_us
    _, after = settle(WITHOUT, *rescaling(WITHOUT, 0, 30))
    assert not after.zeroed_by_us
    ours = History(recommendations=(), zeroed_by_us=True)
    seen = Observation(Scale(2, 2, "app=web"), pods(2), (values(20),))
    _, after = decide(WITHOUT, Flags(), seen, ours, BASE)
    assert not after.zeroed_by_us


def test_a_refused_write_keeps_the_recommendation_and_no_event() -> None:
    decision, history = rescaling(WITH, 2, 50)
    settled, after = settle_failure(decision, history, BEFORE, "status 403")
    event = settled.events[-1]
    assert (event.type, event.reason) == ("Warning", "FailedRescale")
    assert event.message == f"New size: 5; reason: {decision.reason}; error: status 403"
    assert not settled.written
    able = after.conditions[0]
    assert (able.status.value, able.reason) == ("False", "FailedUpdateScale")
    assert "status 403" in able.message
    assert after.conditions == settled.conditions
    assert after.recommendations == (Recommendation(5, BASE),)
    assert (after.scale_ups, after.scale_downs, after.last_scale_time) == ((), (), None)
    assert after.desired_replicas == 3


# -- writes with an unknown outcome, and the next read ---------------------------------------------


SPEC = spec(QUEUE, maximum=20, behavior=behavior())
PENDING = PendingWrite(2, 4, BASE, "7")
ZERO = Scale(0, 0, "app=web", "8")
NO_ANSWER = WriteFailure("no answer", unknown=True)


def test_a_write_is_pending_until_its_outcome_is_known() -> None:
    seen = Observation(Scale(2, 2, "app=web", "7"), pods(2), (values(40),))
    decision, history = decide(SPEC, Flags(), seen, History(), BASE)
    history = intend(decision, history)
    assert history.pending == PENDING
    for pending in (PENDING, None):
        _, failed = settle_failure(decision, history, History(), "timed out", pending)
        assert failed.pending == pending
    _, accepted = settle(SPEC, decision, history)
    assert (accepted.pending, accepted.scale_ups) == (None, (ScaleEvent(2, BASE),))


CRASHES = {
    "landed": (
        Scale(4, 2, "app=web", "8", "", FIELD_MANAGER),
        (None, (ScaleEvent(2, BASE + 1, earliest=BASE),), None, BASE + 1),
    ),
    "old-count-new-version": (
        Scale(2, 2, "app=web", "8"),
        (None, (), BASE + 1, None),
    ),
    "old-count-old-version": (
        Scale(2, 2, "app=web", "7"),
        (PENDING, (), None, None),
    ),
    "third-count": (
        Scale(9, 9, "app=web", "8"),
        (None, (), BASE + 1, None),
    ),
}


@pytest.mark.parametrize(("scale", "expected"), CRASHES.values(), ids=CRASHES)
def test_a_read_settles_a_pending_write(scale: Scale, expected: tuple[object, ...]) -> None:
    history = History((), desired_replicas=2, pending=PENDING, contention=Contention(2))
    seen = Observation(scale, pods(scale.spec_replicas), (values(scale.spec_replicas * 10),))
    decision, history = decide(SPEC, Flags(), seen, history, BASE + 1)
    found = (history.pending, history.scale_ups, history.unseen, history.last_scale_time)
    assert found == expected
    foreign = decision.foreign
    assert (foreign and (foreign.before, foreign.after)) == (
        (2, 9) if scale.spec_replicas == 9 else None
    )


def test_a_write_to_zero_that_landed_is_remembered_as_ours() -> None:
    down = History(recommendations=(), pending=replace(PENDING, before=2, after=0))
    _, history = decide(SPEC, Flags(), Observation(ZERO, (), (values(0),)), down, BASE)
    assert history.zeroed_by_us
    assert [event.change for event in history.scale_downs] == [2]


def tried_twice(first: int, second: int, outcome: WriteFailure) -> History:
    """Write two counts in a row, without an answer to the first one."""
    scale, history = Scale(2, 2, "app=web", "7", generation=3), History()
    for count, write in ((first, NO_ANSWER), (second, outcome)):
        seen = Observation(scale, pods(2), (values(count * 10),))
        before = history
        decision, decided = decide(SPEC, Flags(), seen, before, BASE)
        intended = intend(decision, decided)
        _, history = settle_write(SPEC, decision, write, intended, before, decided.pending)
    return history


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (NO_ANSWER, PendingWrite(2, 5, BASE, "7", (4,))),
        (WriteFailure("refused"), PendingWrite(2, 4, BASE, "7")),
        (replace(NO_ANSWER, resource_version="9"), PendingWrite(2, 5, BASE, "9", (4,))),
    ],
)
def test_every_count_that_may_land_is_kept(outcome: WriteFailure, kept: PendingWrite) -> None:
    """Those that were tried at one version; a conflict in between may have made it another."""
    assert tried_twice(4, 5, outcome).pending == kept
    assert loads(History, dumps(History(pending=kept))).pending == kept


def test_a_count_is_kept_once_however_often_it_is_tried() -> None:
    assert tried_twice(4, 4, NO_ANSWER).pending == PENDING
    kept = dumps(History(pending=PENDING))
    assert "others" not in kept
    assert loads(History, kept).pending == PENDING


LED, TOOK_OVER = True, False


@pytest.mark.parametrize("count", [4, 5])
@pytest.mark.parametrize(
    ("sole_writer", "changes", "manager", "ups", "unseen", "foreign"),
    [
        (LED, 1, FIELD_MANAGER, True, False, False),
        (LED, 2, FIELD_MANAGER, True, False, False),
        (LED, 1, "", True, False, False),
        (LED, 1, "kubectl", False, False, True),
        (LED, 2, "kubectl", False, True, True),
        (TOOK_OVER, 1, FIELD_MANAGER, True, False, False),
        (TOOK_OVER, 2, FIELD_MANAGER, False, True, False),
        (TOOK_OVER, 1, "", False, True, False),
        (TOOK_OVER, 1, "kubectl", False, False, True),
        (TOOK_OVER, 2, "kubectl", False, True, True),
    ],
)
def test_a_new_count_settles_two_writes_without_answers(
    count: int,
    sole_writer: bool,
    changes: int,
    manager: str,
    *,
    ups: bool,
    unseen: bool,
    foreign: bool,
) -> None:
    """The number of changes, and who set the count, tell whether one of them landed."""
    history = tried_twice(4, 5, NO_ANSWER)
    scale = Scale(count, 2, "app=web", "8", "", manager, 3 + changes)
    seen = Observation(
        scale, pods(count), (values(count * 10),), sole_writer=sole_writer, last_read=BASE
    )
    decision, history = decide(SPEC, Flags(), seen, history, BASE + 15)
    assert history.pending is None
    assert [event.change for event in history.scale_ups] == ([count - 2] if ups else [])
    assert (history.unseen is not None, decision.foreign is not None) == (unseen, foreign)
    for event in history.scale_ups:
        assert event.time == BASE + 15
        assert event.earliest is not None
        assert event.earliest <= BASE


@pytest.mark.parametrize(("changes", "unseen"), [(0, False), (1, False), (2, True)])
def test_the_count_before_may_be_there_again(changes: int, *, unseen: bool) -> None:
    """A write that landed may have been undone; a status or a rollout alone says that none did."""
    history = tried_twice(4, 5, NO_ANSWER)
    scale = Scale(2, 2, "app=web", "8", "", FIELD_MANAGER, 3 + changes)
    seen = Observation(scale, pods(2), (values(20),))
    decision, history = decide(SPEC, Flags(), seen, history, BASE + 15)
    assert (history.pending, history.scale_ups, decision.foreign) == (None, (), None)
    assert (history.unseen is not None) is unseen
