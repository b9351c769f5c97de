"""Rate limits, bounds and scale events (semantics 4.1, 4.3, 4.4)."""

from dataclasses import replace

import pytest

from autoscaler.core.decision import Limit, Stabilization
from autoscaler.core.history import History, Recommendation, ScaleEvent
from autoscaler.core.normalize import (
    Events,
    Recommendations,
    limit,
    record_event,
    stabilize,
    stabilize_legacy,
)
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.spec import Behavior, Flags, ScalingPolicy, SelectPolicy
from tests.core.builders import (
    BASE,
    average,
    behavior,
    both_ways,
    external,
    percent_policy,
    pods_policy,
    rules,
    spec,
)
from tests.core.timeline import Timeline

MAX, MIN, DISABLED = SelectPolicy.MAX, SelectPolicy.MIN, SelectPolicy.DISABLED
FREE = (0, INT32_MAX)


def events(*changes: tuple[int, float]) -> Events:
    """Return scale events: by how many replicas, and how many seconds ago."""
    return tuple(ScaleEvent(change, BASE - ago) for change, ago in changes)


def limited(
    current: int,
    wanted: int,
    rules: Behavior,
    bounds: tuple[int, int] = FREE,
    ups: Events = (),
    downs: Events = (),
) -> Limit:
    return limit(current, wanted, bounds, rules, History(scale_ups=ups, scale_downs=downs), BASE)


def up(*policies: ScalingPolicy, select: SelectPolicy = MAX) -> Behavior:
    return behavior(up=rules(*policies, select=select))


def down(*policies: ScalingPolicy, select: SelectPolicy = MAX) -> Behavior:
    return behavior(down=rules(*policies, select=select))


@pytest.mark.parametrize(
    ("start", "wanted", "policy", "furthest"),
    [
        # In doubles, 50 * 1.1 is a little more than 55.
        (50, INT32_MAX, percent_policy(10), 56),
        (25, INT32_MAX, percent_policy(12), 29),
        # 1 + 14/100 is not (100 + 14)/100: the one gives 58, the other 57.
        (50, INT32_MAX, percent_policy(14), 58),
        (75, INT32_MAX, percent_policy(36), 102),
        (6, INT32_MAX, percent_policy(50), 9),
        (7, INT32_MAX, percent_policy(50), 11),
        (1, INT32_MAX, percent_policy(900), 10),
        (0, INT32_MAX, percent_policy(100), 0),
        (0, INT32_MAX, pods_policy(4), 4),
        (3, INT32_MAX, pods_policy(4), 7),
        # An overflowing policy permits all; on amd64 it froze scale-up (semantics 6.1).
        (1000, INT32_MAX, percent_policy(2_000_000_000), INT32_MAX),
        (1000, INT32_MAX, pods_policy(INT32_MAX), INT32_MAX),
        # Downwards percent is truncated, so that small counts shrink by one at least.
        (100, 0, percent_policy(1), 99),
        (9, 0, percent_policy(10), 8),
        # In doubles, 5 * (1 - 0.8) is a little less than one.
        (5, 0, percent_policy(80), 0),
        (10, 0, percent_policy(80), 1),
        (10, 0, percent_policy(90), 0),
        (25, 0, percent_policy(92), 1),
        (50, 0, percent_policy(34), 32),
        (75, 0, percent_policy(32), 50),
        (1, 0, percent_policy(1), 0),
        (5, 0, percent_policy(100), 0),
        (5, 0, percent_policy(300), 0),
        (5, 0, pods_policy(3), 2),
        (5, 0, pods_policy(9), 0),
        (5, 0, pods_policy(INT32_MAX), 0),
    ],
)
def test_one_policy_permits_a_count(
    start: int, wanted: int, policy: ScalingPolicy, furthest: int
) -> None:
    """Upwards percent is rounded up, in doubles as the controller computes them."""
    assert limited(start, wanted, both_ways(policy)).after == furthest


PODS, HALF = pods_policy(2), percent_policy(50)


@pytest.mark.parametrize(
    ("rules", "start", "wanted", "furthest", "chosen"),
    [
        (up(PODS, HALF), 1, 1000, 3, PODS),
        (up(PODS, HALF), 10, 1000, 15, HALF),
        (up(PODS, HALF, select=MIN), 10, 1000, 12, PODS),
        (down(PODS, HALF), 10, -1, 5, HALF),
        (down(PODS, HALF, select=MIN), 10, -1, 8, PODS),
        # Of equals the first is named.
        (up(pods_policy(5), HALF), 10, 1000, 15, pods_policy(5)),
        (up(HALF, pods_policy(5), select=MIN), 10, 1000, 15, HALF),
    ],
)
def test_select_max_and_min_choose_the_policy(
    rules: Behavior, start: int, wanted: int, furthest: int, chosen: ScalingPolicy
) -> None:
    result = limited(start, wanted, rules)
    assert (result.after, result.allowed, result.policy) == (furthest, furthest, chosen)


@pytest.mark.parametrize(
    ("current", "wanted", "bounds", "after", "reason"),
    [
        (3, 7, (1, 10), 6, "ScaleUpLimit"),
        # The doubling meets the maximum exactly: the maximum gives the reason.
        (5, 11, (1, 10), 10, "TooManyReplicas"),
        # The minimum goes before the doubling.
        (1, 5, (6, 10), 6, "TooFewReplicas"),
    ],
)
def test_without_behavior_a_bound_goes_before_the_doubling(
    current: int, wanted: int, bounds: tuple[int, int], after: int, reason: str
) -> None:
    result = limit(current, wanted, bounds, None, History(), BASE)
    assert (result.after, result.allowed, result.reason) == (after, after, reason)


def test_events_marked_outdated_still_count() -> None:
    old = (ScaleEvent(3, BASE - 50, outdated=True),)
    assert limited(10, 99, up(pods_policy(4, 60)), FREE, old).after == 11


# -- when a rate limit permits more, and scale events in their slots -------------------------------


FOUR_UP = up(pods_policy(4, 60))
TWO_DOWN = down(pods_policy(4, 60), pods_policy(1, 10), select=MIN)


@pytest.mark.parametrize(
    ("rules", "ups", "downs", "until"),
    [
        (FOUR_UP, events(), (), None),
        (FOUR_UP, events((1, 20)), (), 40.0),
        (FOUR_UP, events((1, 20), (2, 50)), (), 10.0),
        (FOUR_UP, events((2, 70)), (), None),
        # So much is spent that the first event to leave the period frees nothing.
        (FOUR_UP, events((1, 50), (20, 20)), (), 40.0),
        # Of two policies the one that binds.
        (TWO_DOWN, (), events((1, 5), (2, 30)), 5.0),
    ],
)
def test_until_is_the_first_instant_that_permits_more(
    rules: Behavior, ups: Events, downs: Events, until: float | None
) -> None:
    result = limited(10, 0 if downs else 99, rules, FREE, ups, downs)
    assert result.until == (None if until is None else BASE + until)


def test_until_sees_the_events_of_both_directions() -> None:
    rules = down(percent_policy(200, 10), pods_policy(1, 60), select=MIN)
    ups, downs = events((2, 5)), events((1, 20))
    result = limited(1, 0, rules, (0, 9), ups, downs)
    assert (result.after, result.until) == (1, BASE + 5)
    history = History(scale_ups=ups, scale_downs=downs)
    assert limit(1, 0, (0, 9), rules, history, BASE + 5).after == 0


def test_a_bound_has_no_until() -> None:
    result = limited(10, 99, up(pods_policy(4, 60)), (1, 11), events((1, 20)))
    assert (result.reason, result.until) == ("TooManyReplicas", None)


FIFTEEN = rules(pods_policy(1, 15), pods_policy(1, 60))


NEW = ScaleEvent(5, BASE)
RECENT = events((1, 60), (2, 10))
OLD, SLOT, THIRD = events((1, 90), (2, 60.25), (3, 10))
MARKED = ScaleEvent(1, BASE - 20, outdated=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The longest period of the rules decides; exactly as old is not outdated.
        (RECENT, (*RECENT, NEW)),
        # The last outdated slot is taken over.
        ((OLD, SLOT, THIRD), (replace(OLD, outdated=True), NEW, THIRD)),
        # A longer period later does not unmark an entry; its slot is still the one to take.
        ((MARKED, THIRD), (NEW, THIRD)),
    ],
)
def test_an_event_takes_the_last_outdated_slot_or_is_appended(
    before: Events, after: Events
) -> None:
    assert record_event(before, FIFTEEN, NEW) == after


def test_a_full_list_does_not_grow() -> None:
    kept: Events = ()
    for tick in range(240):
        kept = record_event(kept, FIFTEEN, ScaleEvent(1, BASE + 15 * tick))
    assert len(kept) == 5


def test_a_limited_write_has_the_time_of_the_next_change() -> None:
    timeline = Timeline(spec(external(average("1")), maximum=99, behavior=behavior()))
    timeline.sync("0s", queue=40).want(5, limited="ScaleUpLimit")
    assert timeline.decision.releases_at == BASE + 15
    timeline.sync("14s", queue=40).want(5)
    timeline.sync("15s", queue=40).want(10)


# -- stabilization on both paths, to the instant ---------------------------------------------------


def recent(*entries: tuple[int, float]) -> Recommendations:
    """Return recommendations: how many replicas, and how many seconds ago."""
    return tuple(Recommendation(replicas, BASE - ago) for replicas, ago in entries)


def windows(up: int | None, down: int | None) -> Behavior:
    return behavior(rules(percent_policy(100), window=up), rules(percent_policy(100), window=down))


def stabilized(
    current: int, desired: int, entries: Recommendations, rules: Behavior
) -> Stabilization:
    return stabilize(current, desired, entries, rules, Flags(), BASE)[0]


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
    result, _ = stabilize_legacy(desired, entries, 300.0, BASE)
    assert (result.before, result.after) == (desired, after)
    assert (result.held_by is None) is (result.until is None) is (after == desired)
    assert result.reason == ("ReadyForNewScale" if after == desired else "ScaleDownStabilized")


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
        # Upwards the smallest of the up window holds, but never below the current count.
        (5, 9, recent((7, 10)), 7, "ScaleUpStabilized"),
        (5, 9, recent((3, 10)), 5, "ScaleUpStabilized"),
        (5, 9, recent((7, 29.75)), 7, "ScaleUpStabilized"),
        (5, 9, recent((7, 30)), 9, "ReadyForNewScale"),
        # Older than the up window and inside the down window: no matter for a scale-up.
        (5, 9, recent((7, 45)), 9, "ReadyForNewScale"),
    ],
)
def test_with_behavior_both_windows_limit_the_change(
    current: int, desired: int, entries: Recommendations, after: int, reason: str
) -> None:
    result = stabilized(current, desired, entries, windows(30, 60))
    assert (result.before, result.after, result.reason) == (desired, after, reason)


def test_with_behavior_the_last_entry_that_is_at_least_as_far_holds() -> None:
    of_both = windows(30, 60)
    for entries in (recent((4, 50), (4, 20), (3, 5)), recent((9, 50), (5, 20), (7, 30))):
        assert stabilized(5, 2, entries, of_both).held_by == entries[1]
    for entries in (recent((7, 25), (7, 20), (8, 5)), recent((3, 25), (5, 20), (1, 22))):
        assert stabilized(5, 9, entries, of_both).held_by == entries[1]


def test_with_behavior_the_windows_have_defaults() -> None:
    flags = Flags(downscale_stabilization=60.9)
    entries = recent((4, 59.75), (9, 60))
    result, _ = stabilize(5, 2, entries, windows(None, None), flags, BASE)
    assert result.after == 4
    up, _ = stabilize(5, 9, recent((5, 0), (6, 1)), windows(None, None), flags, BASE)
    assert up.after == 9
    none = stabilized(5, 2, recent((5, 0), (5, 1)), windows(0, 0))
    assert none.after == 2, "zero is a choice, not an absence"


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
    _, kept = stabilize(5, 3, entries, rules, Flags(), BASE)
    expected = list(entries)
    if slot is None:
        expected.append(Recommendation(3, BASE))
    else:
        expected[slot] = Recommendation(3, BASE)
    assert kept == tuple(expected)
