"""The rules of a target around its metrics, which test_rules.py plays; they are the API's."""

from tests.config.documents import EXTERNAL, REF, behavior, cases, target

T = "targets[0]."

BASE = "namespace: shop\nmaxReplicas: 10\n"
POLICY = "{type: Pods, value: 1, periodSeconds: 60}"


def _bare(keys: str) -> str:
    return target(keys, REF)


def _ref(reference: str) -> str:
    return target(f"scaleTargetRef: {reference}\n", BASE)


BARE = f"""
maxReplicas: 2 => namespace: is missing: the namespace
maxReplicas: 2; namespace: Shop => namespace: DNS label
maxReplicas: 2; namespace: {"a" * 64} => namespace: at most 63
namespace: a => maxReplicas: is missing: the most replicas
namespace: a; maxReplicas: => maxReplicas: (got nothing)
namespace: a; maxReplicas: 0 => maxReplicas: at least 1 (got 0)
namespace: a; maxReplicas: '3' => maxReplicas: must be a whole number (got "3")
namespace: a; maxReplicas: 010 => maxReplicas: must be a whole number (got "010")
namespace: a; maxReplicas: 3.0 ~> maxReplicas: whole number
namespace: a; maxReplicas: yes => maxReplicas: number (got yes)
namespace: a; maxReplicas: 3000000000 => maxReplicas: at most
"""
TARGETS = """
minReplicas: -1 => minReplicas: must be at least 0 (got -1)
minReplicas: 11 ~> maxReplicas: at least minReplicas, which is 11 (got 10)
minReplicas: 0 => minReplicas: of type Object or External
min_replicas: 2 => min_replicas: did you mean `minReplicas`?
spec: {} => spec: write the fields of the HorizontalPodAutoscaler's `spec`
metadata: {} => metadata: write `namespace` here
targetCPUUtilizationPercentage: 50 => targetCPUUtilizationPercentage: in v2
metrics: {} => metrics: must be a list (got {})
behavior: fast => behavior: must be a mapping (got "fast")
"""
REFERENCES = """
{apiVersion: apps/v1, name: w} => .kind: is missing
{apiVersion: apps/v1, kind: X} => .name: is missing
{apiVersion: apps/v1, kind: X, name: ''} => .name: a name
{apiVersion: apps/v1, kind: X, name: ..} => .name: a name
{apiVersion: apps/v1, kind: X, name: a/b} => .name: without "/"
{apiVersion: apps/v1, kind: X%, name: a} => .kind: a name
{apiVersion: apps/v1, kind: X, name: on} => .name: in quotes
{apiVersion: apps/v1, kind: X, name: 12} => .name: as a number
{apiVersion: a/b/c, kind: X, name: w} => .apiVersion: GROUP/
{apiVersion: v1, kind: X, name: w} => .apiVersion: the group of X
{apiVersion: /v1, kind: X, name: w} => .apiVersion: before the /
{kind: X, name: w} => : apiVersion is missing
{kind: [X], name: w} => .kind: must be a text (got a list)
"""
BEHAVIORS = """
scaleup: {} => scaleup: did you mean `scaleUp`?
scaleUp: {stabilizationWindowSeconds: -1} => scaleUp.stabilizationWindowSeconds: must be at least 0
scaleDown: {stabilizationWindowSeconds: 3601}
    => scaleDown.stabilizationWindowSeconds: must be at most 3600
scaleUp: {selectPolicy: max} => scaleUp.selectPolicy: mean Max?
scaleUp: {policies: []} => scaleUp.policies: needs at least 1 entry
scaleUp: {tolerance: -0.1} => scaleUp.tolerance: must be 0 or more
scaleUp: {policies: [{type: Pod, value: 1, periodSeconds: 60}]}
    => scaleUp.policies[0].type: did you mean Pods?
scaleUp: {policies: [{type: Pods, value: 0, periodSeconds: 60}]}
    => scaleUp.policies[0].value: must be at least 1
scaleUp: {policies: [POLICY, {type: Pods, value: 1, periodSeconds: 0}]}
    => scaleUp.policies[1].periodSeconds: must be at least 1
scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 1801}]}
    => scaleUp.policies[0].periodSeconds: must be at most 1800
scaleUp: {policies: [{type: Pods, value: 1}]}
    => scaleUp.policies[0].periodSeconds: is missing: the period in seconds
"""
ROWS = [
    *cases(_bare, T, BARE),
    *cases(target, T, TARGETS),
    *cases(_ref, T + "scaleTargetRef", REFERENCES),
    *cases(behavior, T + "behavior.", BEHAVIORS.replace("POLICY", POLICY)),
    (target("", BASE), T + "scaleTargetRef", "is missing: the workload to scale"),
]


FINE = [
    target(""),
    target("metrics: []\nbehavior: {}\nminReplicas:\n"),
    target(f"minReplicas: 0\nmetrics:\n{EXTERNAL}"),
    _ref("{kind: ReplicationController, name: a}"),
    _ref("{apiVersion: apps/v1, kind: Deployment, name: '12'}"),
    behavior(f"scaleUp: {{policies: [{POLICY.replace('1', '900')}], tolerance: 3}}\n"),
]
