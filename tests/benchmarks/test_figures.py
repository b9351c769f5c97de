"""Differences, shares, ratios and tables of raw figures."""

import pytest

from benchmarks import counters
from benchmarks.figures import Figures, Steady, Step, Window, difference

PAGE = """\
# HELP apiserver_request_total Requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="apps",resource="deployments",subresource="scale",verb="GET"} 40
apiserver_request_total{code="404",group="apps",resource="deployments",subresource="scale",verb="GET"} 2
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="WATCH"} 1
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",subresource="",verb="PUT"} 9
prometheus_http_requests_total{code="200",handler="/api/v1/query"} 3
prometheus_http_requests_total{code="200",handler="/api/v1/query_range"} 5
horizontal_pod_autoscaler_controller_reconciliations_total{action="none",error="none"} 40
horizontal_pod_autoscaler_controller_reconciliations_total{action="scale_up",error="none"} 2
horizontal_pod_autoscaler_controller_desired_replicas{hpa_name="a",namespace="n"} 2
horizontal_pod_autoscaler_controller_desired_replicas{hpa_name="b",namespace="n"} 2
"""  # noqa: E501 - as servers write it


def step(began: float | None, *landings: float) -> Step:
    return Step(4, 0.0, began, list(landings), {})


def test_counters_are_summed_by_label() -> None:
    assert counters.api_requests(PAGE) == {"GET deployments/scale": 42, "WATCH pods": 1}
    assert counters.prometheus_queries(PAGE) == 3
    assert counters.reconciles(PAGE) == 42
    assert counters.reconciled(PAGE) == 2
    assert counters.metric_requests(PAGE) == 0


def test_a_difference_subtracts_every_counter() -> None:
    assert difference({"a": 1, "b": 2}, {"a": 1, "b": 5, "c": 1}) == {"b": 3, "c": 1}


def test_idle_servers_do_not_count() -> None:
    cpu = {"autoscaler": 0.1, "kube-apiserver": 0.9}
    window = Window(30.0, cpu, {"autoscaler": 60_000_000}, {}, 2)
    rest = Steady(20, 40, window, {"kube-apiserver": 0.02})
    assert rest.cpu("kube-apiserver") == pytest.approx(0.9 - 0.02 * 30)
    assert rest.cpu_of_all == pytest.approx(0.4)
    assert rest.cpu("etcd") is None
    assert (rest.syncs, rest.interval) == (2.0, 15.0)


def test_a_step_lasts_from_its_sync_to_its_last_write() -> None:
    assert step(2.0, 2.1, 2.2, 2.3, 3.0).seconds == pytest.approx(1.0)
    assert step(None, 2.1, 2.2, 2.3, 3.0).seconds == pytest.approx(0.9)
    assert step(2.0).seconds is None


def test_the_median_step() -> None:
    slow, quick, middle = step(2.0, 9.0), step(2.0, 2.5), step(2.0, 4.0)
    assert Figures("x", 1, ups=[slow, quick, middle]).up is middle
    assert Figures("x", 1).up is None
