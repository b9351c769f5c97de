"""HorizontalPodAutoscalers of every version become the targets that autoscaling/v2 has."""

import json
import textwrap
from pathlib import Path

import pytest
import yaml

from autoscaler.migrate.options import ImportOptions
from tests.importers.importing import imported
from tests.tables import rows

RULES = textwrap.dedent("""\
    rules:
    - seriesQuery: 'http_requests_total{namespace!="",pod!=""}'
      resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
      name: {as: rps}
      metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
    """)
ALPHA = "autoscaling.alpha.kubernetes.io"


def autoscaler(spec: str, version: str = "autoscaling/v2", annotations: str = "") -> str:
    """Return a manifest whose spec has these keys besides."""
    return textwrap.dedent("""\
        apiVersion: %s
        kind: HorizontalPodAutoscaler
        metadata: {name: web, namespace: shop%s}
        spec:
          scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
          maxReplicas: 10
        """) % (version, annotations and f", annotations: {annotations}") + textwrap.indent(
        f"{spec}\n", "  "
    )


CPU_70 = (
    "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}"
)
VERSIONS = """
autoscaling/v1 | targetCPUUtilizationPercentage: 70 | CPU_70
autoscaling/v2 | metrics: [CPU_70] | CPU_70
autoscaling/v2beta2 | metrics: [CPU_70] | CPU_70
autoscaling/v2beta1
    | metrics: [{type: Resource, resource: {name: cpu, targetAverageUtilization: 70}}] | CPU_70
autoscaling/v2beta1
    | metrics: [{type: Resource, resource: {name: memory, targetAverageValue: 1Gi}}]
    | {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
autoscaling/v2beta1
    | metrics: [{type: ContainerResource, containerResource: {name: cpu, container: app,
    targetAverageUtilization: 50}}]
    | {type: ContainerResource, containerResource: {name: cpu, container: app,
    target: {type: Utilization, averageUtilization: 50}}}
""".replace("CPU_70", CPU_70)


OLD = """
{type: Pods, pods: {metricName: rps, targetAverageValue: 100}}
    | {type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 100}}}
{type: External, external: {metricName: rps, metricSelector: {matchLabels: {a: b}}, targetValue: 3}}
    | {type: External, external: {metric: {name: rps, selector: {matchLabels: {a: b}}},
    target: {type: Value, value: 3}}}
{type: Object, object: {metricName: rps, target: {apiVersion: v1, kind: Service, name: front},
    targetValue: 0, averageValue: 7}}
    | {type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: front},
    metric: {name: rps}, target: {type: AverageValue, averageValue: 7}}}
"""


@pytest.mark.parametrize(
    ("version", "spec", "metric"),
    [
        *rows(VERSIONS),
        *(("autoscaling/v2beta1", f"metrics: [{old}]", metric) for old, metric in rows(OLD)),
    ],
)
def test_metrics_of_every_version_become_those_of_v2(
    tmp_path: Path, version: str, spec: str, metric: str
) -> None:
    ran = imported(tmp_path, autoscaler(spec, version))
    assert ran.target["metrics"] == [yaml.safe_load(metric)]
    assert ran.decided.targets[0].key == "shop/Deployment/web"
    if "metricName" not in spec:
        assert ran.code == 0
        assert ran.keys("different") == ran.keys("refused") == {}
        return
    assert ran.code == 3
    (left,) = ran.target["undecided"]
    assert left["field"].endswith(".metricName")
    assert "its query is a guess from the name" in left["why"]


def test_metrics_in_the_annotations_of_v1_come_first(tmp_path: Path) -> None:
    held = [{"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 60}}]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    notes = json.dumps(
        {
            f"{ALPHA}/metrics": json.dumps(held),
            f"{ALPHA}/behavior": json.dumps(behavior),
            f"{ALPHA}/conditions": "[]",
        }
    )
    text = autoscaler("targetCPUUtilizationPercentage: 70", "autoscaling/v1", notes)
    ran = imported(tmp_path, text)
    cpu = yaml.safe_load(CPU_70)
    memory = yaml.safe_load(CPU_70.replace("cpu", "memory").replace("70", "60"))
    assert ran.target["metrics"] == [memory, cpu]
    assert ran.target["behavior"] == behavior
    assert ran.code == 0
    of_v2 = imported(tmp_path, text.replace("autoscaling/v1", "autoscaling/v2beta2"))
    assert of_v2.target["metrics"] == [cpu]
    assert "behavior" not in of_v2.target
    broken = imported(tmp_path, text.replace(json.dumps(json.dumps(held)), '"[{"'))
    assert broken.target["metrics"] == [cpu]
    assert "invalid JSON of metrics" in "".join(broken.keys("different").values())


def test_two_hpas_with_one_metric_share_one_query(tmp_path: Path) -> None:
    metrics = "metrics: [{type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, "
    first = autoscaler(f'{metrics}averageValue: "30"}}}}}}]')
    second = first.replace("name: web", "name: api").replace("namespace: shop", "namespace: bank")
    ran = imported(tmp_path, first, second, RULES)
    assert ran.code == 0
    assert list(ran.document["queries"]) == ["rps"]
    assert len({target.queries for target in ran.config.targets}) == 1


RATIO = textwrap.dedent("""\
    externalRules:
    - seriesQuery: 'errors_total{namespace!=""}'
      resources: {overrides: {namespace: {resource: namespace}}}
      name: {as: share}
      metricsQuery: 'sum(rate(errors_total{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>) /
        sum(rate(requests_total{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)'
    """)


@pytest.mark.parametrize("kind", ["AverageValue", "Value"])
def test_a_ratio_with_an_average_has_a_comment(tmp_path: Path, kind: str) -> None:
    key = kind[0].lower() + kind[1:]
    target = f"target: {{type: {kind}, {key}: 500m}}"
    metric = f"metrics: [{{type: External, external: {{metric: {{name: share}}, {target}}}}}]"
    ran = imported(tmp_path, autoscaler(metric), RATIO)
    assert ran.code == 0
    assert ran.target["metrics"][0]["external"]["target"] == {"type": kind, key: "500m"}
    different = ran.keys("different")
    assert list(different) == (["spec.metrics[0].external.target"] if different else [])
    assert bool(different) == ("# a ratio, an average" in ran.text) == (kind == "AverageValue")


USUAL = "{apiVersion: apps/v1, kind: Deployment, name: web}"
MEANT = """
{kind: Deployment, name: web} | autoscaling/v2 | - | apps/v1 is meant
{apiVersion: extensions/v1beta1, kind: Deployment, name: web} | autoscaling/v1 | - | apps
{apiVersion: apps/v1, kind: deployment, name: web} | autoscaling/v2 | - | Deployment is
USUAL | autoscaling/v2 | targetCPUUtilizationPercentage: 70 | as in autoscaling/v1
USUAL | autoscaling/v1 | metrics: [CPU_70] | as in autoscaling/v2
USUAL | autoscaling/v2
    | metrics: [{type: Resource, resource: {name: cpu, targetAverageUtilization: 70}}]
    | as in autoscaling/v2beta1
"""


@pytest.mark.parametrize(
    ("reference", "version", "spec", "why"),
    rows(MEANT.replace("USUAL", USUAL).replace("CPU_70", CPU_70)),
)
def test_a_wrong_version_or_kind_is_corrected_with_a_difference(
    tmp_path: Path, reference: str, version: str, spec: str, why: str
) -> None:
    ran = imported(tmp_path, autoscaler(spec.strip("-"), version).replace(USUAL, reference))
    (sentence,) = ran.keys("different").values()
    assert why in sentence
    assert f"# {sentence[:40]}" in ran.text
    assert ran.code == 0
    (target,) = ran.config.targets
    assert (target.spec.scale_target_ref.group, target.key) == ("apps", "shop/Deployment/web")


REFUSED = [
    ("minReplicas: 20", "maxReplicas: must be at least minReplicas, which is 20 (got 10)"),
    ('minReplicas: "2"', "minReplicas: "),
    ("metrics: [{type: Foo}]", "metrics[0].type: "),
    ("metrics: {}", "metrics: must be a list"),
    ("metrics: {a: b}", "metrics: must be a list"),
    ("metrics: [{type: Resource, resource: {name: cpu}}]", "metrics[0].resource.target: "),
    ("behavior: {scaleUp: {policies: [{type: Pods, value: 0, periodSeconds: 9}]}}", "behavior."),
]


@pytest.mark.parametrize(("spec", "why"), REFUSED)
def test_a_spec_that_the_api_server_refuses_is_refused(tmp_path: Path, spec: str, why: str) -> None:
    ran = imported(tmp_path, autoscaler(spec))
    assert [sentence[: len(why)] for sentence in ran.sentences] == [why]
    assert (ran.code, ran.text) == (3, "")


def test_broken_documents_do_not_stop_the_import(tmp_path: Path) -> None:
    whole = autoscaler("minReplicas: 2")
    patch = whole.replace(
        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n", ""
    )
    texts = [
        patch,
        autoscaler('minReplicas: "{{ .Values.min }}"'),
        autoscaler("minReplicas: {{ .Values.min }}"),
        autoscaler("minReplicas: [").replace("web", "broken"),
        whole.replace("autoscaling/v2", "autoscaling/v3"),
        "apiVersion: keda.k8s.io/v1alpha1\nkind: ScaledObject\nspec: {}\n",
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nspec: {}\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
        whole,
    ]
    ran = imported(tmp_path, "---\n".join(texts))
    starts = [
        "it has no spec.scaleTargetRef, as a patch of kustomize has not",
        "it is a template, which has to be rendered first",
        "there is no HorizontalPodAutoscaler of",
        '"keda.k8s.io/v1alpha1" is of KEDA 1',
        "a ScaledJob starts Jobs",
        "it is a template, which has to be rendered first",
        "not YAML at column ",
    ]
    for sentence, start in zip(ran.sentences, starts, strict=True):
        assert sentence.startswith(start)
    assert len(ran.config.targets) == 1
    places = [(source["document"], source["line"]) for source in ran.report["sources"]]
    assert places[0] == (1, 1)
    assert places[1] == (2, texts[0].count("\n") + 2)
    whole_at = next(place for place in places if place[0] == len(texts))
    assert whole_at[1] == sum(text.count("\n") + 1 for text in texts[:-1]) + 1
    assert ran.report["summary"]["other"] == 1


@pytest.mark.parametrize(
    ("written", "value", "why"),
    [
        ("minReplicas: ${MIN}", "${MIN}", "${MIN} is a placeholder"),
        ("minReplicas: 2\nminReplicas: 3", 2, "duplicate key"),
    ],
)
def test_a_doubtful_value_is_undecided(
    tmp_path: Path, written: str, value: object, why: str
) -> None:
    ran = imported(tmp_path, autoscaler(written))
    assert (ran.target["minReplicas"], ran.code) == (value, 3)
    (left,) = ran.target["undecided"]
    assert left["field"] == "spec.minReplicas"
    assert left["why"].startswith(why)


def test_a_manifest_without_a_namespace_gets_the_default(tmp_path: Path) -> None:
    text = autoscaler("minReplicas: 2").replace(", namespace: shop", "")
    ran = imported(tmp_path, text)
    assert (ran.target["namespace"], ran.code) == ("default", 0)
    assert "# the manifest lacks it, so it is default; import with -n for another" in ran.text
    named = imported(tmp_path, text, options=ImportOptions(namespace="bank"))
    assert named.target["namespace"] == "bank"
    assert "names no namespace" not in named.text


def test_defaults_of_the_api_server_are_left_out(tmp_path: Path) -> None:
    up = (
        "{stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 4, "
        "periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}"
    )
    text = autoscaler(
        f"minReplicas: 1\nbehavior:\n  scaleUp: {up}\n  scaleDown: {{selectPolicy: Min}}\n"
    )
    ran = imported(tmp_path, text)
    assert list(ran.target) == ["namespace", "scaleTargetRef", "maxReplicas", "behavior"]
    assert ran.target["behavior"] == {"scaleDown": {"selectPolicy": "Min"}}
    bare = imported(tmp_path, autoscaler(f"behavior: {{scaleUp: {up}}}"))
    assert bare.target["behavior"] == {}
    assert bare.config.targets[0].spec.behavior is not None


def test_a_second_autoscaler_of_a_workload_is_refused(tmp_path: Path) -> None:
    ran = imported(tmp_path, autoscaler("minReplicas: 2"), autoscaler("minReplicas: 3"))
    (sentence,) = ran.sentences
    assert f"as HorizontalPodAutoscaler web of {tmp_path}/0.yaml does" in sentence
    assert ran.target["minReplicas"] == 2


def test_lists_and_bare_specs_are_imported(tmp_path: Path) -> None:
    items = [yaml.safe_load(autoscaler("minReplicas: 2"))]
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    bare = "spec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}\n"
    ran = imported(tmp_path, listed, f"{bare}  maxReplicas: 3\n")
    names = [target["scaleTargetRef"]["name"] for target in ran.document["targets"]]
    assert (ran.code, names) == (0, ["web", "b"])
