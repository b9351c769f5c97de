"""A HorizontalPodAutoscaler or ScaledObject where a configuration belongs is told as what it is."""

import textwrap
from pathlib import Path

import pytest
import yaml

from autoscaler.config import ConfigError, Problem, load
from autoscaler.core.extensions import Extensions, Fallback, Idle, Pause, PauseMode, Schedule
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
QUERIES = "queries: {rps: up, q: up, hits: up}\n"


def pasted(folder: Path, problem: Problem, beside: str = "") -> dict[str, object]:
    """Load what a problem has ready for pasting, and return it as plain data."""
    folder.mkdir(exist_ok=True)
    assert loaded(folder, beside + problem.ready).targets
    ready = yaml.safe_load(problem.ready)
    return dict(ready) if isinstance(ready, dict) else {"targets": ready}


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
    manifests = [DEPLOYMENT, V2, V1]
    if kind == "documents":
        text = "---\n".join(manifests)
    else:
        items = "".join(f"- {textwrap.indent(one, '  ')[2:]}" for one in manifests)
        text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
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
    entries = "".join(f"- {textwrap.indent(one, '  ')[2:]}" for one in (V2, DEPLOYMENT))
    items = textwrap.indent(f"- {textwrap.indent(V2BETA1, '  ')[2:]}", "  ")
    text = f"{PROMETHEUS}targets:\n{entries}- apiVersion: v1\n  kind: List\n  items:\n{items}"
    problems = refused(tmp_path, text)
    assert [problem.path for problem in problems] == [
        "targets[0]",
        "targets[1]",
        "targets[2].items[0]",
    ]
    assert "not a target: a target is its `spec`" in problems[0].message
    assert problems[1].message == "this is a Kubernetes manifest (Deployment), not a target"
    lines = "".join(problem.ready for problem in problems if problem.ready)
    assert "targets:" not in lines
    ready = f"{PROMETHEUS}{QUERIES}targets:\n{problems[0].ready}\n{problems[2].ready}\n"
    assert len(loaded(tmp_path, ready).targets) == 2


def test_one_manifest_as_the_targets(tmp_path: Path) -> None:
    """Without the list around it, it is recognized too."""
    (problem,) = refused(tmp_path, f"{PROMETHEUS}targets:\n{textwrap.indent(V2, '  ')}")
    assert (problem.path, problem.line) == ("targets", 2)
    assert problem.message.startswith("this is a HorizontalPodAutoscaler, not a target")


def test_an_autoscaler_behind_a_configuration(tmp_path: Path) -> None:
    """A second document is refused as ever, and told as what it is."""
    (problem,) = refused(tmp_path, f"{PROMETHEUS}targets: []\n---\n{V2}")
    assert problem.line == 4
    assert problem.message.startswith("this is a HorizontalPodAutoscaler")


def test_an_autoscaler_without_its_first_lines(tmp_path: Path) -> None:
    """`spec` around a scaleTargetRef is enough."""
    (problem,) = refused(tmp_path, V2.partition("\n")[2].partition("\n")[2])
    assert problem.message.startswith("this is a HorizontalPodAutoscaler")


def test_an_autoscaler_with_more_in_its_annotations(tmp_path: Path) -> None:
    """Those of autoscaling/v1 keep what it has no fields for: nothing is made up from the rest."""
    key = "autoscaling.alpha.kubernetes.io/metrics"
    (problem,) = refused(tmp_path, V1.replace("api}", f"api, annotations: {{{key}: '[]'}}}}", 1))
    assert "its annotations: `kubectl get hpa.v2.autoscaling -o yaml` shows it" in problem.text
    assert problem.ready == ""


def test_a_scaled_object(tmp_path: Path) -> None:
    """A line for each field and trigger, and what has a counterpart is ready to load."""
    (problem,) = refused(tmp_path, SCALED_OBJECT)
    assert problem.message == "this is a KEDA ScaledObject, not a configuration of autoscaler"
    lines = problem.details
    assert "\n" not in str(problem)
    assert problem.text.splitlines()[1:] == [f"  {line}" for line in lines]
    assert max(map(len, lines)) < 120
    for line in (
        "scaleTargetRef -> scaleTargetRef, with apiVersion and kind",
        "minReplicaCount 0 -> idle, and minReplicas 1",
        "maxReplicaCount -> maxReplicas",
        "triggers[0] (prometheus) -> PromQL in `queries` and a metric of type External",
        "triggers[1] (cpu) -> a metric of type Resource",
        "pollingInterval -> syncPeriod",
        "advanced.horizontalPodAutoscalerConfig.behavior -> behavior",
        "activationThreshold -> activation of the metric",
        "cooldownPeriod -> idle.after",
        "fallback -> fallback",
        "triggers[4] (cron) -> schedules",
        "its annotation that pauses it -> paused",
        (
            "triggers[3] (rabbitmq): no counterpart here; "
            "if Prometheus has its metric, write a query and a metric of type External"
        ),
        "advanced.restoreToOriginalReplicaCount: no counterpart here",
    ):
        assert line in lines
    assert "leave out `empty: zero` where it may be an outage too" in lines[-1]
    assert "no target is printed" not in problem.text
    assert "hunter2" not in problem.text + problem.ready
    config = loaded(tmp_path, problem.ready)
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


def test_a_scaled_object_of_which_nothing_has_a_counterpart(tmp_path: Path) -> None:
    """Without a metric there is nothing to paste: a target without metrics would be one of cpu."""
    text = SCALED_OBJECT[: SCALED_OBJECT.index("  triggers:")] + "  triggers: [{type: mysql}]\n"
    (problem,) = refused(tmp_path, text)
    assert "triggers[0] (mysql): no counterpart here; if Prometheus has its metric" in problem.text
    assert problem.details[-1] == (
        "no target is printed: no trigger has a counterpart, and a target without metrics would "
        "scale on cpu"
    )
    assert problem.ready == ""


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
    (target,) = loaded(tmp_path, problem.ready).targets
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
    text = SCALED_OBJECT[: SCALED_OBJECT.index("  triggers:")] + f"  triggers:\n{triggers}"
    (problem,) = refused(tmp_path, text)
    config = loaded(tmp_path, problem.ready)
    assert config.prometheus.url == "http://a"
    assert {name: one.url for name, one in config.prometheus.servers.items()} == {
        "prometheus-2": "http://b"
    }
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
       namespace: shop, authModes: bearer, queryParameters: "t=hunter2", ignored: "false"}
"""


def test_what_else_a_trigger_may_have(tmp_path: Path) -> None:
    """Each key has a line; the namespace of its queries is kept, since it changes the answers."""
    text = SCALED_OBJECT[: SCALED_OBJECT.index("  triggers:")] + PLAIN_TRIGGER
    (problem,) = refused(tmp_path, text)
    of = "triggers[0].metadata"
    for line in (
        f"{of}.timeout is not copied: write it as `timeout` with a unit of its server in ",
        f"{of}.unsafeSsl is not copied: write it as `tls: {{insecureSkipVerify: true}}`, or better",
        f"{of}.queryParameters is not copied: write it as `queryParameters` of its server",
        f"{of}.namespace -> queryParameters of its server",
        f"{of}.authModes: no counterpart here; credentials stand in `prometheus`",
        "triggers[0].useCachedMetrics: no counterpart here; each query is sent once per sync",
    ):
        assert line in problem.text
    assert "ignored" not in problem.text
    assert "hunter2" not in problem.text + problem.ready
    assert loaded(tmp_path, problem.ready).prometheus.query_parameters == {"namespace": ("shop",)}


@pytest.mark.parametrize(("count", "held"), [("50", 20), ("1", 3), ("7", 7)])
def test_a_cron_trigger_is_held_to_the_bounds(tmp_path: Path, count: str, held: int) -> None:
    """As the HPA of a ScaledObject holds it, and a line says so."""
    text = SCALED_OBJECT.replace('desiredReplicas: "10"', f'desiredReplicas: "{count}"')
    (problem,) = refused(tmp_path, text.replace("maxReplica", "minReplicaCount: 3\n  maxReplica"))
    (target,) = loaded(tmp_path, problem.ready).targets
    assert target.extensions.schedules[0].min_replicas == held
    said = f"desiredReplicas {count} of cron-4 -> minReplicas {held}, since it is held to"
    assert (said in problem.text) == (count != str(held))


CRON = SCALED_OBJECT[SCALED_OBJECT.index("  - type: cron") :]
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
    text = f"{SCALED_OBJECT[: SCALED_OBJECT.index('  triggers:')]}  triggers:\n{triggers}"
    text = text.replace("maxReplica", f"minReplicaCount: {low}\n  maxReplica")
    (problem,) = refused(tmp_path, text)
    (target,) = loaded(tmp_path, PROMETHEUS + problem.ready).targets
    assert [metric.type for metric in target.spec.metrics] == metrics
    assert target.extensions.idle == idle
    assert target.extensions.schedules[0].min_replicas == 10
    own = "External" in metrics
    assert ("vector(0)" in [query.promql for query in target.queries]) == own
    assert ("its windows alone set the count: the metric orders-idle" in problem.text) == own
    assert ("`prometheus` with the `url` of yours is missing" in problem.text) == own
    assert "no target is printed" not in problem.text


def test_a_cron_trigger_beside_one_without_a_counterpart(tmp_path: Path) -> None:
    """No target is printed that would leave the other one out."""
    text = SCALED_OBJECT[: SCALED_OBJECT.index("  triggers:")]
    (problem,) = refused(tmp_path, f"{text}  triggers:\n  - type: mysql\n{CRON}")
    assert "no target is printed: no trigger but cron has a counterpart" in problem.text
    assert problem.ready == ""


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
    manifests = [SCALED_OBJECT, *others]
    if kind == "documents":
        text = "---\n".join(manifests)
    else:
        items = "".join(f"- {textwrap.indent(one, '  ')[2:]}" for one in manifests)
        text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    problems = refused(tmp_path, text)
    assert [bool(problem.ready) for problem in problems] == [False, False, False, True]
    ready = problems[-1].ready
    assert ready.count("# delete the") == 2
    config = loaded(tmp_path, ready.replace("queries:", "queries:\n  rps: up", 1))
    keys = ["shop/Deployment/order-worker", "bank/Deployment/order-worker"]
    assert [target.key for target in config.targets] == [
        *keys,
        "shop/Deployment/mailer",
        "shop/Deployment/front",
    ]
    first, second, third, _ = (target.queries[0] for target in config.targets)
    assert ('"orders"' in first.promql, '"bank"' in second.promql) == (True, True)
    assert [query.server for query in (first, second, third)] == ["", "", "prometheus-2"]
    assert config.prometheus.servers["prometheus-2"].url == "http://other.monitoring:9090"


def test_a_scaled_object_paused_at_a_count(tmp_path: Path) -> None:
    """The count of its annotation is kept."""
    text = SCALED_OBJECT.replace('paused-scale-in: "true"', 'paused-replicas: "4"')
    (problem,) = refused(tmp_path, text)
    (target,) = loaded(tmp_path, problem.ready).targets
    assert target.extensions.pause == Pause(replicas=4)


def test_a_scaled_job(tmp_path: Path) -> None:
    """It has no counterpart."""
    (problem,) = refused(tmp_path, "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nspec: {}\n")
    assert "it starts Jobs, which have no replicas to set" in str(problem)


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


def test_a_manifest_of_a_long_text(tmp_path: Path) -> None:
    """Nor is one printed that has become long."""
    (problem,) = refused(tmp_path, V2.replace("name: rps", f"name: {'r' * 30_000}"))
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


def test_the_rules_of_this_repository() -> None:
    """config/alerts.yaml, which stands among the examples, is told as what it is."""
    path = Path(__file__).parents[2] / "config" / "alerts.yaml"
    with pytest.raises(ConfigError, match="these are rules for Prometheus") as caught:
        load(path)
    assert len(caught.value.problems) == 1


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
