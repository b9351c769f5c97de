"""An autoscaler in place of a configuration is refused by its kind."""

import textwrap
from pathlib import Path

import pytest
import yaml

from tests.config.documents import PROMETHEUS, refused
from tests.importers.keda.converting import WHOLE
from tests.importers.test_horizontal_pod_autoscalers import autoscaler

V2 = autoscaler("""\
minReplicas: 2
metrics:
- type: Pods
  pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "100"}}
behavior: {scaleDown: {stabilizationWindowSeconds: 60}}""")
V2 += "status: {currentReplicas: 3}\n"
V1 = autoscaler("targetCPUUtilizationPercentage: 70", "autoscaling/v1").replace("web", "api")
V2BETA1 = autoscaler(
    """\
metrics:
- {type: Resource, resource: {name: cpu, targetAverageUtilization: 50}}
- {type: Resource, resource: {name: memory, targetAverageValue: 1Gi}}
- type: External
  external: {metricName: q, metricSelector: {matchLabels: {a: b}}, targetAverageValue: 30}
- type: Object
  object: {target: {apiVersion: v1, kind: Service, name: x}, metricName: hits, targetValue: 1k}
- {type: Pods, pods: {metricName: rps, targetAverageValue: 100}}""",
    "autoscaling/v2beta1",
)
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
SCALED_OBJECT = WHOLE.partition("---\n")[0]


def item(manifest: str) -> str:
    return f"- {textwrap.indent(manifest, '  ')[2:]}"


def test_manifests_without_a_separator_are_duplicate_keys(tmp_path: Path) -> None:
    first, second, *_, last = refused(tmp_path, V2 + SCALED_OBJECT)
    assert first.line == V2.count("\n") + 1
    assert second.line == first.line + 1
    assert first.message == (
        "duplicate key; keep one; only the first was read: separate manifests with a line of ---"
    )
    assert "this is a Kubernetes manifest (HorizontalPodAutoscaler)" in last.message


SHOP = f"{PROMETHEUS}targets:\n{item(V2)}{item(SCALED_OBJECT)}"
SEVERAL = f"{V2}---\n{SCALED_OBJECT}---\n{V1}---\n{DEPLOYMENT}"
LIST = f"apiVersion: v1\nkind: List\nitems:\n{item(V2)}{item(V1)}{item(DEPLOYMENT)}"
HPA = "(HorizontalPodAutoscaler)"
MANIFESTS = [
    (V2, [(1, "", HPA)]),
    (LIST, [(4, "", "(HorizontalPodAutoscaler, Deployment)")]),
    # One problem for each kind, at its first document.
    (
        SEVERAL,
        [
            (1, "", HPA),
            (V2.count("\n") + 2, "", "(ScaledObject)"),
            (SEVERAL.count("\n") - 2, "", "(Deployment)"),
        ],
    ),
    (SHOP, [(3, "targets[0]", HPA), (V2.count("\n") + 3, "targets[1]", "(ScaledObject)")]),
    (f"{PROMETHEUS}targets:\n{textwrap.indent(V2, '  ')}", [(2, "targets", HPA)]),
    (f"{PROMETHEUS}targets: []\n---\n{V2}", [(4, "", HPA)]),
    (V2[V2.index("spec:") :], [(1, "", HPA)]),
]


@pytest.mark.parametrize(("text", "expected"), MANIFESTS)
def test_a_manifest_is_recognized_wherever_it_stands(
    tmp_path: Path, text: str, expected: list[tuple[int, str, str]]
) -> None:
    problems = [
        problem
        for problem in refused(tmp_path, text)
        if "this is a Kubernetes manifest" in problem.message
    ]
    assert [(problem.line, problem.path) for problem in problems] == [
        (line, path) for line, path, _ in expected
    ]
    for problem, (*_, kinds) in zip(problems, expected, strict=True):
        assert kinds in problem.message
        assert ("`autoscaler import FILE`" in problem.message) == (kinds != "(Deployment)")


FOREIGN = [
    ("config: {targets: []}\n", "these are values of the Helm chart"),
    ("version: 3\nservices: {}\n", "not a configuration: it has no known key"),
    (DEPLOYMENT, "this is a Kubernetes manifest (Deployment), not a configuration of autoscaler"),
    ("apiVersion: v1\nkind: ConfigMap\ndata: {}\n", "a configuration in its `data` can be checked"),
    ("apiVersion: keda.sh/v1\nkind: ScaledJob\n", "`autoscaler import FILE` converts it"),
    ("scaleTargetRef: {name: x}\nmaxReplicas: 3\n", "this is one target: write it as an entry"),
    ("- scaleTargetRef: {name: x}\n  maxReplicas: 3\n", "this is a list of targets: write them"),
]


@pytest.mark.parametrize(("text", "sentence"), FOREIGN)
def test_a_foreign_file_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    (problem,) = refused(tmp_path, text)
    assert sentence in problem.message
    (tmp_path / "more.yaml").write_text(text)
    (included,) = refused(tmp_path, PROMETHEUS + "include: [more.yaml]\n")
    assert included.file == str(tmp_path / "more.yaml")
    assert sentence in included.message


def test_an_included_file_alone_is_refused(tmp_path: Path) -> None:
    targets = [{"namespace": "a", **yaml.safe_load(V2)["spec"]}]
    (problem,) = refused(tmp_path, yaml.safe_dump({"targets": targets}))
    assert problem.path == "prometheus"
    assert "a file that another one includes is checked with that one" in problem.message
