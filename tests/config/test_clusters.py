"""Several clusters: the cluster and the queries of a target, and refusals."""

from pathlib import Path

import pytest

from autoscaler.cli.asked_queries import queries_of
from autoscaler.cli.cautions import cautions_on
from autoscaler.config.comparison import compare
from autoscaler.config.conversion import DEFAULTS
from autoscaler.config.written import as_written
from autoscaler.core.breaker import Breaker
from autoscaler.sync.breakers import Breakers
from tests.config.documents import REF, assert_refused, cases, loaded, refused

PROMETHEUS = "prometheus: {url: http://p, servers: {edge: {url: http://e}}}\n"
CLUSTERS = """\
clusters:
- {name: eu, context: eu, seriesLabels: {cluster: eu-1}, maxWritesPerSecond: 50}
- {name: us, inCluster: true, seriesLabels: {cluster: us-1}, prometheus: edge}
"""
RPS = """\
metrics:
- {type: Pods, pods: {metric: {name: rps, query: q}, target: {type: AverageValue, averageValue: 1}}}
- {type: External, external: {metric: {name: queue, query: q}, target: {type: Value, value: 1}}}
- {type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 1}}}
- {type: Resource, resource: {name: gpu, target: {type: AverageValue, averageValue: 1}}}
"""
GPU = "resourceQueries: {gpu: gpu_by_pod}\n"


def document(keys: str, clusters: str = CLUSTERS) -> str:
    lines = f"namespace: shop\nmaxReplicas: 10\n{REF}{keys}".splitlines()
    entry = "".join(f"  {line}\n" for line in lines)
    return f"{PROMETHEUS}{GPU}{clusters}targets:\n-\n{entry}"


def test_an_entry_for_several_clusters_is_a_target_of_each(tmp_path: Path) -> None:
    config = loaded(tmp_path, document("clusters: [us, eu]\n"))
    assert [target.key for target in config.targets] == [
        "us/shop/Deployment/web",
        "eu/shop/Deployment/web",
    ]
    first, second = config.targets
    assert first.spec == second.spec
    places = {use.place.path for query in queries_of(config) for use in query.uses}
    assert places == {"targets[0]"}
    assert as_written(first)["cluster"] == "us"


def test_a_server_name_for_each_cluster_keeps_their_breakers_apart(tmp_path: Path) -> None:
    text = document("clusters: [us, eu]\n").replace("http://e", "http://p")
    breakers = Breakers()
    breakers.change(Breaker(), loaded(tmp_path, text).targets)
    assert {(each.server, each.of) for each in breakers.statuses(0.0)} == {("", 1), ("edge", 1)}


@pytest.mark.parametrize(
    ("clusters", "name"),
    [
        ("", ""),
        ("kubernetes: {context: eu}\n", ""),
        ("clusters: [{name: eu, context: eu, maxWritesPerSecond: 50}]\n", "eu"),
    ],
)
def test_the_only_cluster_has_all_targets(tmp_path: Path, clusters: str, name: str) -> None:
    config = loaded(tmp_path, document("", clusters))
    (target,) = config.targets
    assert target.cluster == name
    assert target.key == f"{name}/shop/Deployment/web".removeprefix("/")
    assert target.queries == (DEFAULTS["cpu"],)
    rates = {
        key: connection.max_writes_per_second for key, connection in config.connections.items()
    }
    assert rates == {name: 50 if name else 100}


def test_metrics_of_pods_have_the_series_labels_of_the_cluster(tmp_path: Path) -> None:
    eu, us = loaded(tmp_path, document(f"clusters: [eu, us]\nserver: default\n{RPS}")).targets
    of_eu, of_us = (("cluster", "eu-1"),), (("cluster", "us-1"),)
    assert [query.series_labels for query in eu.queries] == [of_eu, (), of_eu, of_eu]
    assert [query.series_labels for query in us.queries] == [of_us, (), of_us, of_us]
    assert eu.queries[2].promql == us.queries[2].promql
    assert eu.queries[2].promql.startswith("max by (cluster, namespace, pod, container) (rate(")
    assert " on (cluster, namespace, pod, container, id, instance) " in eu.queries[2].promql
    assert eu.queries[2].window == DEFAULTS["cpu"].window
    # Metrics know the labels that tell clusters apart, also in a cluster that has none itself.
    for target in loaded(tmp_path, document(f"{BOTH}server: default\n{RPS}", NO_LABELS)).targets:
        assert target.queries[1].cluster_labels == ("cluster",)
        assert target.queries[1].series_labels == ()


def test_the_server_of_a_cluster_is_asked_by_default(tmp_path: Path) -> None:
    of_each = {
        keys: [target.queries[0].server for target in loaded(tmp_path, document(keys)).targets]
        for keys in ("clusters: [eu, us]\n", "cluster: us\nserver: default\n")
    }
    assert list(of_each.values()) == [["", "edge"], [""]]


def test_a_reload_reports_changed_labels_and_added_targets(tmp_path: Path) -> None:
    before = loaded(tmp_path, document("cluster: eu\n"))
    after = loaded(tmp_path, document("clusters: [eu, us]\n").replace("eu-1", "eu-2"))
    changes = compare(before, after)
    assert changes.added == ("us/shop/Deployment/web",)
    assert [str(setting) for setting in changes.settings] == [
        "clusters[0].seriesLabels.cluster: eu-1 -> eu-2"
    ]
    assert not changes.at_restart


TARGETS = """
cluster: eu1 ~> cluster: `eu1` is not in `clusters`: did you mean `eu`? known are eu, us
clusters: [eu, us1] ~> clusters: `us1` is not in `clusters`: did you mean `us`?
cluster: EU => cluster: must be a DNS label
clusters: [] => clusters: needs at least 1 entry
clusters: [eu, eu] => clusters: names `eu` twice
cluster: eu; clusters: [us] => cluster: does not go with `clusters`: keep one of them
"""
SEVERAL = """
{name: eu, context: a}, {name: eu, context: b} ~> clusters: two of them are called `eu`
{name: Eu, context: a} => clusters[0].name: must be a DNS label
{context: a} => clusters[0].name: is missing
{name: eu} => clusters[0]: says not which cluster it is: write kubeconfig, context, or inCluster
{name: eu, inCluster: true, context: a} => clusters[0].inCluster: does not go with kubeconfig
{name: eu, context: a, prometheus: edg} ~> clusters[0].prometheus: did you mean `edge`?
{name: eu, context: a, seriesLabels: {a-b: c}}
    => clusters[0].seriesLabels.a-b: letters, digits and _
{name: eu, kubeconfig: /nowhere/eu} ~> clusters[0].kubeconfig: there is no file /nowhere/eu
"""


def with_clusters(entries: str) -> str:
    return f"{PROMETHEUS}targets: []\nclusters: [{entries}]\n"


@pytest.mark.parametrize(
    ("text", "path", "fragment"),
    [
        *cases(document, "targets[0].", TARGETS),
        *cases(with_clusters, "", SEVERAL),
        (with_clusters(""), "clusters", "needs at least 1 entry"),
        (
            with_clusters("{name: eu, context: a}") + "kubernetes: {context: a}\n",
            "clusters",
            "write kubeconfig, context and maxWritesPerSecond at the entries of `clusters`",
        ),
        (document(""), "targets[0]", "cluster is missing: which of `clusters` it is in: eu, us"),
        (
            document("cluster: eu\n", ""),
            "targets[0].cluster",
            "`eu` is not in `clusters`: none; leave it out",
        ),
    ],
)
def test_wrong_clusters_are_refused(tmp_path: Path, text: str, path: str, fragment: str) -> None:
    assert_refused(tmp_path, text, path, fragment)


def test_a_workload_has_one_target_in_each_cluster(tmp_path: Path) -> None:
    text = document("cluster: eu\n")
    entry = text[text.index("-\n  namespace") :]
    loaded(tmp_path, text + entry.replace("cluster: eu", "cluster: us"))
    (problem,) = refused(tmp_path, text + entry.replace("cluster: eu", "clusters: [us, eu]"))
    assert "scales Deployment web in shop of eu, as targets[0] does" in str(problem)


def test_a_resource_needs_a_query_at_the_server_of_each_cluster(tmp_path: Path) -> None:
    """A server's own resourceQueries are asked by the targets of a cluster that has it."""
    own = "{url: http://e, resourceQueries: {tpu: q}}"
    keys = RPS.replace("name: gpu", "name: tpu")
    text = document(f"cluster: us\n{keys}").replace("{url: http://e}", own)
    assert loaded(tmp_path, text).targets[0].queries[3].server == "edge"
    wrong = text.replace("  cluster: us\n", "  clusters: [us, eu]\n")
    assert_refused(tmp_path, wrong, "targets[0].metrics[3].resource.name", "without a query")


def test_an_unused_and_a_repeated_cluster_are_cautions(tmp_path: Path) -> None:
    clusters = "clusters: [{name: eu, context: a}, {name: us, context: a}]\n"
    config = loaded(tmp_path, document("cluster: eu\n", clusters))
    messages = {problem.message for problem in cautions_on(config)}
    assert messages == {
        "no target is in it, so that nothing there is scaled",
        "is the same cluster as `eu`, and only `eu` is served",
    }


ONE_SERVER = CLUSTERS.replace(", prometheus: edge", "")
NO_LABELS = ONE_SERVER.replace(", seriesLabels: {cluster: eu-1}", "")
SUBSET = ONE_SERVER.replace("{cluster: us-1}", "{cluster: eu-1, zone: a}")
EQUAL = ONE_SERVER.replace("us-1", "eu-1")
NONE_AT_ALL = NO_LABELS.replace(", seriesLabels: {cluster: us-1}", "")
BOTH = "clusters: [eu, us]\n"


def metric(query: str, kind: str = "External", more: str = "") -> str:
    source = f"metric: {{name: m, query: '{query}'{more}}}"
    target = "target: {type: AverageValue, averageValue: 1}"
    return f"metrics: [{{type: {kind}, {kind.lower()}: {{{source}, {target}}}}}]\n"


SELECTED = ", selector: {matchLabels: {cluster: eu-1}}"
LISTED = ", selector: {matchExpressions: [{key: cluster, operator: Exists}]}"
PODS = "sum by (namespace, pod) (rps)"
MIXED = [
    *((clusters, BOTH, "targets[0]") for clusters in (NO_LABELS, SUBSET, EQUAL, NONE_AT_ALL)),
    (NO_LABELS, "cluster: eu\n", ""),  # no target of the other one asks the server
    (NO_LABELS, BOTH + metric(PODS, "Pods"), "targets[0].metrics[0]"),
    (NO_LABELS, BOTH + metric(PODS.replace("rps", 'rps{cluster=~".*"}'), "Pods"), ""),
    (CLUSTERS, BOTH + metric(PODS, "Pods"), ""),
    (ONE_SERVER, BOTH + metric(PODS, "Pods"), ""),
    (ONE_SERVER, BOTH, ""),
    (ONE_SERVER, BOTH + metric("sum(q)"), "targets[0].metrics[0]"),
    (NONE_AT_ALL, BOTH + metric("sum(q)"), "targets[0].metrics[0]"),
    (CLUSTERS, BOTH + metric("sum(q)"), ""),  # each asks a server of its own
    (CLUSTERS, f"{BOTH}server: edge\n" + metric("sum(q)"), "targets[0].metrics[0]"),
    (ONE_SERVER, BOTH + metric("sum by (cluster) (q)"), "targets[0].metrics[0]"),
    (ONE_SERVER, BOTH + metric("sum by (cluster) (q)", more=SELECTED), ""),
    (ONE_SERVER, BOTH + metric("sum by (cluster) (q)", more=LISTED), ""),
    (ONE_SERVER, BOTH + metric('sum(q{cluster=~".*"})'), ""),
    (ONE_SERVER, BOTH + metric('sum(q{cluster="eu-1"}) + sum(r)'), "targets[0].metrics[0]"),
    (ONE_SERVER, BOTH + metric("vector(3)"), ""),
    (ONE_SERVER, f"{BOTH}minReplicasQuery: max(a)\n", "targets[0].minReplicasQuery"),
    (ONE_SERVER, f"{BOTH}maxReplicasQuery: max(a)\n", "targets[0].maxReplicasQuery"),
    (ONE_SERVER, f"{BOTH}maxReplicasQuery: 'max(a{{cluster=\"eu-1\"}})'\n", ""),
    (ONE_SERVER, f"{BOTH}holdScaleDownQuery: up == 0\n", "targets[0].holdScaleDownQuery"),
    (ONE_SERVER, f"{BOTH}holdScaleDownQuery: {{query: up == 0{SELECTED}}}\n", ""),
]


@pytest.mark.parametrize(("clusters", "keys", "path"), MIXED)
def test_a_query_of_the_series_of_several_clusters_is_a_caution(
    tmp_path: Path, clusters: str, keys: str, path: str
) -> None:
    config = loaded(tmp_path, document(keys, clusters))
    found = [
        problem
        for problem in cautions_on(config)
        if "in one Prometheus together" in problem.message
    ]
    assert [text.path for text in found] == [path] * bool(path)
    assert all("counts series of eu and us" in text.message and text.line for text in found)


def test_a_query_may_count_series_that_another_cluster_writes(tmp_path: Path) -> None:
    text = document("cluster: eu\n" + metric("sum(q)"), ONE_SERVER)
    entry = text[text.index("-\n  namespace") :].replace("cluster: eu", "cluster: us")
    config = loaded(tmp_path, text + entry.replace("sum(q)", 'sum(q{cluster="us-1"})'))
    assert [problem.path for problem in cautions_on(config)] == ["targets[0].metrics[0]"]
