"""Whatever the network does and whoever is stopped: no two lead at one time.

While a candidate reads a clock or waits for an answer, anything may happen: time passes, others
take whole turns, requests land late or never, answers are lost, and somebody edits the Lease.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.kubernetes import Api, Failure, Lease, Leases
from autoscaler.kubernetes.election import ElectionTimes, LeaseRecord
from autoscaler.kubernetes.leadership import Leadership

LOST = Failure("no answer came", transient=True, uncertain=True)
CONFLICT = Failure("modified", status=409)
MISSING = Failure("not found", status=404, missing="autoscaler")
STEPS = (0.0, 0.05, 0.5, 2.0, 2.4, 3.3, 4.9, 5.1, 9.9, 10.1, 14.9, 15.1, 40.0)
_DEEPEST = 3
_ROUNDING = 1e-6


class Server:
    """Keeps the Lease, and a version that no two states of it share."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.shown: list[Lease | None] = []
        """What a watch shows, in this order."""
        self._version = 0

    def put(self, record: LeaseRecord, over: Lease | None) -> Lease | Failure:
        """Write a record, if the Lease is still the one that was read."""
        if over is None and self.lease is not None:
            return CONFLICT
        if over is not None and self.lease is None:
            return MISSING
        if over is not None and over != self.lease:
            return CONFLICT
        return self.set(record)

    def set(self, record: LeaseRecord) -> Lease:
        self._version += 1
        self.lease = Lease(replace(record, version=str(self._version)), {})
        self.shown.append(self.lease)
        return self.lease


class Candidate(Leases):
    """A process: its clocks, and its way to the server, on which the world goes on.

    Its watch is late, may end, and begins again with what there is.
    """

    def __init__(self, world: "Ports", name: str, times: ElectionTimes) -> None:
        super().__init__(cast(Api, None), "shop", "autoscaler")
        self.world = world
        self.busy = False
        self.looked = False
        self._offset = world.random.choice((0.0, 1e6))
        self._rate = world.random.choice((0.999, 1.0, 1.001))
        self.leadership = Leadership(self, name, times, steady=self.steady, wall=self.wall)
        self.leadership.watching = world.chance
        self._shown = 0

    def take_turn(self) -> None:
        """Let it hear of some changes, and then renew or try to take the Lease."""
        self.busy = True
        shown = self.world.server.shown
        while self._shown < len(shown) and not self.world.chance():
            self.leadership.hear(shown[self._shown])
            self.looked = self.looked or shown[self._shown] is not None
            self._shown += 1
        if self.world.chance():
            self._shown = max(0, len(shown) - 1)
        self.leadership.process_heard()
        self.leadership.try_acquire_or_renew()
        self.busy = False

    def resign(self) -> None:
        """Let it stop in good order."""
        self.busy = True
        self.leadership.release()

    def leads(self) -> bool:
        self.world.watched = True
        leads = self.leadership.leading()
        self.world.watched = False
        return leads

    def leads_since(self) -> float:
        """Return since when it says that nobody else leads, by the world's time."""
        self.world.watched = True
        since = self.leadership.leads_since()
        self.world.watched = False
        assert since is not None
        return (since - self._offset) / self._rate

    def steady(self) -> float:
        """Read a clock of its own, before which it may be stopped."""
        self.world.go_on()
        return self._offset + self.world.now * self._rate

    def wall(self) -> float:
        """Read a clock that shows anything."""
        return self.world.random.choice((0.0, 1e9, 2e9))

    def read(self, deadline: float) -> Lease | Failure | None:  # noqa: ARG002 - as of `Leases`
        """Read the Lease as it was at some time between the request and the answer."""
        self.world.go_on()
        seen = self.world.server.lease
        self.world.go_on()
        if self.world.chance():
            return LOST
        self.looked = self.looked or seen is not None
        return seen

    def write(
        self,
        record: LeaseRecord,
        over: Lease | None,
        deadline: float,  # noqa: ARG002 - as of `Leases`
        annotations: Mapping[str, str] | None = None,  # noqa: ARG002 - as of `Leases`
    ) -> Lease | Failure:
        """Write now, later, or never; the answer may be lost."""
        server = self.world.server
        self.world.go_on()
        if self.world.chance():
            if self.world.chance():
                self.world.late.append(lambda: server.put(record, over))
            self.world.go_on()
            return LOST
        answer = server.put(record, over)
        self.world.go_on()
        if self.world.chance():
            return LOST
        self.looked = self.looked or isinstance(answer, Lease)
        return answer


class Ports:
    """Some candidates and what happens to them; how many lead is checked at each event.

    The Lease is deleted once at most, when all have seen it and no request of theirs is under
    way, and nobody starts until it is back: more than that an absent object cannot tell.
    """

    def __init__(self, random: Random, times: ElectionTimes, candidates: int) -> None:
        self.random = random
        self.now = 0.0
        self.server = Server()
        self.late: list[Callable[[], object]] = []
        self.watched = False
        self.terms = 0
        """How often somebody was seen to lead."""
        self._times = times
        self._led: dict[str, float] = {}
        """When each was seen to lead last."""
        self._depth = 0
        self._deleted = False
        self._names = 0
        self.candidates = [self._new() for _ in range(candidates)]

    def run(self, events: int) -> None:
        """Let things happen."""
        for _ in range(events):
            self._happen()

    def go_on(self) -> None:
        """Let things happen to the others, and time pass, while somebody waits."""
        if self.watched or self._depth >= _DEEPEST or not self.chance():
            return
        self._depth += 1
        self._happen()
        self._depth -= 1

    def chance(self) -> bool:
        """Toss a coin that rarely falls on its side."""
        return self.random.random() < 0.2

    def _new(self) -> Candidate:
        self._names += 1
        return Candidate(self, f"c{self._names}", self._times)

    def _happen(self) -> None:
        idle = [candidate for candidate in self.candidates if not candidate.busy]
        what = self.random.choice(
            ("turn", "turn", "turn", "turn", "time", "time", "late", "stop", "kill", "edit", "del")
        )
        if what == "turn" and idle:
            self.random.choice(idle).take_turn()
        elif what == "time":
            self.now += self.random.choice(STEPS)
        elif what == "late" and self.late:
            self.late.pop(self.random.randrange(len(self.late)))()
        elif what in {"stop", "kill"} and idle and (self.server.lease or not self._deleted):
            gone = self.random.choice(idle)
            if what == "stop":
                gone.resign()
            self.candidates[self.candidates.index(gone)] = self._new()
        elif what == "edit" and self.server.lease is not None:
            self._edit(self.server.lease.record)
        elif what == "del" and self._may_delete():
            self._deleted, self.server.lease = True, None
            self.server.shown.append(None)
        self._check()

    def _may_delete(self) -> bool:
        quiet = not self._deleted and not self._depth and not self.late
        return quiet and all(candidate.looked for candidate in self.candidates)

    def _edit(self, old: LeaseRecord) -> None:
        holder = self.random.choice((old.holder, "somebody"))
        duration = self.random.choice((0.0, 1.0, 60.0))
        self.server.set(LeaseRecord(holder, duration, None, 5.0, 0))

    def _check(self) -> None:
        leaders = [candidate for candidate in self.candidates if candidate.leads()]
        self.terms += len(leaders)
        names = [leader.leadership.identity for leader in leaders]
        assert len(leaders) <= 1, f"{names} lead at {self.now}"
        for leader, name in zip(leaders, names, strict=True):
            since = leader.leads_since()
            others = {
                other for other, at in self._led.items() if other != name and at > since + _ROUNDING
            }
            assert not others, f"{name} says that it leads since {since}, as {others} did later"
            self._led[name] = self.now


TIMES = ElectionTimes(lease_duration=15, renew_deadline=10, retry_period=2)


@given(random=st.randoms(use_true_random=False), candidates=st.integers(2, 4))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_two_candidates_never_lead_at_one_time(random: Random, candidates: int) -> None:
    Ports(random, TIMES, candidates).run(60)


@pytest.mark.parametrize("seed", range(10))
def test_two_candidates_never_lead_at_one_time_in_long_runs(seed: int) -> None:
    """Chosen by chance, ten thousand events in each; somebody does lead now and then."""
    world = Ports(Random(seed), TIMES, 2 + seed % 3)  # noqa: S311 - no secret
    world.run(10_000)
    assert world.terms > 100
