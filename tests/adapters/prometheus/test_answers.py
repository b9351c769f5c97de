"""Answers: what is read of them, and which are refused."""

import gzip
import json
import math

import pytest

from autoscaler.transport.retries import FailureKind
from tests.adapters.prometheus.reading import (
    Observed,
    answered,
    ask,
    failed,
    failure_of,
    query,
    reading,
)
from tests.narrowing import assert_parts
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
INFO = "PromQL info: might not be a counter"
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
        failure = failure_of(server.url)
    assert (failure.transient, failure.kind) == (False, FailureKind.OTHER)
    assert_parts(failure, server.url, f"{kind} of floats")


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "http://a%zz/s3cret"},
        {"url": "http://*.s3cret"},
        {"headers": {"X-Key": " s3cret-value"}},
        {"query_parameters": {"k": ("s3cret\ud800",)}},
    ],
)
def test_a_request_that_cannot_be_sent_is_not_quoted(changes: dict[str, object]) -> None:
    message = failed(ask("http://h", "x", **changes))  # type: ignore[arg-type]  # a table
    assert_parts(message, "cannot be made")
    assert "s3cret-value" not in message


def test_a_compressed_answer_is_read() -> None:
    zipped = answer(gzip.compress(json.dumps(VECTOR).encode()), headers=ZIPPED)
    with ScriptedServer(zipped) as server:
        assert ask(server.url, "x") == ORDERS
        assert server.received[0].headers["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "step",
    [answer(b" " * (3 << 20)), answer(gzip.compress(b" " * (3 << 20)), headers=ZIPPED)],
    ids=["plain", "compressed"],
)
def test_an_answer_beyond_the_bound_is_given_up_while_it_comes(step: Step) -> None:
    """A kilobyte may become a megabyte: the bound is that of what becomes of it."""
    with ScriptedServer(step) as server:
        failure = failure_of(server.url, most_bytes=2 << 20)
        assert len(server.received) == 1
    assert failure.kind is FailureKind.TOO_LARGE
    assert_parts(failure, server.url, "2 MiB")


def test_a_vector_is_read_over_one_connection() -> None:
    with ScriptedServer(answer()) as server, reading(server.url) as reader:
        for _ in range(5):
            assert query(reader) == ORDERS
        assert (len(server.received), server.connections) == (5, 1)


@pytest.mark.parametrize(
    ("more", "warnings"),
    [
        ({"warnings": ["store 2: gone", INFO], "infos": [INFO]}, ("store 2: gone",)),
        # The cluster of VictoriaMetrics says without a warning that a store is out of reach.
        ({"isPartial": True}, ("isPartial is true",)),
        ({"isPartial": False}, ()),
    ],
)
def test_warnings_of_a_partial_answer_are_kept(
    more: dict[str, object], warnings: tuple[str, ...]
) -> None:
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
def test_an_answer_of_another_server_is_not_counted(body: object, code: str) -> None:
    codes: list[str] = []
    with ScriptedServer(answer(body)) as server:
        ask(server.url, "x", within=1.0, observer=Observed(codes))
    assert set(codes) == {code}
