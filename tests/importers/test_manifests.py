"""A HorizontalPodAutoscaler or ScaledObject where a configuration belongs is told as what it is."""

import textwrap
from pathlib import Path

import pytest
import yaml

from tests.config.documents import PROMETHEUS, refused

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


def together(kind: str, *manifests: str) -> str:
    if kind == "documents":
        return "---\n".join(manifests)
    return f"apiVersion: v1\nkind: List\nitems:\n{''.join(map(item, manifests))}"


def item(manifest: str) -> str:
    return f"- {textwrap.indent(manifest, '  ')[2:]}"


def test_manifests_with_no_line_between_them_are_told(tmp_path: Path) -> None:
    """Of each key the first one was read, so that all others would be lost without a word."""
    first, second, *_, last = refused(tmp_path, V2 + SCALED_OBJECT)
    assert first.line == V2.count("\n") + 1
    assert second.line == first.line + 1
    assert first.message == (
        "duplicate key; keep one; only the first was read: separate manifests with a line of ---"
    )
    assert "this is a Kubernetes manifest (HorizontalPodAutoscaler)" in last.message


@pytest.mark.parametrize("kind", ["documents", "list"])
def test_manifests_as_the_file(tmp_path: Path, kind: str) -> None:
    """One sentence says what they are and what converts them, however many there are."""
    text = V2 if kind == "documents" else together(kind, V2, V1, DEPLOYMENT)
    (problem,) = refused(tmp_path, text)
    kinds = "HorizontalPodAutoscaler" + (", Deployment" if kind == "list" else "")
    line = 1 if kind == "documents" else 4
    assert str(problem) == (
        f"{tmp_path}/autoscaler.yaml:{line}: this is a Kubernetes manifest ({kinds}), not a "
        "configuration of autoscaler; `autoscaler import FILE` converts it"
    )


def test_documents_of_several_kinds(tmp_path: Path) -> None:
    """Each sentence is told once, at the first document of its kind."""
    problems = refused(tmp_path, together("documents", V2, SCALED_OBJECT, V1, DEPLOYMENT))
    lines = [(problem.line, problem.message.split("(")[1].split(")")[0]) for problem in problems]
    second, fourth = V2.count("\n") + 2, sum(x.count("\n") + 1 for x in (V2, SCALED_OBJECT, V1)) + 1
    kinds = ("HorizontalPodAutoscaler", "ScaledObject", "Deployment")
    assert lines == list(zip((1, second, fourth), kinds, strict=True))


def test_manifests_among_the_targets(tmp_path: Path) -> None:
    text = f"{PROMETHEUS}targets:\n{item(V2)}{item(SCALED_OBJECT)}"
    problems = refused(tmp_path, text)
    assert [problem.path for problem in problems] == ["targets[0]", "targets[1]"]
    for problem in problems:
        assert "not a target; `autoscaler import FILE` converts it" in problem.message


UNUSUAL = [
    (f"{PROMETHEUS}targets:\n{textwrap.indent(V2, '  ')}", "targets", 2),
    (f"{PROMETHEUS}targets: []\n---\n{V2}", "", 4),
    (V2[V2.index("spec:") :], "", 1),
]


@pytest.mark.parametrize(("text", "path", "line"), UNUSUAL)
def test_an_autoscaler_in_an_unusual_place(tmp_path: Path, text: str, path: str, line: int) -> None:
    """As the targets, behind a configuration, or without its first lines it is recognized too."""
    problems = refused(tmp_path, text)
    (problem,) = (
        problem for problem in problems if "this is a Kubernetes manifest" in problem.message
    )
    assert (problem.path, problem.line) == (path, line)
    assert "(HorizontalPodAutoscaler)" in problem.message


FOREIGN = [
    ("version: 3\nservices: {}\n", "not a configuration: it has no known key"),
    (DEPLOYMENT, "this is a Kubernetes manifest (Deployment), not a configuration of autoscaler"),
    ("apiVersion: v1\nkind: ConfigMap\ndata: {}\n", "a configuration in its `data` can be checked"),
    ("apiVersion: keda.sh/v1\nkind: ScaledJob\n", "`autoscaler import FILE` converts it"),
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
