"""Every rule of a target around its metrics: what the API server refuses is refused here."""

from pathlib import Path

import pytest

from tests.config.documents import (
    EXTERNAL,
    REF,
    assert_refused,
    behavior,
    loaded,
    mistakes,
    refused,
    target,
)

T = "targets[0]"


WHOLE = """
maxReplicas: 2 -> namespace: is missing: the namespace
maxReplicas: 2
namespace: Shop -> namespace: DNS label
maxReplicas: 2
namespace: a123456789-123456789-123456789-123456789-123456789-123456789-123 -> namespace: at most 63
namespace: a -> maxReplicas: is missing: the most replicas
"""
COUNTS = """
-> : (got nothing)
0 -> : at least 1 (got 0)
'3' -> : without quotes
010 -> : leading zeros
3.0 -> : whole number
yes -> : number (got yes)
3000000000 -> : at most
"""
BESIDE = """
minReplicas: -1 -> minReplicas: must be at least 0 (got -1)
minReplicas: 11 -> maxReplicas: at least minReplicas, which is 11 (got 10)
minReplicas: 0 -> minReplicas: of type Object or External
min_replicas: 2 -> min_replicas: did you mean `minReplicas`?
minreplicas: 2 -> minreplicas: did you mean `minReplicas`?
spec: {} -> spec: write the fields of the HorizontalPodAutoscaler's `spec`
metadata: {} -> metadata: write `namespace` here
targetCPUUtilizationPercentage: 50 -> targetCPUUtilizationPercentage: in v2
metrics: {} -> metrics: must be a list (got {})
behavior: fast -> behavior: must be a mapping (got "fast")
"""
REFERENCES = """
{apiVersion: apps/v1, name: w} -> kind: is missing
{apiVersion: apps/v1, kind: X} -> name: is missing
{apiVersion: apps/v1, kind: X, name: ''} -> name: a name
{apiVersion: apps/v1, kind: X, name: ..} -> name: a name
{apiVersion: apps/v1, kind: X, name: a/b} -> name: without "/"
{apiVersion: apps/v1, kind: X%, name: a} -> kind: a name
{apiVersion: apps/v1, kind: X, name: on} -> name: in quotes
{apiVersion: apps/v1, kind: X, name: 12} -> name: as a number
{apiVersion: a/b/c, kind: X, name: w} -> apiVersion: GROUP/
{apiVersion: v1, kind: X, name: w} -> apiVersion: the group of X
{apiVersion: /v1, kind: X, name: w} -> apiVersion: before the /
{kind: X, name: w} -> : apiVersion is missing
{kind: [X], name: w} -> kind: must be a text (got a list)
"""
BEHAVIORS = """
scaleup: {} -> scaleup: did you mean `scaleUp`?
scaleUp: {stabilizationWindowSeconds: -1} -> scaleUp.stabilizationWindowSeconds: must be at least 0
scaleDown: {stabilizationWindowSeconds: 3601}
-> scaleDown.stabilizationWindowSeconds: must be at most 3600
scaleDown: {stabilizationWindowSeconds: 5m}
-> scaleDown.stabilizationWindowSeconds: must be a whole number
scaleUp: {selectPolicy: max} -> scaleUp.selectPolicy: mean Max?
scaleUp: {policies: []} -> scaleUp.policies: needs at least 1 entry
scaleUp: {tolerance: -0.1} -> scaleUp.tolerance: must be 0 or more
scaleUp: {tolerance: 10%} -> scaleUp.tolerance: is not a quantity
scaleUp: {policies: [{type: Pod, value: 1, periodSeconds: 60}]}
-> scaleUp.policies[0].type: did you mean Pods?
scaleUp: {policies: [{type: Pods, value: 0, periodSeconds: 60}]}
-> scaleUp.policies[0].value: must be at least 1
scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 0}]}
-> scaleUp.policies[0].periodSeconds: must be at least 1
scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 1801}]}
-> scaleUp.policies[0].periodSeconds: must be at most 1800
scaleUp: {policies: [{type: Pods, value: 1}]}
-> scaleUp.policies[0].periodSeconds: is missing: the period in seconds
"""
BASE = "namespace: shop\nmaxReplicas: 10\n"


def _alone(keys: str) -> str:
    return target("", f"{REF}{keys}\n")


def _count(count: str) -> str:
    return _alone(f"namespace: a\nmaxReplicas: {count}")


def _ref(reference: str) -> str:
    return target(f"scaleTargetRef: {reference}\n", BASE)


ROWS = [
    *mistakes(_alone, T, WHOLE),
    *mistakes(_count, f"{T}.maxReplicas", COUNTS),
    *mistakes(target, T, BESIDE),
    (target("", BASE), f"{T}.scaleTargetRef", "is missing: the workload to scale"),
    *mistakes(_ref, f"{T}.scaleTargetRef", REFERENCES),
    *mistakes(behavior, f"{T}.behavior", BEHAVIORS),
]


@pytest.mark.parametrize(("text", "path", "fragment"), ROWS)
def test_a_fault_of_a_target_has_path_line_and_what_is_right(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    """Each fault has the path of its field, a line, and a sentence that says what is right."""
    assert_refused(tmp_path, text, path, fragment)


def test_nothing_follows_from_a_fault(tmp_path: Path) -> None:
    """A faulty entry is not also a missing one."""
    policies = behavior(f"scaleUp: {{policies: [{POLICY.replace('60', '1801')}]}}\n")
    (problem,) = refused(tmp_path, policies)
    assert problem.path == "targets[0].behavior.scaleUp.policies[0].periodSeconds"


POLICY = "{type: Pods, value: 1, periodSeconds: 60}"
FINE = [
    target(""),
    target("metrics: []\nbehavior: {}\nminReplicas:\n"),
    target(f"minReplicas: 0\nmetrics:\n{EXTERNAL}"),
    _ref("{kind: ReplicationController, name: a}"),
    _ref("{apiVersion: apps/v1, kind: Deployment, name: '12'}"),
    behavior(f"scaleUp: {{policies: [{POLICY.replace('1', '900')}], tolerance: 3}}\n"),
]


@pytest.mark.parametrize("text", FINE)
def test_what_the_api_server_takes_of_a_target_is_taken(tmp_path: Path, text: str) -> None:
    """What the API server takes is taken, also where it looks odd."""
    assert len(loaded(tmp_path, text).targets) == 1
