"""What people write out of habit is told with what would be right."""

from pathlib import Path

import pytest

from tests.config.documents import (
    EXTERNAL,
    assert_refused,
    behavior,
    external,
    loaded,
    metric,
    refused,
    target,
    top,
)

T = "targets[0]."
VALUE = T + "metrics[0].external.target.value"
TYPE = T + "metrics[0].external.target"
EXTERNAL_SOURCE = "external: {metric: {name: rps}, target: {type: Value, value: 1}}\n"
PERCENT = T + "metrics[0].resource.target.averageUtilization"
DOWN = T + "behavior.scaleDown."


def utilization(value: str) -> str:
    """Return a document whose averageUtilization is this."""
    target_ = f"{{type: Utilization, averageUtilization: {value}}}"
    return metric(f"type: Resource\nresource: {{name: cpu, target: {target_}}}\n")


def quantity(value: str) -> str:
    """Return a document with an External metric whose target is this."""
    return external(f"metric: {{name: rps}}\ntarget: {{type: Value, value: {value}}}\n")


def reference(text: str) -> str:
    """Return a document whose scaleTargetRef is this."""
    return target("", f"namespace: shop\nmaxReplicas: 3\nscaleTargetRef: {text}\n")


ROWS = [
    (utilization("70%"), PERCENT, "a whole number of percent, without the %: 70"),
    (utilization("0.7"), PERCENT, "a whole number of percent: 70 for 0.7 of the request"),
    (utilization("70.0"), PERCENT, "a whole number of percent: 70 (got"),
    (utilization("'0.7'"), PERCENT, "70 for 0.7 of the request, without quotes"),
    (behavior("scaleDown: {stabilizationWindowSeconds: 60s}\n"), DOWN, "without a unit: 60"),
    (behavior("scaleDown: {stabilizationWindowSeconds: 5m}\n"), DOWN, "without a unit: 300"),
    (
        behavior("scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 1 min}]}\n"),
        DOWN,
        "without a unit: 60",
    ),
    (top("syncPeriod: 30 seconds\n"), "syncPeriod", "did you mean 30s?"),
    (top("downscaleStabilization: 5 Minutes\n"), "downscaleStabilization", "did you mean 5m?"),
    (quantity("100ms"), VALUE, "100 milliseconds are 100m of a metric in seconds"),
    (quantity("1 Gi"), VALUE, "did you mean 1Gi?"),
    (quantity("50MB"), VALUE, "did you mean 50M or 50Mi?"),
    (quantity("1gb"), VALUE, "did you mean 1G or 1Gi?"),
    (quantity("5kb"), VALUE, "did you mean 5k or 5Ki?"),
    (quantity("'1,000'"), VALUE, "did you mean 1000?"),
    (quantity("30rps"), VALUE, "did you mean 30?"),
    (quantity("100 m"), VALUE, "did you mean 100m?"),
    (quantity("3O"), VALUE, "did you mean 30, with zeros in place of the letter O?"),
    (quantity("1oOm"), VALUE, "did you mean 100m, with zeros"),
    (quantity("30 req/s"), VALUE, "did you mean 30?"),
    (
        quantity("70%"),
        VALUE,
        "write the number that the query is to give, 70 or 0.7 (only Resource",
    ),
    (
        metric("type: Resource\nresource: {name: cpu, target: {type: Value, averageValue: 70%}}\n"),
        T + "metrics[0].resource.target.averageValue",
        "percent of the request are `averageUtilization`, without the sign",
    ),
    (behavior("scaleDown: {tolerance: 5%}\n"), T + "behavior.scaleDown.tolerance", "write 0.05"),
    (top("tolerance: 10%\n"), "tolerance", "write 0.1 for 10%"),
    (reference("{apiVersion: apps/v1, kind: deployment, name: a}"), "kind", "must be Deployment"),
    (reference("{apiVersion: apps/v1, kind: Deployments, name: a}"), "kind", "must be Deployment"),
    (reference("{apiVersion: apps/v1, kind: sts, name: a}"), "kind", "must be StatefulSet"),
    (reference("{apiVersion: v1, kind: Deployment, name: a}"), "apiVersion", "must be apps/v1"),
    (reference("{apiVersion: apps, kind: Deployment, name: a}"), "apiVersion", "must be apps/v1"),
    (
        reference("{apiVersion: extensions/v1beta1, kind: Deployment, name: a}"),
        "apiVersion",
        "must be apps/v1 for a Deployment",
    ),
    (reference("{apiVersion: apps/v1, kind: DaemonSet, name: a}"), "kind", "no scale subresource"),
    (reference("{apiVersion: batch/v1, kind: Job, name: a}"), "kind", "no scale subresource"),
    (reference("deployment/web"), "scaleTargetRef", "a mapping with apiVersion, kind, name (got"),
    (
        top('queries: {a: {__name__="x", job="b"}}\n'),
        "queries.a",
        """put it in quotes, as in '{__name__="x", job="b"}' (got a mapping)""",
    ),
    (top("queries: [{name: a, query: up}]\n"), "queries", "names to values, each with its PromQL"),
    (top("include: a.yaml\n"), "include", 'must be a list: put it in [ ] (got "a.yaml")'),
    (metric("type: prometheus\n"), T + "metrics[0].type", "did you mean External?"),
    (
        external("metric: {name: rps, selector: {queue: a}}\ntarget: {type: Value, value: 1}\n"),
        T + "metrics[0].external.metric.selector.queue",
        "a label and its value belong in `matchLabels`",
    ),
    (
        behavior("stabilizationWindowSeconds: 60\n"),
        T + "behavior.stabilizationWindowSeconds",
        "it belongs in `scaleUp` or `scaleDown`",
    ),
    (target("labels: {team: a}\n"), T + "labels", "is not known here: known are behavior, fall"),
    (target("prometheus: {}\n"), T + "prometheus", "it belongs at the top of the main file"),
    (top("minReplicas: 1\n"), "minReplicas", "it belongs in `targets[]`"),
    (
        reference("{apiVersion: apps/v1, kind: Deployment, name: a, namespace: b}"),
        "namespace",
        "it belongs in the target itself",
    ),
    (target("minReplicaCount: 1\n"), T + "minReplicaCount", "here it is `minReplicas`"),
    (target("minReplicaCount: 0\n"), T + "minReplicaCount", "`idle: {}` beside it takes the ta"),
    (target("advanced: {}\n"), T + "advanced", "what its horizontalPodAutoscalerConfig.behavior"),
    (target("enabled: true\n"), T + "enabled", "a target is on; `paused: true` stops it"),
    (
        metric("type: External\nmetadata: {}\n" + EXTERNAL_SOURCE),
        T + "metrics[0].metadata",
        "its query is PromQL in `queries`, and its threshold the `target` of",
    ),
    (
        metric("type: External\nmetricType: Value\n" + EXTERNAL_SOURCE),
        T + "metrics[0].metricType",
        "here it is `type` of the metric's `target`",
    ),
    (
        metric("type: External\nthreshold: 5\n" + EXTERNAL_SOURCE),
        T + "metrics[0].threshold",
        "here it is `averageValue` of the metric's `target`, or `value`",
    ),
    (metric("type: cron\n"), T + "metrics[0].type", "cron trigger of KEDA is a window in `sched"),
    (
        external("metric: {name: rps}\ntarget: {averageValue: 30}\n"),
        TYPE,
        "type: is missing: write type: AverageValue",
    ),
    (
        metric(
            "type: Object\nobject: {describedObject: {kind: a, name: a}, metric: {name: rps}, "
            "target: {averageValue: 30, value: 1}}\n"
        ),
        T + "metrics[0].object.target.",
        "type: is missing: Value or AverageValue",
    ),
    (target("triggers: []\n"), T + "triggers", "a prometheus trigger is PromQL in `queries`"),
    (target("cooldownPeriod: 300\n"), T + "cooldownPeriod", "here it is `idle.after`, with a unit"),
    (target("idleReplicaCount: 0\n"), T + "idleReplicaCount", "here it is `idle.replicas`"),
    (
        target(f"metrics:\n{EXTERNAL}  activationThreshold: '5'\n"),
        T + "metrics[0].activationThreshold",
        "here it is `activation` of the metric",
    ),
    (
        top("queries: {a: {query: up, ignoreNullValues: true}}\n"),
        "queries.a.ignoreNullValues",
        "here it is `empty` of a query: fail or zero",
    ),
    (target("query: up\n"), T + "query", "PromQL belongs in `queries`"),
    (top("query: up\n"), "query", "each under the name that metrics use: queries: {NAME: PROMQL}"),
    (top("promql: up\n"), "promql", "queries: {NAME: PROMQL}"),
    (top("interval: 15s\n"), "interval", "here it is `syncPeriod`"),
    (top("triggers: []\n"), "triggers", "a metric of type External in a target's `metrics`"),
    (
        top("maxAge: 1m\n"),
        "maxAge",
        "it belongs in `record`, `queries.NAME` or `resourceQueries.NAME`",
    ),
]


@pytest.mark.parametrize(("text", "path", "fragment"), ROWS)
def test_a_mistake_of_habit_is_one_problem_with_what_is_right(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    """It is one problem, at its place, with what would be right."""
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
    (external("name: rps\nvalue: 1\n"), "name"),
    (target(f"metrics:\n{EXTERNAL}").replace("prometheus:", "promethues:"), "promethues"),
    (target("").replace("targets:", "target:"), "target"),
    (target("").replace("maxReplicas", "maxReplicaCount"), "maxReplicaCount"),
]


@pytest.mark.parametrize(("text", "key"), MISSPELT)
def test_a_misspelt_key_is_told_once(tmp_path: Path, text: str, key: str) -> None:
    """The key that was meant is not told as missing besides."""
    problems = refused(tmp_path, text)
    assert problems[0].path.endswith(key)
    assert not [problem for problem in problems if "is missing" in problem.message]


SYNTAX = [
    'queries:\n  a: {job="b"} > 5\n',
    'queries:\n  a: "sum(x{a="b"})"\n',
    'queries: {a: sum(x{a="b"})}\n',
]


@pytest.mark.parametrize("text", SYNTAX)
def test_unquoted_promql_is_told_to_need_quotes(tmp_path: Path, text: str) -> None:
    """The line of the fault looks like PromQL: quotes are what it needs."""
    (problem,) = refused(tmp_path, top(text))
    assert problem.message.endswith("""belongs in single quotes, as in 'sum(a{b="c"})'""")


@pytest.mark.parametrize("text", ["listen: {{ .Values.url }}\n", "syncPeriod: {{ a }}s\n"])
def test_an_unrendered_template_is_told_as_one(tmp_path: Path, text: str) -> None:
    """What was not rendered yet is told so."""
    problems = refused(tmp_path, top(text))
    assert "rendered first" in problems[0].message


def test_keys_at_the_top_that_begin_with_x_are_free(tmp_path: Path) -> None:
    """Keys at the top that begin with x- are free, in included files too."""
    (tmp_path / "more.yaml").write_text(
        "x-q: &q up\nqueries: {b: *q}\ntargets: []\nx-more: [1, {a: b}]\n"
    )
    anchor = "x-common: &common {minReplicas: 2}\n"
    text = target("<<: *common\n").replace("queries:", f"{anchor}queries:")
    config = loaded(tmp_path, text + "include: [more.yaml]\n")
    assert config.targets[0].spec.min_replicas == 2


def test_such_keys_are_not_known_below_the_top(tmp_path: Path) -> None:
    """They are not known below the top."""
    assert_refused(tmp_path, target("x-a: 1\n"), "targets[0].x-a", "is not known here")
