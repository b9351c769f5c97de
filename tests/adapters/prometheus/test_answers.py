"""Answers: what is read of them, and what is no answer, told in a sentence and asked once."""

import gzip
import json
import math

import pytest

from autoscaler.core.series import QueryFailure
from tests.adapters.prometheus.reading import Observed, answered, ask, failed, query, reading
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import (
    ORDERS,
    VECTOR,
    ScriptedServer,
    Step,
    answer,
    error,
    vector,
)

ZIPPED = {"Content-Encoding": "gzip"}
INFO = "PromQL info: metric might not be a counter"
FOLLOWED_NOT = "redirects are not followed; the URL should name the final address"
HISTOGRAMS = (
    "the query returns native histograms, not numbers; histogram_quantile,"
    " histogram_sum and histogram_count make numbers of them"
)

FINAL: list[tuple[Step, str]] = [
    (
        answer(error("bad_data", "1:5: parse error:\n x"), "400 Bad Request"),
        "Prometheus refused the query (bad_data): 1:5: parse error: x",
    ),
    (
        answer(error("internal", "head is gone"), "500 Internal Server Error"),
        "{} answered HTTP 500 Internal Server Error (internal): head is gone",
    ),
    (
        answer("Unauthorized", "401 Unauthorized"),
        "{} did not accept the credentials, or wants some (HTTP 401 Unauthorized): Unauthorized",
    ),
    (
        answer("<h1>404</h1> page not found", "404 Not Found"),
        "{} has no /api/v1/query (HTTP 404 Not Found): is it the right URL?: 404 page not found",
    ),
    (
        answer("", "302 Found", {"Location": "https://u:p@login.test/start?state=s3cret"}),
        f"{{}} redirects to https://login.test/start (HTTP 302): {FOLLOWED_NOT}",
    ),
    (
        answer("", "302 Found", {"Location": "/login?state=s3cret"}),
        f"{{}} redirects to /login (HTTP 302): {FOLLOWED_NOT}",
    ),
    (answer("", "302 Found", {"Location": "/"}), f"{{}} redirects to / (HTTP 302): {FOLLOWED_NOT}"),
    (answer("", "302 Found"), f"{{}} redirects to nowhere (HTTP 302): {FOLLOWED_NOT}"),
    (
        answer("", "301 Moved Permanently", {"Location": "http://[bad"}),
        f"{{}} redirects to nowhere (HTTP 301): {FOLLOWED_NOT}",
    ),
    (answer("", "204 No Content"), "{} answered HTTP 204 No Content"),
    (
        answer("<!DOCTYPE html>\n<p>Log in"),
        "{} sent invalid JSON, it starts: <!DOCTYPE html> <p>Log in",
    ),
    (answer(error("bad_data", "odd proxy")), "Prometheus refused the query (bad_data): odd proxy"),
    (answer(vector({"metric": {}, "histogram": [1.0, {"count": "1"}]})), HISTOGRAMS),
    (answer([]), "{} sent an answer that is not Prometheus' format: the JSON is not an object"),
    (
        answer({"status": "success"}),
        "{} sent an answer that is not Prometheus' format: data.resultType is missing",
    ),
    (faults.speak(b"SSH-2.0-OpenSSH_9.2\r\n"), "{} answered what is not HTTP"),
    (
        answer(b"no gzip", headers={"Content-Encoding": "gzip"}),
        "{} sent an answer that cannot be decompressed",
    ),
]


@pytest.mark.parametrize(("step", "sentence"), FINAL)
def test_what_another_try_cannot_mend_is_asked_once(step: Step, sentence: str) -> None:
    """The query is at fault where Prometheus says so, and not for a proxy or a login page."""
    with ScriptedServer(step) as server:
        failure = ask(server.url, "x")
        assert failed(failure) == sentence.format(f"Prometheus at {server.url}")
        assert len(server.received) == 1
    assert isinstance(failure, QueryFailure)
    assert failure.refused is not sentence.startswith("{}")


ELEMENTS: list[object] = [
    {"metric": {}, "value": [1.0]},
    {"metric": {}, "value": [1.0, "many"]},
    {"metric": {}, "value": [1.0, 2.0]},
    {"metric": {}, "value": "12"},
    {"metric": {}},
    {"value": [1.0, "2"]},
    {"metric": {"pod": ["a"]}, "value": [1.0, "2"]},
    {"metric": [], "value": [1.0, "2"]},
    {"metric": {}, "value": [None, "2"]},
    {"metric": {}, "value": [10**400, "2"]},
    {"metric": {}, "value": [1e300, "2"]},
    {"metric": {}, "value": [math.nan, "2"]},
    {"metric": {}, "value": [math.inf, "2"]},
    {"metric": {}, "value": [-math.inf, "2"]},
    {"metric": {}, "value": [-1.0, "2"]},
    ["metric", "value"],
    "text",
    None,
]


@pytest.mark.parametrize(
    ("element", "kind"),
    [([math.nan, "2"], "scalar"), *((element, "vector") for element in ELEMENTS)],
)
def test_an_element_of_another_shape_fails_the_whole_answer(element: object, kind: str) -> None:
    good = {"metric": {}, "value": [1.0, "2"]}
    data = {"resultType": kind, "result": element if kind == "scalar" else [good, element]}
    with ScriptedServer(answer({"status": "success", "data": data})) as server:
        message = failed(ask(server.url, "x"))
    assert message.endswith(f"not Prometheus' format: the result is not a {kind} of floats")


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "http://a%zz/s3cret"},
        {"url": "http://*.s3cret"},
        {"headers": {"X-Key": " s3cret-value"}},
        {"query_parameters": {"k": ("s3cret\ud800",)}},
    ],
)
def test_what_cannot_be_sent_is_a_sentence(changes: dict[str, object]) -> None:
    message = failed(ask("http://h", "x", **changes))  # type: ignore[arg-type]  # a table
    assert "cannot be made (" in message
    assert "s3cret-value" not in message


@pytest.mark.parametrize("encoding", ["deflate", "br", "gzip, gzip"])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    """Only gzip is, which is what Prometheus speaks."""
    with ScriptedServer(answer(headers={"Content-Encoding": encoding})) as server:
        message = failed(ask(server.url, "x"))
        assert server.received[0].headers["Accept-Encoding"] == "gzip"
    assert message == (
        f"Prometheus at {server.url} sent an answer in the content encoding {encoding},"
        " which was not asked for"
    )


def test_what_is_compressed_is_read() -> None:
    zipped = answer(gzip.compress(json.dumps(VECTOR).encode()), headers=ZIPPED)
    with ScriptedServer(zipped) as server:
        assert ask(server.url, "x") == ORDERS


@pytest.mark.parametrize(
    "step",
    [answer(b" " * (3 << 20)), answer(gzip.compress(b" " * (3 << 20)), headers=ZIPPED)],
    ids=["plain", "compressed"],
)
def test_an_answer_beyond_the_bound_is_given_up_while_it_comes(step: Step) -> None:
    """A kilobyte may become a megabyte: the bound is that of what becomes of it."""
    with ScriptedServer(step) as server:
        with reading(server.url, most_bytes=2 << 20) as reader:
            message = failed(query(reader))
        assert message.endswith("sent more than 2 MiB: the query should aggregate")
        assert len(server.received) == 1


def test_a_vector_is_read_over_one_connection() -> None:
    with ScriptedServer(answer()) as server, reading(server.url) as reader:
        for _ in range(5):
            assert query(reader) == ORDERS
        assert (len(server.received), server.connections) == (5, 1)


def test_the_query_is_sent_in_the_body_only() -> None:
    with ScriptedServer(answer()) as server:
        given = {"dedup": ("true",), "match": ("a", "b")}
        headers = {"X-Scope-OrgID": "shop"}
        base = f"{server.url}/prom"
        answered(ask(base, 'a{b="ü"} + 1', headers=headers, query_parameters=given))
        (received,) = server.received
    assert received.target == "/prom/api/v1/query?dedup=true&match=a&match=b"
    assert received.body == b"query=a%7Bb%3D%22%C3%BC%22%7D+%2B+1"
    assert received.headers["X-Scope-Orgid"] == "shop"
    assert received.headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("more", "warnings"),
    [
        ({"warnings": ["store 2: gone", INFO], "infos": [INFO]}, ("store 2: gone",)),
        # The cluster of VictoriaMetrics says without a warning that a store is out of reach.
        ({"isPartial": True}, ("isPartial is true",)),
        ({"isPartial": False}, ()),
    ],
)
def test_what_says_that_an_answer_is_partial_is_kept_with_it(
    more: dict[str, object], warnings: tuple[str, ...]
) -> None:
    """Warnings are; infos, in either place, say nothing of completeness."""
    with ScriptedServer(answer({**VECTOR, **more})) as server:
        outcome = answered(ask(server.url, "x"))
    assert (outcome.series, outcome.warnings) == (ORDERS.series, warnings)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (error("bad_data", "odd proxy"), "200"),
        (vector(), "200"),
        ("<p>Log in", ""),
        ('{"status":"success","da', ""),
        ("", ""),
    ],
)
def test_what_is_no_prometheus_does_not_count_as_one(body: object, code: str) -> None:
    """A login page, or half an answer, with status 200 leaves the server unheard."""
    codes: list[str] = []
    with ScriptedServer(answer(body)) as server:
        ask(server.url, "x", within=1.0, observer=Observed(codes))
    assert set(codes) == {code}
