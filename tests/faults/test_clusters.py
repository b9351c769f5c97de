"""An unreachable, slow or hostile cluster affects only its own targets."""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from html import unescape

import pytest
import requests

from autoscaler.demo.apiserver import StandInCluster
from tests.faults.clusters import BAD, HIGH, LOW, OTHERS, Fleet, fleet, key
from tests.faults.conftest import Metrics
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Concerns, Fault, everything
from tests.worlds.proxies.plays import failure
from tests.worlds.proxies.wire import Request
from tests.worlds.waiting import wait_until

pytestmark = pytest.mark.punctual

SYNCS = 3
"""So long each fault lasts at least."""
MOST_MIB = 100.0
"""That a fault may add to the memory of the daemon."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, metrics: Metrics) -> Iterator[Fleet]:
    """Run one daemon for all faults, one after the other."""
    with ExitStack() as stack:
        clusters = {name: stack.enter_context(StandInCluster()) for name in (BAD, *OTHERS)}
        folder = tmp_path_factory.mktemp("fleet")
        yield stack.enter_context(fleet(folder, clusters, *metrics))


Begin = Callable[[Fleet], AbstractContextManager[object]]


@dataclass(frozen=True)
class Row:
    """A fault of a cluster, and a pattern of its report: for the server, or for the target."""

    name: str
    begin: Begin
    seen: str
    server: bool = True
    """Whether nothing of the server can be used: then its health says so too."""

    def is_reported(self, world: "Fleet", begin: int) -> bool:
        """Return whether health and pages name what is wrong."""
        daemon = world.daemon
        health, server = unescape(daemon.page("/health")), daemon.component(f"kubernetes/{BAD}")
        state = daemon.page(f"/api/v1/clusters/{BAD}/targets/{key(BAD).partition('/')[2]}")
        notes = [line for line in daemon.events("not_watched") if line in daemon.lines[begin:]]
        assert f"kubernetes/{BAD}" in health
        if self.server and (server["ok"] or server["message"] not in health):
            return False
        return bool(re.search(self.seen, f"{health} {state} {notes}"))


def is_watch(request: Request) -> bool:
    return "watch=true" in request.target


def on(fault: Fault, concerns: Concerns = everything) -> Begin:
    """Play a fault on the requests that it concerns; older connections are cut."""

    @contextmanager
    def begin(world: Fleet) -> Iterator[None]:
        with world.proxy.playing(fault, concerns) as playing:
            world.proxy.cut()
            yield
            assert playing.met

    return begin


def refused(world: Fleet) -> AbstractContextManager[None]:
    return world.proxy.refusing()


@contextmanager
def half_open(world: Fleet) -> Iterator[None]:
    """Leave open what is open, and let nothing come back any more."""
    with world.proxy.playing(plays.hang):
        world.proxy.silence()
        yield
    world.proxy.cut()


def expired_server(world: Fleet) -> AbstractContextManager[None]:
    """Let the server show a certificate whose time is over."""
    pair = world.certificates.expired_server
    return world.proxy.showing((pair.certificate, pair.key))


@contextmanager
def expired_client(world: Fleet) -> Iterator[None]:
    """We show one whose time is over, until the file is replaced."""
    world.certificates.show(world.certificates.expired_client)
    world.proxy.cut()
    try:
        yield
    finally:
        world.certificates.show(world.certificates.client)


@contextmanager
def endless_lists(world: Fleet) -> Iterator[None]:
    """Let lists have no end, and watches expire, so that all is listed again."""
    gone = on(failure("410 Gone", "Expired", "too old"), is_watch)
    endless = plays.endless_body(b'{"kind":"List","metadata":{},"items":[', b'{"a":"b"},' * 6000)

    def is_list(request: Request) -> bool:
        """Concern watches too, so that these do not spare them."""
        return request.method == "GET" and "limit=" in request.target

    with world.proxy.playing(endless, is_list), gone(world):
        yield


EVENT = b'{"type":"BOOKMARK","object":{"kind":"x","metadata":{"resourceVersion":"1"}}}\n'

ROWS = [
    Row("refused", refused, "connection refused"),
    Row("half-open", half_open, "answer in time"),
    Row("slow", on(plays.drip(0.1)), "answer in time"),
    Row(
        "429",
        on(failure("429 Too Many Requests", "TooManyRequests", "try later", Retry_After="2")),
        "try later",
    ),
    Row("endless heads", on(plays.endless(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n")), "is not HTTP"),
    Row("no head", on(plays.never_begin), "answer in time"),
    Row("endless lists", endless_lists, "16 MiB|no memory", server=False),
    Row(
        "endless scales",
        on(
            plays.endless_body(b'{"a":"', b"a" * 65_536), lambda request: "/scale" in request.target
        ),
        "16 MiB|no memory|answer in time|no time was",
        server=False,
    ),
    Row(
        "endless watch lines",
        on(plays.endless_body(b"", b"a" * 65_536), is_watch),
        "line .*16 MiB",
        server=False,
    ),
    Row("endless events", on(plays.endless_body(b"", EVENT * 100), is_watch), "", server=False),
    Row("server certificate expired", expired_server, "certificate has expired"),
    Row(
        "our certificate expired",
        expired_client,
        "TLS .* failed|connection .* broke",
    ),
    Row(
        "401",
        on(failure("401 Unauthorized", "Unauthorized", "Unauthorized")),
        "does not accept",
    ),
    Row(
        "403",
        on(failure("403 Forbidden", "Forbidden", "no rights")),
        "no rights",
        server=False,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_faulty_cluster_delays_no_other_cluster(world: Fleet, row: Row) -> None:
    daemon = world.daemon
    world.settle(LOW)
    begin, before = len(daemon.lines), world.memory()
    with world.swinging():
        with row.begin(world):
            world.demand(BAD, HIGH)
            most = world.most_memory_during(SYNCS, begin)
            wait_until(f"a report of {row.seen!r}", lambda: row.is_reported(world, begin))
            assert requests.get(f"http://{daemon.address}/readyz", timeout=10).status_code == 200
        world.wait_for(BAD, HIGH, timeout=15)
    world.check_grid(begin)
    for name in OTHERS:
        assert [sync for sync in world.syncs(name, begin) if sync.get("write") == "written"]
    assert most - before < MOST_MIB
    warnings = world.warnings(begin)
    assert all(f'"{name}' not in text for text in warnings for name in OTHERS), warnings
    assert set(warnings.values()) <= {1}, warnings


@pytest.mark.parametrize("seed", [1, 2])
def test_random_json_from_one_cluster_breaks_no_page_and_no_other_cluster(
    world: Fleet, seed: int
) -> None:
    daemon, choose = world.daemon, random.Random(seed)  # noqa: S311 - no secret
    world.settle(LOW)
    ready = f"http://{daemon.address}/readyz"
    wait_until("it is ready", lambda: requests.get(ready, timeout=10).status_code == 200)
    begin = len(daemon.lines)
    paths = ("/", "/health", f"/targets/{key(BAD)}", "/api/v1/targets", "/metrics", "/readyz")
    gone = on(failure("410 Gone", "Expired", "too old"), is_watch)
    with world.swinging():
        scrambling = world.proxy.playing(
            plays.scrambled(choose), lambda request: not is_watch(request)
        )
        with scrambling, gone(world):
            world.demand(BAD, HIGH)
            for _ in range(20):
                for path in paths:
                    answer = requests.get(f"http://{daemon.address}{path}", timeout=10)
                    assert answer.status_code == 200, (path, answer.text[:3000])
                time.sleep(0.3)
        world.wait_for(BAD, HIGH, timeout=30)
    world.check_grid(begin)
    lines = daemon.lines[begin:]
    assert [line for line in lines if line.get("event") == "fault" or "exception" in line] == []
    assert not any("Traceback" in str(line) for line in lines)
