"""Servers that permit only one HTTP method for queries: the reader uses the method that works."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from autoscaler.lab.past.range_fetching import RangeReader
from autoscaler.lab.past.ranges import Grid, Matrix, RangeRequest
from autoscaler.prometheus.reader import PrometheusReader
from autoscaler.transport.retries import FailureKind, RequestFailure
from tests.adapters.prometheus.reading import (
    Observed,
    answered,
    ask,
    failed,
    failure_of,
    query,
    reading,
)
from tests.adapters.prometheus.signatures import SECRET, assert_signed
from tests.adapters.prometheus.ways import KEYED, with_names
from tests.narrowing import assert_parts
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer, error

RANGE = RangeRequest(Grid(15_000, 5_000), 113_333_333, 113_333_337)
MATRIX = {"status": "success", "data": {"resultType": "matrix", "result": []}}
RBAC = "Forbidden (user=system:serviceaccount:shop:as, verb=create, resource=pods, subresource=)"

OK, BUSY = answer(), answer("busy", "503 Service Unavailable")
FORBIDDEN, NOT_ALLOWED = answer("no", "403 Forbidden"), answer("", "405 Method Not Allowed")


def by_method(post: Step, get: Step) -> Step:
    return lambda peer: (post if peer.received.method == "POST" else get)(peer)


def vector_or_matrix(peer: Peer) -> None:
    is_range = urlsplit(peer.received.target).path.endswith("query_range")
    (answer(MATRIX) if is_range else answer())(peer)


def assert_range(reader: PrometheusReader) -> None:
    (part,) = RangeReader(reader).parts("c", RANGE)
    assert isinstance(part.answer, Matrix)


def parameters(target: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(target).query)


@pytest.mark.parametrize("refused", ["POST", "GET"])
@pytest.mark.parametrize(
    "status", ["403 Forbidden", "405 Method Not Allowed", "501 Not Implemented"]
)
def test_the_method_that_works_is_remembered_for_each_server(status: str, refused: str) -> None:
    refusal = answer(RBAC, status)
    steps = (refusal, vector_or_matrix) if refused == "POST" else (vector_or_matrix, refusal)
    works = "GET" if refused == "POST" else "POST"
    statuses: list[str] = []
    with (
        ScriptedServer(by_method(*steps)) as server,
        reading(server.url, observer=Observed(statuses)) as reader,
    ):
        reader._method = refused
        answered(query(reader, "sum(a) + 1"))
        answered(query(reader, "sum(b)", at=1_700_000_000.25))
        assert_range(reader)
    assert [received.method for received in server.received] == [refused, works, works, works]
    assert statuses == [status[:3], "200", "200", "200"]


def test_a_range_query_finds_the_method_too() -> None:
    step = by_method(NOT_ALLOWED, vector_or_matrix)
    with ScriptedServer(step) as server, reading(server.url) as reader:
        for _ in range(2):
            assert_range(reader)
    assert [received.method for received in server.received] == ["POST", "GET", "GET"]
    sent = {name: value for name, (value,) in parameters(server.received[-1].target).items()}
    assert sent == {"query": "c", **RANGE.parameters}


def test_a_query_is_sent_with_the_parameters_and_headers_of_the_settings() -> None:
    promql = 'sum(rate(x{a="ü&b=c"}[5m])) + 1'
    given = {"dedup": ("true",), "match": ("a", "b")}
    headers = {"X-Scope-OrgID": "shop"}
    with ScriptedServer(by_method(NOT_ALLOWED, OK)) as server:
        base = f"{server.url}/prom"
        answered(ask(base, promql, headers=headers, query_parameters=given))
    post, get = server.received
    assert post.target == "/prom/api/v1/query?dedup=true&match=a&match=b"
    assert post.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert parse_qs(post.body.decode()) == {"query": [promql]}
    assert parameters(get.target) == {"query": [promql], **parameters(post.target)}
    assert get.body == b""
    assert post.headers["X-Scope-Orgid"] == get.headers["X-Scope-Orgid"] == "shop"


def test_a_get_is_signed_as_a_post_is(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    with ScriptedServer(by_method(FORBIDDEN, OK)) as server:
        answered(ask(server.url, "sum(a) + 1", sign_in=with_names(KEYED, tmp_path / "key")))
    for received in server.received:
        assert_signed(received)
    assert [received.method for received in server.received] == ["POST", "GET"]


@pytest.mark.parametrize(
    ("steps", "queries", "methods"),
    [
        pytest.param(
            (FORBIDDEN, OK, OK, FORBIDDEN, OK, OK),
            *(4, ["POST", "GET", "GET", "GET", "POST", "POST"]),
            id="changed-rules-of-a-proxy",
        ),
        pytest.param(
            (NOT_ALLOWED, OK, answer("", "414 URI Too Long"), OK),
            *(2, ["POST", "GET", "GET", "POST"]),
            id="too-long-for-a-url",
        ),
        pytest.param(
            (FORBIDDEN, BUSY, FORBIDDEN, OK),
            *(1, ["POST", "GET", "POST", "GET"]),
            id="overloaded-for-a-moment",
        ),
    ],
)
def test_the_other_method_is_used_where_one_is_refused(
    steps: tuple[Step, ...], queries: int, methods: list[str]
) -> None:
    with ScriptedServer(*steps) as server, reading(server.url) as reader:
        for _ in range(queries):
            answered(query(reader))
    assert [received.method for received in server.received] == methods


TOO_LARGE = answer("", "431 Request Header Fields Too Large")
WRONG = answer(error("bad_data", "parse error"), "400 Bad Request")


@pytest.mark.parametrize(
    ("post", "get", "status", "parts"),
    [
        (answer(RBAC, "403 Forbidden"), FORBIDDEN, 403, [RBAC, "(with POST; with GET: HTTP 403)"]),
        (NOT_ALLOWED, FORBIDDEN, 403, [": no", "(with GET; with POST: HTTP 405)"]),
        (FORBIDDEN, NOT_ALLOWED, 403, [": no", "(with POST; with GET: HTTP 405)"]),
        (NOT_ALLOWED, TOO_LARGE, 431, ["(with GET; with POST: HTTP 405)"]),
        (FORBIDDEN, WRONG, 400, ["(bad_data)", "(with GET; with POST: HTTP 403)"]),
    ],
)
def test_a_failure_of_both_methods_names_both(
    post: Step, get: Step, status: int, parts: list[str]
) -> None:
    with ScriptedServer(by_method(post, get)) as server:
        failure = failure_of(server.url)
    assert len(server.received) == 2
    assert failure.status == status
    assert (failure.kind is FailureKind.WRONG_QUERY) is (get is WRONG)
    assert_parts(failure, *parts)


def test_without_time_for_the_other_method_the_first_refusal_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that was never sent says nothing about the server."""
    with ScriptedServer(FORBIDDEN) as server, reading(server.url) as reader:
        instant: Callable[..., RequestFailure] = reader._request

        def once(exchange: Callable[[float], object], deadline: float) -> object:
            return instant(exchange, float("-inf") if server.received else deadline)

        monkeypatch.setattr(reader, "_request", once)
        assert_parts(failed(query(reader)), "403", ": no", "(with POST; with GET: ")
    assert len(server.received) == 1
