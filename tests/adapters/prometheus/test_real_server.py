"""The adapter against a real Prometheus."""

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from autoscaler import clock
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.transport.network_errors import Kind
from tests.adapters.prometheus.reading import (
    answered,
    ask,
    failed,
    network_sentence,
    query,
    reading,
)
from tests.narrowing import assert_parts
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer


def test_a_vectors_series_have_labels_values_and_a_time(
    prometheus_server: PrometheusServer, prometheus_exporter: Exporter
) -> None:
    labels = {"namespace": "shop", "pod": 'quo"te\\', "job": "mine", "instance": "me"}
    prometheus_exporter.set("vector_test", labels, 1.5)
    prometheus_server.wait_for("vector_test")
    before = time.time()
    answer = answered(ask(prometheus_server.url, "vector_test"))
    (series,) = answer.series
    assert series.labels == {"__name__": "vector_test", **labels}
    assert series.value == 1.5
    assert before - 1 <= series.timestamp <= time.time() + 1
    assert answer.warnings == ()


@pytest.mark.parametrize(
    ("promql", "values"),
    [
        ("scalar(vector(2)) * 21", [42.0]),
        ("no_such_metric", []),
        ("vector(0)/0", [math.nan]),
        ("vector(1)/0", [math.inf]),
        ("-Inf", [-math.inf]),
    ],
)
def test_scalars_nan_infinities_and_no_series_arrive(
    prometheus_server: PrometheusServer, promql: str, values: list[float]
) -> None:
    found = answered(ask(prometheus_server.url, promql)).series
    assert [series.value for series in found] == pytest.approx(values, nan_ok=True)
    assert all(series.labels == {} for series in found)


@pytest.mark.parametrize(
    ("promql", "parts"),
    [
        ("sum(", ["(bad_data)", "unclosed left parenthesis"]),
        ("", ["no expression found"]),
        ("rate(up)", ["range vector", '"rate"']),
        ("count_test * on (one) group_left () count_test", ["(execution)", "duplicate series"]),
        ("up[5m]", ["a matrix;"]),
        ('"text"', ["a string;"]),
    ],
)
def test_the_reason_of_the_server_is_reported(
    prometheus_server: PrometheusServer,
    prometheus_exporter: Exporter,
    promql: str,
    parts: list[str],
) -> None:
    for pod in "ab":
        prometheus_exporter.set("count_test", {"one": "1", "pod": pod}, 1.0)
    prometheus_server.wait_for("count_test", count=2)
    failure = ask(prometheus_server.url, promql)
    assert isinstance(failure, QueryFailure)
    assert failure.refused
    assert_parts(failure, *parts)


def test_a_query_of_100_kb_arrives(prometheus_server: PrometheusServer) -> None:
    """It is in the body, where no limit of a URL cuts it."""
    pods = "|".join(f"worker-{number:05}" for number in range(8000))
    promql = f'vector(42) or up{{pod=~"{pods}"}}'
    assert len(promql) > 100_000
    (series,) = answered(ask(prometheus_server.url, promql)).series
    assert series.value == 42.0


def test_parameters_of_the_user_never_replace_the_query(
    prometheus_server: PrometheusServer,
) -> None:
    parameters = {"time": ("1700000000",), "query": ("vector(13)",), "dedup": ("true", "false")}
    (series,) = answered(
        ask(prometheus_server.url, "vector(1)", query_parameters=parameters)
    ).series
    assert (series.timestamp, series.value) == (1700000000.0, 1.0)


def test_a_query_is_evaluated_at_the_given_instant(
    prometheus_server: PrometheusServer,
) -> None:
    with reading(prometheus_server.url) as reader:
        then, now = 1_700_000_000.125, clock.wall()
        (past,) = answered(query(reader, "vector(time())", at=then)).series
        (present,) = answered(query(reader, "vector(time())")).series
    assert (past.timestamp, past.value) == (then, then)
    assert abs(present.value - now) < 5


def test_ten_thousand_series_arrive_whole(
    start_prometheus: StartPrometheus, exporter: Exporter
) -> None:
    for number in range(10_000):
        labels = {"namespace": f"team-{number % 50}", "pod": f"worker-{number:05}"}
        exporter.set("many_test", labels, float(number))
    server = start_prometheus([exporter.target])
    server.wait_for("count(many_test) == 10000")
    with reading(server.url) as reader:
        durations, answer = [], QueryResult([])
        for _ in range(5):
            begin = time.perf_counter()
            answer = answered(query(reader, "many_test"))
            durations.append(time.perf_counter() - begin)
    assert sum(series.value for series in answer.series) == sum(range(10_000))
    # About 80 ms on two cores, 25 of it ours; the bound is for a slow, busy machine.
    assert min(durations) < 1.0, durations


def test_each_of_sixteen_threads_gets_its_own_answer(prometheus_server: PrometheusServer) -> None:
    ready = threading.Barrier(16)
    with reading(prometheus_server.url) as reader:

        def values_of(number: int) -> list[float]:
            ready.wait(timeout=30)
            asked = [f"vector({number * 100 + i})" for i in range(20)]
            return [answered(query(reader, check, within=30)).series[0].value for check in asked]

        with ThreadPoolExecutor(16) as pool:
            values = list(pool.map(values_of, range(16)))
    assert values == [[float(number * 100 + i) for i in range(20)] for number in range(16)]


def test_a_server_that_comes_back_answers_again(start_prometheus: StartPrometheus) -> None:
    server = start_prometheus()
    with reading(server.url) as reader:
        answered(query(reader, "vector(1)"))
        server.stop()
        refused = network_sentence(Kind.REFUSED, f"Prometheus at {server.url}")
        assert failed(query(reader, "vector(1)", within=2)) == refused
        server.start()
        answered(query(reader, "vector(1)"))
