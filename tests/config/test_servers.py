"""Several Prometheus servers: the server of each query, refusals and warnings."""

import json
from pathlib import Path

import pytest

from autoscaler.cli.asked_queries import queries_of
from autoscaler.config import Config
from autoscaler.config.conversion import DEFAULTS
from autoscaler.config.exposure import warnings_of
from tests.config.documents import REF, assert_refused, cases, loaded, prometheus, target

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be seen
SERVERS = """\
prometheus:
  url: http://prometheus:9090
  servers:
    mimir:
      url: http://mimir:9009/prometheus
      headers: {X-Scope-OrgID: shop}
      resourceQueries: {cpu: mimir_cpu, example.com/gpu: mimir_gpu}
    other:
      url: http://mimir:9009/prometheus
      headers: {X-Scope-OrgID: bank}
queries:
  free: queue_length
  bound: {query: queue_length, server: other}
  top: {query: queue_length, server: default}
resourceQueries: {memory: {query: top_memory, server: other}}
"""


def document(target: str, name: str = "web") -> str:
    ref = REF.replace("web", name)
    lines = f"namespace: shop\nmaxReplicas: 10\n{ref}{target}".splitlines()
    return SERVERS + "targets:\n-\n" + "".join(f"  {line}\n" for line in lines)


def external(name: str, query: str = "") -> dict[str, object]:
    metric = {"name": name} | ({"query": json.loads(query)} if query else {})
    target = {"type": "AverageValue", "averageValue": "30"}
    return {"type": "External", "external": {"metric": metric, "target": target}}


def resource(name: str) -> dict[str, object]:
    target = {"type": "AverageValue", "averageValue": "30"}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


ELSEWHERE = external("a", '{"query": "q", "server": "x"}')
GPU = resource("example.com/gpu")


def server_and_promql(config: Config) -> list[tuple[str, str]]:
    """Return server and PromQL of each query of the first target."""
    return [(query.server, query.promql) for query in config.targets[0].all_queries]


@pytest.mark.parametrize(
    ("server", "free", "cpu", "memory"),
    [
        ("", "", ("", DEFAULTS["cpu"].promql), ("other", "top_memory")),
        ("server: default\n", "", ("", DEFAULTS["cpu"].promql), ("other", "top_memory")),
        ("server: mimir\n", "mimir", ("mimir", "mimir_cpu"), ("other", "top_memory")),
        ("server: other\n", "other", ("other", DEFAULTS["cpu"].promql), ("other", "top_memory")),
    ],
)
def test_a_query_asks_its_own_server_else_the_targets_else_the_default(
    tmp_path: Path, server: str, free: str, cpu: tuple[str, str], memory: tuple[str, str]
) -> None:
    metrics = [
        external("free"),
        external("bound"),
        external("top"),
        external("own", '"own_query"'),
        external("mine", '{"query": "own_query", "server": "mimir"}'),
        resource("cpu"),
        resource("memory"),
    ]
    bounds = "minReplicasQuery: least\nmaxReplicasQuery: {query: most, server: mimir}\n"
    bounds += "holdScaleDownQuery: {name: bound}\n"
    config = loaded(tmp_path, document(f"{server}{bounds}metrics: {json.dumps(metrics)}\n"))
    assert server_and_promql(config) == [
        (free, "queue_length"),
        ("other", "queue_length"),
        ("", "queue_length"),
        (free, "own_query"),
        ("mimir", "own_query"),
        cpu,
        memory,
        (free, "least"),
        ("mimir", "most"),
        ("other", "queue_length"),
    ]


def test_a_resource_has_its_usual_window_and_its_query_at_every_server(tmp_path: Path) -> None:
    (query,) = loaded(tmp_path, document("server: mimir\n")).targets[0].queries
    assert (query.key, query.window) == (("mimir", "mimir_cpu"), DEFAULTS["cpu"].window)
    text = document(f"server: mimir\nmetrics: [{json.dumps(GPU)}]\n")
    assert server_and_promql(loaded(tmp_path, text)) == [("mimir", "mimir_gpu")]


def test_one_query_of_a_server_is_one_object(tmp_path: Path) -> None:
    text = document("server: mimir\n")
    text += text[text.index("-\n") :].replace("name: web", "name: other")
    first, second = loaded(tmp_path, text).targets
    assert first.queries[0] is second.queries[0]


def test_each_server_is_a_connection_of_its_own(tmp_path: Path) -> None:
    servers = loaded(tmp_path, document("")).servers
    tenants = {
        name: [value.get_secret_value() for value in server.headers.values()]
        for name, server in servers.items()
    }
    assert tenants == {"": [], "mimir": ["shop"], "other": ["bank"]}
    assert servers["mimir"].url == servers["other"].url


def mimir(keys: str) -> str:
    return prometheus(f"servers: {{mimir: {{{keys}}}}}\n")


UNKNOWN = """
server: mimr => server: unknown server in `prometheus.servers`: did you mean `mimir`? known are
    default
server: other; metrics: [GPU] => metrics[0].resource.name: is a resource without a query
metrics: [ELSEWHERE]
    => metrics[0].external.metric.query.server: known are default, mimir, other
minReplicasQuery: {query: q, server: nope}
    => minReplicasQuery.server: known are default, mimir, other
""".replace("ELSEWHERE", json.dumps(ELSEWHERE)).replace("GPU", json.dumps(GPU))
WITHOUT_SERVERS = """
server: mimir
    => server: unknown server in `prometheus.servers`: none; default is the server at
    the top
server: defalt => server: did you mean `default`? known are def
"""
OF_MIMIR = """
timeout: 10s => url: is missing
url: http://m, timout: 10s => timout: did you mean `timeout`?
url: http://m, tls: {certFile: ca.pem} => tls.certFile: needs keyFile too
url: http://m, servers: {} => servers: is not known here
"""
REPLACED = [
    ("queue_length, server: other", "queries.bound.server", "known are default, mimir, other"),
    ("top_memory, server: other", "resourceQueries.memory.server", "known are default, mimir"),
    ("    other:", "prometheus.servers.Xother", "must be a DNS label"),
]
AT_THE_TOP = "is the name of the server at the top"


@pytest.mark.parametrize(
    ("text", "path", "fragment"),
    [
        *cases(document, "targets[0].", UNKNOWN),
        *cases(target, "targets[0].", WITHOUT_SERVERS),
        *cases(mimir, "prometheus.servers.mimir.", OF_MIMIR),
        (
            document("").replace("    other:", "    default:"),
            "prometheus.servers.default",
            AT_THE_TOP,
        ),
        *(
            (document("").replace(part, part.replace("other", "Xother")), path, fragment)
            for part, path, fragment in REPLACED
        ),
    ],
)
def test_an_unknown_or_wrong_server_is_refused(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    (tmp_path / "ca.pem").write_text("x")
    assert_refused(tmp_path, text, path, fragment)


def test_the_weaknesses_of_a_server_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(SECRET)
    (tmp_path / "s").chmod(0o644)
    own = "url: http://m, bearerTokenFile: s, tls: {insecureSkipVerify: true}"
    warnings = warnings_of(loaded(tmp_path, prometheus(f"servers: {{m: {{{own}}}}}\n")))
    begins = ("bearerTokenFile: /", "tls.insecureSkipVerify: any", "url: bearerTokenFile is sent")
    assert len(warnings) == len(begins)
    for warning, beginning in zip(warnings, begins, strict=True):
        assert warning.startswith(f"prometheus.servers.m.{beginning}")


def test_every_query_is_listed_with_its_server(tmp_path: Path) -> None:
    metrics = [external("free"), resource("cpu")]
    target = f"minReplicasQuery: least\nmetrics: {json.dumps(metrics)}\n"
    text = document(target)
    rest = document(f"server: mimir\n{target}", "second")
    text += rest[rest.index("-\n") :]
    listed = [
        (check.key.server, check.key.promql, check.place.path, len(check.uses), len(check.bounds))
        for check in queries_of(loaded(tmp_path, text))
    ]
    cpu = "targets[0].metrics[1] (built-in query of cpu)"
    assert listed == [
        ("", "queue_length", "queries.free", 1, 0),
        ("", DEFAULTS["cpu"].promql, cpu, 1, 0),
        ("", "least", "targets[0].minReplicasQuery", 0, 1),
        ("mimir", "queue_length", "queries.free", 1, 0),
        ("mimir", "mimir_cpu", "prometheus.servers.mimir.resourceQueries.cpu", 1, 0),
        ("mimir", "least", "targets[1].minReplicasQuery", 0, 1),
        ("mimir", "mimir_gpu", 'prometheus.servers.mimir.resourceQueries["example.com/gpu"]', 0, 0),
        ("other", "queue_length", "queries.bound", 0, 0),
        ("other", "top_memory", "resourceQueries.memory", 0, 0),
    ]
