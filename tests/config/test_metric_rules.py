"""Every rule of a metric: its source, its target, the selector and the query that it names."""

from pathlib import Path

import pytest

from tests.config.documents import assert_refused, external, loaded, metric, refused

NAMED = "metric: {name: queue_length}\n"
M = "targets[0].metrics[0]."

CPU = "{name: cpu, target: {type: Utilization, averageUtilization: 80}}"


def _target(values: str) -> str:
    return external(f"{NAMED}target: {{{values}}}\n")


def _resource(source: str) -> str:
    return metric(f"type: Resource\nresource: {source}\n")


def _container(source: str) -> str:
    return metric(f"type: ContainerResource\ncontainerResource: {source}\n")


CONTAINER = "container: app, target: {type: Utilization, averageUtilization: 80}"
SOURCES = [
    (metric("{}\n"), M + "type", "is missing: which source"),
    (metric("type: external\n"), M + "type", "did you mean External?"),
    (metric("type: Queue\n"), M + "type", "must be ContainerResource, External, Object, Pods or"),
    (metric("type: [Pods]\n"), M + "type", "(got a list)"),
    (metric("type: Pods\n"), M + "pods", "is missing: type Pods needs its source here"),
    (metric(f"type: Pods\nresource: {CPU}\n"), M + "resource", "does not belong to type Pods"),
    (
        _resource("{target: {type: Utilization, averageUtilization: 80}}"),
        M + "resource.name",
        "missing",
    ),
    (_resource("{name: cpu}"), M + "resource.target", "is missing: averageUtilization or"),
    (_resource(CPU.replace("cpu", "gpu")), M + "resource.name", "known are cpu, memory; add it to"),
    (_resource(CPU.replace("80", "0")), M + "resource.target.averageUtilization", "at least 1"),
    (_resource(CPU.replace("80", "'80'")), M + "resource.target.averageUtilization", "quotes"),
    (
        _resource("{name: cpu, target: {type: Utilization, value: 3}}"),
        M + "resource.target",
        "averageUtilization or averageValue is missing",
    ),
    (
        _resource(CPU.replace("80", "80, averageValue: 1")),
        M + "resource.target",
        "takes one of averageUtilization or averageValue, not both",
    ),
    (
        _resource("{name: cpu, targetAverageUtilization: 8}"),
        M + "resource.targetAverageUtilization",
        "this is autoscaling/v2beta1",
    ),
    (_container(f"{{name: cpus, {CONTAINER}}}"), M + "containerResource.name", "must be cpu"),
    (
        _container(f"{{name: requests.example.com/gpu, {CONTAINER}}}"),
        M + "containerResource.name",
        "extended resource",
    ),
    (
        _container(f"{{name: cpu, {CONTAINER.replace('app', 'App')}}}"),
        M + "containerResource.container",
        "DNS label",
    ),
    (
        _container(f"{{name: cpu, {CONTAINER.partition(', ')[2]}}}"),
        M + "containerResource.container",
        "is missing: the container's name",
    ),
    (
        metric("type: Pods\npods: {metric: {name: rps}, target: {type: Value, value: 1}}\n"),
        M + "pods.target",
        "averageValue is missing",
    ),
    (
        metric("type: Object\nobject: {metric: {name: rps}, target: {type: Value, value: 1}}\n"),
        M + "object.describedObject",
        "is missing: the object",
    ),
    (
        metric(
            "type: Object\nobject:\n  describedObject: {kind: Service, name: a, apiVersion: a/b/c}"
            "\n  metric: {name: rps}\n  target: {type: Value, value: 1}\n"
        ),
        M + "object.describedObject.apiVersion",
        "GROUP/VERSION",
    ),
    (
        metric(
            "type: Object\nobject:\n  describedObject: {kind: Service, name: a}"
            "\n  metric: {name: rps}\n  target: {type: Value}\n"
        ),
        M + "object.target",
        "value or averageValue is missing",
    ),
    (external("target: {type: Value, value: 1}\n"), M + "external.metric", "is missing: which"),
    (external("metricName: x\n"), M + "external.metricName", "autoscaling/v2beta1"),
]

_EITHER = "write {type: Value, value: NUMBER} or {type: AverageValue, averageValue: NUMBER}"
TARGETS = [
    (
        _target("type: Utilization, averageUtilization: 70"),
        M + "external.target",
        f"Utilization is for Resource and ContainerResource metrics only: {_EITHER}",
    ),
    (_target("type: Value, averageUtilization: 70"), M + "external.target", f"only: {_EITHER}"),
    (
        metric("type: Pods\npods: {metric: {name: rps}, target: {type: Utilization}}\n"),
        M + "pods.target",
        "metrics only: write {type: AverageValue, averageValue: NUMBER}",
    ),
    (_target("value: 1"), M + "external.target.type", "is missing"),
    (_target("type: value, value: 1"), M + "external.target.type", "did you mean Value?"),
    (_target("type: Value"), M + "external.target", "value or averageValue is missing"),
    (_target("type: Value, value: 1, averageValue: 1"), M + "external.target", "not both"),
    (_target("type: Value, value: 1.5Gb"), M + "external.target.value", "mean 1.5G or 1.5Gi?"),
    (_target("type: Value, value: 5Kb"), M + "external.target.value", "did you mean 5k or 5Ki?"),
    (_target("type: Value, value: ''"), M + "external.target.value", "is not a quantity"),
    (_target("type: Value, value: [1]"), M + "external.target.value", "must be a quantity such"),
    (_target("type: Value, value: true"), M + "external.target.value", "quantity such"),
    (_target("type: Value, value: .nan"), M + "external.target.value", "quantity such"),
    (_target("type: Value, value: .inf"), M + "external.target.value", "quantity such"),
    (_target("type: Value, value: 0"), M + "external.target.value", "more than 0 (got 0)"),
    (_target("type: Value, value: -1m"), M + "external.target.value", "must be more than 0"),
    (_target("type: Value, averageValue: 0.0"), M + "external.target.averageValue", "more than 0"),
    (_target("type: Value, value: 0.0009"), M + "external.target.value", "must be at least 1m: "),
    (_target("type: Value, value: 999u"), M + "external.target.value", "must be at least 1m: "),
    (
        _target("type: Value, averageValue: 0.0000000001n"),
        M + "external.target.averageValue",
        "must be at least 1m: targets are computed with in thousandths",
    ),
    (
        _target("type: AverageValue, averageValue: '1e9999'"),
        M + "external.target.averageValue",
        "must be at most 9223372036854775807m (about 9.2P)",
    ),
    (_target("type: Value, value: 10P"), M + "external.target.value", "must be at most 9223"),
    (
        _target("type: Value, value: 9223372036854775808m"),
        M + "external.target.value",
        "must be at most 9223372036854775807m",
    ),
]

VALUE = "target: {type: Value, value: 1}\n"


def _selector(expression: str) -> str:
    return external(
        f"metric: {{name: rps, selector: {{matchExpressions: [{expression}]}}}}\n{VALUE}"
    )


X = M + "external.metric.selector.matchExpressions[0]."
SELECTORS = [
    (_selector("{operator: In, values: [a]}"), X + "key", "is missing: the label's name"),
    (_selector("{key: '', operator: Exists}"), X + "key", "must not be empty"),
    (_selector("{key: a, operator: in, values: [a]}"), X + "operator", "did you mean In?"),
    (_selector("{key: a, operator: {}}"), X + "operator", "must be In, NotIn, Exists or"),
    (_selector("{key: a, operator: In}"), X + "values", "In needs at least one value"),
    (_selector("{key: a, operator: NotIn, values: []}"), X + "values", "NotIn needs at least one"),
    (_selector("{key: a, operator: Exists, values: [b]}"), X + "values", "takes no values"),
    (_selector("{key: a, operator: DoesNotExist, values: [b]}"), X + "values", "takes no values"),
    (_selector("{key: a, operator: In, values: [5]}"), X + "values[0]", "put it in quotes"),
    (
        external(f"metric: {{name: rps, selector: {{matchLabels: {{a: on}}}}}}\n{VALUE}"),
        M + "external.metric.selector.matchLabels.a",
        "YAML reads this as a boolean: put it in quotes (got on)",
    ),
    (
        external(f"metric: {{name: rps, selector: {{matchLabel: {{}}}}}}\n{VALUE}"),
        M + "external.metric.selector.matchLabel",
        "did you mean `matchLabels`?",
    ),
]

NAMES = [
    (
        external(f"metric: {{name: queue_lenght}}\n{VALUE}"),
        M + "external.metric.name",
        "is no key of `queries`: did you mean `queue_length`? known are queue_length, rps",
    ),
    (external(f"metric: {{name: x/y}}\n{VALUE}"), M + "external.metric.name", "must be a name"),
    (
        external(f"metric: {{name: x, query: ''}}\n{VALUE}"),
        M + "external.metric.query",
        "must be PromQL, and is empty",
    ),
    (
        external(f"metric: {{name: x, query: {{window: 1m}}}}\n{VALUE}"),
        M + "external.metric.query.query",
        "is missing: the PromQL",
    ),
    (
        external(f"metric: {{name: x, query: {{query: up, window: 60}}}}\n{VALUE}"),
        M + "external.metric.query.window",
        "write 60s if seconds are meant",
    ),
    (
        _resource(f"{CPU[:-1]}, query: {{query: up, label: {{}}}}}}"),
        M + "resource.query.label",
        "did you mean `labels`?",
    ),
]

ROWS = SOURCES + TARGETS + SELECTORS + NAMES


@pytest.mark.parametrize(("text", "path", "fragment"), ROWS)
def test_a_fault_of_a_metric_has_path_line_and_what_is_right(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    """Each fault has the path of its field, a line, and a sentence that says what is right."""
    assert_refused(tmp_path, text, path, fragment)


def test_nothing_follows_from_a_fault(tmp_path: Path) -> None:
    """A malformed name is not also an unknown one."""
    (problem,) = refused(tmp_path, external(f"metric: {{name: x/y}}\n{VALUE}"))
    assert problem.message.startswith("must be a name")


FINE = [
    # The least and the most that the API's own arithmetic holds.
    _target("type: Value, value: 1m"),
    _target("type: Value, value: 0.001"),
    _target("type: Value, value: 1500u"),
    _target("type: Value, value: 8Pi"),
    _target("type: Value, value: 9223372036854775807m"),
    # target.type is not compared with the field that is set, as in the API.
    _target("type: Utilization, value: 3"),
    _target("type: Value, averageValue: 3, averageUtilization: 7"),
    _resource("{name: cpu, target: {type: Value, averageValue: 3, value: 9}}"),
    metric("type: Pods\npods: {metric: {name: rps}, target: {type: Value, averageValue: 1}}\n"),
    # An Object metric may have both.
    metric(
        "type: Object\nobject:\n  describedObject: {kind: Service, name: a, apiVersion: v1}\n"
        "  metric: {name: rps}\n  target: {type: Value, value: 1, averageValue: 2}\n"
    ),
    metric(f"type: Resource\nresource: {CPU}\npods:\n"),
    _resource(f"{CPU[:-1].replace('cpu', 'gpu')}, query: up}}"),
    _container(f"{{name: hugepages-2Mi, query: up, {CONTAINER}}}"),
    _container(f"{{name: example.com/gpu, query: up, {CONTAINER}}}"),
]


@pytest.mark.parametrize("text", FINE)
def test_what_the_api_server_takes_of_a_metric_is_taken(tmp_path: Path, text: str) -> None:
    """What the API server takes is taken, also where it looks odd."""
    assert len(loaded(tmp_path, text).targets) == 1


def test_a_misspelt_type_hides_no_other_mistake(tmp_path: Path) -> None:
    """The source is checked, and reported at once with the type."""
    text = "external: {metric: {name: queue_length}, target: {type: Value}}\n"
    found = {problem.path for problem in refused(tmp_path, metric(f"type: external\n{text}"))}
    assert found == {M + "type", M + "external.target"}


def test_a_source_of_another_type_is_one_mistake(tmp_path: Path) -> None:
    """What is to be left out is reported as a whole, whatever is in it."""
    pods = "pods: {metric: {name: none}, target: {type: Value}}\n"
    problems = refused(tmp_path, metric(f"type: Resource\nresource: {CPU}\n{pods}"))
    assert [problem.path for problem in problems] == [M + "pods"]
