"""Which answers count as Prometheus', and how much memory the largest takes."""

import json
import threading
import tracemalloc

import pytest

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.adapters.prometheus.answers import answer_of, document_of
from autoscaler.adapters.prometheus.reader import MOST_BYTES
from autoscaler.transport.redaction import Redactor
from tests.adapters.prometheus.faults import ScriptedServer, answer, error, vector
from tests.adapters.prometheus.reading import Observed


@pytest.mark.parametrize(
    ("body", "code"),
    [(error("bad_data", "odd proxy"), "200"), ("<p>Log in", ""), (vector(), "200")],
)
def test_a_refusal_is_an_answer_and_a_login_page_is_none(body: object, code: str) -> None:
    """Also where something on the way makes status 200 of it."""
    told: list[str] = []
    with ScriptedServer(answer(body)) as server:
        reader = PrometheusReader(
            PrometheusOptions(server.url),
            threading.Event(),
            observer=Observed(told),
        )
        reader.query("x", clock.monotonic() + 20)
        reader.close()
    assert told == [code]


def test_the_largest_answer_fits_into_the_pod() -> None:
    """Half of its 512 MiB are left to the daemon, however short the labels."""
    result = [
        {"metric": {"pod": f"w{n}"}, "value": [1700000000.123, f"{n}.25"]} for n in range(9999)
    ]
    body = json.dumps(vector(*result), separators=(",", ":")).encode()
    tracemalloc.start()
    try:
        answer_of("it", document_of("it", body, Redactor()), Redactor())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (peak / len(body) + 1) * MOST_BYTES < 256 << 20
