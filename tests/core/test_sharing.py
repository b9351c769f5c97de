"""How clusters are shared: a simulation of processes that start, end, and are cut off."""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.sharing import Roster, Statement

LEASE = 15.0
EU = [f"eu-{number:02}" for number in range(12)]


def roster(*others: tuple[str, int], most: int | None = None, now: float = 100.0) -> Roster:
    """Return what `b` knows of others that lead so many clusters, and have for a while."""
    made = Roster("b", EU, LEASE, most)
    for at in (0.0, *range(10, int(now) + 1, 10)):
        for name, leads in others:
            for cluster in EU:
                made.saw(name, cluster, Statement(leads), at)
    return made


@pytest.mark.parametrize(
    ("others", "leads", "delay"),
    [
        ((), 0, 0.0),
        ((), 11, 0.0),
        ((("a", 6),), 5, 0.0),
        ((("a", 6),), 6, 1.0),
        ((("a", 6),), 7, 2.0),
        ((("a", 6),), 11, 2.0),
        ((("a", 4), ("c", 4)), 3, 0.0),
        ((("a", 4), ("c", 4)), 4, 1.0),
    ],
)
def test_who_has_its_fair_share_leaves_a_free_cluster_to_others(
    others: tuple[tuple[str, int], ...], leads: int, delay: float
) -> None:
    """For seconds, never for ever: a cluster that nobody leads is worse."""
    assert roster(*others).bid_delay(leads, 100.0) == delay


def test_nobody_leads_more_than_it_may() -> None:
    """Even if nobody leads the others."""
    assert roster(most=3).bid_delay(2, 100.0) == 0.0
    assert roster(most=3).bid_delay(3, 100.0) is None


@pytest.mark.parametrize(
    ("others", "ours", "given"),
    [
        ((("a", 0),), 12, 6),
        ((("a", 0), ("c", 0)), 12, 8),
        ((("a", 6),), 6, 0),
        ((("a", 5),), 7, 1),
        ((("a", 4), ("c", 2)), 6, 2),
        ((("a", 2), ("c", 2), ("d", 2)), 3, 0),
        ((("a", 3), ("c", 3), ("d", 1)), 3, 0),
        ((("Z", 3), ("a", 3), ("d", 1)), 3, 1),
    ],
)
def test_who_leads_too_many_hands_some_over(
    others: tuple[tuple[str, int], ...], ours: int, given: int
) -> None:
    """Down to the fair share; of those with equally many the last by name gives one."""
    assert len(roster(*others).handovers(EU[:ours], {}, 100.0)) == given


def test_what_is_handed_over_counts_until_its_receiver_leads_it() -> None:
    """Else all would go to the one that was seen with few last."""
    known = roster(("a", 4), ("c", 2))
    first = known.handovers(EU[:6], {}, 100.0)
    assert [*first.values()] == ["c", "c"]
    assert known.handovers(EU[2:6], first, 100.0) == {}


def test_only_who_is_there_for_a_while_and_reaches_the_cluster_is_handed_anything() -> None:
    """One that starts again and again is not, nor one that was cut off."""
    known = Roster("b", EU, LEASE)
    for at in (90.0, 100.0):
        known.saw("a", "eu-03", Statement(0), at)
    assert known.handovers(EU, {}, 100.0) == {}
    known.saw("a", "eu-03", Statement(0), 104.0)
    known.saw("a", "eu-04", Statement(0), 104.0)
    assert known.handovers(EU, {}, 105.0) == {"eu-03": "a", "eu-04": "a"}
    known.left("a", "eu-03")
    assert known.handovers(EU, {}, 105.0) == {"eu-04": "a"}
    known.left("a", "eu-04")
    assert known.handovers(EU, {}, 105.0) == {}
    assert known.fair_share(105.0) == len(EU)


def test_who_is_not_heard_of_is_no_member() -> None:
    """After a lease duration."""
    known = roster(("a", 6))
    assert known.fair_share(100.0 + LEASE - 1) == 6
    assert known.fair_share(100.0 + LEASE) == 12


def test_a_full_member_is_handed_nothing() -> None:
    """What it may lead at most is said in its Lease."""
    known = roster()
    for at in (80.0, 90.0, 100.0):
        known.saw("a", "eu-00", Statement(2, most=2), at)
        known.saw("c", "eu-00", Statement(1, most=2), at)
    assert known.handovers(EU, {}, 100.0) == {"eu-00": "c"}


def test_the_latest_statement_counts() -> None:
    """A watch of another cluster may be late with an earlier one."""
    known = Roster("b", EU, LEASE)
    known.saw("a", "eu-00", Statement(5, renewed=20.0), 1.0)
    known.saw("a", "eu-01", Statement(1, renewed=19.0), 2.0)
    assert known.members(2.0)["a"].leads == 5


@dataclass
class Process:
    """One of several; each hears of the others by what is written in the clusters."""

    name: str
    most: int | None
    reaches: set[str]
    roster: Roster
    handed: dict[str, tuple[str, float]] = field(default_factory=dict)


class World:
    """Clusters with a holder each; time passes in steps of a second."""

    def __init__(self, random: Random, clusters: Collection[str]) -> None:
        self.random = random
        self.clusters = clusters
        self.now = 0.0
        self.holder: dict[str, str] = {}
        self.free_since = dict.fromkeys(clusters, 0.0)
        self.processes: dict[str, Process] = {}
        self.moves: list[tuple[float, str, str]] = []

    def start(self, name: str, most: int | None = None) -> None:
        """Add a process."""
        roster = Roster(name, self.clusters, LEASE, most)
        self.processes[name] = Process(name, most, {*self.clusters}, roster)

    def led(self, name: str) -> list[str]:
        """Return what a process leads."""
        return [one for one, holder in self.holder.items() if holder == name]

    def kill(self, name: str) -> None:
        """End a process; its Leases run out."""
        del self.processes[name]
        for cluster in self.led(name):
            del self.holder[cluster]
            self.free_since[cluster] = self.now + LEASE

    def step(self) -> None:
        """Let a second pass: all hear of each other, bid, and hand over."""
        self.now += 1.0
        for each in self.processes.values():
            for cluster in each.reaches:
                # Who leads renews each two seconds, a member each eleven.
                leads = self.holder.get(cluster) == each.name
                if (int(self.now) + len(each.name)) % (2 if leads else 11) == 0:
                    said = Statement(len(self.led(each.name)), each.most, self.now)
                    for other in self.processes.values():
                        if cluster in other.reaches:
                            other.roster.saw(each.name, cluster, said, self.now)
        order = [*self.processes.values()]
        self.random.shuffle(order)
        for each in order:
            for cluster in self.random.sample(sorted(each.reaches), len(each.reaches)):
                self._turn(each, cluster)

    def _turn(self, each: Process, cluster: str) -> None:
        led = self.led(each.name)
        if cluster not in self.holder:
            delay = each.roster.bid_delay(len(led), self.now)
            if delay is not None and self.now >= self.free_since[cluster] + delay:
                self._give(cluster, each.name)
        elif self.holder[cluster] == each.name and int(self.now) % 2 == 0:
            handed = {
                one: to
                for one, (to, until) in each.handed.items()
                if self.now < until and self.now < until - LEASE + 3
            }
            receiver = each.roster.handovers(led, handed, self.now).get(cluster)
            if receiver is not None:
                each.handed[cluster] = receiver, self.now + LEASE
                self._give(cluster, receiver)

    def _give(self, cluster: str, name: str) -> None:
        if name in self.processes and cluster in self.processes[name].reaches:
            self.holder[cluster] = name
            self.moves.append((self.now, cluster, name))
        else:
            self.holder.pop(cluster, None)
            self.free_since[cluster] = self.now + LEASE

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.step()

    def loads(self) -> list[int]:
        """Return how many each leads."""
        counts = Counter(self.holder.values())
        return [counts[name] for name in self.processes]


@given(
    seed=st.integers(0, 2**32),
    clusters=st.integers(1, 40),
    events=st.lists(st.sampled_from(["start", "kill"]), max_size=6),
)
@settings(max_examples=25, deadline=None)
def test_whatever_starts_and_ends_the_load_is_fair_a_minute_later(
    seed: int, clusters: int, events: list[str]
) -> None:
    """Within one of each other; every cluster is led; from then on nothing moves."""
    random = Random(seed)  # noqa: S311 - no secret
    world = World(random, [f"c{number:02}" for number in range(clusters)])
    world.start("p0")
    world.start("p1")
    for number, event in enumerate(events, 2):
        world.run(random.choice((1, 3, 10, 30)))
        if event == "start":
            world.start(f"p{number}")
        elif len(world.processes) > 1:
            world.kill(random.choice([*world.processes]))
    ended = world.now
    world.run(60)
    loads = world.loads()
    assert sum(loads) == clusters
    assert max(loads) - min(loads) <= 1
    moves = len(world.moves)
    world.run(120)
    assert len(world.moves) == moves, "it flaps"
    moved = Counter(cluster for at, cluster, _ in world.moves if at > ended + LEASE + 3)
    assert max(moved.values(), default=0) <= 3


def test_one_that_is_cut_off_from_some_clusters_is_handed_only_others() -> None:
    """The others lead what it does not reach, and nothing moves back and forth."""
    world = World(Random(1), EU)  # noqa: S311 - no secret
    for name in ("p0", "p1", "p2"):
        world.start(name)
    world.run(60)
    world.processes["p1"].reaches = {"eu-00", "eu-01"}
    for cluster in set(world.led("p1")) - {"eu-00", "eu-01"}:
        del world.holder[cluster]
        world.free_since[cluster] = world.now + LEASE
    world.run(90)
    assert len(world.holder) == len(EU)
    assert set(world.led("p1")) <= {"eu-00", "eu-01"}
    moves = len(world.moves)
    world.run(300)
    assert len(world.moves) == moves
    assert max(world.loads()) <= math.ceil(len(EU) / 3) + 1


def test_a_newcomer_takes_no_more_moves_than_clusters_it_gets() -> None:
    """Each cluster moves once."""
    world = World(Random(2), EU)  # noqa: S311 - no secret
    world.start("p0")
    world.start("p1")
    world.run(60)
    before = len(world.moves)
    world.start("p2")
    world.run(60)
    assert sorted(world.loads()) == [4, 4, 4]
    assert len(world.moves) - before == 4
