"""Where a plan says that a metric's query comes from."""

from pathlib import Path

from autoscaler.cli.query_sources import query_sources
from autoscaler.config import load
from autoscaler.config.queries import queries_of
from autoscaler.core.target import QueryKey
from autoscaler.rendering.record import QuerySource
from tests.cli.test_asking import TARGET, external
from tests.endtoend.daemon import write_config

CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
MEMORY = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}


def target(name: str, *metrics: object) -> dict[str, object]:
    """Return a target; without metrics it leaves them out."""
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return TARGET | {"scaleTargetRef": ref} | ({"metrics": list(metrics)} if metrics else {})


def test_each_query_is_named_by_where_it_stands(tmp_path: Path) -> None:
    """Two names of one PromQL are told apart, and so is the metric that a target leaves out."""
    own = external("waiting")
    own["external"]["metric"]["query"] = "sum(waiting)"  # type: ignore[index] # it is a mapping
    document = {
        "prometheus": {"url": "http://p:9090"},
        "queries": {"a": "vector(1)", "b": "vector(1)"},
        "resourceQueries": {"memory": "sum by (namespace, pod, container) (used)"},
        "targets": [
            target("first", external("b"), own, {"type": "Resource", "resource": CPU}),
            target("second", {"type": "Resource", "resource": MEMORY}),
            target("third"),
        ],
    }
    cpu = "the built-in query of cpu"
    assert query_sources(load(write_config(tmp_path / "a.yaml", document))) == {
        "shop/Deployment/first": (
            QuerySource("queries.b"),
            QuerySource("its own query"),
            QuerySource(cpu),
        ),
        "shop/Deployment/second": (QuerySource("resourceQueries.memory"),),
        "shop/Deployment/third": (QuerySource(cpu, default=True),),
    }


def test_a_query_of_a_named_server_has_its_source(tmp_path: Path) -> None:
    """Its own, one by name, a built-in one, and one of the server itself."""
    own = external("waiting")
    own["external"]["metric"]["query"] = "sum(waiting)"  # type: ignore[index] # it is a mapping
    mimir = {"url": "http://m", "resourceQueries": {"memory": "used"}}
    metrics = (
        external("a"),
        own,
        {"type": "Resource", "resource": CPU},
        {"type": "Resource", "resource": MEMORY},
    )
    document = {
        "prometheus": {"url": "http://p:9090", "servers": {"mimir": mimir}},
        "queries": {"a": "vector(1)"},
        "targets": [
            target("first", *metrics) | {"server": "mimir"},
            target("second", external("a")),
        ],
    }
    assert query_sources(load(write_config(tmp_path / "a.yaml", document))) == {
        "shop/Deployment/first": (
            QuerySource("queries.a"),
            QuerySource("its own query"),
            QuerySource("the built-in query of cpu"),
            QuerySource("prometheus.servers.mimir.resourceQueries.memory"),
        ),
        "shop/Deployment/second": (QuerySource("queries.a"),),
    }


def test_an_own_query_has_no_name_that_another_of_the_same_promql_has(tmp_path: Path) -> None:
    """Whichever server that one asks."""
    own = external("mine")
    own["external"]["metric"]["query"] = {"query": "sum(w)", "server": "b"}  # type: ignore[index] # it is a mapping
    same = external("same")
    same["external"]["metric"]["query"] = "sum(v)"  # type: ignore[index] # it is a mapping
    servers = {"a": {"url": "http://a"}, "b": {"url": "http://b"}}
    document = {
        "prometheus": {"url": "http://p:9090", "servers": servers},
        "queries": {"waiting": {"query": "sum(w)", "server": "a"}, "other": "sum(v)"},
        "targets": [target("first", own, external("waiting"), same)],
    }
    config = load(write_config(tmp_path / "a.yaml", document))
    (sources,) = query_sources(config).values()
    assert [one.name for one in sources] == ["its own query", "queries.waiting", "its own query"]
    places = {one.key: one.place.path for one in queries_of(config)}
    assert places[QueryKey("a", "sum(w)")] == "queries.waiting"
    assert places[QueryKey("b", "sum(w)")] == "targets[0].metrics[0].external.metric.query"
