"""Which targets are synced together, spread out over a period, or compared for their pods."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.target import HoldQuery, Query, Target
from autoscaler.sync.overlaps import Overlaps
from autoscaler.sync.slots import slots_of
from tests.worlds.memory import external


def target(name: str, *promql: str, period: float = 15.0, server: str = "") -> Target:
    queries = tuple(Query(text, server=server) for text in promql)
    return replace(external("shop", name), queries=queries, sync_period=period)


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param([target(f"t{n}", "queue") for n in range(1000)], id="of-one-query"),
        pytest.param([target("a", "x"), target("b", "x", "y"), target("c", "y")], id="in-turn"),
        pytest.param(
            [replace(target(f"t{n}", f"q{n}"), hold=HoldQuery(Query("up"))) for n in range(20)],
            id="of-one-hold",
        ),
    ],
)
def test_targets_that_share_queries_are_one_slot(targets: list[Target]) -> None:
    (slot,) = slots_of(targets)
    assert len(slot.targets) == len(targets)
    assert 0 <= slot.offset < slot.period == 15.0


def test_targets_of_their_own_queries_are_spread_over_the_period() -> None:
    """150 targets of 150 queries use all 15 slots of their 15 seconds, none with over a fifth."""
    slots = slots_of([target(f"t{number}", f"q{number}") for number in range(150)])
    assert [slot.offset for slot in slots] == [float(second) for second in range(15)]
    assert max(len(slot.targets) for slot in slots) <= 30


def test_targets_that_share_promql_at_different_servers_share_no_slot() -> None:
    names = [f"s{number}" for number in range(30)]
    slots = slots_of([target(f"{name}-{n}", "q", server=name) for name in names for n in range(3)])
    assert len(slots) > 5
    placed = [{target.queries[0].server for target in slot.targets} for slot in slots]
    assert sum(map(len, placed)) == len(names)
    assert sum(len(slot.targets) for slot in slots) == 90


def test_each_period_has_slots_of_its_own() -> None:
    slots = slots_of([target("a", "q", period=1.0), target("b", "q", period=3600.0)])
    assert [(slot.period, len(slot.targets)) for slot in slots] == [(1.0, 1), (3600.0, 1)]
    assert slots[0].offset == 0.0


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from("pqrstu"), min_size=1), st.sampled_from([1.0, 15.0])),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_slots_do_not_depend_on_the_order_of_the_file(
    shapes: list[tuple[set[str], float]], random: Random
) -> None:
    targets = [
        target(f"t{number}", *sorted(queries), period=period)
        for number, (queries, period) in enumerate(shapes)
    ]
    shuffled = list(targets)
    random.shuffle(shuffled)

    def placed(given_targets: list[Target]) -> dict[str, tuple[float, float]]:
        return {
            text.key: (slot.period, slot.offset)
            for slot in slots_of(given_targets)
            for text in slot.targets
        }

    assert placed(targets) == placed(shuffled)
    assert len(placed(targets)) == len(targets)


WEB = "app=web"


def test_a_removed_target_leaves_nothing_behind() -> None:
    overlaps = Overlaps()
    for number in range(3):
        overlaps.register(f"n{number}/Deployment/web", ("", f"n{number}"), WEB)
        overlaps.register(f"shop/Deployment/web{number}", ("", "shop"), f"app=web{number}")
    for number in range(3):
        overlaps.forget(f"n{number}/Deployment/web")
        overlaps.forget(f"shop/Deployment/web{number}")
    assert overlaps._targets == {}
    assert overlaps._selectors == {}
    assert overlaps._candidates == {}


def test_remaining_targets_are_compared_with_new_ones() -> None:
    overlaps = Overlaps()
    for name in ("one", "two", "three"):
        overlaps.register(name, ("", "shop"), WEB if name != "three" else "app=other")
    overlaps.forget("one")
    assert overlaps.candidates("two") == {}
    overlaps.register("four", ("", "shop"), WEB)
    assert overlaps.candidates("two") == {"four": WEB}
    assert overlaps.candidates("four") == {"two": WEB}
    assert overlaps.candidates("three") == {}
