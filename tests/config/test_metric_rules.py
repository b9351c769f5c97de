"""The rules of a metric, which test_rules.py plays: source, target, selector and query."""

from pathlib import Path

import pytest

from tests.config.documents import behavior, cases, external, metric, refused

M = "targets[0].metrics[0]."

CPU = "{name: cpu, target: {type: Utilization, averageUtilization: 80}}"


def _target(values: str) -> str:
    return external(f"metric: {{name: queue_length}}\ntarget: {{{values}}}\n")


def _resource(source: str) -> str:
    return metric(f"type: Resource\nresource: {source}\n")


def _container(keys: str) -> str:
    source = CPU.replace("name: cpu", keys)
    return metric(f"type: ContainerResource\ncontainerResource: {source}\n")


def _metric(keys: str) -> str:
    return external(f"metric: {{{keys}}}\ntarget: {{type: Value, value: 1}}\n")


def _expression(keys: str) -> str:
    return _metric(f"name: rps, selector: {{matchExpressions: [{{{keys}}}]}}")


TYPES = """
{} => type: is missing: the key of the source
type: external => type: did you mean External?
type: Queue => type: must be ContainerResource, External, Object, Pods or
type: [Pods] => type: (got a list)
type: Pods => pods: is missing: type Pods needs its source here
type: Pods; resource: CPU => resource: does not belong to type Pods
type: Pods; pods: {metric: {name: rps}, target: {type: Value, value: 1}}
    => pods.target: averageValue is missing
type: Pods; pods: {metric: {name: rps}, target: {type: Utilization}}
    => pods.target: metrics only: write {type: AverageValue, averageValue: NUMBER}
type: Object; object: {metric: {name: rps}, target: {type: Value, value: 1}}
    => object.describedObject: is missing: the object
type: Object; object: {describedObject: {kind: Service, name: a, apiVersion: a/b/c},
    metric: {name: rps}, target: {type: Value, value: 1}}
    => object.describedObject.apiVersion: GROUP/VERSION
type: Object; object: {describedObject: {kind: Service, name: a}, metric: {name: rps},
    target: {type: Value}}
    => object.target: value or averageValue is missing
type: External; external: {target: {type: Value, value: 1}} => external.metric: is missing: the
type: External; external: {metricName: x} => external.metricName: autoscaling/v2beta1
"""
RESOURCES = """
{target: {type: Utilization, averageUtilization: 80}} => name: missing
{name: cpu} => target: is missing: averageUtilization or
{name: gpu, target: {type: Utilization, averageUtilization: 80}}
    ~> name: known are cpu, memory; add it to
{name: cpu, target: {type: Utilization, averageUtilization: 0}}
    => target.averageUtilization: at least 1
{name: cpu, target: {type: Utilization, averageUtilization: '80'}}
    => target.averageUtilization: must be a whole number of percent (got "80")
{name: cpu, target: {type: Utilization, value: 3}}
    => target: averageUtilization or averageValue is missing
{name: cpu, target: {type: Utilization, averageUtilization: 80, averageValue: 1}}
    => target: takes one of averageUtilization or averageValue, not both
{name: cpu, targetAverageUtilization: 8} => targetAverageUtilization: this is autoscaling/v2beta1
{name: cpu, target: {type: Utilization, averageUtilization: 80}, query: {query: up, label: {}}}
    => query.label: did you mean `labels`?
"""
CONTAINERS = """
name: cpus, container: app => name: must be cpu
name: requests.example.com/gpu, container: app ~> name: extended resource
name: cpu, container: App => container: DNS label
name: cpu => container: is missing: the container's name
"""
TARGETS = """
type: Utilization, averageUtilization: 70
    => : Utilization is for Resource and ContainerResource metrics only: write {type: Value, value:
    NUMBER} or {type: AverageValue, averageValue: NUMBER}
value: 1 => .type: is missing
type: value, value: 1 => .type: did you mean Value?
type: Value => : value or averageValue is missing
type: Value, value: 1, averageValue: 1 => : not both
type: Value, value: 1.5Gb => .value: such as 500m, 1.5, 1Gi or 2e3 (got "1.5Gb")
type: Value, value: '' => .value: is not a quantity
type: Value, value: [1] => .value: must be a quantity such
type: Value, value: true => .value: quantity such
type: Value, value: .nan ~> .value: quantity such
type: Value, value: .inf => .value: quantity such
type: Value, value: 0 => .value: more than 0 (got 0)
type: Value, value: -1m => .value: must be more than 0
type: Value, averageValue: 0.0 => .averageValue: more than 0
type: Value, value: 0.0009 => .value: must be at least 1m: the HPA
type: Value, value: 999u ~> .value: must be at least 1m: the HPA
type: Value, averageValue: 0.0000000001n
    ~> .averageValue: must be at least 1m: the HPA computes targets in thousandths
type: AverageValue, averageValue: '1e9999'
    ~> .averageValue: must be at most 9223372036854775807m (about 9.2P)
type: Value, value: 9223372036854775808m ~> .value: must be at most 9223372036854775807m
"""
METRICS = """
name: queue_lenght
    ~> .name: unknown key of `queries`: did you mean `queue_length`? known are queue_length, rps
name: x/y => .name: must be a name
name: x, query: '' => .query: must be PromQL, and is empty
name: x, query: {window: 1m} => .query.query: is missing: the PromQL
name: x, query: {query: up, window: 60} => .query.window: write 60s if seconds are meant
name: rps, selector: {matchLabels: {a: on}}
    => .selector.matchLabels.a: YAML reads this as a boolean: put it in quotes (got on)
name: rps, selector: {matchLabel: {}} => .selector.matchLabel: did you mean `matchLabels`?
"""
EXPRESSIONS = """
operator: In, values: [a] => key: is missing: the label's name
key: '', operator: Exists => key: must not be empty
key: a, operator: in, values: [a] => operator: did you mean In?
key: a, operator: {} => operator: must be In, NotIn, Exists or
key: a, operator: In => values: operator In or NotIn needs at least one value
key: a, operator: NotIn, values: [] => values: NotIn needs at least one
key: a, operator: Exists, values: [b] => values: takes no values
key: a, operator: DoesNotExist, values: [b] => values: takes no values
key: a, operator: In, values: [5] => values[0]: put it in quotes
"""
ROWS = [
    *cases(metric, M, TYPES.replace("CPU", CPU)),
    *cases(_resource, M + "resource.", RESOURCES),
    *cases(_container, M + "containerResource.", CONTAINERS),
    *cases(_target, M + "external.target", TARGETS),
    *cases(_metric, M + "external.metric", METRICS),
    *cases(_expression, M + "external.metric.selector.matchExpressions[0].", EXPRESSIONS),
]


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
    _container("name: hugepages-2Mi, query: up, container: app"),
    _container("name: example.com/gpu, query: up, container: app"),
]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (_metric("name: x/y"), {"external.metric.name"}),
        (
            metric("type: external\nexternal: {metric: {name: rps}, target: {type: Value}}\n"),
            {"type", "external.target"},
        ),
        (
            metric(
                f"type: Resource\nresource: {CPU}\n"
                "pods: {metric: {name: none}, target: {type: Value}}\n"
            ),
            {"pods"},
        ),
        (
            behavior("scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 1801}]}"),
            {"targets[0].behavior.scaleUp.policies[0].periodSeconds"},
        ),
    ],
)
def test_no_fault_hides_or_makes_another(tmp_path: Path, text: str, paths: set[str]) -> None:
    """What is to be left out is one fault as a whole; a misspelt type still has its source."""
    problems = refused(tmp_path, text)
    assert {problem.path.removeprefix(M) for problem in problems} == paths
    assert len(problems) == len(paths)
