"""`/targets`: pages that stay right, filters, ETags, and lists that disturb nobody."""

import gzip
import json
import socket
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus

import pytest

from autoscaler.web.answering import MOST_LARGE
from autoscaler.web.listener import Listener
from tests.telemetry.results import EMPTY, many, metrics_of, rate_limited, result_of, target_of
from tests.web.api.serving import Client, asking, serving, views_of
from tests.web.test_listener import HOST
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


def test_the_list_is_whole_unless_a_limit_is_asked_for() -> None:
    """Compressed or not; its length is not known before it is sent."""
    with asking(views_of(metrics_of(*many(300)))) as client:
        whole = client.json("/targets")
        assert len(whole["targets"]) == 300
        assert whole["continue"] is None
        assert client.response.headers["Content-Length"] is None
        packed = client.get("/targets", Accept_Encoding="gzip")
        assert client.response.headers["Content-Encoding"] == "gzip"
        assert json.loads(gzip.decompress(packed))["targets"] == whole["targets"]
        assert client.get("/targets", method="HEAD") == b""


def test_pages_are_the_list_in_parts() -> None:
    """The last one has no token, also if it is full."""
    with asking(views_of(metrics_of(*many(10)))) as client:
        first = client.json("/targets?limit=5")
        second = client.json(f"/targets?limit=5&continue={first['continue']}")
        assert second["continue"] is None
        assert first["targets"] + second["targets"] == client.json("/targets")["targets"]


def test_a_page_stays_right_while_targets_come_and_go() -> None:
    """It begins where the one before ended, also if its first target is no longer there."""
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


def test_targets_are_found_by_state_and_by_words() -> None:
    """Words are parts of the key in either case; all of them, and one of the states, must fit."""
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


@pytest.mark.parametrize("path", ["/targets", "/targets?limit=1", "/fleet"])
def test_what_was_not_synced_since_is_not_sent_again(path: str) -> None:
    """A sync, a change of the targets or of the clock makes another one."""
    metrics = metrics_of(result_of(target_of("a")), result_of(target_of("b")))
    with asking(views_of(metrics)) as client:
        for change in (
            partial(metrics.report, result_of(target_of("a"), EMPTY)),
            partial(metrics.states.set_targets, [target_of("a"), target_of("c")]),
            partial(metrics.clock_set, 60.0),
        ):
            client.json(path)
            tag = client.response.headers["ETag"]
            assert client.response.headers["Cache-Control"] == "no-cache"
            assert client.get(path, 304, If_None_Match=f'"x", {tag}') == b""
            change()
            assert client.json(path, If_None_Match=tag)
            assert client.response.headers["ETag"] != tag


def test_a_component_that_fails_is_news() -> None:
    """It is in the list of targets too."""
    views = views_of(metrics_of(result_of(target_of("a"))))
    with asking(views) as client:
        client.json("/targets")
        tag = client.response.headers["ETag"]
        views.health.report("reload", ok=False, message="refused")
        shown = client.json("/targets", If_None_Match=tag)
    assert "reload" in [content["name"] for content in shown["components"]]


def test_lists_that_nobody_reads_are_few_and_come_free_again() -> None:
    """A further one is a 503 that says so; the others of the API are answered."""
    views = views_of(metrics_of(*many(3000)))
    with serving(views) as listener, ExitStack() as held:
        client = Client(listener)
        for number in range(MOST_LARGE):
            deaf = ask_slowly(held, listener, f"127.0.0.{number + 2}")
            assert deaf.recv(12).endswith(b"200")
        problem = client.problem("/targets", 503)
        assert problem["detail"] == "too many clients are being sent this page"
        assert client.response.headers["Retry-After"]
        assert client.json("/fleet")["targets"] == 3000
        held.close()
        body: list[bytes] = []

        def answered() -> bool:
            body[:] = [client.get_any("/targets")]
            return client.response.status == HTTPStatus.OK

        wait_until("there is room", answered)
        assert len(json.loads(body[0])["targets"]) == 3000


def test_a_sync_is_taken_in_while_a_list_is_read_slowly() -> None:
    """And others get theirs whole."""
    metrics = metrics_of(*many(3000))
    with serving(views_of(metrics)) as listener, ExitStack() as held:
        client, slow = Client(listener), ask_slowly(held, listener, HOST)
        first = slow.recv(1000)
        metrics.report(rate_limited())
        assert len(names(client)) == 3000
        rest = b"".join(iter(lambda: slow.recv(1 << 20), b""))
    assert (first + rest).count(b'"lastSync"') == 3000
