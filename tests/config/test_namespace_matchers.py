"""PromQL of one namespace reads no series of another, whatever it says."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests

from autoscaler.config.namespace_matchers import restricted
from autoscaler.config.promql_parser import LONGEST
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer

SHOP = (("namespace", "shop"),)


@pytest.mark.parametrize(
    ("promql", "result"),
    [
        ("m", 'm{namespace="shop"}'),
        ("m{}", 'm{namespace="shop",}'),
        ('{a="b"}', '{namespace="shop",a="b"}'),
        ('{"m"}', '{namespace="shop","m"}'),
        ("rate(m[5m] offset 1h)", 'rate(m{namespace="shop"}[5m] offset 1h)'),
        (
            "max_over_time(rate(m[1m])[5m:30s])",
            'max_over_time(rate(m{namespace="shop"}[1m])[5m:30s])',
        ),
        ("m @ end()", 'm{namespace="shop"} @ end()'),
        ("m @ 1.5", 'm{namespace="shop"} @ 1.5'),
        ("a / on (x) group_left b", 'a{namespace="shop"} / on (x) group_left b{namespace="shop"}'),
        ("sum by (namespace) (m)", 'sum by (namespace) (m{namespace="shop"})'),
        ("m # {", 'm{namespace="shop"}'),
        ("m # a\n+ n", 'm{namespace="shop"} + n{namespace="shop"}'),
        ('m{namespace="other"}', 'm{namespace="shop",namespace="other"}'),
        (
            'label_replace(m, "a", "m", "b", "")',
            'label_replace(m{namespace="shop"}, "a", "m", "b", "")',
        ),
        ("vector(1) or absent(m)", 'vector(1) or absent(m{namespace="shop"})'),
        ("bool", 'bool{namespace="shop"}'),
        ("1 > bool 0", "1 > bool 0"),
    ],
)
def test_each_selector_gets_the_matcher(promql: str, result: str) -> None:
    assert restricted(promql, SHOP) == result


@pytest.mark.parametrize(
    "promql",
    [
        "m # a\r+ n",
        "m\r",
        "m\u00a0+ n",
        "m + \u00e9",
        "m\x00",
        "info(m)",
        "INFO(m)",
        "m default 0",
        '{a="b" or namespace="other"}',
        "WITH (x = m) x",
        "range_median(m)",
        "m[secret]",
        "m offset secret",
        "m @ secret",
        "m[5m",
        '"a',
        'm{a="x',
        "m n",
        "(m, n)",
        "sum(",
        "{}",
        "",
        "m{a}",
        "m{a=~b}",
        "m[5m:secret]",
        "m[5m:1m:n]",
        "x" * (LONGEST + 1),
        "(" * 100 + "m" + ")" * 100,
    ],
)
def test_an_unsafe_expression_is_refused(promql: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        restricted(promql, SHOP)


# -- on a real Prometheus --------------------------------------------------------------------------

_PARTS = (
    *("m", "secret", "{", "}", "(", ")", "[5m]", "[1m:10s]", ",", "+", "-", "^", "and", "or"),
    *("unless", "on", "ignoring", "group_left", "bool", "by", "without", "(namespace)"),
    *("offset", "5m", "@", "end()", "1", ">", "sum", "max", "rate", "absent", "vector(1)"),
    *('{__name__=~".+"}', '{namespace="other"}', '{namespace=~".*"}', '{namespace!=""}', '"a"'),
    *("'", '"', "`", "\\", "#", "\n", "\r", " ", "\t", "label_replace", "count_values", "inf"),
    *("nan", "scalar", "sort", "topk(5,", "start()", "offset -5m", ".5"),
)
_TEMPLATES = (
    "{} + m",
    "m + {}",
    "sum({})",
    "sum({} or m)",
    'label_replace({}, "x", "$1", "namespace", "(.*)")',
    "max_over_time({}[5m:])",
    "m unless on () {}",
    "count({})",
    "absent({})",
    "m * on () group_right {}",
)
_ATTACKS = (
    'secret{namespace="other"}',
    '{__name__="secret"}',
    '{__name__=~"m|secret"}',
    '{namespace="other"}',
    '{namespace!="shop"}',
    "secret",
    "m @ start()",
    "(secret)",
    "-secret",
    "sum by (namespace) (secret)",
    'secret{namespace="shop"} or secret',
    "secret # }\n",
    '"}" or secret',
    "'{' or secret",
    "`{` or secret",
    'm{a="}"} or secret',
    'm{a="\\"} or secret # "}',
    "m{a='\\'} or secret # '}",
    "m{a=`\\`} or secret",
    "offset or secret",
    "on or secret",
    "sum or secret",
    "m[5m] or secret",
    "m offset 5m or secret",
    "m @ 0 or secret",
    "1 or secret",
    "vector(secret)",
    "vector(scalar(secret))",
    'count_values("v", secret)',
    "topk(scalar(secret), m)",
    "quantile(scalar(secret), m)",
    "m ^ on () group_left secret",
)


def attacks() -> Iterator[str]:
    """Yield expressions that try to read `secret`, and random sequences of parts."""
    yield from _ATTACKS
    for template in _TEMPLATES:
        yield from (template.format(attack) for attack in _ATTACKS)
    chance = random.Random(7)  # noqa: S311 - the same tests each time
    for _ in range(4000):
        yield " ".join(chance.choices(_PARTS, k=chance.randint(1, 7)))


@pytest.fixture
def servers(start_prometheus: StartPrometheus) -> Iterator[tuple[PrometheusServer, ...]]:
    """Give a Prometheus with the series of both namespaces, and one with only `shop`."""
    with Exporter() as both, Exporter() as only:
        for exporter in (both, only):
            exporter.set("m", {"namespace": "shop"}, 2)
        both.set("m", {"namespace": "other"}, 31)
        for value in (37.0, 41.0):
            both.set("secret", {"namespace": "other", "value": str(value)}, value)
        yield tuple(start_prometheus([each.target]) for each in (both, only))


def test_no_accepted_expression_depends_on_another_namespace(
    servers: tuple[PrometheusServer, ...],
) -> None:
    for server in servers:
        # A subquery is evaluated at whole seconds, which must have passed since the first scrape.
        server.wait_for('count_over_time(m{namespace="shop"}[5m:]) > 1')
    session, asked = requests.Session(), 0
    for promql in attacks():
        try:
            sent = restricted(promql, SHOP)
        except ValueError:
            continue
        found = [answer(session, server, sent) for server in servers]
        assert found[0] == found[1], promql
        asked += 1
    assert asked > 300


def answer(session: requests.Session, server: PrometheusServer, promql: str) -> object:
    """Return what a query gives, without what differs between two servers anyway."""
    found = session.get(f"{server.url}/api/v1/query", params={"query": promql}, timeout=10).json()
    data = found.get("data") or {"resultType": "error", "result": [0, found.get("error")]}
    if data["resultType"] not in {"vector", "matrix"}:
        return data["result"][1]
    return sorted(
        str(({**series["metric"], "instance": "", "job": ""}, last_value(series)))
        for series in data["result"]
    )


def last_value(series: Mapping[str, Any]) -> str:
    values = series.get("values") or [series["value"]]
    return str(values[-1][1])
