"""Examples of KEDA's documentation, and the configurations that they become."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.migrate.fields import KeyOutcome
from tests.importers.keda.converting import (
    TARGET,
    Converted,
    converted,
    loaded,
    prometheus,
    scaled_object,
)
from tests.tables import rows

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
    return AUTHENTICATION.format(kind=kind, spec=spec)


def secrets(*parameters: str) -> str:
    """Return a spec whose parameters are the keys of the same name of the Secret tokens."""
    listed = (
        f"{{parameter: {parameter}, name: tokens, key: {parameter}}}" for parameter in parameters
    )
    return f"{{secretTargetRef: [{', '.join(listed)}]}}"


AVERAGE = "{type: External, external: {metric: {name: %s}, target: {type: AverageValue, %s}}}"
BY_30 = f"metrics: [{AVERAGE % ('orders', 'averageValue: 30')}]"
BY_VALUE = BY_30.replace("AverageValue", "Value").replace("averageValue", "value")
ZERO = AVERAGE % ("always-zero", "averageValue: 1")
CPU = '{type: cpu, metricType: Utilization, metadata: {value: "60"}}'
OF_60 = "target: {type: Utilization, averageUtilization: 60}"
CPU_60 = f"{{type: Resource, resource: {{name: cpu, {OF_60}}}}}"
MEMORY = "{type: memory, metricType: AverageValue, metadata: {value: 500Mi, containerName: app}}"
OF_500 = "target: {type: AverageValue, averageValue: 500Mi}"
MEMORY_500 = f"{{name: memory, container: app, {OF_500}}}"
FROM_6_TO_20 = "start: 0 6 * * *, end: 0 20 * * *"
CRON = f'{{type: cron, metadata: {{timezone: %s, {FROM_6_TO_20}, desiredReplicas: "%s"}}}}'
WINDOW = f"schedules: [{{name: %s, {FROM_6_TO_20}, %sminReplicas: %s, gradual: true}}]"


def made(result: Converted) -> dict[str, Any]:
    """Return the one target of a configuration, without what all of them begin with."""
    target = result.target
    assert {key: target[key] for key in TARGET} == TARGET
    return {key: value for key, value in target.items() if key not in TARGET}


ONE = "minReplicaCount: 1\n"
IDLE = "idle: {replicas: 0}\n"
EXAMPLES = {
    "a query": (ONE + prometheus(), BY_30),
    "a ratio, which is NaN at times": (
        ONE + prometheus(query="sum(a) / sum(b)", beside=", metricType: Value"),
        BY_VALUE,
    ),
    "to zero": (
        "minReplicaCount: 0\nmaxReplicaCount: 20\ncooldownPeriod: 60\ninitialCooldownPeriod: 120\n"
        + prometheus(', activationThreshold: "5"'),
        f"maxReplicas: 20\nidle: {{after: 60s, initially: 120s}}\n{BY_30[:-2]}, activation: 5}}]",
    ),
    "the default minimum is zero": (prometheus(), IDLE + BY_30),
    "to an idle count": (
        "minReplicaCount: 5\nidleReplicaCount: 2\n" + prometheus(),
        f"minReplicas: 5\nidle: {{replicas: 2}}\n{BY_30}",
    ),
    "to an idle count of zero beside a minimum that is written as zero": (
        "minReplicaCount: 0\nidleReplicaCount: 0\n" + prometheus(),
        IDLE + BY_30,
    ),
    **{
        f"polled every {seconds} s": (
            f"{ONE}pollingInterval: {seconds}\n"
            + prometheus(beside=f", useCachedMetrics: {cached}"),
            BY_30,
        )
        for seconds, cached in ((5, "false"), (15, "true"), (60, "false"), (60, "true"))
    },
    "a fallback": (
        f"{ONE}fallback: {{failureThreshold: 4, replicas: 6, behavior: currentReplicas}}\n"
        + prometheus(),
        f"fallback: {{replicas: 6, failureThreshold: 4, behavior: currentReplicas}}\n{BY_30}",
    ),
    "held at a value": (ONE + prometheus(beside=", metricType: Value"), BY_VALUE),
    "cpu": (f"{ONE}triggers: [{CPU}]\n", f"metrics: [{CPU_60}]"),
    "memory of a container": (
        f"{ONE}triggers: [{MEMORY}]\n",
        f"metrics: [{{type: ContainerResource, containerResource: {MEMORY_500}}}]",
    ),
    "office hours": (
        f"triggers: [{CRON % ('Asia/Kolkata', 10)}]\n",
        IDLE + WINDOW % ("cron-0", "timezone: Asia/Kolkata, ", 10) + f"\nmetrics: [{ZERO}]",
    ),
    "office hours beside cpu": (
        f"{ONE}triggers: [{CPU}, {CRON % ('UTC', 3)}]\n",
        f"{WINDOW % ('cron-1', '', 3)}\nmetrics: [{CPU_60}]",
    ),
    "office hours beside cpu, to zero": (
        f"triggers: [{CPU}, {CRON % ('UTC', 1)}]\n",
        IDLE + WINDOW % ("cron-1", "", 1) + f"\nmetrics: [{CPU_60}, {ZERO}]",
    ),
    "a query that answers something": (ONE + prometheus(", ignoreNullValues: 'false'"), BY_30),
    "how fast": (
        f"{ONE}advanced:\n  horizontalPodAutoscalerConfig:\n    name: keda-hpa\n"
        "    behavior: {scaleDown: {stabilizationWindowSeconds: 60}}\n" + prometheus(),
        f"{BY_30}\nbehavior: {{scaleDown: {{stabilizationWindowSeconds: 60}}}}",
    ),
}
"""ScaledObjects, and the targets that they become; maxReplicas is 100 by default."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_documented_example_becomes_its_target(name: str, tmp_path: Path) -> None:
    spec, target = EXAMPLES[name]
    expected = {"maxReplicas": 100, **yaml.safe_load(target)}
    result = converted(scaled_object(spec))
    assert made(result) == expected
    assert list(made(result)) == [key for key in ORDER if key in expected]
    assert result.reasons(KeyOutcome.REFUSED) == {}
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
    spec = NAMED.format(formula="(one + two)/2", kind="AverageValue")
    spec = spec.replace("query: sum(a)", 'query: sum(a), threshold: "5"')
    result = converted(scaled_object(spec))
    assert result.configuration["queries"] == {"orders": "(((sum(a) or vector(0)) + sum(b)) / 2)"}
    (first, second) = made(result)["metrics"]
    assert first == yaml.safe_load(AVERAGE % ("orders", "averageValue: 2"))
    assert second["type"] == "Resource"
    assert "# the formula (one + two)/2" in result.text
    assert result.reasons(KeyOutcome.REFUSED) == {}
    loaded(result, tmp_path)
    to_zero = converted(scaled_object(spec.replace("minReplicaCount: 1", "minReplicaCount: 0")))
    assert made(to_zero)["metrics"][0] == {**first, "activation": 1}


SIGN_INS = """
bearer | , authModes: bearer | bearerToken | {bearerTokenFile: IN/bearerToken}
bearer, and an authority of its own | , authModes: bearer | bearerToken ca
    | {bearerTokenFile: IN/bearerToken, tls: {caFile: IN/ca}}
tls | , authModes: tls | ca cert key | {tls: OF_TLS}
basic | , authModes: basic | username password
    | {basicAuth: {username: USERNAME, passwordFile: IN/password}}
a header of its own | , authModes: "tls,custom" | ca cert key customAuthHeader customAuthValue
    | {tls: OF_TLS, headersFiles: {HEADER-NAME: IN/customAuthValue}}
Azure | - | {podIdentity: {provider: azure-workload, identityId: abc}}
    | {azuread: {workloadIdentity: {clientId: abc}}}
Azure's government | , cloud: AzureUSGovernmentCloud | {podIdentity: {provider: azure-workload}}
    | {azuread: {cloud: AzureGovernment, workloadIdentity: {}}}
Google | - | {podIdentity: {provider: gcp}} | {googleIam: {}}
Amazon | , awsRegion: eu-west-1, identityOwner: operator
    | {podIdentity: {provider: aws, roleArn: 'arn:aws:iam::1:role/r'}}
    | {sigv4: {region: eu-west-1, roleArn: 'arn:aws:iam::1:role/r'}}
Amazon by a key | , awsRegion: eu-west-1 | awsAccessKeyID awsSecretAccessKey
    | {sigv4: {region: eu-west-1, accessKey: ACCESS-KEY, secretKeyFile: IN/awsSecretAccessKey}}
"""
"""What a trigger and its authentication, or a Secret with these keys, have, and then the server."""
OF_TLS = "{caFile: IN/ca, certFile: IN/cert, keyFile: IN/key}"
"""What a trigger and its authentication have, and what the server has then."""
UNREAD = ("USERNAME", "HEADER-NAME", "ACCESS-KEY")


@pytest.mark.parametrize("kind", ["TriggerAuthentication", "ClusterTriggerAuthentication"])
@pytest.mark.parametrize(
    ("metadata", "spec", "server"),
    [pytest.param(*row, id=name) for name, *row in rows(SIGN_INS)],
)
def test_a_sign_in_becomes_settings_and_files_of_the_server(
    metadata: str, spec: str, server: str, kind: str, tmp_path: Path
) -> None:
    # The Secrets of clusters are in KEDA's own namespace.
    namespace = "keda" if kind.startswith("Cluster") else "shop"
    server = server.replace("OF_TLS", OF_TLS).replace("IN/", f"secrets/{namespace}/tokens/")
    trigger = prometheus(metadata.strip("-"), f", authenticationRef: {{name: prom, kind: {kind}}}")
    trigger = trigger.replace("http:", "https:")
    given = spec if spec.startswith("{") else secrets(*spec.split())
    result = converted(authentication(given, kind), scaled_object(ONE + trigger))
    expected = yaml.safe_load(server)
    assert result.configuration["prometheus"] == {"url": "https://prometheus:9090", **expected}
    unread = "which is not read: write it in `prometheus` in place of"
    refused = list(result.reasons(KeyOutcome.REFUSED).values())
    assert [unread in why for why in refused] == [True] * any(item in server for item in UNREAD)
    files = {secret.file for each in result.conversion.written for secret in each.draft.secrets}
    assert files == set(re.findall(r"secrets/[\w/]+", server))
    if not refused:
        loaded(result, tmp_path)
