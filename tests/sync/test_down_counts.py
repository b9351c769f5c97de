"""How many targets of a server would go down, and when its breaker trips and ends (8.7)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.breaker import CLOSED, Breaker, BreakerState, Trip
from autoscaler.core.history import shifted
from autoscaler.core.target import Query, Target
from autoscaler.sync.down_counts import ServerCount, holds, most_down, released, reviewed
from tests.core.builders import BASE, average, external, spec
from tests.narrowing import known

BREAKER = Breaker(share=30, min_targets=20, hold=600.0)


@pytest.mark.parametrize(
    ("of", "most"),
    [(0, 0), (19, 19), (20, 6), (21, 6), (23, 6), (24, 7), (500, 150), (10_000, 3_000)],
)
def test_more_than_the_share_of_a_servers_targets_trips_the_breaker(of: int, most: int) -> None:
    """30 %; of fewer than 20 targets all may go down."""
    assert most_down(BREAKER, of) == most
    assert reviewed(BREAKER, CLOSED, most, of, BASE) == CLOSED
    tripped = reviewed(BREAKER, CLOSED, most + 1, of, BASE).trip
    assert tripped == Trip(BASE, BASE + 600, most + 1, of)


def test_a_trip_lasts_for_its_time_and_counts_how_often_it_tripped_again() -> None:
    """No count changes it until its end; then it ends, or trips again if too many would go down."""
    first = reviewed(BREAKER, CLOSED, 500, 500, BASE)
    for down in (0, 500):
        assert reviewed(BREAKER, first, down, 500, BASE + 599.9) is first
    assert reviewed(BREAKER, first, 150, 500, BASE + 600) == CLOSED
    second = reviewed(BREAKER, first, 151, 500, BASE + 600)
    assert second.trip == Trip(BASE + 600, BASE + 1200, 151, 500, again=1)
    third = reviewed(BREAKER, second, 151, 500, BASE + 1201)
    assert third.trip == Trip(BASE + 1201, BASE + 1801, 151, 500, again=2)


def test_a_trip_that_is_over_is_remembered_until_all_are_counted() -> None:
    state = reviewed(BREAKER, CLOSED, 500, 500, BASE)
    assert reviewed(BREAKER, state, 150, 500, BASE + 600, is_complete=False) is state
    assert (holds(state, BASE + 599.9), holds(state, BASE + 600)) == (True, False)
    again = reviewed(BREAKER, state, 151, 500, BASE + 600, is_complete=False).trip
    assert known(again).again == 1


def test_a_released_breaker_does_not_trip_for_one_hold() -> None:
    free = released(BREAKER, reviewed(BREAKER, CLOSED, 500, 500, BASE), BASE + 60)
    assert free == BreakerState(None, BASE + 660)
    assert reviewed(BREAKER, free, 500, 500, BASE + 659) is free
    assert reviewed(BREAKER, free, 500, 500, BASE + 660).trip is not None
    assert reviewed(BREAKER, free, 3, 500, BASE + 660) == CLOSED
    assert released(BREAKER, CLOSED, BASE) is CLOSED


def test_every_instant_moves_with_the_clock() -> None:
    trip = Trip(BASE, BASE + 600, 5, 9, "up", again=1)
    assert shifted(BreakerState(trip), 30.0) == BreakerState(
        replace(trip, at=BASE + 30, until=BASE + 630)
    )
    assert shifted(BreakerState(None, BASE), -30.0) == BreakerState(None, BASE - 30)


# -- the count of targets that would go down: equal to what looking at all of them gives (8.7) -----


OF_QUEUE = spec(external(average("10")))
TARGETS = {name: Target("shop", OF_QUEUE, (Query(f"q{name}"),)) for name in "abcdef"}


@given(st.data())
def test_the_count_is_that_of_the_last_sync_of_each_target(data: st.DataObject) -> None:
    count = ServerCount("", Breaker(), dict(TARGETS))
    down: set[str] = set()
    decided: dict[str, int] = {}
    running: dict[int, set[str]] = {}
    begun = 0
    for _ in range(data.draw(st.integers(0, 30))):
        free = sorted(count.targets.keys() - set().union(*running.values()))
        event = data.draw(st.sampled_from(["begin", "note", "give up", "end", "reload"]))
        if event == "begin":
            begun += 1
            running[begun] = set(
                data.draw(st.lists(st.sampled_from(free), unique=True)) if free else ()
            )
            count.begin(begun)
            for target in running[begun]:
                count.expect(begun, target)
        elif event == "reload":
            targets = data.draw(st.sets(st.sampled_from("abcdef"))).union(*running.values())
            after = ServerCount("", Breaker(), {name: TARGETS[name] for name in targets})
            after.go_on_from(count)
            count, down = after, down & targets
            decided = {name: decided.get(name, 0) for name in targets}
        elif running:
            number = data.draw(st.sampled_from(sorted(running)))
            if event == "note" and running[number]:
                target = data.draw(st.sampled_from(sorted(running[number])))
                goes = data.draw(st.booleans())
                count.note(begun, target, down=goes)
                running[number].discard(target)
                decided[target] = begun
                (down.add if goes else down.discard)(target)
            elif event in {"give up", "end"}:
                down -= running[number]
                running[number].clear()
                if event == "end":
                    del running[number]
                (count.end if event == "end" else count.give_up)(number)
        awaited = set().union(*running.values())
        assert len(count.down) - len(count.outdated) == len(down - awaited)
        for number, sync in count.syncs.items():
            left = {name for name in count.targets if decided.get(name, 0) < number}
            assert sync.undecided == len(left)
            assert sync.awaited == running[number]
        assert count.syncs.keys() == running.keys()


def test_the_query_of_a_trip_is_the_query_that_most_targets_share() -> None:
    """Queries of other servers do not count, and a query that a target has twice counts once."""
    shared, other, own = Query("shared"), Query("other", server="mimir"), Query("own")
    of = {
        name: Target("shop", OF_QUEUE, (*queries, other))
        for name, queries in {"a": [shared], "b": [shared], "c": [own, own, own]}.items()
    }
    count = ServerCount("", Breaker(share=0, min_targets=1), of)
    for name in of:
        count.note(1, name, down=True)
    assert count.query() == "shared"
    assert count.review(1, BASE), "it trips, since no share of them may go down"
