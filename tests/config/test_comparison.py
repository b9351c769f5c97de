"""The configuration written again: what a reload changes, by target and key, without secrets."""

from pathlib import Path

import pytest
import yaml

from autoscaler.config.comparison import Comparison, FieldChange, compare, only_targets_differ
from autoscaler.config.written import as_written
from tests.config.documents import PROMETHEUS, QUERIES, REF, loaded, metric, prometheus, target, top
from tests.tables import rows

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be seen


def compared(folder: Path, before: str, after: str) -> Comparison:
    return compare(loaded(folder, before), loaded(folder, after))


def row(name: str, rest: str = "") -> str:
    ref = f"{{apiVersion: apps/v1, kind: Deployment, name: {name}}}"
    return f"- {{namespace: shop, scaleTargetRef: {ref}, maxReplicas: 10{rest}}}\n"


def document(*names: str) -> str:
    return f"{PROMETHEUS}{QUERIES}targets:\n" + "".join(row(name) for name in names)


def test_another_form_order_or_file_is_no_change(tmp_path: Path) -> None:
    before = document("a", "b")
    after = top("include: [b.yaml]\nsyncPeriod: 15000ms\nevents: true\n").replace(
        "targets: []\n", "targets:\n" + row("a", ", minReplicas: 1, syncPeriod: 15s")
    )
    (tmp_path / "b.yaml").write_text("targets:\n" + row("b"))
    assert compared(tmp_path, before, after) == Comparison()


def test_added_and_removed_targets_are_named_in_their_order(tmp_path: Path) -> None:
    found = compared(tmp_path, document("a", "z", "b", "c"), document("y", "c", "x", "a"))
    assert found == Comparison(
        added=("shop/Deployment/y", "shop/Deployment/x"),
        removed=("shop/Deployment/z", "shop/Deployment/b"),
    )


BETA = REF.replace("/v1", "/v1beta2")
EXTERNAL_METRIC = (
    "type: External\nexternal:\n"
    "  metric: {name: queue_length, selector: {matchLabels: {queue: a}}}\n"
    "  target: {type: AverageValue, averageValue: 1500m}\n"
)

CPU = "type: Resource\nresource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}\n"
CPU_QUERY = "resourceQueries: {cpu: {query: c, window: 60s}}\nqueries:"
BEHAVIOR = (
    "behavior: {scaleUp: {policies: [{type: Pods, value: 8, periodSeconds: 15}]}, "
    "scaleDown: {stabilizationWindowSeconds: 60, tolerance: 50m}}\n"
)
DOCUMENTS = {
    "a target": (
        target(""),
        target("minReplicas: 2\nsyncPeriod: 1m\n", "namespace: shop\nmaxReplicas: 20\n" + BETA),
    ),
    "a metric": (
        metric(EXTERNAL_METRIC),
        metric(EXTERNAL_METRIC.replace("1500m", "2k").replace("queue: a", "queue: b")),
    ),
    "a query": (
        metric(EXTERNAL_METRIC),
        metric(EXTERNAL_METRIC).replace("sum by (queue) (queue_length)", "{query: up, window: 2m}"),
    ),
    "another metric": (metric(EXTERNAL_METRIC), metric(CPU).replace("queries:", CPU_QUERY)),
    "behavior": (target("behavior: {}\n"), target(BEHAVIOR)),
}
"""One before, and one after it."""
FIELDS = """
a target | scaleTargetRef.apiVersion: apps/v1 -> apps/v1beta2 | minReplicas: 1 -> 2
    | maxReplicas: 10 -> 20 | syncPeriod: nothing -> 1m
a metric | metrics[0].external.metric.selector.matchLabels.queue: a -> b
    | metrics[0].external.target.averageValue: 1500m -> 2k
a query | metrics[0].query: sum by (queue) (queue_length) -> up | metrics[0].window: 1m -> 2m
another metric | metrics[0].type: External -> Resource
    | metrics[0].external.metric.name: queue_length -> nothing
    | metrics[0].external.metric.selector.matchLabels.queue: a -> nothing
    | metrics[0].external.target.type: AverageValue -> nothing
    | metrics[0].external.target.averageValue: 1500m -> nothing
    | metrics[0].query: sum by (queue) (queue_length) -> c
    | metrics[0].resource.name: nothing -> cpu
    | metrics[0].resource.target.type: nothing -> Utilization
    | metrics[0].resource.target.averageUtilization: nothing -> 70
behavior | behavior.scaleUp.policies[0].value: 4 -> 8
    | behavior.scaleUp.policies[1].type: Percent -> nothing
    | behavior.scaleUp.policies[1].value: 100 -> nothing
    | behavior.scaleUp.policies[1].periodSeconds: 15 -> nothing
    | behavior.scaleDown.stabilizationWindowSeconds: nothing -> 60
    | behavior.scaleDown.tolerance: nothing -> 0.05
"""


@pytest.mark.parametrize("row", rows(FIELDS), ids=list(DOCUMENTS))
def test_each_field_that_differs_is_named_with_both_values(tmp_path: Path, row: list[str]) -> None:
    name, *fields = row
    changed = compared(tmp_path, *DOCUMENTS[name]).changed
    assert list(changed) == ["shop/Deployment/web"]
    assert [str(field) for field in changed["shop/Deployment/web"]] == fields


CHANGED = """
syncPeriod: 15s -> 1m30s
tolerance: 0.1 -> 0.2
downscaleStabilization: 5m -> 0s
events: true -> false
perTargetMetrics: true -> false
scaleDownBreaker.share: nothing -> 20%
scaleDownBreaker.minTargets: nothing -> 20
scaleDownBreaker.hold: nothing -> 10m
kubernetes.maxWritesPerSecond: 100 -> 7
"""
LATE = """
listen: 127.0.0.1:9191 -> [::1]:80
web.listen: nothing -> 127.0.0.1:9192
stateDirectory: /var/lib/autoscaler -> /x
record.maxSize: 1Gi -> 2Gi
record.maxAge: 14d -> 7d
leaderElection.enabled: false -> true
leaderElection.namespace: "" -> a
leaderElection.retryPeriod: 2s -> 1s
kubernetes.context: nothing -> a
"""


def test_settings_that_wait_for_a_restart_are_listed_apart(tmp_path: Path) -> None:
    plain = document("a")
    settings = """\
syncPeriod: 1m30s
tolerance: 0.2
downscaleStabilization: 0
events: false
perTargetMetrics: false
scaleDownBreaker: {share: 20%}
kubernetes: {maxWritesPerSecond: 7, context: a}
listen: '[::1]:80'
web: {listen: 127.0.0.1:9192}
stateDirectory: /x
record: {maxSize: 2Gi, maxAge: 7d}
leaderElection: {enabled: true, namespace: a, retryPeriod: 1s}
"""
    found = compared(tmp_path, plain, plain + settings)
    assert sorted(map(str, found.settings)) == sorted(CHANGED.split("\n")[1:-1])
    assert sorted(map(str, found.at_restart)) == sorted(LATE.split("\n")[1:-1])
    assert not found.changed
    (change,) = compared(tmp_path, plain, plain + "listen: null\n").at_restart
    assert str(change) == "listen: 127.0.0.1:9191 -> nothing"


SECRETS = [
    ("headers: {X-Key: %s}", "headers.X-Key"),
    ("queryParameters: {t: %s}", "queryParameters.t[0]"),
    ("servers: {m: {url: http://m, queryParameters: {t: %s}}}", "servers.m.queryParameters.t[0]"),
    (
        "oauth2: {clientId: a, clientSecretFile: s, tokenUrl: https://h, endpointParams: {k: %s}}",
        "oauth2.endpointParams.k",
    ),
]


@pytest.mark.parametrize(("form", "path"), SECRETS)
def test_a_changed_secret_is_named_and_not_shown(tmp_path: Path, form: str, path: str) -> None:
    (tmp_path / "s").write_text(SECRET)
    plain, secret, other = (
        loaded(tmp_path, prometheus(snippet)) for snippet in ("", form % SECRET, form % "another")
    )
    assert SECRET not in f"{secret!r} {secret} {secret.prometheus!r}"
    for before, after, words in (
        (plain, secret, "nothing -> (not shown)"),
        (secret, other, "(not shown) -> (not shown)"),
        (secret, plain, "(not shown) -> nothing"),
    ):
        found = compare(before, after)
        assert f"prometheus.{path}: {words}" in [str(change) for change in found.settings]
        assert SECRET not in repr(found)
        assert "another" not in repr(found)
    assert compare(secret, secret) == Comparison()


def test_a_changed_file_of_a_secret_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    after = "prometheus: {url: http://prometheus:9090, bearerTokenFile: token}\ntargets: []\n"
    (change,) = compared(tmp_path, top(""), after).settings
    assert str(change) == f"prometheus.bearerTokenFile: nothing -> {tmp_path}/token"
    after = after.replace("bearerTokenFile: token", "headersFiles: {X-Key: token}")
    (change,) = compared(tmp_path, top(""), after).settings
    assert str(change) == f"prometheus.headersFiles.X-Key: nothing -> {tmp_path}/token"


def test_long_values_are_shortened() -> None:
    change = FieldChange("metrics[0].query", "a\nb", "x" * 1000)
    assert len(str(change)) < 300
    assert str(change).startswith("metrics[0].query: a b -> xxx")
    assert str(change).endswith("x…")


@pytest.mark.parametrize(
    ("before", "after", "targets_only"),
    [
        ("minReplicas: 1\n", "minReplicas: 2\n", True),
        ("", "", True),
        ("headers: {X-Scope: a}", "headers: {X-Scope: b}", False),
    ],
)
def test_changed_secrets_are_changed_settings(
    tmp_path: Path, before: str, after: str, *, targets_only: bool
) -> None:
    first, other = (
        target("").replace("url: ", f"{text}, url: ") if "headers" in text else target(text)
        for text in (before, after)
    )
    assert only_targets_differ(loaded(tmp_path, first), loaded(tmp_path, other)) is targets_only


# -- written again ---------------------------------------------------------------------------------

EXAMPLES = sorted(Path("config").glob("*.yaml"))
PAUSES = ("true", "scaleUp", "{replicas: 2}")
FULL = """
prometheus: {url: http://prometheus:9090, servers: {mimir: {url: http://mimir}}}
queries:
  queue: {query: sum(queue), server: mimir, window: 5m, maxAge: 90s, empty: zero, nan: zero}
  rps: {query: sum by (pod) (rps), labels: {pod: instance}, partial: use}
resourceQueries: {example.com/gpu: 'sum by (namespace, pod, container) (gpu)'}
syncPeriod: 30s
targets:
- namespace: shop
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}
  minReplicas: 1
  maxReplicas: 20
  minReplicasQuery: {query: min, server: mimir}
  maxReplicasQuery: {query: max, maxAge: 1h}
  holdScaleDownQuery: {name: rps, selector: {matchLabels: {tier: a}}}
  ignoreSurge: true
  replicas: {multipleOf: 4}
  scaleDown: {podDeletionCost: {query: busy, server: mimir, partial: use, labels: {pod: instance}}}
  idle: {replicas: 0, after: 10m, initially: 1m, gradual: true}
  fallback: {replicas: 6, failureThreshold: 5, behavior: currentReplicasIfHigher}
  paused: scaleDown
  schedules:
  - {name: day, start: 0 8 * * 1-5, end: 0 18 * * 1-5, timezone: Europe/Berlin, minReplicas: 4}
  - {name: night, start: 0 22 * * *, end: 0 4 * * *, maxReplicas: 3, gradual: true}
  metrics:
  - type: External
    activation: "-500u"
    external:
      metric:
        name: queue
        selector:
          matchLabels: {queue: orders}
          matchExpressions: [{key: tier, operator: In, values: [a, b]}]
      target: {type: AverageValue, averageValue: 1500m}
  - type: Pods
    pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 1k}}
  - type: Object
    object:
      describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}
      metric: {name: queue}
      target: {type: Value, value: 2Gi}
  - type: ContainerResource
    containerResource:
      name: example.com/gpu
      container: app
      target: {type: AverageValue, averageValue: 2}
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
  behavior:
    scaleUp: {policies: [{type: Pods, value: 3, periodSeconds: 60}], tolerance: 0.05}
    scaleDown: {selectPolicy: Disabled, stabilizationWindowSeconds: 600}
"""


WRITTEN = [
    *(text for file in EXAMPLES if "\nprometheus:" in (text := file.read_text())),
    FULL,
    *(FULL.replace("paused: scaleDown", f"paused: {pause}") for pause in PAUSES),
]


@pytest.mark.parametrize("text", WRITTEN)
def test_targets_are_the_same_when_written_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "targets.d").symlink_to(Path("config/targets.d").resolve())
    config, document = loaded(tmp_path, text), yaml.safe_load(text)
    rest = {key: document[key] for key in ("prometheus", "clusters") if key in document}
    rest["targets"] = [as_written(target) for target in config.targets]
    assert loaded(tmp_path, yaml.safe_dump(rest)).targets == config.targets
