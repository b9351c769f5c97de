"""When a rate limit permits more, and scale events in their slots (semantics 4.3, 4.4)."""

import pytest

from autoscaler.core.history import ScaleEvent
from autoscaler.core.normalize import Changes, Events, limit, record_event
from tests.core.builders import (
    BASE,
    average,
    behavior,
    external,
    percent_policy,
    pods_policy,
    rules,
    spec,
)
from tests.core.limiting import FREE, MIN, down, events, limited, up
from tests.core.timeline import Timeline


@pytest.mark.parametrize(
    ("ups", "until"),
    [
        (events(), None),
        (events((1, 20)), 40.0),
        (events((1, 20), (2, 50)), 10.0),
        (events((2, 70)), None),
    ],
)
def test_until_is_the_first_instant_that_permits_more(ups: Events, until: float | None) -> None:
    """An event leaves its period; without one nothing is known to let go."""
    rules = up(pods_policy(4, 60))
    result = limited(10, 99, rules, FREE, ups)
    assert result.until == (None if until is None else BASE + until)
    if result.until is not None:
        before = limit(10, 99, FREE, rules, Changes(ups), result.until - 0.25)
        after = limit(10, 99, FREE, rules, Changes(ups), result.until)
        assert before.after == result.after < after.after


def test_until_skips_an_event_that_changes_nothing() -> None:
    """So much is spent that the first event to leave the period frees nothing."""
    rules = up(pods_policy(4, 60))
    ups = events((1, 50), (20, 20))
    result = limited(10, 99, rules, FREE, ups)
    assert (result.after, result.until) == (10, BASE + 40)


def test_until_downwards() -> None:
    """The same in the other direction, and with two policies the one that binds."""
    rules = down(pods_policy(4, 60), pods_policy(1, 10), select=MIN)
    downs = events((1, 5), (2, 30))
    result = limited(10, 0, rules, FREE, (), downs)
    assert (result.after, result.until) == (10, BASE + 5)
    at = limit(10, 0, FREE, rules, Changes(downs=downs), BASE + 5)
    assert at.after == 9


def test_until_sees_the_events_of_both_directions() -> None:
    """With more than 100 percent down and a start below zero, a past scale-up holds."""
    rules = down(percent_policy(200, 10), pods_policy(1, 60), select=MIN)
    ups, downs = events((2, 5)), events((1, 20))
    result = limited(1, 0, rules, (0, 9), ups, downs)
    assert (result.after, result.until) == (1, BASE + 5)
    assert limit(1, 0, (0, 9), rules, Changes(ups, downs), BASE + 5).after == 0


def test_a_bound_has_no_until() -> None:
    """Time does not move a bound."""
    result = limited(10, 99, up(pods_policy(4, 60)), (1, 11), events((1, 20)))
    assert (result.reason, result.until) == ("TooManyReplicas", None)


FIFTEEN = rules(pods_policy(1, 15), pods_policy(1, 60))


def test_an_event_is_appended_while_none_is_outdated() -> None:
    """The longest period of the rules decides; exactly as old is not outdated."""
    before = events((1, 60), (2, 10))
    after = record_event(before, FIFTEEN, ScaleEvent(5, BASE))
    assert after == (*before, ScaleEvent(5, BASE))


def test_the_last_outdated_slot_is_taken_over() -> None:
    """The other outdated entries are marked and stay."""
    before = events((1, 90), (2, 60.25), (3, 10))
    assert record_event(before, FIFTEEN, ScaleEvent(5, BASE)) == (
        ScaleEvent(1, BASE - 90, outdated=True),
        ScaleEvent(5, BASE),
        ScaleEvent(3, BASE - 10),
    )


def test_outdated_stays_outdated() -> None:
    """A longer period later does not unmark an entry; its slot is still the one to take."""
    marked = (ScaleEvent(1, BASE - 20, outdated=True), ScaleEvent(2, BASE - 10))
    assert record_event(marked, FIFTEEN, ScaleEvent(5, BASE)) == (ScaleEvent(5, BASE), marked[1])


def test_a_full_list_does_not_grow() -> None:
    """One event every 15 s for an hour: as many slots as the longest period holds."""
    kept: Events = ()
    for tick in range(240):
        kept = record_event(kept, FIFTEEN, ScaleEvent(1, BASE + 15 * tick))
    assert len(kept) == 5


def test_a_write_cut_by_a_rate_limit_names_when_it_goes_on() -> None:
    """From 1 to 5 at four pods per 15 s: the write itself binds for 15 s, then 10 are permitted."""
    timeline = Timeline(spec(external(average("1")), maximum=99, behavior=behavior()))
    timeline.at("0s", queue=40).want(5, limited="ScaleUpLimit")
    assert timeline.decision is not None
    assert timeline.decision.releases_at == BASE + 15
    timeline.at("14s", queue=40).want(5)
    timeline.at("15s", queue=40).want(10)


def test_a_scale_down_cut_by_a_rate_limit_names_when_it_goes_on() -> None:
    """From 10 by two pods per minute: to 8 now, and to 6 from one minute on."""
    rule = behavior(down=rules(pods_policy(2, 60), window=0))
    timeline = Timeline(spec(external(average("1")), maximum=99, behavior=rule), replicas=10)
    timeline.at("0s", queue=10).at("6m", queue=1).want(8, limited="ScaleDownLimit")
    assert timeline.decision is not None
    assert timeline.decision.releases_at == BASE + 360 + 60
    timeline.at("6m59s", queue=1).want(8)
    timeline.at("7m", queue=1).want(6)
