"""`/targets`: pages that stay right, filters, ETags, and lists that disturb nobody."""

import gzip
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from http import HTTPStatus

import pytest

from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.web.answering import MOST_LARGE
from autoscaler.web.listener import Listener
from tests.telemetry.results import EMPTY, many, metrics_of, rate_limited, result_of, target_of
from tests.web.api.serving import Client, asking, serving, views_of
from tests.web.api.test_history import change
from tests.web.test_listener import HOST
from tests.worlds.record import MemoryRecord
from tests.worlds.waiting import wait_until


def ask_slowly(held: ExitStack, listener: Listener, address: str) -> socket.socket:
    """Ask for the list from an address, with room for little of it; until the end of ``held``."""
    slow = held.enter_context(socket.socket())
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.bind((address, 0))
    slow.connect((HOST, listener.port))
    slow.sendall(b"GET /api/v1/targets HTTP/1.1\r\nHost: x\r\n\r\n")
    return slow


def names(client: Client, query: str = "") -> list[str]:
    return [target["name"] for target in client.json(f"/targets{query}")["targets"]]


def test_the_list_is_whole_without_a_limit_and_as_the_sum_of_its_pages() -> None:
    with asking(views_of(metrics_of(*many(300)))) as client:
        whole = client.json("/targets")
        assert len(whole["targets"]) == 300
        assert whole["continue"] is None
        assert client.response.headers["Content-Length"] is None
        packed = client.get("/targets", Accept_Encoding="gzip")
        assert client.response.headers["Content-Encoding"] == "gzip"
        assert json.loads(gzip.decompress(packed))["targets"] == whole["targets"]
        assert client.get("/targets", method="HEAD") == b""
        first = client.json("/targets?limit=150")
        second = client.json(f"/targets?limit=150&continue={first['continue']}")
    assert first["targets"] + second["targets"] == whole["targets"]
    assert second["continue"] is None


def test_a_page_stays_right_while_targets_come_and_go() -> None:
    targets = {name: target_of(name) for name in "abcdef"}
    metrics = metrics_of(*map(result_of, targets.values()))
    with asking(views_of(metrics)) as client:
        token = client.json("/targets?limit=2")["continue"]
        metrics.states.set_targets([target_of("new"), *targets.values()])
        assert names(client, f"?limit=2&continue={token}") == ["c", "d"]
        metrics.states.set_targets([targets[name] for name in "abdef"])
        assert names(client, f"?limit=2&continue={token}") == ["d", "e"]
        metrics.states.set_targets([targets["a"]])
        assert names(client, f"?limit=2&continue={token}") == []


def test_targets_are_filtered_by_state_and_words() -> None:
    metrics = metrics_of(
        rate_limited("orders"),
        result_of(target_of("order-mails"), EMPTY),
        result_of(target_of("web"), EMPTY),
    )
    metrics.states.set_targets(
        [*(facts.target for facts in metrics.states.known()), target_of("new")]
    )
    with asking(views_of(metrics)) as client:
        assert names(client, "?state=failing") == ["order-mails", "web"]
        assert names(client, "?state=limited&state=unknown") == ["orders", "new"]
        assert names(client, "?search=ORDER+deploy") == ["orders", "order-mails"]
        assert names(client, "?search=order&state=failing") == ["order-mails"]
        page = client.json("/targets?state=failing&limit=1")
        assert names(client, f"?state=failing&limit=1&continue={page['continue']}") == ["web"]


class Daemon:
    """A daemon with two targets, a record, and a leader of each of two clusters."""

    def __init__(self) -> None:
        self.metrics = metrics_of(result_of(target_of("a")), result_of(target_of("b")))
        self.record = MemoryRecord().keep_change(change(1)).keep_change(change(2))
        self.leaders = [ClusterLeader(name, leading=name == "eu") for name in ("eu", "us")]
        views = views_of(self.metrics, record=self.record)
        self.views = replace(views, leaders=lambda: tuple(self.leaders))

    def change_leader(self) -> None:
        self.leaders[1] = ClusterLeader("us", leading=False, holder="autoscaler-2_3d")

    def add_older_change(self) -> None:
        self.record.keep_change(change(3, time=1_700_000_000.0))


def report_reload(daemon: Daemon) -> None:
    daemon.views.health.report("reload", ok=False, message="refused")


LISTS = ("/targets", "/targets?limit=1", "/fleet")
NEWS: list[Callable[[Daemon], object]] = [
    lambda daemon: daemon.metrics.report(result_of(target_of("a"), EMPTY)),
    lambda daemon: daemon.metrics.states.set_targets([target_of("a"), target_of("c")]),
    lambda daemon: daemon.metrics.clock_set(60.0),
]


@pytest.mark.parametrize(
    ("path", "news", "part"),
    [
        *((path, news, "") for path in LISTS for news in NEWS),
        *((path, Daemon.change_leader, "autoscaler-2_3d") for path in LISTS),
        ("/targets", report_reload, "refused"),
        ("/changes", Daemon.add_older_change, '"id":3'),
    ],
)
def test_an_answer_is_sent_again_only_after_a_change(
    path: str, news: Callable[[Daemon], object], part: str
) -> None:
    daemon = Daemon()
    with asking(daemon.views) as client:
        client.json(path)
        tag = client.response.headers["ETag"]
        assert client.response.headers["Cache-Control"] == "no-cache"
        assert client.get(path, 304, If_None_Match=f'"x", {tag}') == b""
        news(daemon)
        assert part in client.get(path, If_None_Match=tag).decode()
        assert client.response.headers["ETag"] != tag


def test_unread_lists_are_limited_until_clients_leave() -> None:
    views = views_of(metrics_of(*many(3000)))
    with serving(views) as listener, ExitStack() as held:
        client = Client(listener)
        for number in range(MOST_LARGE):
            deaf = ask_slowly(held, listener, f"127.0.0.{number + 2}")
            assert deaf.recv(12).endswith(b"200")
        client.problem("/targets", 503)
        assert client.response.headers["Retry-After"]
        assert client.json("/fleet")["targets"] == 3000
        held.close()
        body: list[bytes] = []

        def answered() -> bool:
            body[:] = [client.get_any("/targets")]
            return client.response.status == HTTPStatus.OK

        wait_until("there is room", answered)
        assert len(json.loads(body[0])["targets"]) == 3000


def test_a_list_read_slowly_delays_no_sync_and_no_other_client() -> None:
    metrics = metrics_of(*many(3000))
    with serving(views_of(metrics)) as listener, ExitStack() as held:
        client, slow = Client(listener), ask_slowly(held, listener, HOST)
        first = slow.recv(1000)
        metrics.report(rate_limited())
        assert len(names(client)) == 3000
        rest = b"".join(iter(lambda: slow.recv(1 << 20), b""))
    assert (first + rest).count(b'"lastSync"') == 3000
