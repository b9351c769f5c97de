"""An object becomes a target as the configuration permits, or is refused with a reason."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.objects import (
    LONGEST_QUERY,
    LONGEST_TEXT,
    MOST_ENTRIES,
    ObjectPolicy,
    ObjectRefusal,
    RefusalReason,
    ScalingObject,
)
from autoscaler.core.target import Target
from tests.config.documents import extended, target

Json = dict[str, Any]
SPEC: Json = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "maxReplicas": 10,
    "metrics": [
        {
            "type": "External",
            "external": {
                "metric": {"name": "rps"},
                "target": {"type": "AverageValue", "averageValue": 50},
            },
        }
    ],
    "queries": {"rps": {"query": "sum(rate(http_requests_total[2m]))"}},
}
CONFIGURATION = """\
prometheus:
  url: http://prometheus:9090
  servers: {mimir: {url: http://m}, thanos: {url: http://t}}
queries: {depth: sum by (queue) (messages), secret: sum(salaries)}
objects:
  enabled: true
  servers: [default, mimir]
  queries: [depth]
  unrestrictedNamespaces: [platform]
  quotas: {maxReplicas: 50, syncPeriod: 10s}
"""


def config(folder: Path, text: str = CONFIGURATION) -> Config:
    file = folder / "autoscaler.yaml"
    file.write_text(text)
    return load(file)


@pytest.fixture
def policy(tmp_path: Path) -> ObjectPolicy:
    return ObjectPolicy(config(tmp_path))


def spec(**more: object) -> Json:
    return copy.deepcopy(SPEC) | more


def metric(**metric: object) -> Json:
    """Return a spec whose metric has these keys."""
    found = spec()
    found["metrics"][0]["external"]["metric"] = metric
    return found


def accepted(policy: ObjectPolicy, document: Json, namespace: str = "shop") -> Target:
    made = policy.target(ScalingObject(namespace, "web", document))
    assert isinstance(made, Target), made
    return made


def refused(policy: ObjectPolicy, document: object, namespace: str = "shop") -> ObjectRefusal:
    made = policy.target(ScalingObject(namespace, "web", document))
    assert isinstance(made, ObjectRefusal), made
    return made


def test_an_object_is_a_target_of_its_own_namespace_and_name(policy: ObjectPolicy) -> None:
    made = accepted(policy, spec())
    assert (made.key, made.object_name) == ("shop/Deployment/web", "web")
    assert made.queries[0].promql == 'sum(rate(http_requests_total{namespace="shop"}[2m]))'


def test_each_promql_of_an_object_is_restricted(policy: ObjectPolicy) -> None:
    own = {"query": "max(own)"}
    document = metric(name="rps", query={"query": "sum(own)"}) | {
        "minReplicasQuery": own,
        "maxReplicasQuery": own,
        "holdScaleDownQuery": {"query": "own > 1"},
        "scaleDown": {"podDeletionCost": {"query": "own"}},
    }
    queries = accepted(policy, document).all_queries
    assert len(queries) == 5
    for query in queries:
        assert 'own{namespace="shop"}' in query.promql


def test_a_namespace_without_the_restriction_keeps_its_promql(policy: ObjectPolicy) -> None:
    made = accepted(policy, spec(), namespace="platform")
    assert made.queries[0].promql == SPEC["queries"]["rps"]["query"]


def test_a_query_of_the_library_is_as_the_administrator_wrote_it(policy: ObjectPolicy) -> None:
    selected = {"name": "depth", "selector": {"matchLabels": {"queue": "orders"}}}
    assert accepted(policy, metric(**selected)).queries[0].promql == "sum by (queue) (messages)"


def test_labels_called_query_or_server_are_labels(policy: ObjectPolicy) -> None:
    labels = {"query": "sum(x)", "server": "thanos"}
    made = accepted(policy, metric(name="rps", selector={"matchLabels": labels}))
    assert dict(made.spec.metrics[0].selector.match_labels) == labels  # type: ignore[union-attr]


def test_series_labels_of_a_cluster_restrict_too(tmp_path: Path) -> None:
    clusters = (
        "clusters:\n- {name: eu, context: eu, seriesLabels: {cluster: eu-1}, prometheus: thanos}\n"
    )
    policy = ObjectPolicy(config(tmp_path, CONFIGURATION + clusters))
    made = policy.target(ScalingObject("shop", "web", spec(), "eu"))
    assert isinstance(made, Target)
    assert 'namespace="shop",cluster="eu-1"' in made.queries[0].promql
    # The default server of a cluster is permitted there.
    assert made.queries[0].server == "thanos"
    assert made.key == "eu/shop/Deployment/web"


@pytest.mark.parametrize(
    ("document", "reason", "place"),
    [
        (None, RefusalReason.INVALID, "spec"),
        ([], RefusalReason.INVALID, "spec"),
        (spec(maxReplicas=0), RefusalReason.INVALID, "spec.maxReplicas"),
        (spec(minReplicas=11), RefusalReason.INVALID, "spec.maxReplicas"),
        (spec(namespace="other"), RefusalReason.INVALID, "spec.namespace"),
        (spec(cluster="eu"), RefusalReason.INVALID, "spec.cluster"),
        (metric(name="secret"), RefusalReason.INVALID, "spec.metrics[0].external.metric.name"),
        (metric(name="typo"), RefusalReason.INVALID, "spec.metrics[0].external.metric.name"),
        (spec(queries={"rps": "sum(x)"}), RefusalReason.INVALID, "spec.queries.rps"),
        (spec(minReplicasQuery="sum(x)"), RefusalReason.INVALID, "spec.minReplicasQuery"),
        (spec(queries={"rps": {"query": "sum("}}), RefusalReason.INVALID, "spec.queries.rps.query"),
        (spec(queries={"rps": {"query": "info(x)"}}), RefusalReason.INVALID, "spec.queries.rps"),
        (spec(server="thanos"), RefusalReason.FORBIDDEN, "spec.server"),
        (spec(server="typo"), RefusalReason.INVALID, "spec.server"),
        (spec(maxReplicas=51), RefusalReason.QUOTA, "spec.maxReplicas"),
        (spec(paused={"replicas": 51}), RefusalReason.QUOTA, "spec.paused.replicas"),
        (spec(syncPeriod="5s"), RefusalReason.QUOTA, "spec.syncPeriod"),
    ],
    ids=str,
)
def test_a_refusal_names_its_place(
    policy: ObjectPolicy, document: object, reason: RefusalReason, place: str
) -> None:
    found = refused(policy, document)
    assert found.reason is reason
    assert found.message.startswith(place)


def deep(levels: int) -> Json:
    found: Json = {}
    for _ in range(levels):
        found = {"x": found}
    return found


@pytest.mark.parametrize(
    "document",
    [
        spec(metrics=SPEC["metrics"] * (MOST_ENTRIES + 1)),
        spec(queries={f"q{number}": {"query": "x"} for number in range(MOST_ENTRIES + 1)}),
        spec(queries={"rps": {"query": "x" * (LONGEST_QUERY + 1)}}),
        metric(name="x" * (LONGEST_TEXT + 1)),
        deep(10_000),
        {f"key-{number}": number for number in range(50)},
    ],
    ids=["metrics", "queries", "PromQL", "text", "levels", "keys"],
)
def test_a_hostile_object_is_refused_with_a_short_message(
    policy: ObjectPolicy, document: Json
) -> None:
    found = refused(policy, document)
    assert found.reason is RefusalReason.INVALID
    assert len(found.message) < 5000


def test_quotas_bound_the_period_without_one(tmp_path: Path) -> None:
    policy = ObjectPolicy(config(tmp_path, CONFIGURATION.replace("10s", "60s")))
    assert accepted(policy, spec()).sync_period == 60.0


@pytest.mark.parametrize("text", [extended("idle: {after: 5m}"), target("maxReplicas: 3", "")])
def test_objects_have_the_keys_of_a_target(policy: ObjectPolicy, text: str) -> None:
    """Whatever a target of a file has, an object has too, in the mapping form."""
    (found,) = yaml.safe_load(text)["targets"]
    found = {key: value for key, value in found.items() if key != "namespace"}
    document = spec() | found
    document["metrics"] = SPEC["metrics"]
    made = policy.target(ScalingObject("shop", "web", document))
    assert isinstance(made, Target)


def test_only_known_queries_and_servers_are_permitted(tmp_path: Path) -> None:
    wrong = CONFIGURATION.replace("[default, mimir]", "[other]").replace("[depth]", "[other]")
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, wrong)
    assert [problem.path for problem in caught.value.problems] == [
        "objects.servers",
        "objects.queries",
    ]
