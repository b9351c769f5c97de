"""Every rule of a target around its metrics: what the API server refuses is refused here."""

from pathlib import Path

import pytest

from tests.config.documents import EXTERNAL, REF, assert_refused, behavior, loaded, refused, target

T = "targets[0]."
LONG = "a" * 64

REPLICAS = [
    (target("", REF + "maxReplicas: 2\n"), T + "namespace", "is missing: the namespace"),
    (target("", REF + "maxReplicas: 2\nnamespace: Shop\n"), T + "namespace", "DNS label"),
    (target("", REF + f"maxReplicas: 2\nnamespace: {LONG}\n"), T + "namespace", "at most 63"),
    (target("", REF + "namespace: a\n"), T + "maxReplicas", "is missing: the most replicas"),
    (target("", REF + "namespace: a\nmaxReplicas:\n"), T + "maxReplicas", "(got nothing)"),
    (target("", REF + "namespace: a\nmaxReplicas: 0\n"), T + "maxReplicas", "at least 1 (got 0)"),
    (target("", REF + "namespace: a\nmaxReplicas: '3'\n"), T + "maxReplicas", "without quotes"),
    (target("", REF + "namespace: a\nmaxReplicas: 010\n"), T + "maxReplicas", "leading zeros"),
    (target("", REF + "namespace: a\nmaxReplicas: 3.0\n"), T + "maxReplicas", "whole number"),
    (target("", REF + "namespace: a\nmaxReplicas: yes\n"), T + "maxReplicas", "number (got yes)"),
    (target("", REF + "namespace: a\nmaxReplicas: 3000000000\n"), T + "maxReplicas", "at most"),
    (target("minReplicas: -1\n"), T + "minReplicas", "must be at least 0 (got -1)"),
    (target("minReplicas: 11\n"), T + "maxReplicas", "at least minReplicas, which is 11 (got 10)"),
    (target("minReplicas: 0\n"), T + "minReplicas", "of type Object or External"),
    (target("min_replicas: 2\n"), T + "min_replicas", "did you mean `minReplicas`?"),
    (target("minreplicas: 2\n"), T + "minreplicas", "did you mean `minReplicas`?"),
    (target("spec: {}\n"), T + "spec", "write the fields of the HorizontalPodAutoscaler's `spec`"),
    (target("metadata: {}\n"), T + "metadata", "write `namespace` here"),
    (target("targetCPUUtilizationPercentage: 50\n"), T + "targetCPUUtilizationPercentage", "in v2"),
    (target("metrics: {}\n"), T + "metrics", "must be a list (got {})"),
    (target("behavior: fast\n"), T + "behavior", 'must be a mapping (got "fast")'),
]

BASE = "namespace: shop\nmaxReplicas: 10\n"


def _ref(reference: str) -> str:
    return target(f"scaleTargetRef: {reference}\n", BASE)


REFERENCES = [
    (target("", BASE), T + "scaleTargetRef", "is missing: the workload to scale"),
    (_ref("{apiVersion: apps/v1, name: w}"), T + "scaleTargetRef.kind", "is missing"),
    (_ref("{apiVersion: apps/v1, kind: X}"), T + "scaleTargetRef.name", "is missing"),
    (_ref("{apiVersion: apps/v1, kind: X, name: ''}"), T + "scaleTargetRef.name", "a name"),
    (_ref("{apiVersion: apps/v1, kind: X, name: ..}"), T + "scaleTargetRef.name", "a name"),
    (_ref("{apiVersion: apps/v1, kind: X, name: a/b}"), T + "scaleTargetRef.name", 'without "/"'),
    (_ref("{apiVersion: apps/v1, kind: X%, name: a}"), T + "scaleTargetRef.kind", "a name"),
    (_ref("{apiVersion: apps/v1, kind: X, name: on}"), T + "scaleTargetRef.name", "in quotes"),
    (_ref("{apiVersion: apps/v1, kind: X, name: 12}"), T + "scaleTargetRef.name", "as a number"),
    (_ref("{apiVersion: a/b/c, kind: X, name: w}"), T + "scaleTargetRef.apiVersion", "GROUP/"),
    (_ref("{apiVersion: v1, kind: X, name: w}"), T + "scaleTargetRef.apiVersion", "the group of X"),
    (_ref("{apiVersion: /v1, kind: X, name: w}"), T + "scaleTargetRef.apiVersion", "before the /"),
    (_ref("{kind: X, name: w}"), T + "scaleTargetRef", "apiVersion is missing"),
    (_ref("{kind: [X], name: w}"), T + "scaleTargetRef.kind", "must be a text (got a list)"),
]

B = T + "behavior."
POLICY = "{type: Pods, value: 1, periodSeconds: 60}"
BEHAVIORS = [
    (behavior("scaleup: {}\n"), B + "scaleup", "did you mean `scaleUp`?"),
    (
        behavior("scaleUp: {stabilizationWindowSeconds: -1}\n"),
        B + "scaleUp.stabilizationWindowSeconds",
        "must be at least 0",
    ),
    (
        behavior("scaleDown: {stabilizationWindowSeconds: 3601}\n"),
        B + "scaleDown.stabilizationWindowSeconds",
        "must be at most 3600",
    ),
    (
        behavior("scaleDown: {stabilizationWindowSeconds: 5m}\n"),
        B + "scaleDown.stabilizationWindowSeconds",
        "must be a whole number",
    ),
    (behavior("scaleUp: {selectPolicy: max}\n"), B + "scaleUp.selectPolicy", "mean Max?"),
    (behavior("scaleUp: {policies: []}\n"), B + "scaleUp.policies", "needs at least 1 entry"),
    (behavior("scaleUp: {tolerance: -0.1}\n"), B + "scaleUp.tolerance", "must be 0 or more"),
    (behavior("scaleUp: {tolerance: 10%}\n"), B + "scaleUp.tolerance", "is not a quantity"),
    (
        behavior(f"scaleUp: {{policies: [{POLICY.replace('Pods', 'Pod')}]}}\n"),
        B + "scaleUp.policies[0].type",
        "did you mean Pods?",
    ),
    (
        behavior(f"scaleUp: {{policies: [{POLICY.replace('1', '0')}]}}\n"),
        B + "scaleUp.policies[0].value",
        "must be at least 1",
    ),
    (
        behavior(f"scaleUp: {{policies: [{POLICY}, {POLICY.replace('60', '0')}]}}\n"),
        B + "scaleUp.policies[1].periodSeconds",
        "must be at least 1",
    ),
    (
        behavior(f"scaleUp: {{policies: [{POLICY.replace('60', '1801')}]}}\n"),
        B + "scaleUp.policies[0].periodSeconds",
        "must be at most 1800",
    ),
    (
        behavior("scaleUp: {policies: [{type: Pods, value: 1}]}\n"),
        B + "scaleUp.policies[0].periodSeconds",
        "is missing: the period in seconds",
    ),
]

ROWS = REPLICAS + REFERENCES + BEHAVIORS


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
    assert problem.path == B + "scaleUp.policies[0].periodSeconds"


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
