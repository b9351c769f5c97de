"""Watches against a server that misbehaves: nothing is lost and nothing undone."""

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import AcceptedWrite
from autoscaler.kubernetes import WatchedCluster
from tests.adapters.watches.targets import (
    BROKEN,
    SLOW,
    WEB,
    Watch,
    await_count,
    await_scale,
    deployment_ref,
    has_count,
    scale_of,
    target,
    watch_threads,
    watching,
)
from tests.narrowing import assert_parts
from tests.worlds.cluster.cluster import eventually
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.scripted import Answer, failure, scale
from tests.worlds.cluster.watch_script import (
    END,
    RESET,
    Script,
    WatchScript,
    bookmark,
    deployment,
    event,
    gone,
    listed,
)


def _write(watched: WatchedCluster, replicas: int) -> AcceptedWrite:
    decided_on = Scale(1, 1, "app=web", "7")
    outcome = watched.write_scale("shop", WEB, decided_on, replicas, clock.monotonic() + 20)
    assert isinstance(outcome, AcceptedWrite)
    return outcome


def test_an_older_event_does_not_undo_our_write(watch: Watch) -> None:
    server, watched, _ = watch(
        put=scale(5, "20"), targets=[target("shop", "web"), target("shop", "mark")]
    )
    _write(watched, 5)
    assert scale_of(watched, "shop", "web") == Scale(5, 1, "app=web", "20")
    server.send(event("MODIFIED", deployment("9", 2)), event("DELETED", deployment("10", 2)))
    server.send(event("ADDED", deployment("11", 3)), event("ADDED", deployment("12", 0, "mark")))
    await_scale(watched, "shop", "mark", partial(has_count, 0))
    assert scale_of(watched, "shop", "web").spec_replicas == 5
    server.send(event("MODIFIED", deployment("20", 5)), event("MODIFIED", deployment("21", 4)))
    await_count(watched, 4)


def test_our_write_does_not_undo_a_newer_event(watch: Watch) -> None:
    server, watched, _ = watch(put=scale(5, "20"))
    server.before_put.clear()
    writer = threading.Thread(target=_write, args=(watched, 5))
    writer.start()
    eventually(lambda: server.count("PUT"), bool)
    server.send(event("MODIFIED", deployment("20", 5)), event("DELETED", deployment("21", 5)))
    await_scale(watched, "shop", WEB, lambda seen: isinstance(seen, ReadFailure))
    server.before_put.set()
    writer.join()
    assert isinstance(watched.cached_scale("shop", WEB), ReadFailure)


def test_a_list_that_is_older_than_our_write_does_not_undo_it(watch: Watch) -> None:
    first = listed("8", deployment("8", 1), more="next")
    server, watched, _ = watch(
        listed("7", deployment("7", 1)), first, listed("8"), put=scale(5, "20")
    )
    server.page_gate.clear()
    server.send(gone())
    eventually(lambda: server.count("list next"), bool)
    _write(watched, 5)
    server.page_gate.set()
    eventually(lambda: server.count("watch 8"), bool)
    assert scale_of(watched, "shop", "web").spec_replicas == 5
    server.send(event("MODIFIED", deployment("9", 3)), event("MODIFIED", deployment("20", 5)))
    server.send(event("MODIFIED", deployment("21", 6)))
    await_count(watched, 6)


def test_versions_that_are_no_numbers_are_not_compared(watch: Watch) -> None:
    server, watched, _ = watch(
        listed("a", deployment("a", 1)),
        put=scale(5, "c"),
        targets=[target("shop", "web"), target("shop", "mark")],
    )
    assert scale_of(watched, "shop", "web").spec_replicas == 1
    _write(watched, 5)
    assert watched.cached_scale("shop", WEB) is None
    server.send(event("MODIFIED", deployment("b", 2)), event("ADDED", deployment("m", 0, "mark")))
    await_scale(watched, "shop", "mark", partial(has_count, 0))
    assert watched.cached_scale("shop", WEB) is None
    server.send(event("MODIFIED", deployment("c", 5)))
    await_count(watched, 5)


@pytest.mark.parametrize("by", ["event", "status"])
def test_after_410_everything_is_listed_anew(watch: Watch, by: str) -> None:
    targets = [target("shop", name) for name in ("web", "old", "new")]
    server, watched, _ = watch(
        listed("7", deployment("7", 1), deployment("6", 1, "old")),
        listed("30", deployment("29", 3), deployment("28", 2, "new")),
        targets=targets,
    )
    if by == "status":
        server.heads.append(failure(410, "Expired", "too old"))
        server.send(END if server.count("watch") else RESET)
    else:
        server.send(gone())
    await_count(watched, 3)
    assert isinstance(watched.cached_scale("shop", deployment_ref("old")), ReadFailure)
    assert scale_of(watched, "shop", "new").spec_replicas == 2
    eventually(lambda: server.count("watch 30"), bool)


def test_a_watch_that_breaks_goes_on_where_it_was(watch: Watch) -> None:
    server, watched, _ = watch()
    server.send(event("MODIFIED", deployment("9", 2)))
    await_count(watched, 2)
    server.send(RESET)
    eventually(lambda: server.count("watch 9"), bool)
    server.send(bookmark("15"), END)
    eventually(lambda: server.count("watch 15"), bool)
    server.send(event("MODIFIED", deployment("16", 4)))
    await_count(watched, 4)
    assert server.count("list") == 1


def test_a_kind_that_cannot_be_found_out_for_now_is_tried_again_soon(tmp_path: Path) -> None:
    """A local fault, such as a bad token, is tried again sooner than a refusal."""
    token = tmp_path / "token"
    token.write_text("good")
    crew = ScaleTargetRef("example.com/v1", "Crew", "web")
    with WatchScript(listed("7")) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k", tokenFile=str(token))
        with connect(kubeconfig) as api:
            token.write_text("bad\ntoken")
            pace = replace(SLOW, refused_pause=300.0)
            with watching(api, [target("shop", crew)], pace=pace, synced=False):
                assert server.asked == []
                token.write_text("good")
                eventually(lambda: server.asked, bool)


@pytest.mark.parametrize(
    "line",
    [b"{\n", b"[]\n", b'{"type": "ADDED", "object": {}}\n', event("CHANGED", deployment("8", 1))],
    ids=["no-json", "no-object", "no-metadata", "unknown-type"],
)
def test_an_event_that_cannot_be_read_leads_to_a_list(watch: Watch, line: bytes) -> None:
    server, watched, notes = watch(listed("7", deployment("7", 1)), listed("9", deployment("9", 6)))
    server.send(line)
    await_count(watched, 6)
    server.send(event("MODIFIED", deployment("10", 2)))
    await_count(watched, 2)
    (note,) = notes
    assert_parts(note, "Deployment.apps", server.url, "watch event")


def test_an_object_that_cannot_be_read_is_read_directly(watch: Watch) -> None:
    odd = deployment("6", 1, "odd") | {"spec": {"replicas": "many"}}
    targets = [target("shop", "web"), target("shop", "odd")]
    _, watched, _ = watch(listed("7", deployment("7", 1), odd), targets=targets)
    assert watched.cached_scale("shop", deployment_ref("odd")) is None
    assert scale_of(watched, "shop", "web").spec_replicas == 1


@pytest.mark.parametrize(
    "fault",
    [
        failure(429, "TooManyRequests", "slow down"),
        BROKEN,
        Answer(200, b"<html>"),
        Answer(200, {"items": 1, "metadata": {}}),
        Answer(fault="hang"),
    ],
    ids=["429", "500", "HTML", "odd", "hang"],
)
def test_a_first_list_that_fails_is_tried_again(watch: Watch, fault: Answer) -> None:
    server, watched, _ = watch(fault, listed("7", deployment("7", 1)), synced=False)
    assert not isinstance(watched.cached_scale("shop", WEB), Scale)
    assert not watched.wait_synced(clock.monotonic())
    assert watched.wait_synced(clock.monotonic() + 20)
    assert scale_of(watched, "shop", "web").spec_replicas == 1
    assert server.count("list") >= 2


def test_retry_after_is_obeyed(watch: Watch) -> None:
    slow = failure(429, "TooManyRequests", "slow down")
    wait = Answer(slow.status, slow.body, {"Retry-After": "1"})
    began = clock.monotonic()
    _, _, _ = watch(wait, listed("7", deployment("7", 1)))
    assert clock.monotonic() - began >= 1.0


def test_a_429_to_a_list_holds_all_others_back(script: Script) -> None:
    """A 429 delays all requests of the connection: writes and reads wait as long."""
    server, api = script(listed("7", deployment("7", 1)))
    busy = failure(429, "TooManyRequests", "slow down")
    server.autoscalers.lists[0] = Answer(busy.status, busy.body, {"Retry-After": "20"})
    with watching(api, [target("shop", "web")], pace=SLOW, synced=False):
        eventually(lambda: api.retrier.is_held, bool, 15.0)


def test_a_server_that_ends_each_watch_at_once_is_not_hammered(watch: Watch) -> None:
    pace = replace(SLOW, first_pause=0.1, longest_pause=5.0)
    server, _, _ = watch(pace=pace)
    server.send(*[END] * 100)
    until = clock.monotonic() + 2
    eventually(clock.monotonic, lambda now: now > until)
    assert server.count("watch") <= 8
    eventually(lambda: server.count("watch"), lambda count: count >= 2)


def test_a_rotated_token_is_used(script: Script, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server, _ = script(listed("7", deployment("7", 1)))
    server.heads.extend([Answer(), failure(401, "Unauthorized", "Unauthorized")])
    kubeconfig = server.write_kubeconfig(tmp_path / "rotating", tokenFile=str(token))
    with connect(kubeconfig) as api, watching(api, [target("shop", "web")], pace=SLOW):
        eventually(lambda: server.count("watch"), bool)
        token.write_text("new")
        server.send(RESET)
        eventually(lambda: server.count("watch"), lambda count: count == 3)
        assert server.authorizations[-1] == "Bearer new"


def test_close_is_prompt_and_leaves_no_thread(watch: Watch) -> None:
    server, watched, _ = watch(targets=[target("shop", "web", pods=True)])
    eventually(lambda: server.count("watch"), lambda count: count == 2)
    began = clock.monotonic()
    watched.close()
    assert clock.monotonic() - began < 5.0
    # The watches would last a minute.
    eventually(watch_threads, lambda threads: not threads, 5)
    assert watched.cached_scale("shop", WEB) is None


def test_close_does_not_wait_for_a_dead_server(watch: Watch) -> None:
    _, watched, _ = watch(Answer(fault="hang"), synced=False)
    began = clock.monotonic()
    watched.close()
    # A request would last five.
    assert clock.monotonic() - began < 2.5
