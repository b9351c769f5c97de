"""Several Prometheus servers: a dead one costs only the targets that ask it."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from autoscaler import clock
from autoscaler.core.observation import HoldReading, Observation, Scale, Values
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import LabelSelector
from autoscaler.core.target import HoldQuery, Query, QueryKey, Target
from autoscaler.sync.calls import FairQueries
from tests.worlds.memory import T0, Memory, answer, external

SHORT = 1.8
"""The seconds of a sync that waits in vain."""


class Server:
    """Another server than the default one; ``wait`` may block, as a silent server does."""

    def __init__(self, value: float = 90.0) -> None:
        self.value = value
        self.queried: list[str] = []
        self.wait: Callable[[float], object] = lambda _: None

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:  # noqa: ARG002 - port
        self.queried.append(promql)
        if self.wait(deadline) is False:
            return QueryFailure("timeout")
        return answer(self.value)


def on(server: str, name: str, *promql: str) -> Target:
    """Return a target whose metrics ask a server."""
    target = external("shop", name)
    queries = tuple(Query(text, server=server) for text in promql)
    spec = replace(target.spec, metrics=target.spec.metrics * len(promql))
    return replace(target, spec=spec, queries=queries)


def world(*targets: Target) -> tuple[Memory, Server]:
    """Return a world with a scale of 1 for each target, whose servers have 60 and 90 messages."""
    memory, mimir = Memory(answers={"queue": answer(60.0)}), Server()
    memory.servers["mimir"] = mimir
    for target in targets:
        memory.scales[f"shop/{target.spec.scale_target_ref.name}"] = Scale(1, 1, "app=a")
    return memory, mimir


def test_the_same_promql_at_two_servers_is_two_requests() -> None:
    targets = [external("shop", "a"), on("mimir", "b", "queue"), on("mimir", "c", "queue")]
    memory, mimir = world(*targets)
    with memory.syncer() as syncer:
        syncer.sync(targets, T0, SHORT)
    assert dict(memory.written) == {"shop/a": 2, "shop/b": 3, "shop/c": 3}
    assert (memory.queried, mimir.queried) == (["queue"], ["queue"])
    assert [summary.queries for summary in memory.summaries] == [2]


def test_a_server_that_does_not_answer_costs_only_its_own_targets() -> None:
    promql = [f"q{number}" for number in range(60)]
    dead = [on("mimir", text, text) for text in promql]
    both = on("mimir", "both", "q0", "queue")
    both = replace(both, queries=(both.queries[0], Query("queue")))
    alive = [external("shop", f"a{number}", promql=f"a{number}") for number in range(40)]
    memory, mimir = world(*dead, *alive, both)
    memory.answers.update({f"a{number}": answer(60.0) for number in range(40)})
    over, written = threading.Event(), threading.Event()
    mimir.wait = lambda deadline: over.wait(max(0.0, deadline - clock.monotonic()))
    memory.on_write = lambda _: written.set() if len(memory.written) == len(alive) - 1 else None
    with memory.syncer() as syncer:
        sync = threading.Thread(target=syncer.sync, args=([*dead, *alive, both], T0, SHORT))
        begun = clock.monotonic()
        sync.start()
        assert written.wait(SHORT)
        assert clock.monotonic() - begun < SHORT / 2
        sync.join(30)
    names = {f"shop/a{number}" for number in range(40)}
    assert {name for name, _ in memory.written} == names | {"shop/both"}
    for target in dead:
        decision = memory.result(f"shop/{target.spec.scale_target_ref.name}").decision
        assert (decision.current, decision.desired, decision.outcome) == (1, 1, "blocked")


def test_each_server_has_threads_of_its_own() -> None:
    release, default = threading.Event(), Server()
    mimir = Server()
    mimir.wait = lambda _: release.wait(30)
    with closing(FairQueries(2.0)) as asker:
        futures = [asker.ask(mimir, QueryKey("mimir", f"q{n}"), float("inf")) for n in range(60)]
        try:
            assert asker.ask(default, QueryKey("", "q"), float("inf")).result(10) == answer(90.0)
        finally:
            release.set()
        for future in futures:
            future.result(10)
        known, new = QueryKey("mimir", "q0"), QueryKey("mimir", "new")
        assert asker.in_order([known, new]) == [new, known]
        asker.retain({QueryKey("", "q")})
        assert asker.in_order([known, new]) == [known, new]


def observations(memory: Memory) -> dict[str, Observation]:
    """Return by the names of targets what their decisions were made from."""
    return {
        result.target.spec.scale_target_ref.name: result.inputs.observation
        for result in memory.results
        if result.given is not None
    }


def test_the_queries_of_bounds_are_asked_and_read() -> None:
    target = replace(
        external("shop", "a"),
        min_replicas_query=Query("least"),
        max_replicas_query=Query("most", server="mimir"),
    )
    memory, mimir = world(target, external("shop", "b"))
    memory.answers["least"] = answer(3.0)
    with memory.syncer() as syncer:
        syncer.sync([target, external("shop", "b")], T0, SHORT)
    assert (sorted(memory.queried), mimir.queried) == (["least", "queue"], ["most"])
    seen = observations(memory).values()
    bounds = {
        (observation.min_replicas_reading, observation.max_replicas_reading) for observation in seen
    }
    assert bounds == {(Values((3_000,)), Values((90_000,))), (None, None)}


def test_one_query_holds_many_targets() -> None:
    query = Query("up == 0")
    holds = {job: HoldQuery(query, LabelSelector((("job", job),)), condition=True) for job in "abc"}
    targets = [replace(external("shop", job), hold=hold) for job, hold in holds.items()]
    memory, _ = world(*targets)
    memory.answers["up == 0"] = QueryResult([Series({"job": "b"}, 0.0, T0)])
    with memory.syncer() as syncer:
        syncer.sync(targets, T0, SHORT)
    assert sorted(memory.queried) == ["queue", "up == 0"]
    seen = {name: observation.hold for name, observation in observations(memory).items()}
    assert seen == {"a": HoldReading(), "b": HoldReading(1, '{job="b"}'), "c": HoldReading()}
