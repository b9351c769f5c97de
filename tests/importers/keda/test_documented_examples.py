"""What KEDA's documentation shows, said anew, with the configuration that it becomes."""

from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

from autoscaler.migrate.conversion import Options
from autoscaler.migrate.fields import KeyOutcome
from tests.importers.keda.converting import (
    TARGET,
    Converted,
    converted,
    loaded,
    prometheus,
    scaled_object,
)

URL = "http://prometheus:9090"
QUERY = {"query": "sum(orders_waiting)", "empty": "zero"}
RATIO = {"query": "sum(a) / sum(b)", "empty": "zero", "nan": "zero"}
AUTHENTICATION = """\
apiVersion: keda.sh/v1alpha1
kind: {kind}
metadata: {{name: prom, namespace: shop}}
spec: {spec}
"""


def authentication(spec: str, kind: str = "TriggerAuthentication") -> str:
    """Return an authentication called prom."""
    return AUTHENTICATION.format(kind=kind, spec=spec)


def secrets(*parameters: str) -> str:
    """Return a spec whose parameters are the keys of the same name of the Secret tokens."""
    listed = (f"{{parameter: {one}, name: tokens, key: {one}}}" for one in parameters)
    return f"{{secretTargetRef: [{', '.join(listed)}]}}"


def external(name: str = "orders", **target: object) -> dict[str, object]:
    """Return a metric of type External."""
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def average(name: str = "orders", value: object = 30) -> dict[str, object]:
    """Return a metric that is held at an average."""
    return external(name, type="AverageValue", averageValue=value)


def made(result: Converted) -> dict[str, Any]:
    """Return the one target of a configuration, without what all of them begin with."""
    target = result.target
    assert {key: target[key] for key in TARGET} == TARGET
    return {key: value for key, value in target.items() if key not in TARGET}


ONE = {"maxReplicas": 100, "metrics": [average()]}
EXAMPLES: dict[str, tuple[str, dict[str, object]]] = {
    "a query": ("minReplicaCount: 1\n" + prometheus(), ONE),
    "a ratio, which is NaN at times": (
        "minReplicaCount: 1\n" + prometheus(query="sum(a) / sum(b)", beside=", metricType: Value"),
        {"maxReplicas": 100, "metrics": [external(type="Value", value=30)]},
    ),
    "to zero": (
        "minReplicaCount: 0\nmaxReplicaCount: 20\ncooldownPeriod: 60\ninitialCooldownPeriod: 120\n"
        + prometheus(', activationThreshold: "5"'),
        {
            "maxReplicas": 20,
            "idle": {"after": "60s", "initially": "120s"},
            "metrics": [{**average(), "activation": 5}],
        },
    ),
    "the default minimum is zero": (prometheus(), {**ONE, "idle": {"replicas": 0}}),
    "to an idle count": (
        "minReplicaCount: 5\nidleReplicaCount: 2\n" + prometheus(),
        {"minReplicas": 5, **ONE, "idle": {"replicas": 2}},
    ),
    "to an idle count of zero beside a minimum that is written as zero": (
        "minReplicaCount: 0\nidleReplicaCount: 0\n" + prometheus(),
        {**ONE, "idle": {"replicas": 0}},
    ),
    **{
        f"polled every {seconds} s": (
            f"minReplicaCount: 1\npollingInterval: {seconds}\n"
            + prometheus(beside=f", useCachedMetrics: {cached}"),
            ONE,
        )
        for seconds, cached in ((5, "false"), (15, "true"), (60, "false"), (60, "true"))
    },
    "a fallback": (
        "minReplicaCount: 1\nfallback:\n"
        "  {failureThreshold: 4, replicas: 6, behavior: currentReplicas}\n" + prometheus(),
        {
            **ONE,
            "fallback": {"replicas": 6, "failureThreshold": 4, "behavior": "currentReplicas"},
        },
    ),
    "held at a value": (
        "minReplicaCount: 1\n" + prometheus(beside=", metricType: Value"),
        {"maxReplicas": 100, "metrics": [external(type="Value", value=30)]},
    ),
    "cpu": (
        (
            "minReplicaCount: 1\ntriggers:\n"
            '- {type: cpu, metricType: Utilization, metadata: {value: "60"}}\n'
        ),
        {
            "maxReplicas": 100,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                }
            ],
        },
    ),
    "memory of a container": (
        (
            "minReplicaCount: 1\ntriggers:\n- type: memory\n  metricType: AverageValue\n"
            "  metadata: {value: 500Mi, containerName: app}\n"
        ),
        {
            "maxReplicas": 100,
            "metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        "name": "memory",
                        "container": "app",
                        "target": {"type": "AverageValue", "averageValue": "500Mi"},
                    },
                }
            ],
        },
    ),
    "office hours": (
        (
            "triggers:\n- type: cron\n  metadata:\n    {timezone: Asia/Kolkata, start: 0 6 * * *, "
            'end: 0 20 * * *, desiredReplicas: "10"}\n'
        ),
        {
            "maxReplicas": 100,
            "idle": {"replicas": 0},
            "schedules": [
                {
                    "name": "cron-0",
                    "start": "0 6 * * *",
                    "end": "0 20 * * *",
                    "timezone": "Asia/Kolkata",
                    "minReplicas": 10,
                    "gradual": True,
                }
            ],
            "metrics": [average("always-zero", 1)],
        },
    ),
    "office hours beside cpu": (
        (
            "minReplicaCount: 1\ntriggers:\n"
            '- {type: cpu, metricType: Utilization, metadata: {value: "60"}}\n'
            "- {type: cron, metadata: {timezone: UTC, start: 0 6 * * *, end: 0 20 * * *, "
            'desiredReplicas: "3"}}\n'
        ),
        {
            "maxReplicas": 100,
            "schedules": [
                {
                    "name": "cron-1",
                    "start": "0 6 * * *",
                    "end": "0 20 * * *",
                    "minReplicas": 3,
                    "gradual": True,
                }
            ],
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                }
            ],
        },
    ),
    "office hours beside cpu, to zero": (
        (
            "triggers:\n"
            '- {type: cpu, metricType: Utilization, metadata: {value: "60"}}\n'
            "- {type: cron, metadata: {timezone: UTC, start: 0 6 * * *, end: 0 20 * * *, "
            'desiredReplicas: "1"}}\n'
        ),
        {
            "maxReplicas": 100,
            "idle": {"replicas": 0},
            "schedules": [
                {
                    "name": "cron-1",
                    "start": "0 6 * * *",
                    "end": "0 20 * * *",
                    "minReplicas": 1,
                    "gradual": True,
                }
            ],
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                },
                average("always-zero", 1),
            ],
        },
    ),
    "a query that answers something": (
        "minReplicaCount: 1\n" + prometheus(", ignoreNullValues: 'false'"),
        ONE,
    ),
    "how fast": (
        "minReplicaCount: 1\nadvanced:\n  horizontalPodAutoscalerConfig:\n    name: keda-hpa\n"
        "    behavior: {scaleDown: {stabilizationWindowSeconds: 60}}\n" + prometheus(),
        {**ONE, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example(name: str, tmp_path: Path) -> None:
    """It becomes this target, which is valid, and nothing of it is undecided."""
    spec, expected = EXAMPLES[name]
    result = converted(scaled_object(spec))
    assert made(result) == expected
    assert list(made(result)) == [key for key in ORDER if key in expected]
    assert result.said(KeyOutcome.REFUSED) == {}
    for query in result.configuration.get("queries", {}).values():
        assert query in (QUERY, RATIO, "vector(0)", "sum(orders_waiting)")
        assert query != "sum(orders_waiting)" or "answers something" in name
    loaded(result, tmp_path)


ORDER = (
    *("syncPeriod", "minReplicas", "maxReplicas", "idle", "fallback", "paused", "schedules"),
    *("metrics", "behavior"),
)

NAMED = """\
minReplicaCount: 1
advanced:
  scalingModifiers: {{formula: '{formula}', target: "2", activationTarget: "1", metricType: {kind}}}
triggers:
- {{type: prometheus, name: one, metadata: {{serverAddress: http://p:9090, query: sum(a)}}}}
- type: prometheus
  name: two
  metadata: {{serverAddress: http://p:9090, query: b, threshold: "7", ignoreNullValues: "false"}}
- {{type: cpu, metricType: Utilization, metadata: {{value: "60"}}}}
"""


def test_a_formula_is_one_query(tmp_path: Path) -> None:
    """It is computed of all prometheus triggers; cpu stays a metric of its own."""
    spec = NAMED.format(formula="(one + two)/2", kind="AverageValue")
    spec = spec.replace("query: sum(a)", 'query: sum(a), threshold: "5"')
    result = converted(scaled_object(spec))
    assert result.configuration["queries"] == {"orders": "(((sum(a) or vector(0)) + sum(b)) / 2)"}
    (first, second) = made(result)["metrics"]
    assert first == average(value=2)
    assert second["type"] == "Resource"
    assert "# the formula (one + two)/2" in result.text
    assert result.said(KeyOutcome.REFUSED) == {}
    loaded(result, tmp_path)
    to_zero = converted(scaled_object(spec.replace("minReplicaCount: 1", "minReplicaCount: 0")))
    (first, _) = made(to_zero)["metrics"]
    assert first == {**average(value=2), "activation": 1}


SIGN_INS: dict[str, tuple[str, str, dict[str, object]]] = {
    "bearer": (
        ", authModes: bearer",
        secrets("bearerToken"),
        {"bearerTokenFile": "secrets/shop/tokens/bearerToken"},
    ),
    "bearer, and an authority of its own": (
        ", authModes: bearer",
        secrets("bearerToken", "ca"),
        {
            "bearerTokenFile": "secrets/shop/tokens/bearerToken",
            "tls": {"caFile": "secrets/shop/tokens/ca"},
        },
    ),
    "tls": (
        ", authModes: tls",
        secrets("ca", "cert", "key"),
        {
            "tls": {
                "caFile": "secrets/shop/tokens/ca",
                "certFile": "secrets/shop/tokens/cert",
                "keyFile": "secrets/shop/tokens/key",
            }
        },
    ),
    "basic": (
        ", authModes: basic",
        secrets("username", "password"),
        {
            "basicAuth": {
                "username": "the value of username",
                "passwordFile": "secrets/shop/tokens/password",
            }
        },
    ),
    "a header of its own": (
        ', authModes: "tls,custom"',
        secrets("ca", "cert", "key", "customAuthHeader", "customAuthValue"),
        {
            "tls": {
                "caFile": "secrets/shop/tokens/ca",
                "certFile": "secrets/shop/tokens/cert",
                "keyFile": "secrets/shop/tokens/key",
            },
            "headersFiles": {"X-Api-Key": "secrets/shop/tokens/customAuthValue"},
        },
    ),
    "Azure": (
        "",
        "{podIdentity: {provider: azure-workload, identityId: abc}}",
        {"azuread": {"workloadIdentity": {"clientId": "abc"}}},
    ),
    "Azure's government": (
        ", cloud: AzureUSGovernmentCloud",
        "{podIdentity: {provider: azure-workload}}",
        {"azuread": {"cloud": "AzureGovernment", "workloadIdentity": {}}},
    ),
    "Google": ("", "{podIdentity: {provider: gcp}}", {"googleIam": {}}),
    "Amazon": (
        ", awsRegion: eu-west-1, identityOwner: operator",
        "{podIdentity: {provider: aws, roleArn: 'arn:aws:iam::1:role/r'}}",
        {"sigv4": {"region": "eu-west-1", "roleArn": "arn:aws:iam::1:role/r"}},
    ),
    "Amazon by a key": (
        ", awsRegion: eu-west-1",
        secrets("awsAccessKeyID", "awsSecretAccessKey"),
        {
            "sigv4": {
                "region": "eu-west-1",
                "accessKey": "the value of awsAccessKeyID",
                "secretKeyFile": "secrets/shop/tokens/awsSecretAccessKey",
            }
        },
    ),
}


def read(secret: object) -> str:
    """Stand for a Secret that is read."""
    key = getattr(secret, "key", "")
    return "X-Api-Key" if key == "customAuthHeader" else f"the value of {key}"


@pytest.mark.parametrize("kind", ["TriggerAuthentication", "ClusterTriggerAuthentication"])
@pytest.mark.parametrize("name", SIGN_INS)
def test_a_way_to_sign_in(name: str, kind: str, tmp_path: Path) -> None:
    """Secrets are files of the server; names that are in a Secret are read where that is asked."""
    metadata, spec, expected = SIGN_INS[name]
    trigger = prometheus(metadata, f", authenticationRef: {{name: prom, kind: {kind}}}")
    trigger = trigger.replace("http:", "https:")
    documents = authentication(spec, kind), scaled_object("minReplicaCount: 1\n" + trigger)
    result = converted(*documents, options=Options(read_secret=read))
    if kind.startswith("Cluster"):
        # The Secrets of these are in KEDA's own namespace.
        expected = literal_eval(str(expected).replace("secrets/shop/", "secrets/keda/"))
    assert result.configuration["prometheus"] == {"url": "https://prometheus:9090", **expected}
    assert result.said(KeyOutcome.REFUSED) == {}
    files = {one.file for each in result.conversion.written for one in each.draft.secrets}
    assert files == {part for part in str(expected).split("'") if part.startswith("secrets/")}
    loaded(result, tmp_path)
    if "'username'" in str(expected) or "X-Api-Key" in str(expected):
        unread = converted(*documents)
        (why,) = unread.said(KeyOutcome.REFUSED).values()
        assert "which is not read: write it in `prometheus` in place of" in why
