"""The writer: which statuses it writes and when, and that no sync ever waits for it."""

import gc
import json
import time
import timeit
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.config.objects import ObjectRefusal, RefusalReason
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.object_status import ObjectStatusWriter
from autoscaler.kubernetes.failures import Failure
from autoscaler.transport import Observer
from tests.daemon.statuses.objects import (
    QUICK,
    Election,
    StatusServer,
    in_force,
    scaled,
    synced,
    writing,
)
from tests.narrowing import assert_parts
from tests.worlds.cluster.cluster import eventually

INVALID = ObjectRefusal(RefusalReason.INVALID, "spec.maxReplicas: is missing")
WEB = ("shop", "web")
COUNTS = ("currentReplicas", "desiredReplicas")


@pytest.fixture
def server() -> StatusServer:
    return StatusServer()


def settled(server: StatusServer, seconds: float = 0.25) -> int:
    """Return the number of requests after a time in which more would have been sent."""
    time.sleep(seconds)
    return len(server.tried)


def fleet(number: int, **fields: Any) -> list[SyncResult]:
    """Return syncs of many objects that differ in their names only."""
    first = synced(**fields)
    names = [f"web-{index}" for index in range(number)]
    targets = [replace(synced(name).target, object_name=name) for name in names]
    return [replace(first, target=target) for target in targets]


def test_nothing_is_written_while_nothing_changes(server: StatusServer) -> None:
    calm, of_file = synced(), synced("file")
    of_file = replace(of_file, target=replace(of_file.target, object_name=""))
    with writing(server) as writer:
        writer.configure_objects(in_force(calm))
        for _ in range(50):
            for result in (calm, synced(), of_file, synced("unknown")):
                writer.report(result)
        eventually(lambda: server.tried, bool)
        assert settled(server) == 1
        seconds = min(timeit.repeat(lambda: writer.report(calm), number=10_000, repeat=5))
        assert seconds / 10_000 < 20e-6
        assert settled(server, 0.1) == 1
    assert server.count(*COUNTS) == (3, 3)


def test_changed_numbers_alone_are_written_seldom(server: StatusServer) -> None:
    with writing(server) as writer:
        writer.configure_objects(in_force(synced()))
        began = clock.monotonic()
        for step in range(40):
            writer.report(synced(load=30.0 + step / 100))
            time.sleep(0.02)
        allowed = 1 + (clock.monotonic() - began) / QUICK.numbers
        assert 2 <= len(server.tried) <= allowed
        eventually(lambda: server.count("metrics"), lambda seen: seen == ("queue 10.13/10",))


def test_an_object_is_written_at_most_once_in_its_period(server: StatusServer) -> None:
    with writing(server) as writer:
        writer.configure_objects(in_force(synced()))
        for step in range(40):
            writer.report(synced(replicas=3 + step % 7, message=f"step {step}"))
            time.sleep(0.02)
        writer.report(synced(replicas=9, load=90.0))
        eventually(lambda: server.count(*COUNTS), lambda seen: seen == (9, 9))
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(server.tried)]
    assert len(gaps) >= 3
    # The server notes a request some milliseconds after it was sent.
    assert min(gaps) >= 0.9 * QUICK.per_object


def test_a_change_is_kept_in_the_words_until_the_next(server: StatusServer) -> None:
    up, after = synced(load=48.0), synced(replicas=5, load=48.0)
    with writing(server) as writer:
        writer.configure_objects(in_force(up))
        writer.report(scaled(up))
        # The change is not lost if the next sync comes before it is written.
        writer.report(after)
        eventually(lambda: server.count("lastDecision")[0], bool)
        writer.report(synced(replicas=5, message="another"))
        eventually(lambda: len(server.tried), lambda count: count == 2)
    assert str(server.count("lastDecision")[0]).startswith("3 -> 5: ")


def test_the_budget_holds_for_a_thousand_changes_at_once(server: StatusServer) -> None:
    results, pace = fleet(1000), replace(QUICK, burst=50)
    with writing(server, pace=pace) as writer:
        writer.configure_objects(in_force(*results))
        began = clock.monotonic()
        for result in results:
            writer.report(result)
        eventually(lambda: len(server.statuses), lambda count: count == 1000)
        for number, (at, _) in enumerate(server.tried):
            assert number <= 50 + (at - began) / pace.refill + 1
    assert len(server.tried) == 1000


def test_changed_counts_come_first_and_others_in_between(server: StatusServer) -> None:
    results = fleet(120)
    pace = replace(QUICK, per_object=0.0, burst=10, refill=0.005)
    with writing(server, pace=pace) as writer:
        writer.configure_objects(in_force(*results))
        for result in results:
            writer.report(result)
        eventually(lambda: len(server.statuses), lambda count: count == 120)
        before, words = len(server.tried), fleet(60, message="other")
        moved = fleet(120, replicas=5, load=50.0)[60:]
        server.gate.clear()
        for result in (*words, *moved):
            writer.report(result)
        server.gate.set()
        eventually(lambda: len(server.tried), lambda count: count >= before + 120)
    order = [int(name.removeprefix("web-")) >= 60 for _, name in server.names[before:]]
    assert sum(order[:60]) > 35
    assert not all(order[:60])


def test_only_the_leader_writes_and_a_new_one_only_what_differs(server: StatusServer) -> None:
    gate, results = Election(), [synced("web"), synced("api"), synced("old")]
    refused = {("shop", "bad"): (4, INVALID, None)}
    with writing(StatusServer()) as other:
        other.configure_objects(in_force(*results))
        for result in results:
            other.report(result)
        eventually(lambda: len(other._api.statuses), lambda count: count == 3)  # type: ignore[attr-defined] # a StatusServer
        known = {key: json.dumps(value).encode() for key, value in other._api.statuses.items()}  # type: ignore[attr-defined] # as above
    with writing(server, gate=gate) as writer:
        writer.configure_objects(in_force(*results))
        writer.refuse(refused)
        for result in results:
            writer.report(result)
        assert settled(server) == 0
        gate.since = 5.0
        objects = in_force(results[0], status=known["shop", "web"])
        objects |= in_force(synced("api", replicas=4), status=known["shop", "api"])
        objects |= in_force(results[2], generation=2, status=known["shop", "old"])
        writer.configure_objects(objects)
        for result in (results[0], synced("api", replicas=4, load=40.0), results[2]):
            writer.report(result)
        eventually(lambda: len(server.tried), lambda count: count >= 3)
        assert settled(server) == 3
        assert {name for _, name in server.names} == {"api", "old", "bad"}
        gate.since = None
        writer.report(synced("api", replicas=9))
        assert settled(server) == 3


def test_after_a_restart_an_equal_status_is_not_written_again(server: StatusServer) -> None:
    shown = synced()
    with writing(server) as writer:
        writer.configure_objects(in_force(shown))
        writer.report(shown)
        eventually(lambda: server.tried, bool)
    known = json.dumps(server.statuses[WEB]).encode()
    decision = shown.decision
    later = tuple(replace(each, last_transition=9e8) for each in decision.conditions)
    anew = replace(shown, decision=replace(decision, conditions=later, time=9e8))
    with writing(server) as writer:
        writer.configure_objects(in_force(anew, status=known))
        writer.report(anew)
        assert settled(server) == 1
        writer.configure_objects(in_force(anew, generation=2, status=known))
        writer.report(anew)
        eventually(lambda: server.count("observedGeneration"), lambda seen: seen == (2,))
    assert json.dumps(server.statuses[WEB]["conditions"]).count("2026-01-01") == 4


def test_a_removed_object_is_not_written(server: StatusServer) -> None:
    web, api = synced(), synced("api")
    with writing(server) as writer:
        writer.configure_objects(in_force(web, api))
        writer.report(web)
        writer.report(api)
        eventually(lambda: len(server.tried), lambda count: count == 2)
        writer.report(synced(replicas=7))
        writer.refuse({})
        writer.configure_objects(in_force(api))
        writer.report(synced(replicas=8))
        assert settled(server) == 2
        writer.configure_objects(in_force(api))
        assert set(writer._objects) == {("shop", "api")}


def test_an_object_is_refused_and_in_force_again(server: StatusServer) -> None:
    web = synced()
    with writing(server) as writer:
        writer.configure_objects(in_force(web))
        writer.report(web)
        eventually(lambda: server.count("metrics"), lambda seen: seen != (None,))
        for calls in (1, 2):
            writer.refuse({WEB: (2, INVALID, json.dumps(server.statuses[WEB]).encode())})
            writer.configure_objects({})
            eventually(lambda: server.count(*COUNTS), lambda seen: seen == (None, None))
            (ready,) = server.statuses[WEB]["conditions"]
            assert (ready["reason"], ready["message"]) == ("Invalid", INVALID.message)
            writer.report(web)
            assert settled(server) == 2 * calls
            writer.configure_objects(in_force(web, generation=3))
            writer.refuse({})
            writer.report(web)
            eventually(lambda: server.count(*COUNTS), lambda seen: seen == (3, 3))
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(server.tried)]
    assert min(gaps) >= 0.9 * QUICK.per_object


TRANSIENT = {
    "full": Failure("slow down", status=429, transient=True, retry_after=0.1),
    "broken": Failure("etcd has no leader", status=500, transient=True, uncertain=True),
    "lost": Failure("answer lost", transient=True, uncertain=True),
    "expired": Failure("a token has expired", status=401),
    "changed": Failure("conflict", status=409),
}


def test_after_failures_the_newest_status_is_written(server: StatusServer) -> None:
    server.fault, notes = lambda name: TRANSIENT[name[1]], list[str]()
    with writing(server, notes=notes) as writer:
        writer.configure_objects(in_force(*map(synced, TRANSIENT)))
        for replicas in (3, 4, 5, 6):
            for name in TRANSIENT:
                writer.report(synced(name, replicas=replicas))
            eventually(lambda: {*server.names}, lambda tried: len(tried) == len(TRANSIENT))
        server.fault = lambda _: None

        def counts() -> set[object]:
            return {status["currentReplicas"] for status in server.statuses.values()}

        eventually(counts, lambda seen: seen == {6} and len(server.statuses) == len(TRANSIENT))
        requests = settled(server, 0.4)  # Once more if the answer was lost.
        assert requests <= 6 * len(TRANSIENT)
        assert settled(server) == requests
    assert notes == []


def test_pauses_grow_while_the_server_accepts_nothing(server: StatusServer) -> None:
    server.fault = lambda _: Failure("no answer", transient=True)
    results, pace = fleet(100), replace(QUICK, per_object=0.0)
    with writing(server, pace=pace) as writer:
        writer.configure_objects(in_force(*results))
        for result in results:
            writer.report(result)
        time.sleep(0.8)
        assert 3 <= len(server.tried) <= 7
        server.fault = lambda _: None
        eventually(lambda: len(server.statuses), lambda count: count == 100)


def test_a_request_without_an_answer_may_have_been_carried_out(server: StatusServer) -> None:
    with writing(server) as writer:
        writer.configure_objects(in_force(synced()))
        writer.report(synced())
        eventually(lambda: server.tried, bool)
        server.fault = lambda _: Failure("answer lost", uncertain=True)
        writer.report(synced(replicas=7))
        eventually(lambda: server.count(*COUNTS), lambda seen: seen[0] == 7)
        server.fault = lambda _: None
        writer.report(synced())
        eventually(lambda: server.count(*COUNTS), lambda seen: seen[0] == 3)


def test_a_missing_object_is_forgotten_until_it_is_configured_again(server: StatusServer) -> None:
    server.fault = lambda _: Failure("not found", status=404)
    with writing(server) as writer:
        writer.configure_objects(in_force(synced()))
        writer.refuse({("shop", "bad"): (1, INVALID, None)})
        writer.report(synced())
        eventually(lambda: len(server.tried), lambda count: count == 2)
        server.fault = lambda _: None
        writer.report(synced(replicas=7))
        assert settled(server) == 2
        writer.configure_objects(in_force(synced()))
        writer.report(synced(replicas=7))
        eventually(lambda: server.count(*COUNTS), lambda seen: seen[0] == 7)


@pytest.mark.parametrize("status", [403, 422])
def test_a_refusal_pauses_and_is_reported_once(server: StatusServer, status: int) -> None:
    def refused(name: tuple[str, str]) -> Failure | None:
        return Failure("no right", status=status) if name[0] == "shop" else None

    server.fault, notes = refused, list[str]()
    results = [synced(), synced("api"), synced("web", "depot")]
    with writing(server, notes=notes) as writer:
        writer.configure_objects(in_force(*results))
        for result in results:
            writer.report(result)
        eventually(lambda: server.statuses, lambda seen: ("depot", "web") in seen)
        time.sleep(0.5)
        tried = [name for name in server.names if name[0] == "shop"]
        assert 2 <= len(tried) <= (5 if status == 403 else 8)
        assert_parts(notes[0], "no right", "0.2 seconds")
        assert status == 422 or len(notes) == 1
        server.fault = lambda _: None
        eventually(lambda: len(server.statuses), lambda count: count == 3)
        eventually(lambda: notes[-1][:6], lambda note: note == "good: ")


def test_a_429_to_any_request_holds_statuses_back(server: StatusServer) -> None:
    server.is_held = True
    with writing(server) as writer:
        writer.configure_objects(in_force(synced()))
        writer.report(synced())
        assert settled(server) == 0
        server.is_held = False
        eventually(lambda: server.tried, bool)


def test_a_server_that_hangs_delays_no_report(server: StatusServer) -> None:
    server.gate.clear()
    results = fleet(500)
    with writing(server, pace=replace(QUICK, flush=0.0)) as writer:
        writer.configure_objects(in_force(*results))
        writer.report(results[0])
        eventually(lambda: server.tried, bool)
        began = clock.monotonic()
        for result in results:
            writer.report(result)
        assert clock.monotonic() - began < 1.0
        writer.close()
        assert clock.monotonic() - began < 3.0
        server.gate.set()
    assert len(server.tried) == 1


def test_at_the_end_what_is_due_is_written(server: StatusServer) -> None:
    results = fleet(40)
    with writing(server) as writer:
        writer.configure_objects(in_force(*results))
        for result in results:
            writer.report(result)
    assert len(server.statuses) == 40


def test_a_defect_is_reported_and_costs_one_status(server: StatusServer) -> None:
    faults: list[BaseException] = []

    class Observing(Observer):
        def fault(self, error: BaseException) -> None:
            faults.append(error)

    def fail_once(_: tuple[str, str]) -> None:
        if not faults:
            raise ZeroDivisionError

    server.fault = fail_once
    writer = ObjectStatusWriter(server, observer=Observing(), pace=QUICK)
    writer.configure_objects(in_force(synced()))
    writer.report(synced())
    eventually(lambda: len(faults), lambda count: count == 1)
    writer.report(synced(replicas=5))
    eventually(lambda: server.count(*COUNTS), lambda seen: seen[0] == 5)
    writer.close()


def test_memory_is_bounded_by_the_number_of_objects(server: StatusServer) -> None:
    results = fleet(300)
    with writing(server, pace=replace(QUICK, burst=400)) as writer:
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        writer.configure_objects(in_force(*results))
        for result in results:
            writer.report(result)
        eventually(lambda: len(server.statuses), lambda count: count == 300)
        server.statuses.clear()
        server.tried.clear()
        gc.collect()
        size = (tracemalloc.get_traced_memory()[0] - before) / 300
        tracemalloc.stop()
    assert size < 4000
