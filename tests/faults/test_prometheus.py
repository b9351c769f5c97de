"""Faults of Prometheus: the target that needs the answer stays where it is and says why."""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from tests.faults.rows import LONG, Begin, Row, on, play
from tests.worlds.faults.bed import Bed
from tests.worlds.faults.loads import HIGH, LOW, MAXIMUM, metric_of
from tests.worlds.prometheus.faults import error
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Fault
from tests.worlds.waiting import wait_until

pytestmark = pytest.mark.punctual


def on_its_query(fault: Fault) -> Begin:
    return on("to_prometheus", lambda name: lambda request: metric_of(name) in request.text, fault)


def refused(bed: Bed, _struck: str) -> AbstractContextManager[object]:
    return bed.to_prometheus.refusing()


def undisturbed(_bed: Bed, _struck: str) -> AbstractContextManager[object]:
    """Leave the servers alone: the load that they show is the fault."""
    return nullcontext()


@contextmanager
def restarted(bed: Bed, struck: str) -> Iterator[None]:
    """Stop the server, and start it again with its data; until it scrapes they are old."""
    bed.prometheus.stop()
    try:
        yield
    finally:
        bed.prometheus.start([bed.exporter.target])
    bed.wait_seen(struck, LOW)


def _row(name: str, begin: Begin, seen: str, **more: Any) -> Row:
    # The log says FailedGetExternalMetric, as the HPA does, with the sentence.
    return Row(name, begin, f"FailedGetExternalMetric: .*{seen}", "ScalingActive", **more)


def _answers(status: str, body: bytes | Mapping[str, object], **headers: str) -> Begin:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return on_its_query(plays.answer(status, body, named))


ROWS = [
    _row("refused", refused, "refused the connection", strikes_all=True, lasting=LONG),
    _row("hangs", on_its_query(plays.hang), "answer in time", lasting=LONG),
    _row("slow drip", on_its_query(plays.drip()), "answer in time", lasting=LONG),
    _row(
        "reset midway",
        on_its_query(plays.reset),
        "reset the connection|broke off",
    ),
    _row(
        "400",
        on_its_query(plays.instead(lambda request: request.with_body(b"query=sum%28"))),
        "refused the query",
    ),
    _row("401", _answers("401 Unauthorized", b"Unauthorized"), "accept the credentials"),
    _row(
        "429",
        _answers("429 Too Many Requests", b"slow down", Retry_After="1"),
        "answered HTTP 429",
        lasting=LONG,
    ),
    _row(
        "500",
        _answers("500 Internal Server Error", error("internal", "head gone")),
        "HTTP 500.*internal.*gone",
    ),
    _row("503", _answers("503 Service Unavailable", b"Service Unavailable"), "answered HTTP 503"),
    _row("HTML", _answers("200 OK", plays.HTML), "sent invalid JSON"),
    _row("truncated JSON", on_its_query(plays.truncate), "JSON.*breaks off"),
    _row("too short", on_its_query(plays.break_off), "broke off"),
    _row(
        "partial",
        on_its_query(plays.edited(lambda document: document.update(warnings=["store away"]))),
        "incomplete: .*store",
    ),
    _row("empty", undisturbed, "no series", load=None),
    _row("NaN", undisturbed, "is nan", load=math.nan),
    _row("+Inf", undisturbed, "is inf", load=math.inf),
    _row("-Inf", undisturbed, "is -inf", load=-math.inf),
    _row("restarted", restarted, "(closed|reset) the connection", strikes_all=True),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_fault_of_prometheus_delays_only_the_struck_target(bed: Bed, row: Row) -> None:
    play(bed, row)


def test_bounds_need_no_metric(bed: Bed) -> None:
    """A count above maxReplicas is corrected even while Prometheus is unreachable."""
    high, _ = bed.high_and_low()
    with refused(bed, high):
        bed.set_by_hand(high, MAXIMUM + 3)
        wait_until("at maxReplicas", lambda: bed.replicas(high) == MAXIMUM)
    bed.wait_for(high, HIGH)
