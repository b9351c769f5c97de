"""Changes under our own name: by an instance with our Lease, or by somebody else."""

import pytest

from autoscaler.core.decision import ForeignChange
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import ReadFailure, Scale, UncheckedControl
from autoscaler.core.writes import FIELD_MANAGER
from tests.worlds.memory import T0, Memory, answer, external

CONTROLLER = 'HorizontalPodAutoscaler "web"'
TARGET = external("shop", "a")
AWAY, FORBIDDEN = ReadFailure("no answer"), "list forbidden"
CHANGE = ForeignChange(3, 5, FIELD_MANAGER)

Look = tuple[float | None, int | ReadFailure]
"""The time from which on we lead, None as a follower, and the count, if it can be read."""


def last_change(*looks: Look, known: int | None = None) -> ForeignChange | None:
    """Return the foreign change that the last of some syncs noticed; one is due every 15 s."""
    world = Memory(answers={"queue": answer(90.0)})
    histories = {} if known is None else {TARGET.key: History(contention=Contention(known))}
    with world.syncer(known=histories) as syncer:
        for number, (led_from, seen) in enumerate(looks):
            world.leads, world.led_from = led_from is not None, led_from or 0.0
            if isinstance(seen, int):
                world.scales["shop/a"] = Scale(seen, seen, "app=a", replicas_by=FIELD_MANAGER)
            else:
                world.scales["shop/a"] = seen
            syncer.sync([TARGET], T0 + 15 * number, 10.0, steady=15.0 * number)
    return world.result("shop/a").decision.foreign


@pytest.mark.parametrize(
    ("looks", "change"),
    [
        pytest.param([(-5, 3), (-5, 5)], CHANGE, id="of-a-leader"),
        pytest.param([(-4, 3), (-4, 5)], None, id="of-one-that-led-for-seconds-when-it-looked"),
        pytest.param([(None, 3), (None, 5)], None, id="of-a-follower"),
        pytest.param([(None, 3), (5, 5)], None, id="at-the-first-look-of-a-leader"),
        pytest.param([(None, 3), (5, 3), (5, 5)], CHANGE, id="at-its-second-look"),
        pytest.param([(5, 3), (5, 5)], None, id="after-a-look-that-began-before-it-led"),
        pytest.param([(None, 3), (5, AWAY), (5, 5)], None, id="after-a-look-that-saw-nothing"),
        pytest.param([(-5, 3), (5, 5)], None, id="of-a-leader-that-was-none-in-between"),
        pytest.param([(-5, 3), (None, 5)], None, id="of-a-leader-that-is-none-any-more"),
    ],
)
def test_a_change_under_our_name_is_foreign_only_to_a_process_that_led_all_the_time(
    looks: list[Look], change: ForeignChange | None
) -> None:
    """Since before the sync that read the previous count; else another instance may have led."""
    assert last_change(*looks) == change


@pytest.mark.parametrize(("led_from", "change"), [(-5, None), (float("-inf"), CHANGE)])
def test_after_a_restart_the_first_look_finds_a_foreign_change_only_without_an_election(
    led_from: float, change: ForeignChange | None
) -> None:
    """The count is known from before; with an election another process may have led meanwhile."""
    assert last_change((led_from, 5), known=3) == change


def test_a_target_that_was_gone_for_a_while_is_new() -> None:
    """What was known of it is not compared with the count that it has on its return."""
    world = Memory(answers={"queue": answer(90.0)})
    with world.syncer() as syncer:
        for number, targets in enumerate(([TARGET], [], [TARGET])):
            world.scales["shop/a"] = Scale(3 + number, 3, "app=a", replicas_by=FIELD_MANAGER)
            syncer.change(syncer.flags, world.world(), targets, {})
            syncer.sync(targets, T0 + 15 * number, 10.0, steady=15.0 * number)
            assert syncer.last_read.keys() == {target.key for target in targets}
    assert world.result("shop/a").decision.foreign is None


def test_after_a_restart_a_target_stays_in_shadow_until_the_others_can_be_listed() -> None:
    """What was kept says that an HPA controlled it; that it cannot be checked frees nothing."""
    world = Memory(answers={"queue": answer(90.0)}, scales={"shop/a": Scale(1, 1, "app=a")})
    world.controllers["shop/a"] = CONTROLLER
    with world.syncer() as syncer:
        syncer.sync([TARGET], T0, 10.0)
    world.controllers["shop/a"] = UncheckedControl(FORBIDDEN)
    with world.syncer(known=dict(world.kept)) as syncer:
        syncer.sync([TARGET], T0 + 15, 10.0)
        assert world.written == []
        decision = world.result("shop/a").decision
        assert (decision.controller, decision.unchecked) == (CONTROLLER, FORBIDDEN)
        assert decision.events == ()
        del world.controllers["shop/a"]
        syncer.sync([TARGET], T0 + 30, 10.0)
    assert world.written == [("shop/a", 3)]
    assert world.kept[TARGET.key].controller == ""
