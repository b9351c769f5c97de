"""The syncs of the daemon by a clock of one's own: a live run again, and an hour in seconds."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.daemon.schedule import SyncSchedule
from autoscaler.persistence.codec import is_same
from autoscaler.prometheus import PrometheusReader
from autoscaler.sync.ports import MetricsReader
from autoscaler.sync.slots import Slot
from autoscaler.telemetry.metrics import Instruments
from tests.adapters.prometheus.reading import settings
from tests.core.builders import behavior, percent_policy, pods_policy, rules
from tests.worlds.memory import T0, Memory, external
from tests.worlds.memory import answer as series
from tests.worlds.prometheus.faults import Peer, ScriptedServer, answer, error, vector
from tests.worlds.virtual_clock import VirtualClock
from tests.worlds.waiting import wait_until

PERIOD = 0.25
BUDGET = 20.0
LOADS = (90, 90, 600, 600, None, 600, 60, 60, 60, 60, 60, 60, 0, 90)
"""What the queue holds at each sync; None is an error of Prometheus."""


@dataclass
class Tape:
    """A live run, put down; once it is played, it says the same again, in order.

    It fits `Clock`, and with a reader `MetricsReader`.
    """

    reader: MetricsReader | None = None
    played: bool = False
    instants: deque[tuple[str, float]] = field(default_factory=deque)
    answers: deque[QueryResult | QueryFailure] = field(default_factory=deque)
    syncs: list[tuple[float, float]] = field(default_factory=list)
    """When each sync began and was due."""

    def wall(self) -> float:
        return self._instant("wall", clock.wall)

    def steady(self) -> float:
        return self._instant("steady", clock.steady)

    def _instant(self, which: str, of: Callable[[], float]) -> float:
        if not self.played:
            self.instants.append((which, instant := of()))
            return instant
        kind, instant = self.instants.popleft()
        assert kind == which
        return instant

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        if self.played:
            return self.answers.popleft()
        assert self.reader is not None
        self.answers.append(self.reader.query(promql, at, deadline))
        return self.answers[-1]


def targets() -> tuple[Target, ...]:
    """Return targets of one query whose windows and policies last about a second."""
    quick = behavior(
        up=rules(percent_policy(100, period=1), pods_policy(1, period=1), window=0),
        down=rules(percent_policy(100, period=1), window=1),
    )
    found = (external("shop", "web"), external("shop", "worker"))
    slow, fast = (replace(one, sync_period=PERIOD) for one in found)
    return slow, replace(fast, spec=replace(fast.spec, behavior=quick))


def world() -> Memory:
    """Return a cluster in which each target has three replicas."""
    scales = {f"shop/{name}": Scale(3, 3, f"app={name}") for name in ("web", "worker")}
    return Memory(scales=dict(scales), scales_cached=True)


def prometheus() -> ScriptedServer:
    """Return a server that answers each query with the next load, sampled now."""

    def step(load: int | None) -> object:
        def say(peer: Peer) -> None:
            if load is None:
                answer(error("execution", "too many samples"), "422 Unprocessable Entity")(peer)
            else:
                answer(vector({"metric": {}, "value": [clock.wall(), str(load)]}))(peer)

        return say

    return ScriptedServer(*map(step, LOADS))  # type: ignore[arg-type]  # they are steps


def recorded(tape: Tape) -> Sequence[SyncResult]:
    """Run the schedule, the syncs and the connection to Prometheus for some seconds."""
    memory, stop = world(), threading.Event()
    with prometheus() as server, closing(PrometheusReader(settings(server.url), stop)) as reader:
        tape.reader, memory.servers[""] = reader, tape
        with memory.syncer(stop, clock=tape) as syncer:

            def sync(slot: Slot, _: object, __: float, due: float | None) -> None:
                if len(tape.syncs) < len(LOADS):
                    assert due is not None
                    tape.syncs.append((clock.wall(), due))
                    syncer.sync(slot.targets, tape.syncs[-1][0], BUDGET, due=due)

            with SyncSchedule(threading.Event(), Instruments(), sync) as schedule:
                schedule.swap([Slot(PERIOD, 0.0, tuple(targets()))])
                wait_until("all syncs", lambda: len(memory.summaries) == len(LOADS), timeout=60)
    return memory.results


def test_a_live_run_is_decided_again_from_what_was_put_down() -> None:
    """Each instant, condition, event and history is the same, and no server is asked."""
    tape, memory = Tape(), world()
    live = recorded(tape)
    tape.played, memory.servers[""] = True, tape
    with memory.syncer(clock=tape) as syncer:
        for now, due in tape.syncs:
            syncer.sync(targets(), now, BUDGET, due=due)
    assert not tape.instants
    assert len(live) == len(memory.results) == len(targets()) * len(LOADS)
    counts = {result.decision.desired for result in live}
    assert len(counts) > 3, "the run says something"
    for one, again in zip(live, memory.results, strict=True):
        assert is_same(one.decision, again.decision)
        assert (one.target, one.write, one.inputs) == (again.target, again.write, again.inputs)


def test_an_hour_takes_seconds() -> None:
    """Windows are as long as by a real clock, and each query is of its virtual instant."""
    queue, now, asked = external("shop", "web"), VirtualClock(T0), []

    class Scripted:
        """Fits `MetricsReader`: ten minutes of 90 messages, twenty of 600, thirty of 30."""

        def query(self, promql: str, at: float | None, deadline: float) -> QueryResult:  # noqa: ARG002
            assert at is not None
            asked.append(at)
            elapsed = at - T0
            return series(90 if elapsed < 600 else 600 if elapsed < 1800 else 30, now=at)

    memory = world()
    memory.servers[""] = Scripted()
    begun = clock.monotonic()
    with memory.syncer(clock=now) as syncer:
        for number in range(240):
            now.now = T0 + 15 * number
            syncer.sync([queue], now.now, BUDGET, at=now.now)
    assert clock.monotonic() - begun < 20
    assert asked == [T0 + 15 * number for number in range(240)]
    counts = [(result.decision.time - T0, result.decision.desired) for result in memory.results]
    changes = [
        (round(time), count)
        for (_, before), (time, count) in zip([(0.0, 3), *counts], counts, strict=False)
        if count != before
    ]
    # Up as the HPA's limits permit; down five minutes after the last sync of a longer queue.
    assert changes == [(600, 6), (615, 12), (630, 20), (2085, 1)]
