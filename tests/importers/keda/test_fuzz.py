"""Whatever a ScaledObject is made of, it is converted or refused, at once."""

import copy
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from autoscaler.documents import Value
from autoscaler.importers.configuration import configuration_of
from autoscaler.importers.conversion import Options, convert
from autoscaler.importers.fields import Fields
from autoscaler.importers.manifests import Manifest

_DOCUMENTS = 300
"""Of each seed, 5 ms each."""
_SECONDS = 0.05
"""The most for one document; of this machine's own delays a second try is free."""

SCALED_OBJECT: dict[str, Value] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {
        "name": "orders",
        "namespace": "shop",
        "annotations": {"autoscaling.keda.sh/paused-replicas": "3"},
    },
    "spec": {
        "scaleTargetRef": {"name": "worker", "kind": "Deployment"},
        "pollingInterval": 30,
        "cooldownPeriod": 300,
        "initialCooldownPeriod": 10,
        "idleReplicaCount": 0,
        "minReplicaCount": 1,
        "maxReplicaCount": 20,
        "fallback": {"failureThreshold": 3, "replicas": 6, "behavior": "static"},
        "advanced": {
            "restoreToOriginalReplicaCount": True,
            "horizontalPodAutoscalerConfig": {"name": "x", "behavior": {"scaleDown": {}}},
            "scalingModifiers": {
                "formula": "count([one, two], {# > 1}) > 1 ? max(one, two) ** 2 : -(one + 3) / 2",
                "target": "2",
                "activationTarget": "1",
                "metricType": "Value",
            },
        },
        "triggers": [
            {
                "type": "prometheus",
                "name": "one",
                "metricType": "AverageValue",
                "useCachedMetrics": False,
                "authenticationRef": {"name": "prom", "kind": "TriggerAuthentication"},
                "metadata": {
                    "serverAddress": "https://prometheus:9090",
                    "query": 'sum(rate(a{job="x"}[2m])) / sum(b)',
                    "threshold": "30",
                    "activationThreshold": "5",
                    "ignoreNullValues": "false",
                    "customHeaders": "X-Scope-OrgID=shop,X-Key=1",
                    "queryParameters": "a=b,c=d",
                    "timeout": "1000",
                    "unsafeSsl": "true",
                    "authModes": "tls,basic",
                    "awsRegion": "eu-west-1",
                    "namespace": "shop",
                },
            },
            {
                "type": "prometheus",
                "name": "two",
                "metadata": {"serverAddress": "http://p", "query": "b", "threshold": "1"},
            },
            {"type": "cpu", "metadata": {"value": "60", "type": "Utilization"}},
            {
                "type": "cron",
                "metadata": {
                    "start": "0 6 * * 1-5",
                    "end": "0 20 * * *",
                    "timezone": "UTC",
                    "desiredReplicas": "3",
                },
            },
            {
                "type": "rabbitmq",
                "metadata": {"queueName": "q", "mode": "QueueLength", "value": "1"},
            },
        ],
    },
}
AUTHENTICATION: dict[str, Value] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "TriggerAuthentication",
    "metadata": {"name": "prom", "namespace": "shop"},
    "spec": {
        "podIdentity": {"provider": "aws", "roleArn": "arn"},
        "secretTargetRef": [{"parameter": "username", "name": "s", "key": "k"}],
        "hashiCorpVault": {"secrets": [{"parameter": "password", "path": "p", "key": "k"}]},
    },
}
VALUES: tuple[Any, ...] = (
    *(None, "", " ", 0, -1, 1, 2**40, 0.5, 1e308, True, False, [], {}, [[]], {"a": {"b": []}}),
    *("${X}", "{{ .Values.x }}", "<x>", "x" * 5_000, "\0", "é", "$A", "=,=", ",", "a=b=c"),
    *("(" * 500, "[" * 500, "sum(" * 400, '"' * 999, "one ** " * 100 + "one", "a?" * 200),
    *("* * * * *", "*/1 */1 * * */1", "0-59/1 0-23 * * 0-6", "@daily", "1 2 3 4 5", "nan", "inf"),
    *("http://", "http://[", "https://a:b@c", "1_0", "1e400", "0x10", "9" * 300, "=" * 3_000),
)


def places(value: Value) -> Iterator[tuple[dict[str, Value] | list[Value], str | int]]:
    """Yield each place in a document: the collection, and the key or position."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value if isinstance(value, list) else ())
    )
    for key, inner in pairs:
        yield value, key  # type: ignore[misc]
        yield from places(inner)


def mutate(document: Value, chance: random.Random) -> None:
    """Change some places of a document: another value, one of another place, or none."""
    for _ in range(chance.randint(1, 4)):
        every = list(places(document)) or [({"": None}, "")]
        collection, key = chance.choice(every)
        match chance.randrange(4):
            case 0:
                collection[key] = copy.deepcopy(chance.choice(VALUES))  # type: ignore[index]
            case 1:
                other, place = chance.choice(every)
                collection[key] = copy.deepcopy(other[place])  # type: ignore[index]
            case 2:
                del collection[key]  # type: ignore[arg-type]
            case _:
                value = collection[key]  # type: ignore[index]
                if isinstance(value, str) and value:
                    at = chance.randrange(len(value))
                    collection[key] = value[:at] + chance.choice("()[]{}\"'#:,=*/ \n9") + value[at:]  # type: ignore[index]


@pytest.mark.parametrize("seed", range(2))
def test_documents_that_are_wrong_in_any_way(seed: int) -> None:
    """Each is converted or refused without an exception, within 50 ms."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    slowest = 0.0
    for _ in range(_DOCUMENTS):
        documents = [copy.deepcopy(one) for one in (AUTHENTICATION, SCALED_OBJECT)]
        for document in documents:
            whole = {key: document.pop(key) for key in ("apiVersion", "kind")}
            mutate(document, chance)
            document.update(whole)
        if chance.random() < 0.5:
            advanced = documents[1].get("spec")
            if isinstance(advanced, dict):
                advanced.pop("advanced", None)

        def run(documents: list[dict[str, Value]] = documents) -> float:
            manifests = [Manifest(Fields(one), "fuzz", 1) for one in copy.deepcopy(documents)]
            begin = time.thread_time()
            conversion = convert(manifests, Options(partial=True))
            assert configuration_of(conversion, conversion.written).text
            return time.thread_time() - begin

        took = run()
        slowest = max(slowest, took if took < _SECONDS else min(took, run()))
    assert slowest < _SECONDS
