"""A HorizontalPodAutoscaler or ScaledObject where a configuration belongs is told as what it is."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from autoscaler.config import Config, ConfigError, Problem, load, loading
from autoscaler.core.extensions import Extensions, Fallback, Idle, Pause, PauseMode, Schedule
from autoscaler.importers import manifests
from tests.config.documents import PROMETHEUS, loaded, refused

V2 = textwrap.dedent("""\
    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    metadata: {name: web, namespace: shop, uid: 3f}
    spec:
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
      minReplicas: 2
      maxReplicas: 10
      metrics:
      - type: Pods
        pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "100"}}
      behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
    status: {currentReplicas: 3}
    """)
V1 = textwrap.dedent("""\
    apiVersion: autoscaling/v1
    kind: HorizontalPodAutoscaler
    metadata: {name: api}
    spec:
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
      maxReplicas: 5
      targetCPUUtilizationPercentage: 70
    """)
V2BETA1 = textwrap.dedent("""\
    apiVersion: autoscaling/v2beta1
    kind: HorizontalPodAutoscaler
    metadata: {name: old, namespace: shop}
    spec:
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: old}
      maxReplicas: 5
      metrics:
      - {type: Resource, resource: {name: cpu, targetAverageUtilization: 50}}
      - {type: Resource, resource: {name: memory, targetAverageValue: 1Gi}}
      - type: External
        external: {metricName: q, metricSelector: {matchLabels: {a: b}}, targetAverageValue: 30}
      - type: Object
        object:
          target: {apiVersion: v1, kind: Service, name: front}
          metricName: hits
          targetValue: 1k
      - {type: Pods, pods: {metricName: rps, targetAverageValue: 100}}
    """)
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
SCALED_OBJECT = textwrap.dedent("""\
    apiVersion: keda.sh/v1alpha1
    kind: ScaledObject
    metadata:
      name: orders
      namespace: shop
      annotations: {autoscaling.keda.sh/paused-scale-in: "true"}
    spec:
      scaleTargetRef: {name: order-worker}
      pollingInterval: 30
      cooldownPeriod: 300
      maxReplicaCount: 20
      fallback: {failureThreshold: 3, replicas: 6}
      advanced:
        restoreToOriginalReplicaCount: true
        horizontalPodAutoscalerConfig:
          behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
      triggers:
      - type: prometheus
        metadata:
          serverAddress: http://prometheus.monitoring:9090
          query: sum(rabbitmq_queue_messages_ready{queue="orders"})
          threshold: "30"
          activationThreshold: "5"
      - {type: cpu, metricType: Utilization, metadata: {value: "60"}}
      - {type: memory, metricType: AverageValue, metadata: {value: 1Gi, containerName: app}}
      - {type: rabbitmq, metadata: {host: "amqp://user:hunter2@h"}}
      - type: cron
        metadata:
          {timezone: Europe/Berlin, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: "10"}
    """)
CRON = SCALED_OBJECT[SCALED_OBJECT.index("  - type: cron") :]
BEFORE_TRIGGERS = SCALED_OBJECT[: SCALED_OBJECT.index("  triggers:")]
QUERIES = "queries: {rps: up, q: up, hits: up}\n"
RESTORED = "spec.advanced.restoreToOriginalReplicaCount"


def together(kind: str, *manifests: str) -> str:
    """Return manifests as documents, or as a List."""
    if kind == "documents":
        return "---\n".join(manifests)
    return f"apiVersion: v1\nkind: List\nitems:\n{''.join(map(item, manifests))}"


def item(manifest: str) -> str:
    """Return a manifest as an item of a list."""
    return f"- {textwrap.indent(manifest, '  ')[2:]}"


def pasted(folder: Path, problem: Problem, beside: str = "") -> dict[str, object]:
    """Load what a problem has ready for pasting, and return it as plain data."""
    folder.mkdir(exist_ok=True)
    assert loaded(folder, beside + problem.ready).targets
    ready = yaml.safe_load(problem.ready)
    return dict(ready) if isinstance(ready, dict) else {"targets": ready}


def left_to_decide(folder: Path, problem: Problem, beside: str = "") -> list[str]:
    """Return the fields that what is ready leaves undecided, each of which is refused."""
    targets = yaml.safe_load(problem.ready)["targets"]
    fields = [one["field"] for target in targets for one in target.get("undecided", [])]
    if fields:
        told = [one.message for one in refused(folder, beside + problem.ready)]
        assert all(any(f"is left to decide: {one}" in told_ for told_ in told) for one in fields)
    return fields


def decided(folder: Path, problem: Problem, beside: str = "") -> Config:
    """Load what is ready once everything is decided that it leaves open."""
    left_to_decide(folder, problem, beside)
    ready = yaml.safe_load(problem.ready)
    for target in ready["targets"]:
        target.pop("undecided", None)
    return loaded(folder, beside + yaml.safe_dump(ready))


def test_manifests_with_no_line_between_them_are_told(tmp_path: Path) -> None:
    """Of each key the first one was read, so that all others would be lost without a word."""
    first, second, *_, last = refused(tmp_path, V2 + SCALED_OBJECT)
    assert first.line == V2.count("\n") + 1
    assert second.line == first.line + 1
    assert first.message == (
        "this key stands here twice; keep one of the two, of which the first was read; between two "
        "manifests there is a line of ---"
    )
    assert "this is a HorizontalPodAutoscaler" in last.message
    assert last.ready


def test_a_whole_autoscaler_as_the_file(tmp_path: Path) -> None:
    """One sentence says that a target is its spec with the namespace, and the target is ready."""
    (problem,) = refused(tmp_path, V2)
    assert problem.text == (
        f"{tmp_path}/autoscaler.yaml:1: this is a HorizontalPodAutoscaler, not a configuration of "
        "autoscaler: a target is its `spec` with `namespace` beside it\n"
        "  `queries` needs the PromQL of each metric under its name: rps"
    )
    spec = yaml.safe_load(V2)["spec"]
    assert pasted(tmp_path / "b", problem, PROMETHEUS + QUERIES) == {
        "targets": [{"namespace": "shop", **spec}]
    }


def test_an_autoscaler_without_a_namespace(tmp_path: Path) -> None:
    """What stands for it is refused until it is replaced."""
    (problem,) = refused(tmp_path, V1)
    assert "it is of autoscaling/v1, and targets are as in autoscaling/v2" in problem.details
    (namespace,) = refused(tmp_path, PROMETHEUS + problem.ready)
    assert namespace.path == "targets[0].namespace"
    filled = PROMETHEUS + problem.ready.replace("NAMESPACE", "shop")
    (target,) = loaded(tmp_path, filled).targets
    assert target.spec.metrics[0].target.average_utilization == 70


def test_an_autoscaler_of_v2beta1(tmp_path: Path) -> None:
    """Its metrics are written as those of v2."""
    (problem,) = refused(tmp_path, V2BETA1)
    (target,) = loaded(tmp_path, PROMETHEUS + QUERIES + problem.ready).targets
    cpu, memory, external, described, pods = target.spec.metrics
    assert cpu.target.average_utilization == 50
    assert memory.target.average_value == 2**30 * 1000
    assert external.target.average_value == 30_000
    assert described.target.value == 1_000_000
    assert pods.target.average_value == 100_000


@pytest.mark.parametrize("kind", ["documents", "list"])
def test_several_manifests(tmp_path: Path, kind: str) -> None:
    """Each autoscaler has its line; of the others beside it nothing is said."""
    text = together(kind, DEPLOYMENT, V2, V1)
    problems = refused(tmp_path, text)
    lines = text.splitlines()
    assert len(problems) == 2
    for problem in problems:
        assert problem.message.startswith("this is a HorizontalPodAutoscaler")
        assert "autoscaling/v" in lines[(problem.line or 0) - 1]
    ready = yaml.safe_load(problems[-1].ready)
    assert [target["maxReplicas"] for target in ready["targets"]] == [10, 5]


def test_manifests_among_the_targets(tmp_path: Path) -> None:
    """One sentence for each, and a List among them is looked into; what is ready is an entry."""
    entries = map(item, (V2, DEPLOYMENT, together("list", V2BETA1)))
    problems = refused(tmp_path, f"{PROMETHEUS}targets:\n{''.join(entries)}")
    paths = [problem.path for problem in problems]
    assert paths == ["targets[0]", "targets[1]", "targets[2].items[0]"]
    assert "not a target: a target is its `spec`" in problems[0].message
    assert problems[1].message == "this is a Kubernetes manifest (Deployment), not a target"
    lines = "".join(problem.ready for problem in problems if problem.ready)
    assert "targets:" not in lines
    ready = f"{PROMETHEUS}{QUERIES}targets:\n{problems[0].ready}\n{problems[2].ready}\n"
    assert len(loaded(tmp_path, ready).targets) == 2


PLACES = [
    (f"{PROMETHEUS}targets:\n{textwrap.indent(V2, '  ')}", "targets", 2),
    (f"{PROMETHEUS}targets: []\n---\n{V2}", "", 4),
    (V2.partition("\n")[2].partition("\n")[2], "", 1),
]


@pytest.mark.parametrize(("text", "path", "line"), PLACES)
def test_an_autoscaler_in_an_unusual_place(tmp_path: Path, text: str, path: str, line: int) -> None:
    """As the targets, behind a configuration, or without its first lines it is recognized too."""
    (problem,) = refused(tmp_path, text)
    assert (problem.path, problem.line) == (path, line)
    assert problem.message.startswith("this is a HorizontalPodAutoscaler, not a ")


def test_an_autoscaler_with_more_in_its_annotations(tmp_path: Path) -> None:
    """Those of autoscaling/v1 keep what it has no fields for: nothing is made up from the rest."""
    key = "autoscaling.alpha.kubernetes.io/metrics"
    (problem,) = refused(tmp_path, V1.replace("api}", f"api, annotations: {{{key}: '[]'}}}}", 1))
    assert "its annotations: `kubectl get hpa.v2.autoscaling -o yaml` shows it" in problem.text
    ready = replace(problem, ready=problem.ready.replace("NAMESPACE", "shop"))
    assert left_to_decide(tmp_path, ready, PROMETHEUS) == ["metadata.annotations"]


CONVERTED = """\
scaleTargetRef -> scaleTargetRef, with apiVersion and kind
minReplicaCount 0 -> idle, and minReplicas 1
maxReplicaCount -> maxReplicas
triggers[0] (prometheus) -> PromQL in `queries` and a metric of type External
triggers[1] (cpu) -> a metric of type Resource
pollingInterval -> syncPeriod
advanced.horizontalPodAutoscalerConfig.behavior -> behavior
activationThreshold -> activation of the metric
cooldownPeriod -> idle.after
fallback -> fallback
triggers[4] (cron) -> schedules
its annotation that pauses it -> paused
triggers[3] (rabbitmq): no counterpart here; if Prometheus has its metric, write a query and a \
metric of type External
"""


def test_a_scaled_object(tmp_path: Path) -> None:
    """A line for each field and trigger, and what has a counterpart is ready to load."""
    (problem,) = refused(tmp_path, SCALED_OBJECT)
    assert problem.message == "this is a KEDA ScaledObject, not a configuration of autoscaler"
    lines = problem.details
    assert "\n" not in str(problem)
    assert problem.text.splitlines()[1:] == [f"  {line}" for line in lines]
    assert max(map(len, lines)) < 120
    assert set(CONVERTED.splitlines()) <= set(lines)
    # Whoever deletes the ScaledObject before sets an old count under load.
    assert lines[0].startswith("first set advanced.restoreToOriginalReplicaCount to false in the")
    assert problem.ready.startswith("# before you delete a ScaledObject, see what its target has")
    assert "leave out `empty: zero` where it may be an outage too" in lines[-2]
    assert "`undecided` in the target makes it invalid until somebody has decided" in lines[-1]
    assert "hunter2" not in problem.text + problem.ready
    assert left_to_decide(tmp_path, problem) == [RESTORED, "spec.triggers[3]"]
    assert "  - field: spec.triggers[3]\n    type: rabbitmq\n" in problem.ready
    config = decided(tmp_path, problem)
    (target,) = config.targets
    assert config.prometheus.url == "http://prometheus.monitoring:9090"
    assert target.key == "shop/Deployment/order-worker"
    assert (target.spec.min_replicas, target.spec.max_replicas) == (1, 20)
    assert target.extensions == Extensions(
        idle=Idle(0, 300.0),
        activations=(5000, 0, 0),
        fallback=Fallback(6, 3),
        pause=Pause(PauseMode.SCALE_DOWN),
        schedules=(Schedule("cron-4", "0 8 * * *", "0 18 * * *", "Europe/Berlin", 10),),
    )
    assert target.sync_period == 30.0
    assert target.queries[0].promql == 'sum(rabbitmq_queue_messages_ready{queue="orders"})'
    assert target.queries[0].empty_is_zero
    external, cpu, memory = target.spec.metrics
    assert external.target.average_value == 30_000
    assert cpu.target.average_utilization == 60
    assert (memory.type, memory.target.average_value) == ("ContainerResource", 2**30 * 1000)


@pytest.mark.parametrize("cron", [False, True])
def test_a_scaled_object_without_a_metric(tmp_path: Path, *, cron: bool) -> None:
    """They are undecided: without any a target would scale on cpu, whatever wakes it."""
    text = f"{BEFORE_TRIGGERS}  triggers:\n  - type: mysql\n{CRON if cron else ''}"
    (problem,) = refused(tmp_path, text)
    assert "triggers[0] (mysql): no counterpart here; if Prometheus has its metric" in problem.text
    assert "triggers: none of them has a counterpart, and without `metrics` a" in problem.text
    fields = [RESTORED, "spec.triggers[0]", "spec.triggers"]
    assert left_to_decide(tmp_path, problem, PROMETHEUS) == fields
    (target,) = yaml.safe_load(problem.ready)["targets"]
    assert target["idle"] == {"replicas": 0, "after": "300s"}
    assert [one["minReplicas"] for one in target.get("schedules", ())] == [10] * cron


@pytest.mark.parametrize("false", ["false", "'false'"])
def test_a_scaled_object_to_which_nothing_is_an_error(tmp_path: Path, false: str) -> None:
    """With ignoreNullValues off it takes an empty answer as it is taken here."""
    line = f'threshold: "30"\n      ignoreNullValues: {false}'
    (problem,) = refused(tmp_path, SCALED_OBJECT.replace('threshold: "30"', line))
    assert problem.message.startswith("this is a KEDA ScaledObject")
    assert "empty" not in problem.text + problem.ready


IDLE_COUNTS = [
    ("minReplicaCount: 3", 3, None),
    ("minReplicaCount: 0\n  initialCooldownPeriod: 60", 1, Idle(0, 300.0, 60.0)),
    ("minReplicaCount: 3\n  idleReplicaCount: 0", 3, Idle(0, 300.0)),
]


@pytest.mark.parametrize(("keys", "least", "idle"), IDLE_COUNTS)
def test_when_a_scaled_object_idles(
    tmp_path: Path, keys: str, least: int, idle: Idle | None
) -> None:
    """It goes to zero or to its idle count; with a minimum alone its keys of that have no use."""
    (problem,) = refused(tmp_path, SCALED_OBJECT.replace("pollingInterval: 30", keys))
    (target,) = decided(tmp_path, problem).targets
    assert (target.spec.min_replicas, target.extensions.idle) == (least, idle)
    unused = "cooldownPeriod: no counterpart here; it has no use where nothing goes to zero"
    assert (unused in problem.details) == (idle is None)
    assert bool(target.extensions.activations) == (idle is not None)


def test_a_scaled_object_of_several_servers(tmp_path: Path) -> None:
    """The first is the default, the others have names that their queries use."""
    triggers = "".join(
        f"  - type: prometheus\n    metadata: {{serverAddress: 'http://{host}', query: {query}, "
        'threshold: "1", customHeaders: "X-Scope-OrgID=hunter2"}\n'
        for host, query in (("a", "x"), ("b", "y"), ("a", "z"))
    )
    text = BEFORE_TRIGGERS + f"  triggers:\n{triggers}"
    (problem,) = refused(tmp_path, text)
    config = decided(tmp_path, problem)
    assert config.prometheus.url == "http://a"
    servers = {name: one.url for name, one in config.prometheus.servers.items()}
    assert servers == {"prometheus-2": "http://b"}
    (target,) = config.targets
    assert [query.server for query in target.queries] == ["", "prometheus-2", ""]
    assert (
        "triggers[1].metadata.customHeaders is not copied: write it as `headers` of its server in "
        "`prometheus`"
    ) in problem.details
    assert "hunter2" not in problem.text + problem.ready


PLAIN_TRIGGER = """\
  triggers:
  - type: prometheus
    useCachedMetrics: true
    metadata:
      {serverAddress: "http://p", query: up, threshold: "1", timeout: "5", unsafeSsl: "true",
       namespace: shop, authModes: "tls,custom", queryParameters: "t=hunter2", ignored: "false"}
"""


def test_what_else_a_trigger_may_have(tmp_path: Path) -> None:
    """Each key has a line; the namespace of its queries is kept, since it changes the answers."""
    text = BEFORE_TRIGGERS + PLAIN_TRIGGER
    (problem,) = refused(tmp_path, text)
    of = "triggers[0].metadata"
    for line in (
        f"{of}.timeout is not copied: write it as `timeout` with a unit of its server in ",
        f"{of}.unsafeSsl is not copied: write it as `tls: {{insecureSkipVerify: true}}`, or better",
        f"{of}.queryParameters is not copied: write it as `queryParameters` of its server",
        f"{of}.namespace -> queryParameters of its server",
        f"{of}.authModes is not copied: write it as `tls` and `headersFiles` of its server in ",
        "triggers[0].useCachedMetrics: no counterpart here; each query is sent once per sync",
    ):
        assert line in problem.text
    assert "ignored" not in problem.text
    assert "hunter2" not in problem.text + problem.ready
    assert decided(tmp_path, problem).prometheus.query_parameters == {"namespace": ("shop",)}


@pytest.mark.parametrize(("count", "held"), [("50", 20), ("1", 3), ("7", 7)])
def test_a_cron_trigger_is_held_to_the_bounds(tmp_path: Path, count: str, held: int) -> None:
    """As the HPA of a ScaledObject holds it, and a line says so."""
    text = SCALED_OBJECT.replace('desiredReplicas: "10"', f'desiredReplicas: "{count}"')
    (problem,) = refused(tmp_path, text.replace("maxReplica", "minReplicaCount: 3\n  maxReplica"))
    (target,) = decided(tmp_path, problem).targets
    assert target.extensions.schedules[0].min_replicas == held
    said = f"desiredReplicas {count} of cron-4 -> minReplicas {held}, since it is held to"
    assert (said in problem.text) == (count != str(held))


CPU_TRIGGER = '  - {type: cpu, metricType: Utilization, metadata: {value: "60"}}\n'


@pytest.mark.parametrize(
    ("triggers", "low", "idle", "metrics"),
    [
        (CRON, 0, Idle(0, 300.0), ["External"]),
        (CRON, 2, None, ["External"]),
        (CPU_TRIGGER + CRON, 0, Idle(0, 300.0), ["Resource", "External"]),
        (CPU_TRIGGER + CRON, 2, None, ["Resource"]),
    ],
)
def test_a_scaled_object_that_only_cron_wakes(
    tmp_path: Path, triggers: str, low: int, idle: Idle | None, metrics: list[str]
) -> None:
    """A metric that is always 0 lets its windows set the count, and idle take it to zero."""
    text = f"{BEFORE_TRIGGERS}  triggers:\n{triggers}"
    text = text.replace("maxReplica", f"minReplicaCount: {low}\n  maxReplica")
    (problem,) = refused(tmp_path, text)
    (target,) = decided(tmp_path, problem, PROMETHEUS).targets
    assert [metric.type for metric in target.spec.metrics] == metrics
    assert target.extensions.idle == idle
    assert target.extensions.schedules[0].min_replicas == 10
    own = "External" in metrics
    assert ("vector(0)" in [query.promql for query in target.queries]) == own
    assert ("its windows alone set the count: the metric orders-idle" in problem.text) == own
    assert ("`prometheus` with the `url` of yours is missing" in problem.text) == own


@pytest.mark.parametrize("kind", ["documents", "list"])
def test_several_scaled_objects_are_one_file(tmp_path: Path, kind: str) -> None:
    """Its servers and queries are those of all, and no name stands for two of them."""
    others = [
        SCALED_OBJECT.replace("namespace: shop", "namespace: bank").replace('"orders"', '"bank"'),
        SCALED_OBJECT.replace("order-worker", "mailer").replace(
            "http://prometheus", "http://other"
        ),
        V2.replace("name: web", "name: front"),
    ]
    problems = refused(tmp_path, together(kind, SCALED_OBJECT, *others))
    assert [bool(problem.ready) for problem in problems] == [False, False, False, True]
    ready = problems[-1].ready
    assert ready.count("# delete the") == 2
    whole = replace(problems[-1], ready=ready.replace("queries:", "queries:\n  rps: up", 1))
    config = decided(tmp_path, whole)
    keys = [target.key.replace("/Deployment/", " ") for target in config.targets]
    assert keys == ["shop order-worker", "bank order-worker", "shop mailer", "shop front"]
    first, second, third, _ = (target.queries[0] for target in config.targets)
    assert ('"orders"' in first.promql, '"bank"' in second.promql) == (True, True)
    assert [query.server for query in (first, second, third)] == ["", "", "prometheus-2"]
    assert config.prometheus.servers["prometheus-2"].url == "http://other.monitoring:9090"


def scaled_object(triggers: str, spec: str = "", annotations: str = "") -> str:
    """Return a ScaledObject of these triggers that has no more than it must have."""
    return textwrap.dedent("""\
        apiVersion: keda.sh/v1alpha1
        kind: ScaledObject
        metadata: {name: orders, namespace: shop, annotations: {%s}}
        spec:
          scaleTargetRef: {name: order-worker}
          %s
          triggers: [%s]
        """) % (annotations, spec, triggers)


def prometheus_trigger(
    keys: str = "", metadata: str = "", address: str = "http://p", query: str = "up"
) -> str:
    """Return a prometheus trigger with more keys."""
    plain = f"serverAddress: '{address}', query: '{query}', threshold: '5'"
    return f"{{type: prometheus, metadata: {{{plain}{metadata}}}{keys}}}"


LOST = [
    ("{type: kafka}", "", "", ["spec.triggers[1]"]),
    (prometheus_trigger(", authenticationRef: {name: a}"), "", "", ["authenticationRef"]),
    (prometheus_trigger(metadata=", customHeaders: hunter2"), "", "", ["customHeaders"]),
    (prometheus_trigger(metadata=", queryParameters: hunter2"), "", "", ["queryParameters"]),
    (prometheus_trigger(metadata=", cortexOrgID: hunter2"), "", "", ["cortexOrgID"]),
    (prometheus_trigger(metadata=", authModes: basic"), "", "", ["authModes"]),
    (prometheus_trigger(address="http://u:hunter2@q"), "", "", ["serverAddress"]),
    ("", "advanced: {restoreToOriginalReplicaCount: true}", "", ["restoreToOriginalReplicaCount"]),
    ("", "advanced: {restoreToOriginalReplicaCount: false}", "", []),
    ("", "advanced: {scalingModifiers: {formula: a + b}}", "", ["scalingModifiers"]),
    ("", "", 'autoscaling.keda.sh/force-activation: "true"', ["force-activation"]),
    (prometheus_trigger(query='up{app="${APP}"}'), "", "", ["spec.triggers[1].metadata.query"]),
    (prometheus_trigger(metadata=", timeout: '5', unsafeSsl: 'true', metricName: x"), "", "", []),
]


@pytest.mark.parametrize(("trigger", "spec", "annotations", "fields"), LOST)
def test_what_is_lost_has_to_be_decided(
    tmp_path: Path, trigger: str, spec: str, annotations: str, fields: list[str]
) -> None:
    """It stands in the target, none of which is valid before; no secret of it does."""
    triggers = ", ".join(filter(None, (prometheus_trigger(), trigger)))
    (problem,) = refused(tmp_path, scaled_object(triggers, spec, annotations))
    left = left_to_decide(tmp_path, problem)
    assert [one.endswith(end) for one, end in zip(left, fields, strict=True)] == [True] * len(left)
    assert "hunter2" not in problem.text + problem.ready


def test_a_formula_makes_thresholds_meaningless(tmp_path: Path) -> None:
    """The queries are there to be combined, no metric has a threshold, and it is repeated whole."""
    spec = "advanced: {scalingModifiers: {formula: a + b, target: '2', activationTarget: '1'}}"
    others = f"{CPU_TRIGGER.strip(' -')}, {{type: cron, metadata: {{start: 0 8 * * *}}}}"
    triggers = f"{prometheus_trigger(', name: a')}, {prometheus_trigger(', name: b')}, {others}"
    (problem,) = refused(tmp_path, scaled_object(triggers, spec))
    ready = yaml.safe_load(problem.ready)
    assert list(ready["queries"]) == ["a", "b"]
    (target,) = ready["targets"]
    assert [metric["type"] for metric in target["metrics"]] == ["Resource"]
    assert "schedules" not in target
    (left,) = target["undecided"]
    assert left["field"] == "spec.advanced.scalingModifiers"
    assert left["why"].startswith("formula a + b, target 2, activationTarget 1; its formula comb")


@pytest.mark.parametrize(
    ("start", "end", "converted"),
    [
        ("0 8 * * 1-5", "0 18 * * 1-5", True),
        ("0 8 * * 1-5", "0 18 * * *", False),
        ("0 8,12 * * *", "0 18 * * *", False),
        ("0 8 * * *", "0 8 * * *", False),
    ],
)
def test_a_cron_trigger_whose_starts_and_ends_do_not_alternate(
    tmp_path: Path, start: str, end: str, *, converted: bool
) -> None:
    """KEDA has it open while the next end comes before the next start: no window is made of it."""
    cron = f"{{type: cron, metadata: {{start: '{start}', end: '{end}', timezone: UTC,"
    text = scaled_object(f"{prometheus_trigger()}, {cron} desiredReplicas: '5'}}}}")
    (problem,) = refused(tmp_path, text)
    assert left_to_decide(tmp_path, problem) == ([] if converted else ["spec.triggers[1]"])
    (target,) = decided(tmp_path, problem).targets
    assert len(target.extensions.schedules) == converted
    said = "triggers[1] (cron): no counterpart here; its starts and ends do not come in turn"
    assert (said in problem.details) != converted


def including(folder: Path, form: str, count: int, manifest: str) -> Path:
    """Write a configuration that includes a manifest so many times, as a file or a target."""
    text = manifest if form == "file" else f"targets:\n{item(manifest)}"
    for number in range(count):
        (folder / f"{number:03}.yaml").write_text(text, encoding="utf-8")
    path = folder / "autoscaler.conf"
    path.write_text(f"{PROMETHEUS}include: ['*.yaml']\ntargets: []\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["file", "target"])
def test_cron_triggers_are_compared_within_one_bound_for_all_files(
    tmp_path: Path, form: str
) -> None:
    """Each takes up to 50 ms, and as long nothing is decided."""
    cron = "{type: cron, metadata: {start: 0 8 * * *, end: 0 18 * * *, timezone: UTC,"
    triggers = ", ".join([f"{cron} desiredReplicas: '5'}}}}"] * 10)
    path = including(tmp_path, form, 3, scaled_object(triggers))
    with pytest.raises(ConfigError) as raised:
        load(path, lambda: None)
    details = [one for problem in raised.value.problems for one in problem.details]
    assert sum("(cron) -> schedules" in one for one in details) == 20


@pytest.mark.parametrize("form", ["file", "target"])
def test_no_more_is_written_ready_than_is_told(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the manifests of many files only the first 100 are."""
    written = []

    def ready_of(advice: Sequence[manifests.Advice], *, entry: bool = False, **_: int) -> str:
        written.append(advice)
        return f"{entry}"

    for module in (manifests, loading):
        monkeypatch.setattr(module, "ready_of", ready_of)
    with pytest.raises(ConfigError) as raised:
        load(including(tmp_path, form, 103, V2), lambda: None)
    assert len(written) == sum(bool(one.ready) for one in raised.value.problems) == 100


PAUSES = [
    ('paused-replicas: "4"', Pause(replicas=4)),
    ('paused: "false"', None),
    ('paused: "maybe"', Pause()),
    ('paused: "True"', Pause()),
    ('paused-scale-out: "true"', Pause(PauseMode.SCALE_UP)),
    ('paused-scale-in: "true", autoscaling.keda.sh/paused-scale-out: "1"', Pause()),
]


@pytest.mark.parametrize(("annotation", "pause"), PAUSES)
def test_a_scaled_object_is_paused_as_keda_reads_it(
    tmp_path: Path, annotation: str, pause: Pause | None
) -> None:
    """A text that is no boolean pauses, and both directions are everything."""
    text = scaled_object(prometheus_trigger(), "", f"autoscaling.keda.sh/{annotation}")
    (problem,) = refused(tmp_path, text)
    (target,) = decided(tmp_path, problem).targets
    assert target.extensions.pause == pause


def test_more_than_is_converted(tmp_path: Path) -> None:
    """Triggers and autoscalers that are too many, or too long, are counted in what is printed."""
    many = ", ".join([prometheus_trigger()] * 101)
    (problem,) = refused(tmp_path, scaled_object(many))
    assert left_to_decide(tmp_path, problem) == ["spec.triggers"]
    long = V2.replace("name: rps", f"name: {'r' * 30_000}")
    (problem,) = refused(tmp_path, long)
    assert problem.ready == ""
    problems = refused(tmp_path, "---\n".join([long, *[V1] * 102]))
    (ready,) = [yaml.safe_load(one.ready) for one in problems if one.ready]
    assert len(ready["targets"]) == 99
    assert [one["field"][:2] for one in ready["undecided"]] == ["4 "]
    again = refused(tmp_path, yaml.safe_dump(ready))
    (left,) = (one for one in again if one.path == "undecided[0]")
    assert "they were too many or too long to convert" in left.message


def test_a_manifest_of_many_aliases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be very long is not even written."""

    def dump(*_: object, **__: object) -> str:
        raise AssertionError

    monkeypatch.setattr(yaml, "dump", dump)
    lines = "".join(f"  a{one}: &a{one} [*a{one - 1}, *a{one - 1}]\n" for one in range(1, 15))
    text = f"x:\n  a0: &a0 [x]\n{lines}{V2.replace('{scaleDown:', '{x: *a14, scaleDown:')}"
    (problem,) = refused(tmp_path, text)
    assert problem.message.startswith("this is a HorizontalPodAutoscaler")
    assert problem.ready == ""


def test_control_characters_of_a_manifest(tmp_path: Path) -> None:
    """What is ready is printable, whatever the manifest holds."""
    name = 'name: "\\u202e\\e[31m"}\n  min'
    (problem,) = refused(tmp_path, V2.replace("name: web}\n  min", name))
    assert problem.ready.replace("\n", "").isprintable()
    assert problem.ready.isascii()


FOREIGN = [
    ("groups: []\n", "these are rules for Prometheus"),
    ("global: {}\nscrape_configs: []\n", "this is the configuration of Prometheus itself"),
    ("rules: []\nexternalRules: []\n", "these are rules of prometheus-adapter"),
    ("{$schema: x, type: object}\n", "this is a JSON Schema"),
    ("version: 3\nservices: {}\n", "the file is something else: it has none of the keys of a conf"),
    (DEPLOYMENT, "this is a Kubernetes manifest (Deployment), not a configuration of autoscaler"),
    ("apiVersion: v1\nkind: ConfigMap\ndata: {}\n", "a configuration in its `data` can be checked"),
    ("apiVersion: keda.sh/v1\nkind: ScaledJob\n", "it starts Jobs, which have no replicas to set"),
    ("scaleTargetRef: {name: x}\nmaxReplicas: 3\n", "this is one target: write it as an entry"),
    ("- scaleTargetRef: {name: x}\n  maxReplicas: 3\n", "this is a list of targets: write them"),
]


@pytest.mark.parametrize(("text", "sentence"), FOREIGN)
def test_a_file_that_is_something_else(tmp_path: Path, text: str, sentence: str) -> None:
    """One sentence says what it is, be it the main file or an included one."""
    (problem,) = refused(tmp_path, text)
    assert sentence in problem.message
    (tmp_path / "more.yaml").write_text(text)
    (included,) = refused(tmp_path, PROMETHEUS + "include: [more.yaml]\n")
    assert included.file == str(tmp_path / "more.yaml")
    assert sentence in included.message


def test_a_misspelt_configuration_is_one(tmp_path: Path) -> None:
    """Where every key at the top is a slip, each is told with what was meant."""
    problems = refused(tmp_path, "promethues: {url: http://p}\ntargetss: []\n")
    assert [(problem.path, problem.message) for problem in problems] == [
        ("promethues", "is not known here: did you mean `prometheus`?"),
        ("targetss", "is not known here: did you mean `targets`?"),
    ]


def test_an_included_file_on_its_own(tmp_path: Path) -> None:
    """It is told that such a file is checked with the one that includes it, and nothing else."""
    targets = [{"namespace": "a", **yaml.safe_load(V2)["spec"]}]
    (problem,) = refused(tmp_path, yaml.safe_dump({"targets": targets}))
    assert problem.path == "prometheus"
    assert "a file that another one includes is checked with that one" in problem.message
