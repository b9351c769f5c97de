"""The count of targets that would go down: equal to what looking at all of them gives (8.7)."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.breaker import Breaker, ServerCount
from autoscaler.core.target import Query, Target
from tests.core.builders import BASE, average, external, spec

QUEUE = spec(external(average("10")))
TARGETS = {name: Target("shop", QUEUE, (Query(f"q{name}"),)) for name in "abcdef"}


@given(st.data())
def test_the_count_is_that_of_the_last_sync_of_each_target(data: st.DataObject) -> None:
    """Whatever syncs run side by side, are given up, or see targets come and go."""
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
                target, goes = (
                    data.draw(st.sampled_from(sorted(running[number]))),
                    data.draw(st.booleans()),
                )
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


def test_the_query_is_the_one_that_most_of_those_share_that_would_go_down() -> None:
    """Queries of other servers do not count, and one that a target has twice counts once."""
    shared, other, own = Query("shared"), Query("other", server="mimir"), Query("own")
    of = {
        name: Target("shop", QUEUE, (*queries, other))
        for name, queries in {"a": [shared], "b": [shared], "c": [own, own, own]}.items()
    }
    count = ServerCount("", Breaker(share=0, min_targets=1), of)
    for name in of:
        count.note(1, name, down=True)
    assert count.query() == "shared"
    assert count.review(1, BASE), "it trips, since no share of them may go down"
