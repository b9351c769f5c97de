"""Stabilization on both paths (semantics 4.1, 4.2), to the instant."""

import math

import pytest

from autoscaler.core.decision import Stabilization
from autoscaler.core.history import Recommendation
from autoscaler.core.normalize import Recommendations, stabilize, stabilize_legacy
from autoscaler.core.spec import Behavior, Flags
from tests.core.builders import BASE, behavior, percent_policy, rules


def recent(*entries: tuple[int, float]) -> Recommendations:
    """Return recommendations: how many replicas, and how many seconds ago."""
    return tuple(Recommendation(replicas, BASE - ago) for replicas, ago in entries)


def windows(up: int | None, down: int | None) -> Behavior:
    """Return a behavior with these windows."""
    return behavior(rules(percent_policy(100), window=up), rules(percent_policy(100), window=down))


def stabilized(
    current: int, desired: int, entries: Recommendations, rules: Behavior, at: float = BASE
) -> Stabilization:
    """Stabilize with behavior."""
    return stabilize(current, desired, entries, rules, Flags(), at)[0]


@pytest.mark.parametrize(
    ("entries", "desired", "after"),
    [
        (recent(), 3, 3),
        (recent((5, 10)), 3, 5),
        (recent((5, 10)), 7, 7),
        (recent((5, 10), (9, 20), (4, 30)), 3, 9),
        # Exactly as old as the window still counts.
        (recent((9, 300)), 3, 9),
        (recent((9, 300.25)), 3, 3),
        (recent((9, 400), (4, 10)), 3, 4),
        (recent((9, 0)), 3, 9),
    ],
)
def test_without_behavior_the_largest_of_the_window_counts(
    entries: Recommendations, desired: int, after: int
) -> None:
    """The current count plays no part: it may be a scale-up."""
    result, _ = stabilize_legacy(desired, entries, 300.0, BASE)
    assert (result.before, result.after) == (desired, after)
    assert result.reason == ("ReadyForNewScale" if after == desired else "ScaleDownStabilized")


@pytest.mark.parametrize("window", [0.0, 15.0, 300.0, 300.5])
def test_without_behavior_until_is_the_first_instant_without_the_holder(window: float) -> None:
    """At the end of the window the entry still counts; at the next instant it does not."""
    entries = recent((9, window / 2), (9, window / 4), (4, 0))
    result, _ = stabilize_legacy(3, entries, window, BASE)
    assert (result.after, result.held_by) == (9, entries[1])
    assert result.until is not None
    before, _ = stabilize_legacy(3, entries, window, math.nextafter(result.until, 0))
    after, _ = stabilize_legacy(3, entries, window, result.until)
    assert before.after == 9
    assert after.after < 9


def test_without_behavior_nothing_holds_where_nothing_is_held() -> None:
    """Neither a holder nor an instant is named."""
    result, _ = stabilize_legacy(9, recent((5, 10)), 300.0, BASE)
    assert (result.held_by, result.until) == (None, None)


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        (recent((5, 10)), (*recent((5, 10)), Recommendation(3, BASE))),
        (recent((5, 300)), (*recent((5, 300)), Recommendation(3, BASE))),
        (recent((5, 300.25)), (Recommendation(3, BASE),)),
        # The last old slot is taken over, the others stay.
        (
            recent((5, 400), (6, 350), (7, 10)),
            (*recent((5, 400)), Recommendation(3, BASE), *recent((7, 10))),
        ),
        (recent((5, 10), (6, 350)), (*recent((5, 10)), Recommendation(3, BASE))),
    ],
)
def test_without_behavior_old_slots_are_recycled(
    entries: Recommendations, kept: Recommendations
) -> None:
    """The raw recommendation is stored, in the last slot that is older than the window."""
    assert stabilize_legacy(3, entries, 300.0, BASE)[1] == kept


@pytest.mark.parametrize(
    ("current", "desired", "entries", "after", "reason"),
    [
        (5, 5, recent((2, 1), (9, 1)), 5, "ReadyForNewScale"),
        # Downwards the largest of the down window holds, but never above the current count.
        (5, 2, recent((4, 10)), 4, "ScaleDownStabilized"),
        (5, 2, recent((9, 10)), 5, "ScaleDownStabilized"),
        (5, 2, recent((2, 10), (1, 10)), 2, "ReadyForNewScale"),
        (5, 2, recent((4, 59.75)), 4, "ScaleDownStabilized"),
        # Exactly as old as the window does not count, other than without behavior.
        (5, 2, recent((4, 60)), 2, "ReadyForNewScale"),
        (5, 2, recent((4, 61)), 2, "ReadyForNewScale"),
        # Upwards the smallest of the up window holds, but never below the current count.
        (5, 9, recent((7, 10)), 7, "ScaleUpStabilized"),
        (5, 9, recent((3, 10)), 5, "ScaleUpStabilized"),
        (5, 9, recent((10, 10)), 9, "ReadyForNewScale"),
        (5, 9, recent((7, 29.75)), 7, "ScaleUpStabilized"),
        (5, 9, recent((7, 30)), 9, "ReadyForNewScale"),
        # Older than the up window and inside the down window: no matter for a scale-up.
        (5, 9, recent((7, 45)), 9, "ReadyForNewScale"),
    ],
)
def test_with_behavior(
    current: int, desired: int, entries: Recommendations, after: int, reason: str
) -> None:
    """Up window 30 s, down window 60 s: from the current count only as far as both allow."""
    result = stabilized(current, desired, entries, windows(30, 60))
    assert (result.before, result.after, result.reason) == (desired, after, reason)


def test_with_behavior_the_windows_default() -> None:
    """No window upwards; the flag's downwards, truncated to whole seconds."""
    flags = Flags(downscale_stabilization=60.9)
    entries = recent((4, 59.75), (9, 60))
    result, _ = stabilize(5, 2, entries, windows(None, None), flags, BASE)
    assert result.after == 4
    up, _ = stabilize(5, 9, recent((5, 0), (6, 1)), windows(None, None), flags, BASE)
    assert up.after == 9


def test_with_behavior_a_window_of_zero_holds_nothing() -> None:
    """Zero is a choice, not an absence: the flag's window does not step in."""
    assert stabilized(5, 2, recent((5, 0), (5, 1)), windows(0, 0)).after == 2


@pytest.mark.parametrize(
    ("desired", "entries", "holder"),
    [
        (2, recent((4, 50), (4, 20), (3, 5)), 1),
        # Everything at least as high as the result holds it.
        (2, recent((9, 50), (5, 20), (7, 30)), 1),
        (9, recent((7, 25), (7, 20), (8, 5)), 1),
        (9, recent((3, 25), (5, 20), (1, 22)), 1),
    ],
)
def test_with_behavior_until_is_the_first_instant_without_the_holder(
    desired: int, entries: Recommendations, holder: int
) -> None:
    """Just before it the result stands; at it the result moves toward the desired count."""
    rules = windows(30, 60)
    result = stabilized(5, desired, entries, rules)
    assert result.held_by == entries[holder]
    assert result.until == entries[holder].time + (30 if desired > 5 else 60)
    before = stabilized(5, desired, entries, rules, math.nextafter(result.until, 0))
    after = stabilized(5, desired, entries, rules, result.until)
    assert before.after == result.after
    assert abs(after.after - desired) < abs(result.after - desired)


@pytest.mark.parametrize(
    ("entries", "slot"),
    [
        (recent((5, 10)), None),
        # A slot is old when both windows have passed it, strictly.
        (recent((5, 45)), None),
        (recent((5, 60)), None),
        (recent((5, 60.25)), 0),
        (recent((5, 70), (6, 80), (7, 10)), 1),
    ],
)
@pytest.mark.parametrize("rules", [windows(30, 60), windows(60, 30)])
def test_with_behavior_old_slots_are_recycled(
    entries: Recommendations, slot: int | None, rules: Behavior
) -> None:
    """The raw recommendation is stored, in the last slot that neither window reaches."""
    _, kept = stabilize(5, 3, entries, rules, Flags(), BASE)
    expected = list(entries)
    if slot is None:
        expected.append(Recommendation(3, BASE))
    else:
        expected[slot] = Recommendation(3, BASE)
    assert kept == tuple(expected)


def test_an_entry_exactly_as_old_as_the_window_is_neither_used_nor_recycled() -> None:
    """With behavior both comparisons are strict."""
    entries = recent((9, 60))
    result, kept = stabilize(5, 3, entries, windows(0, 60), Flags(), BASE)
    assert result.after == 3
    assert kept == (*entries, Recommendation(3, BASE))
