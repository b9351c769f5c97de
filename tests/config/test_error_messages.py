"""Habitual mistakes are refused with the right form."""

from pathlib import Path

import pytest

from tests.config.documents import (
    EXTERNAL,
    assert_refused,
    behavior,
    cases,
    external,
    loaded,
    metric,
    refused,
    target,
    top,
)

T = "targets[0]."


def beside_external(key: str) -> str:
    return target(f"metrics:\n{EXTERNAL}  {key}\n")


def reference(text: str) -> str:
    return target("", f"namespace: shop\nmaxReplicas: 3\nscaleTargetRef: {text}\n")


BEHAVIORS = """
scaleDown: {stabilizationWindowSeconds: 5m} => scaleDown: must be a whole number of seconds (got
scaleDown: {tolerance: 5%} => scaleDown.tolerance: is not a quantity
"""
TOP = """
syncPeriod: 30 seconds => syncPeriod: did you mean 30s?
downscaleStabilization: 5 Minutes => downscaleStabilization: did you mean 5m?
tolerance: 10% => tolerance: must be a number such as 0.1
queries: {a: {__name__="x", job="b"}}
    => queries.a: put it in quotes, as in '{__name__="x", job="b"}' (got a mapping)
queries: [{name: a, query: up}] => queries: names to values, each with its PromQL
include: a.yaml => include: must be a list: put it in [ ] (got "a.yaml")
queries: {a: {query: up, ignoreNullValues: true}}
    => queries.a.ignoreNullValues: here it is `empty` of a query: fail or zero
query: up => query: each under the name that metrics use: queries: {NAME: PROMQL}
promql: up => promql: queries: {NAME: PROMQL}
minReplicas: 1 => minReplicas: it belongs in the target itself
interval: 15s => interval: here it is `syncPeriod`
triggers: [] => triggers: a metric of type External in a target's `metrics`
"""
TARGETS = """
labels: {team: a} => labels: is not known here: known are behavior, cluster
prometheus: {} => prometheus: it belongs at the top of the main file
minReplicaCount: 1 => minReplicaCount: here it is `minReplicas`
minReplicaCount: 0 => minReplicaCount: `idle: {}` next to it scales the ta
advanced: {} => advanced: what its horizontalPodAutoscalerConfig.behavior
enabled: true => enabled: a target is on; `paused: true` stops it
triggers: [] => triggers: a prometheus trigger is PromQL in `queries`
cooldownPeriod: 300 => cooldownPeriod: here it is `idle.after`, with a unit
idleReplicaCount: 0 => idleReplicaCount: here it is `idle.replicas`
query: up => query: PromQL belongs in `queries`
"""
REFERENCES = """
{apiVersion: apps/v1, kind: deployment, name: a} => kind: must be Deployment
{apiVersion: apps/v1, kind: sts, name: a} => kind: must be StatefulSet
{apiVersion: v1, kind: Deployment, name: a} => apiVersion: must be apps/v1
{apiVersion: extensions/v1beta1, kind: Deployment, name: a}
    => apiVersion: must be apps/v1 for a Deployment
{apiVersion: apps/v1, kind: DaemonSet, name: a} => kind: no scale subresource
{apiVersion: batch/v1, kind: Job, name: a} => kind: no scale subresource
deployment/web => scaleTargetRef: a mapping with apiVersion, kind, name (got
{apiVersion: apps/v1, kind: Deployment, name: a, namespace: b}
    => namespace: it belongs in the target itself
"""
METRICS = """
type: External; external: {metric: {name: rps}, target: {averageValue: 30}}
    => external.target.type: is missing: the type of the number: Utilization (percent of
type: External; external: {metric: {name: rps, selector: {queue: a}}, target: {type: Value,
    value: 1}}
    => selector.queue: a label and its value belong in `matchLabels`
"""
BESIDE_EXTERNAL = """
metadata: {} => metadata: its query is PromQL in `queries`, and its threshold the `target` of
metricType: Value => metricType: here it is `type` of the metric's `target`
threshold: 5 => threshold: here it is `averageValue` of the metric's `target`, or `value`
activationThreshold: '5' => activationThreshold: here it is `activation` of the metric
"""
ROWS = [
    *cases(behavior, "behavior.", BEHAVIORS),
    *cases(top, "", TOP),
    *cases(target, T, TARGETS),
    *cases(reference, "", REFERENCES),
    *cases(metric, "", METRICS),
    *cases(beside_external, "metrics[0].", BESIDE_EXTERNAL),
]


@pytest.mark.parametrize(("text", "path", "fragment"), ROWS)
def test_a_habitual_mistake_is_one_problem_with_the_right_form(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    (problem,) = refused(tmp_path, text)
    assert path in problem.path
    assert fragment in str(problem)
    assert problem.line


MISSPELT = [
    (target("").replace("maxReplicas", "maxReplcas"), "maxReplcas"),
    (target("").replace("namespace", "name_space"), "name_space"),
    (target("").replace("apiVersion", "apiversion"), "apiversion"),
    (external("metric: {name: rps}\ntarget: {type: Value, val: 1}\n"), "val"),
    (external("metric: {name: rps}\ntargt: {type: Value, value: 1}\n"), "targt"),
    (metric("type: External\nexternl: {}\n"), "externl"),
    (target(f"metrics:\n{EXTERNAL}").replace("prometheus:", "promethues:"), "promethues"),
    (target("").replace("targets:", "target:"), "target"),
    (target("").replace("maxReplicas", "maxReplicaCount"), "maxReplicaCount"),
    ("promethues: {url: http://p}\ntargetss: []\n", "promethues"),
]


@pytest.mark.parametrize(("text", "key"), MISSPELT)
def test_a_misspelt_key_is_not_missing_too(tmp_path: Path, text: str, key: str) -> None:
    problems = refused(tmp_path, text)
    assert problems[0].path.endswith(key)
    assert "is not known here" in problems[0].message
    assert not [problem for problem in problems if "is missing" in problem.message]


QUOTES = """belongs in single quotes, as in 'sum(a{b="c"})'"""
UNREADABLE = [
    ('queries:\n  a: {job="b"} > 5\n', QUOTES),
    ('queries:\n  a: "sum(x{a="b"})"\n', QUOTES),
    ('queries: {a: sum(x{a="b"})}\n', QUOTES),
    ("listen: {{ .Values.url }}\n", "rendered first"),
    ("syncPeriod: {{ a }}s\n", "rendered first"),
]


@pytest.mark.parametrize(("text", "fragment"), UNREADABLE)
def test_promql_without_quotes_and_templates_are_recognized(
    tmp_path: Path, text: str, fragment: str
) -> None:
    assert fragment in refused(tmp_path, top(text))[0].message


def test_keys_at_the_top_that_begin_with_x_are_free(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(
        "x-q: &q up\nqueries: {b: *q}\ntargets: []\nx-more: [1, {a: b}]\n"
    )
    anchor = "x-common: &common {minReplicas: 2}\n"
    text = target("<<: *common\n").replace("queries:", f"{anchor}queries:")
    config = loaded(tmp_path, text + "include: [more.yaml]\n")
    assert config.targets[0].spec.min_replicas == 2
    assert_refused(tmp_path, target("x-a: 1\n"), "targets[0].x-a", "is not known here")
