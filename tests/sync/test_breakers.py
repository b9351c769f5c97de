"""The scale-down breaker over whole syncs: which targets it holds (semantics 8.7)."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import pytest

from autoscaler import clock
from autoscaler.core.breaker import Breaker, BreakerState
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.breakers import Breakers
from autoscaler.sync.ports import BreakerChange, BreakerNews
from autoscaler.sync.run import Syncer, SyncRun
from tests.core.builders import behavior, percent_policy, rules
from tests.narrowing import instance, known
from tests.worlds.memory import T0, Memory, external
from tests.worlds.waiting import NotInTimeError, wait_until

BREAKER = Breaker(share=30, min_targets=20, hold=600.0)
FREE = behavior(down=rules(percent_policy(100), window=0))
BUDGET = 10.0
BUSY = 300.0
"""Messages of a queue that keep its target at 10 replicas."""


def fleet(count: int, *, promql: str = "queue", server: str = "", first: int = 0) -> list[Target]:
    """Return targets that read one series each of a query, and may go down at once."""
    targets = []
    for number in range(first, first + count):
        target = external("shop", f"w{number}", queue=f"w{number}", promql=promql)
        spec, query = replace(target.spec, behavior=FREE), replace(target.queries[0], server=server)
        targets.append(replace(target, spec=spec, queries=(query,)))
    return targets


def two_servers() -> list[Target]:
    """Return 30 targets of the default server, and then 30 of another one."""
    return fleet(30) + fleet(30, promql="far", server="mimir", first=30)


def watched(targets: Sequence[Target]) -> Breakers:
    """Return breakers of some targets."""
    breakers = Breakers()
    breakers.change(BREAKER, targets)
    return breakers


class Fleet:
    """Targets at 10 replicas, synced every 15 s; ``messages`` has the length of each queue."""

    def __init__(self, targets: Sequence[Target], breaker: Breaker | None = BREAKER) -> None:
        self.targets = list(targets)
        self.messages = {_name(target): BUSY for target in targets}

        self.world = Memory(scales_cached=True)
        self.news: list[BreakerNews] = self.world.news
        self.world.servers["mimir"] = self.world
        for target in targets:
            self.world.scales[f"shop/{_name(target)}"] = Scale(10, 10, f"app={_name(target)}")
        self.time = 0.0
        self._breaker = breaker

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.syncer.__exit__()

    def restart(self, seconds: float = 0.0) -> None:
        """End the process, and start another one some seconds later."""
        self.syncer.__exit__()
        self.time += seconds
        self.start()

    def start(self) -> None:
        self.syncer: Syncer = self.world.syncer(known=dict(self.world.kept))
        self.syncer.breakers.resume(self.world.breakers, T0 + self.time, self.time)
        self.configure(self._breaker)

    def configure(self, breaker: Breaker | None) -> None:
        ports = self.world.world()
        self.syncer.change(Flags(), ports, self.targets, {"": 100_000.0}, breaker)

    def fill(self, targets: Sequence[Target], messages: float = 0.0) -> None:
        """Set the messages of some queues; none, as after a label was renamed, by default."""
        self.messages |= {_name(target): messages for target in targets}

    def sync(self, targets: Sequence[Target] | None = None, seconds: float = 15.0) -> None:
        """Sync some targets, or all, some seconds after the last sync."""
        self.time += seconds
        self.begin(self.targets if targets is None else targets)

    def begin(self, targets: Sequence[Target], budget: float = BUDGET) -> None:
        for promql in {target.queries[0].promql for target in targets}:
            self.world.answers[promql] = QueryResult(
                [
                    Series({"queue": _name(target)}, self.messages[_name(target)], T0 + self.time)
                    for target in targets
                    if target.queries[0].promql == promql
                ]
            )
        self.syncer.sync(targets, T0 + self.time, budget, steady=self.time)

    def counts(self) -> dict[int, int]:
        scales = self.world.scales.values()
        return Counter(instance(Scale, scale).spec_replicas for scale in scales)

    def changes(self) -> list[str]:
        return [event.change.value for event in self.news]


@contextmanager
def after_rename(count: int, empty: int) -> Iterator[Fleet]:
    """Return so many targets after a sync in which the first queues are empty."""
    with Fleet(fleet(count)) as run:
        run.fill(run.targets[:empty])
        run.sync()
        yield run


@contextmanager
def waiting(run: Fleet, budget: float = 20.0) -> Iterator[threading.Thread]:
    """Sync the first 20 targets in a thread: they would go down, and wait for the others."""
    run.time = 15.0
    thread = threading.Thread(target=run.begin, args=(run.targets[:20], budget))
    thread.start()
    wait_until("it waits", lambda: len(run.syncer.breakers._servers[""].down) == 20)
    yield thread
    thread.join(budget / 3)
    assert not thread.is_alive()


def _name(target: Target) -> str:
    return target.spec.scale_target_ref.name


def test_a_target_in_shadow_does_not_count() -> None:
    live, *others = fleet(10)
    shadows = [replace(target, extensions=Extensions(mode=Mode.SHADOW)) for target in others]
    assert [status.of for status in watched([live, *shadows]).statuses(0.0)] == [1]


def test_five_hundred_targets_whose_label_is_renamed_stay_and_the_others_go_up() -> None:
    with Fleet(fleet(520)) as run:
        run.sync()
        run.fill(run.targets[:500])
        run.fill(run.targets[500:], 2 * BUSY)
        run.sync()
        assert run.counts() == {10: 500, 20: 20}
        (news,) = run.news
        trip = news.trip
        assert (news.change, news.server) == (BreakerChange.TRIPPED, "")
        assert (trip.down, trip.of, trip.query) == (500, 520, "queue")
        assert T0 + 30 <= trip.at <= T0 + 31
        assert trip.until == trip.at + 600
        for _ in range(3):
            run.sync(seconds=190)
        assert run.counts() == {10: 500, 20: 20}
        assert run.changes() == ["tripped"]
        decision = run.world.result("shop/w0").decision
        assert decision.breaker is not None
        assert (decision.breaker.server, decision.breaker.replicas) == ("", 1)
        assert decision.breaker.until == pytest.approx(trip.until)
        assert (decision.rescale, decision.desired) == (False, 10)


def test_a_decline_over_half_an_hour_passes() -> None:
    """All 240 targets go down in the end, eight of them, or 3 %, in each sync."""
    with Fleet(fleet(240)) as run:
        for number in range(30):
            run.fill(run.targets[: 8 * (number + 1)])
            run.sync()
        assert run.counts() == {1: 240}
        assert run.news == []


@pytest.mark.parametrize("meanwhile", ["nothing", "sync", "restart"])
def test_at_the_end_of_the_hold_a_few_targets_go_down(meanwhile: str) -> None:
    """The label was corrected for most of them; a process that starts later reports no end."""
    with after_rename(100, 100) as run:
        run.fill(run.targets[10:], BUSY)
        if meanwhile == "sync":
            run.sync()
            assert run.counts() == {10: 100}
        elif meanwhile == "restart":
            run.restart(seconds=601)
        run.sync(seconds=601)
        assert run.counts() == {1: 10, 10: 90}
        assert run.changes() == ["tripped", *["ended"] * (meanwhile != "restart")]
        assert run.news[-1].down == (100 if meanwhile == "restart" else 10)


def test_scale_downs_of_different_syncs_are_not_added_up() -> None:
    """25 % in one sync and 25 others in the next: neither is too many."""
    with Fleet(fleet(100)) as run:
        for start in (50, 25, 0):
            run.fill(run.targets, BUSY)
            run.fill(run.targets[start : start + 25])
            for scale in run.world.scales:
                run.world.scales[scale] = Scale(10, 10, f"app={scale.removeprefix('shop/')}")
            run.sync()
            assert run.counts() == {1: 25, 10: 75}
        assert run.news == []


def test_a_breaker_trips_again_though_the_first_targets_after_the_hold_stay() -> None:
    """A hold that is over is not judged by half of a sync; a later sync has no influence."""
    targets = fleet(100)
    keys = [target.key for target in targets]
    breakers = watched(targets)
    for begun, down, changes in (
        (0.0, 40, ["tripped"]),
        (601.0, 40, ["tripped again"]),
        (1202.0, 40, ["tripped again"]),
        (1803.0, 9, ["ended"]),
    ):
        turn = breakers.begin(targets[:99], 0.0)
        for key in keys[down:99]:
            breakers.note(key, begun, down=False)
        if begun == 1803.0:
            breakers.begin(targets[99:], 0.0)
        for key in keys[:down]:
            breakers.note(key, begun, down=True)
        assert breakers.states() == {} or begun != 1803.0
        assert [news.change.value for news in breakers.end(turn, begun)] == changes


def test_targets_that_a_sync_does_not_decide_count_no_longer_unless_it_was_stopped() -> None:
    """A hold ends though a target of each sync raises; a daemon that stops reports no such end."""
    targets = fleet(40)
    breakers = watched(targets)
    turn = breakers.begin(targets, 0.0)
    for target in targets:
        breakers.note(target.key, 0.0, down=True)
    assert [news.change.value for news in breakers.end(turn, 0.0)] == ["tripped"]
    turn = breakers.begin(targets, 0.0)
    assert breakers.end(turn, 601.0, stopped=True) == []
    turn = breakers.begin(targets, 0.0)
    breakers.note(targets[0].key, 615.0, down=True)
    (ended,) = breakers.end(turn, 615.0)
    assert (ended.change, ended.down) == (BreakerChange.ENDED, 1)


def test_a_decision_at_the_end_of_the_hold_is_either_held_or_reviewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is reviewed at the instant at which it was counted, unless it had to wait."""
    with after_rename(40, 40) as run:
        until = run.news[-1].trip.until - T0
        instants = iter([until - 0.001])
        monkeypatch.setattr(SyncRun, "_steady", lambda _: next(instants, until + 0.001))
        run.sync(run.targets[:1], seconds=590)
        assert run.counts() == {10: 40}


def given_up(run: Fleet, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the servers that are waited for as long as a sync may, once they were."""
    breakers, servers = run.syncer.breakers, []
    give_up = breakers.give_up

    def record(turn: int, server: str, *instant: Any) -> None:
        servers.append(server)
        give_up(turn, server, *instant)

    monkeypatch.setattr(breakers, "give_up", record)
    return servers


def test_a_target_that_is_not_decided_yet_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 go down and 20 may; with the targets that went down in their last sync it is 15."""
    with Fleet(fleet(100)) as run:
        run.fill([*run.targets[:5], *run.targets[80:90]])
        servers = given_up(run, monkeypatch)
        run.begin(run.targets[80:], budget=2.0)
        assert servers == [""], "80 were not decided"
        run.time = 3.0
        run.begin(run.targets[:80], budget=2.0)
        assert servers == [""]
        assert run.counts() == {1: 15, 10: 85}


def test_decisions_while_a_sync_begins_count_as_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sync decides on 80 targets just before the breakers know of this one, and after."""
    with Fleet(fleet(100)) as run:
        run.fill(run.targets[:5])
        breakers = run.syncer.breakers
        begin, servers = breakers.begin, given_up(run, monkeypatch)

        def others() -> None:
            for target in run.targets[20:]:
                breakers.note(target.key, run.time + 0.01, down=False)

        def begin_late(*arguments: Any) -> Any:
            others()
            return begin(*arguments)

        monkeypatch.setattr(breakers, "begin", begin_late)
        run.world.on_query = {"queue": others}
        run.begin(run.targets[:20])
        assert servers == []
        assert run.counts() == {1: 5, 10: 95}


def test_a_trip_is_kept_at_once() -> None:
    """A process that is killed before its sync ends has held, and its successor holds."""
    with Fleet([*fleet(40), *fleet(5, promql="slow", first=40)]) as run:
        run.fill(run.targets[:40])
        seen: list[Mapping[str, BreakerState]] = []

        def wait() -> None:
            with suppress(NotInTimeError):
                wait_until("it is kept", lambda: bool(run.world.breakers), timeout=1.0)
            seen.append(run.world.breakers)

        run.world.on_query = {"slow": wait}
        run.sync()
        trip = known(seen[0][""].trip)
        assert (trip.down, trip.of) == (14, 45)
        assert run.changes() == ["tripped"]


def test_a_breaker_trips_again_until_an_operator_releases_its_targets() -> None:
    """A release outlives a restart: else the operator would have to release again."""
    with after_rename(100, 100) as run:
        run.sync(seconds=601)
        assert run.counts() == {10: 100}
        assert run.changes() == ["tripped", "tripped again"]
        released = run.syncer.breakers.release(None, run.time)
        assert [(news.change, news.down) for news in released] == [(BreakerChange.RELEASED, 100)]
        run.restart()
        run.sync()
        assert run.counts() == {1: 100}


def test_a_release_of_a_server_leaves_the_targets_of_others_held() -> None:
    with Fleet(two_servers()) as run:
        run.fill(run.targets)
        run.sync()
        assert run.counts() == {10: 60}
        run.syncer.breakers.release("mimir", run.time)
        run.sync()
        assert run.counts() == {1: 30, 10: 30}


def test_one_server_that_lies_holds_only_its_own_targets() -> None:
    """A few targets of the other one go down."""
    with Fleet(two_servers()) as run:
        run.fill([*run.targets[:3], *run.targets[30:]])
        run.sync()
        assert run.counts() == {1: 3, 10: 57}
        assert [news.server for news in run.news] == ["mimir"]
        statuses = {status.server: status for status in run.syncer.breakers.statuses(15.0)}
        assert (statuses[""].until, statuses["mimir"].down, statuses["mimir"].of) == (None, 30, 30)


def test_a_target_of_two_servers_counts_for_both_and_is_held_by_either() -> None:
    """Its query of a bound is one of its queries."""
    first, *targets = two_servers()
    both = replace(first, max_replicas_query=targets[-1].queries[0])
    with Fleet([both, *targets]) as run:
        run.fill([both, *targets[29:]])
        run.sync()
        assert run.counts() == {10: 60}
        hold = known(run.world.result(f"shop/{_name(both)}").decision.breaker)
        assert hold.server == "mimir"
        assert [news.trip.of for news in run.news] == [31]


def test_targets_of_one_server_are_counted_over_the_syncs_of_a_period() -> None:
    """Five groups of 20 that are synced one after the other: the second one trips it."""
    with Fleet(fleet(100)) as run:
        run.fill(run.targets[:100])
        groups = [run.targets[start : start + 20] for start in range(0, 100, 20)]
        for group in groups:
            run.time += 3.0
            run.begin(group, budget=1.5)
        # The first group went when its time was over: 20 % may.
        assert run.counts() == {1: 20, 10: 80}
        assert run.changes() == ["tripped"]


def test_a_slow_answer_delays_no_scale_up_and_no_scale_down_beyond_the_reads() -> None:
    """Ten would go down; whether 90 others do is not known before two thirds of the time."""
    slow = fleet(45, promql="slow", first=10) + fleet(45, promql="slower", first=55)
    with Fleet([*fleet(10), *slow]) as run:
        run.fill(run.targets[:11])
        run.messages["w9"] = 2 * BUSY
        written: dict[str, float] = {}
        ended = threading.Event()
        run.world.on_query = {"slow": lambda: ended.wait(2.1), "slower": lambda: ended.wait(2.9)}
        run.world.on_write = lambda name: written.setdefault(name, clock.monotonic())
        begun = clock.monotonic()
        run.time = 15.0
        run.begin(run.targets, budget=3.0)
        assert written["shop/w9"] - begun < 1.5
        downs = [at - begun for name, at in written.items() if name != "shop/w9"]
        assert len(downs) == 10
        assert run.counts() == {1: 10, 20: 1, 10: 89}
        assert 1.9 <= min(downs) <= max(downs) <= 2.8


def test_a_scale_down_waits_for_every_target_that_is_not_decided() -> None:
    """While 20 targets wait, others are decided often, and 60 show that too many would go down."""
    with Fleet(fleet(100)) as run:
        run.fill([*run.targets[:20], *run.targets[40:]])
        with waiting(run) as syncing:
            for _ in range(4):
                run.begin(run.targets[20:40], budget=20.0)
            assert syncing.is_alive()
            assert run.counts() == {10: 100}
            run.begin(run.targets[40:], budget=20.0)
        assert run.counts() == {10: 100}


def test_scale_downs_that_are_certainly_few_do_not_wait() -> None:
    """20 of 100 targets are not decided: even with all of them 30 are not too many."""
    near, slow = fleet(80), fleet(20, promql="slow", first=80)
    with Fleet([*near, *slow]) as run:
        run.fill(run.targets[:10])
        gone = threading.Semaphore(0)
        run.world.on_write = lambda _name: gone.release()

        def after_the_others() -> None:
            assert all(gone.acquire(timeout=5) for _ in range(10)), "they waited"

        run.world.on_query = {"slow": after_the_others}
        run.sync()
        assert run.counts() == {1: 10, 10: 90}
        assert run.world.faults == []


def test_a_target_that_cannot_be_decided_does_not_count_as_going_down() -> None:
    near, failing = fleet(20), fleet(20, promql="bad", first=20)
    with Fleet([*near, *failing]) as run:
        run.fill(near[:12])
        failed = QueryFailure("no answer")
        run.world.on_query = {"bad": lambda: run.world.answers.update(bad=failed)}
        run.sync()
        assert run.counts() == {1: 12, 10: 28}


def test_a_restart_does_not_end_a_hold() -> None:
    with after_rename(50, 50) as run:
        until = run.news[-1].trip.until
        run.restart()
        assert run.changes() == ["tripped", "resumed"]
        assert run.news[-1].trip.until == pytest.approx(until)
        run.fill(run.targets[1:], BUSY)
        run.sync(seconds=300)
        assert run.counts() == {10: 50}
        run.sync(seconds=301)
        assert run.counts() == {1: 1, 10: 49}
        assert run.changes() == ["tripped", "resumed", "ended"]


@pytest.mark.parametrize(
    ("breaker", "counts"),
    [
        pytest.param(None, {1: 50}, id="removed"),
        pytest.param(replace(BREAKER, min_targets=51), {1: 50}, id="of-more-targets"),
        pytest.param(replace(BREAKER, share=99, hold=60.0), {10: 50}, id="other-values"),
    ],
)
def test_a_reload_ends_a_hold_only_if_it_leaves_the_breaker_no_server(
    breaker: Breaker | None, counts: dict[int, int]
) -> None:
    """Other values hold from the next trip on: an edit does not shorten a hold in force."""
    with after_rename(50, 50) as run:
        run.configure(breaker)
        run.sync(seconds=120)
        assert run.counts() == counts
        assert run.changes() == ["tripped"] + (["removed"] if 1 in counts else [])


def test_a_removed_target_does_not_count() -> None:
    """The others that would go down are few then."""
    with after_rename(60, 40) as run:
        run.targets = run.targets[30:]
        run.configure(BREAKER)
        run.fill(run.targets[1:], BUSY)
        run.sync()
        run.sync(seconds=590)
        assert run.changes() == ["tripped", "ended"]
        assert (run.news[-1].down, run.news[-1].of) == (1, 30)


@pytest.mark.parametrize(
    ("breaker", "counts", "changes"), [(BREAKER, {10: 30}, ["tripped"]), (None, {5: 30}, [])]
)
def test_a_lowered_maximum_of_all_targets_trips_a_breaker(
    breaker: Breaker | None, counts: dict[int, int], changes: list[str]
) -> None:
    """All that takes a count down counts, except a pause.  Without a breaker all go down."""
    lowered = [replace(target, spec=replace(target.spec, max_replicas=5)) for target in fleet(30)]
    with Fleet(lowered, breaker) as run:
        run.sync()
        assert (run.counts(), run.changes()) == (counts, changes)


def test_a_daemon_that_stops_while_it_waits_writes_nothing_down() -> None:
    """Scale-downs that may be too many are left to the next start."""
    with Fleet(fleet(100)) as run:
        run.fill(run.targets[:100])
        with waiting(run):
            run.syncer.stop.set()
        assert run.counts() == {10: 100}
        assert run.world.results == []


@pytest.mark.parametrize("breaker", [BREAKER, None])
def test_a_sync_that_waits_heeds_a_reload(breaker: Breaker | None) -> None:
    """It waits for the targets of the new configuration, or for none without a breaker."""
    every = fleet(101)
    with Fleet(every) as run:
        run.targets = every[:100]
        run.configure(BREAKER)
        run.fill(run.targets[:100])
        with waiting(run, budget=60.0) as syncing:
            run.targets = every
            run.configure(breaker)
            if breaker is not None:
                syncing.join(0.5)
                assert syncing.is_alive()
                run.begin(run.targets[20:])
        assert run.changes() == ([] if breaker is None else ["tripped"])
        assert run.counts() == ({1: 20, 10: 81} if breaker is None else {10: 101})
