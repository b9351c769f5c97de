"""The scale-down breaker over whole syncs: who is held, who goes, and who waits (semantics 8.7)."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import pytest

from autoscaler import clock
from autoscaler.core.breaker import Breaker, BreakerState
from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.breakers import Breakers
from autoscaler.sync.ports import BreakerChange, BreakerNews
from autoscaler.sync.run import Syncer, SyncRun
from tests.core.builders import behavior, percent_policy, rules
from tests.narrowing import known
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
        metric_target = external("shop", f"w{number}", queue=f"w{number}", promql=promql)
        query = replace(metric_target.queries[0], server=server)
        targets.append(
            replace(
                metric_target, spec=replace(metric_target.spec, behavior=FREE), queries=(query,)
            )
        )
    return targets


class Fleet:
    """Targets at 10 replicas, whose syncs are 15 s apart; ``messages`` are those of each queue."""

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

    def start(self) -> None:
        """Begin as a process would; what is stored is gone on with."""
        self.syncer: Syncer = self.world.syncer(known=dict(self.world.kept))
        self.syncer.breakers.resume(self.world.breakers, T0 + self.time, self.time)
        self.configure(self._breaker)

    def configure(self, breaker: Breaker | None) -> None:
        ports = self.world.world()
        self.syncer.change(Flags(), ports, self.targets, {"": 100_000.0}, breaker)

    def sync(self, targets: Sequence[Target] | None = None, seconds: float = 15.0) -> None:
        """Sync some targets, or all, so many seconds after the last ones."""
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
        found: dict[int, int] = {}
        for scale in self.world.scales.values():
            assert isinstance(scale, Scale)
            found[scale.spec_replicas] = found.get(scale.spec_replicas, 0) + 1
        return found

    def changes(self) -> list[str]:
        return [event.change.value for event in self.news]


@contextmanager
def after_rename(count: int, empty: int) -> Iterator[Fleet]:
    """Return so many targets after a sync in which the first queues are empty."""
    with Fleet(fleet(count)) as run:
        emptied(run, empty)
        run.sync()
        yield run


@contextmanager
def waiting(run: Fleet, budget: float = 20.0) -> Iterator[threading.Thread]:
    """Sync the first 20 targets beside: they would go down, and wait for the others."""
    run.time = 15.0
    thread = threading.Thread(target=run.begin, args=(run.targets[:20], budget))
    thread.start()
    wait_until("it waits", lambda: len(run.syncer.breakers._servers[""].down) == 20)
    yield thread
    thread.join(budget / 3)
    assert not thread.is_alive()


def _name(target: Target) -> str:
    return target.spec.scale_target_ref.name


def emptied(run: Fleet, count: int) -> None:
    """Let the first queues be empty, as after a label was renamed."""
    for target in run.targets[:count]:
        run.messages[_name(target)] = 0.0


def test_five_hundred_targets_whose_label_is_renamed_stay_and_the_others_go_up() -> None:
    """None goes down for ten minutes; who needs more gets it at once; told once, with its end."""
    with Fleet(fleet(520)) as run:
        run.sync()
        emptied(run, 500)
        for target in run.targets[500:]:
            run.messages[_name(target)] = 2 * BUSY
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
        held = run.world.result("shop/w0").decision
        assert held.breaker is not None
        assert (held.breaker.server, held.breaker.replicas) == ("", 1)
        assert held.breaker.until == pytest.approx(trip.until)
        assert (held.rescale, held.desired) == (False, 10)


def test_without_a_breaker_all_of_them_go() -> None:
    """It is off unless it is configured."""
    with Fleet(fleet(40), breaker=None) as run:
        emptied(run, 40)
        run.sync()
        assert run.counts() == {1: 40}


def test_a_decline_over_half_an_hour_passes() -> None:
    """All 240 targets go down in the end, eight of them, or 3 %, in each sync."""
    with Fleet(fleet(240)) as run:
        for number in range(30):
            emptied(run, 8 * (number + 1))
            run.sync()
        assert run.counts() == {1: 240}
        assert run.news == []


@pytest.mark.parametrize("meanwhile", [True, False])
def test_at_the_end_of_the_hold_who_is_few_goes(*, meanwhile: bool) -> None:
    """The label was set right for most of them, during the hold or after it; the end is told."""
    with after_rename(100, 100) as run:
        run.messages = dict.fromkeys(run.messages, BUSY)
        emptied(run, 10)
        if meanwhile:
            run.sync()
            assert run.counts() == {10: 100}
        run.sync(seconds=601)
        assert run.counts() == {1: 10, 10: 90}
        assert run.changes() == ["tripped", "ended"]
        assert run.news[-1].down == 10


def test_others_that_go_down_in_each_sync_are_not_added_up() -> None:
    """25 % in one sync and 25 others in the next: neither is too many."""
    with Fleet(fleet(100)) as run:
        for start in (50, 25, 0):
            run.messages = {f"w{n}": BUSY for n in range(100)}
            run.messages |= {f"w{n}": 0.0 for n in range(start, start + 25)}
            for scale in run.world.scales:
                run.world.scales[scale] = Scale(10, 10, f"app={scale.removeprefix('shop/')}")
            run.sync()
            assert run.counts() == {1: 25, 10: 75}
        assert run.news == []


def test_it_trips_again_though_the_first_ones_after_the_hold_stay() -> None:
    """A hold that is over is not judged by half of a sync; one that begins later has no say."""
    targets = fleet(100)
    keys = [target.key for target in targets]
    breakers = Breakers()
    breakers.change(BREAKER, targets)
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


def test_what_a_sync_cannot_decide_counts_no_longer_and_what_a_stopped_one_left_says_nothing() -> (
    None
):
    """A hold ends though a target of each sync raises; a daemon that stops tells no such end."""
    targets = fleet(40)
    breakers = Breakers()
    breakers.change(BREAKER, targets)
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
    """It is asked for at the instant at which it was counted, unless it had to wait."""
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
    """5 go down and 20 may: those of them that did in their last sync are not more than 20."""
    with Fleet(fleet(100)) as run:
        for target in (*run.targets[:5], *run.targets[80:90]):
            run.messages[_name(target)] = 0.0
        servers = given_up(run, monkeypatch)
        run.begin(run.targets[80:], budget=2.0)
        assert servers == [""], "80 were not decided"
        run.time = 3.0
        run.begin(run.targets[:80], budget=2.0)
        assert servers == [""]
        assert run.counts() == {1: 15, 10: 85}


def test_what_is_decided_while_a_sync_begins_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sync decides on 80 targets just before the breakers know of this one, and after."""
    with Fleet(fleet(100)) as run:
        emptied(run, 5)
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
        emptied(run, 40)
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


def test_it_trips_again_until_an_operator_lets_them_go() -> None:
    """A release lasts for one hold; the breaker watches again after it."""
    with after_rename(100, 100) as run:
        run.sync(seconds=601)
        assert run.counts() == {10: 100}
        assert run.changes() == ["tripped", "tripped again"]
        released = run.syncer.breakers.release(None, run.time)
        assert [(news.change, news.down) for news in released] == [(BreakerChange.RELEASED, 100)]
        run.sync()
        assert run.counts() == {1: 100}


def test_a_release_names_a_server_and_leaves_the_others() -> None:
    """Of two servers that hold, only the one goes."""
    targets = fleet(30) + fleet(30, promql="far", server="mimir", first=30)
    with Fleet(targets) as run:
        emptied(run, 60)
        run.sync()
        assert run.counts() == {10: 60}
        run.syncer.breakers.release("mimir", run.time)
        run.sync()
        assert run.counts() == {1: 30, 10: 30}


def test_one_server_that_lies_holds_only_its_own_targets() -> None:
    """The few that go down on the other one do."""
    targets = fleet(30) + fleet(30, promql="far", server="mimir", first=30)
    with Fleet(targets) as run:
        emptied(run, 3)
        for target in targets[30:]:
            run.messages[_name(target)] = 0.0
        run.sync()
        assert run.counts() == {1: 3, 10: 57}
        assert [news.server for news in run.news] == ["mimir"]
        statuses = {status.server: status for status in run.syncer.breakers.statuses(15.0)}
        assert (statuses[""].until, statuses["mimir"].down, statuses["mimir"].of) == (None, 30, 30)


def test_a_target_of_two_servers_counts_for_both_and_is_held_by_either() -> None:
    """Its query of a bound is one of its queries."""
    near, far = fleet(30), fleet(30, promql="far", server="mimir", first=30)
    both = replace(near[0], max_replicas_query=far[0].queries[0])
    with Fleet([both, *near[1:], *far]) as run:
        for target in (both, *far):
            run.messages[_name(target)] = 0.0
        run.sync()
        assert run.counts() == {10: 60}
        held = known(run.world.result(f"shop/{_name(both)}").decision.breaker)
        assert held.server == "mimir"
        assert [news.trip.of for news in run.news] == [31]


def test_targets_of_one_server_are_counted_over_the_syncs_of_a_period() -> None:
    """Five groups of 20 that are synced one after the other: the second one trips it."""
    with Fleet(fleet(100)) as run:
        emptied(run, 100)
        groups = [run.targets[start : start + 20] for start in range(0, 100, 20)]
        for group in groups:
            run.time += 3.0
            run.begin(group, budget=1.5)
        # The first group went when its time was over: 20 % may.
        assert run.counts() == {1: 20, 10: 80}
        assert run.changes() == ["tripped"]


def test_a_scale_down_waits_for_the_syncs_that_run_meanwhile() -> None:
    """While a first group waits a second one shows that too many would go: none does."""
    with Fleet(fleet(100)) as run:
        emptied(run, 100)
        with waiting(run):
            assert run.counts() == {10: 100}
            run.begin(run.targets[20:40], budget=20.0)
        assert run.counts() == {10: 100}


def test_a_slow_answer_delays_no_scale_up_and_no_scale_down_beyond_the_reads() -> None:
    """Ten would go down; whether 90 others do is not known before two thirds of the time."""
    slow = fleet(45, promql="slow", first=10) + fleet(45, promql="slower", first=55)
    with Fleet([*fleet(10), *slow]) as run:
        emptied(run, 11)
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


def test_a_target_that_is_decided_twice_meanwhile_is_one_target() -> None:
    """60 of 100 are not decided, however often the other 20 are: the first ones wait on."""
    with Fleet(fleet(100)) as run:
        emptied(run, 20)
        for target in run.targets[40:]:
            run.messages[_name(target)] = 0.0
        with waiting(run):
            for _ in range(4):
                run.begin(run.targets[20:40], budget=20.0)
            run.begin(run.targets[40:], budget=20.0)
        assert run.counts() == {10: 100}


def test_what_is_certain_waits_for_nobody() -> None:
    """20 of 100 targets are not decided: even with all of them 30 are not too many."""
    near, slow = fleet(80), fleet(20, promql="slow", first=80)
    with Fleet([*near, *slow]) as run:
        emptied(run, 10)
        gone = threading.Semaphore(0)
        run.world.on_write = lambda _name: gone.release()

        def after_the_others() -> None:
            assert all(gone.acquire(timeout=5) for _ in range(10)), "they waited"

        run.world.on_query = {"slow": after_the_others}
        run.sync()
        assert run.counts() == {1: 10, 10: 90}
        assert run.world.faults == []


def test_a_target_that_cannot_be_decided_does_not_count_as_going_down() -> None:
    """Nor does it keep others from it: it is decided, and stays."""
    near, failing = fleet(20), fleet(20, promql="bad", first=20)
    with Fleet([*near, *failing]) as run:
        emptied(run, 12)
        run.world.on_query = {
            "bad": lambda: run.world.answers.update(bad=QueryFailure("no answer"))
        }
        run.sync()
        assert run.counts() == {1: 12, 10: 28}


def test_a_restart_does_not_end_it() -> None:
    """The new process holds for the rest of the time, and says that it does."""
    with after_rename(50, 50) as run:
        until = run.news[-1].trip.until
        run.syncer.__exit__()
        run.start()
        assert run.changes() == ["tripped", "resumed"]
        assert run.news[-1].trip.until == pytest.approx(until)
        run.messages = dict.fromkeys(run.messages, BUSY) | {"w0": 0.0}
        run.sync(seconds=300)
        assert run.counts() == {10: 50}
        run.sync(seconds=301)
        assert run.counts() == {1: 1, 10: 49}
        assert run.changes() == ["tripped", "resumed", "ended"]


def test_a_release_outlives_a_restart_too() -> None:
    """Else the operator would have to release again."""
    with after_rename(50, 50) as run:
        run.syncer.breakers.release(None, run.time)
        run.syncer.__exit__()
        run.start()
        run.sync()
        assert run.counts() == {1: 50}


def test_a_hold_that_is_over_when_the_process_starts_is_over() -> None:
    """Nothing is told of it."""
    with after_rename(50, 50) as run:
        run.syncer.__exit__()
        run.time += 601
        run.messages = dict.fromkeys(run.messages, BUSY)
        run.start()
        run.sync()
        assert run.changes() == ["tripped"]


@pytest.mark.parametrize(
    ("breaker", "counts"),
    [
        pytest.param(None, {1: 50}, id="removed"),
        pytest.param(replace(BREAKER, min_targets=51), {1: 50}, id="of-more-targets"),
        pytest.param(replace(BREAKER, share=99, hold=60.0), {10: 50}, id="other-values"),
    ],
)
def test_a_reload_that_leaves_it_no_server_ends_it_and_other_values_count_from_the_next_trip(
    breaker: Breaker | None, counts: dict[int, int]
) -> None:
    """A hold in force is not shortened by an edit of something else."""
    with after_rename(50, 50) as run:
        run.configure(breaker)
        run.sync(seconds=120)
        assert run.counts() == counts
        assert run.changes() == ["tripped"] + (["removed"] if 1 in counts else [])


def test_a_target_that_is_removed_does_not_count_any_more() -> None:
    """The others that would go down are few then."""
    with after_rename(60, 40) as run:
        run.targets = run.targets[30:]
        run.configure(BREAKER)
        run.messages = dict.fromkeys(run.messages, BUSY) | {"w30": 0.0}
        run.sync()
        run.sync(seconds=590)
        assert run.changes() == ["tripped", "ended"]
        assert (run.news[-1].down, run.news[-1].of) == (1, 30)


def test_who_is_above_its_maximum_counts_too() -> None:
    """Whatever takes a count down but a pause: a lowered maximum for all trips the breaker."""
    lowered: list[Any] = [
        replace(item, spec=replace(item.spec, max_replicas=5)) for item in fleet(30)
    ]
    with Fleet(lowered) as run:
        run.sync()
        assert run.counts() == {10: 30}
        assert run.changes() == ["tripped"]


def test_a_daemon_that_stops_while_it_waits_writes_nothing_down() -> None:
    """What was not known to be few is left to the next start."""
    with Fleet(fleet(100)) as run:
        emptied(run, 100)
        with waiting(run):
            run.syncer.stop.set()
        assert run.counts() == {10: 100}
        assert run.world.results == []


@pytest.mark.parametrize("breaker", [BREAKER, None])
def test_a_reload_while_a_sync_waits_is_heeded_by_it(breaker: Breaker | None) -> None:
    """It waits on for the targets of now, or for nothing where there is no breaker any more."""
    every = fleet(101)
    with Fleet(every) as run:
        run.targets = every[:100]
        run.configure(BREAKER)
        emptied(run, 100)
        with waiting(run, budget=60.0) as syncing:
            run.targets = every
            run.configure(breaker)
            if breaker is not None:
                syncing.join(0.5)
                assert syncing.is_alive()
                run.begin(run.targets[20:])
        assert run.changes() == ([] if breaker is None else ["tripped"])
        assert run.counts() == ({1: 20, 10: 81} if breaker is None else {10: 101})
