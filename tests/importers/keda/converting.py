"""Manifests of KEDA, converted without files and the command, and what came of them."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from autoscaler.config import load
from autoscaler.config.documents import documents, path_of
from autoscaler.migrate.configuration import configuration_of
from autoscaler.migrate.conversion import Conversion, convert
from autoscaler.migrate.fields import Fields, KeyOutcome
from autoscaler.migrate.manifests import Manifest
from autoscaler.migrate.options import ImportOptions

HEAD = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: orders, namespace: shop}
"""
REF = "scaleTargetRef: {name: order-worker}\n"
TARGET = {
    "namespace": "shop",
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "order-worker"},
}
"""How a target begins that `scaled_object` becomes."""


def scaled_object(spec: str, reference: str = REF) -> str:
    """Return a ScaledObject with a spec, in which the reference need not stand."""
    body = textwrap.indent(reference + textwrap.dedent(spec), "  ")
    return f"{HEAD}spec:\n{body}"


def prometheus(metadata: str = "", beside: str = "", *, query: str = "sum(orders_waiting)") -> str:
    """Return triggers: one of type prometheus, with further metadata and keys beside it."""
    keys = f"serverAddress: http://prometheus:9090, query: '{query}', threshold: \"30\""
    return f"triggers:\n- {{type: prometheus, metadata: {{{keys}{metadata}}}{beside}}}\n"


WHOLE = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: orders
  namespace: shop
  annotations: {autoscaling.keda.sh/paused-replicas: "3"}
spec:
  scaleTargetRef: {name: order-worker, kind: Deployment, envSourceContainerName: app}
  pollingInterval: 30
  cooldownPeriod: 300
  initialCooldownPeriod: 10
  idleReplicaCount: 0
  minReplicaCount: 1
  maxReplicaCount: 20
  fallback: {failureThreshold: 3, replicas: 6, behavior: static}
  advanced:
    restoreToOriginalReplicaCount: true
    horizontalPodAutoscalerConfig:
      name: keda-hpa
      behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
  triggers:
  - type: prometheus
    name: one
    metricType: AverageValue
    useCachedMetrics: false
    authenticationRef: {name: prom, kind: TriggerAuthentication}
    metadata:
      serverAddress: https://prometheus:9090
      query: sum(rate(a{job="x"}[2m])) / sum(b)
      threshold: "30"
      activationThreshold: "5"
      ignoreNullValues: "false"
      customHeaders: X-Scope-OrgID=shop
      queryParameters: a=b,c=d
      timeout: "1000"
      unsafeSsl: "true"
      authModes: tls,basic
      awsRegion: eu-west-1
      namespace: shop
  - {type: cpu, metadata: {value: "60", type: Utilization}}
  - {type: memory, metricType: AverageValue, metadata: {value: 1Gi, containerName: app}}
  - type: cron
    metadata: {start: 0 6 * * 1-5, end: 0 20 * * *, timezone: UTC, desiredReplicas: "3"}
  - {type: rabbitmq, metadata: {queueName: q, mode: QueueLength, value: "1"}}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: prom, namespace: shop}
spec:
  podIdentity: {provider: aws, roleArn: arn}
  secretTargetRef:
  - {parameter: username, name: s, key: k}
  - {parameter: ca, name: s, key: ca}
  hashiCorpVault: {secrets: [{parameter: password, path: p, key: k}]}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: composed}
spec:
  scaleTargetRef: {name: composed}
  advanced:
    scalingModifiers:
      formula: "count([one, two], {# > 1}) > 1 ? max(one, two) ** 2 : -(one + 3) / 2"
      target: "2"
      activationTarget: "1"
      metricType: Value
  triggers:
  - {type: prometheus, name: one, metadata: {serverAddress: http://p, query: a, threshold: "1"}}
  - {type: prometheus, name: two, metadata: {serverAddress: http://p, query: b, threshold: "1"}}
"""
"""Documents that have about all that is read."""


@dataclass(frozen=True)
class Converted:
    """What an import made."""

    conversion: Conversion
    text: str

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration as plain data."""
        return dict(yaml.safe_load(self.text))

    @property
    def target(self) -> dict[str, Any]:
        (target,) = self.configuration["targets"]
        return dict(target)

    def reasons(self, outcome: KeyOutcome) -> dict[str, str]:
        """Return the sentences of one outcome, by path, of all manifests."""
        return {
            path_of(entry.location): entry.why
            for manifest in self.conversion.imported
            for entry in manifest.entries
            if entry.outcome is outcome
        }

    @property
    def refusals(self) -> list[str]:
        """Why manifests were refused as a whole."""
        return [
            manifest.why
            for manifest in self.conversion.imported
            if manifest.state.value == "refused"
        ]


def converted(*texts: str, options: ImportOptions | None = None) -> Converted:
    """Convert the documents of some texts."""
    manifests = [
        Manifest(Fields(document.value), "test", number)
        for number, document in enumerate(documents("---\n".join(texts)), 1)
    ]
    conversion = convert(manifests, options or ImportOptions())
    return Converted(conversion, configuration_of(conversion, conversion.written).text)


def loaded(result: Converted, folder: Path) -> None:
    """Load the configuration as the daemon does, with a file for each secret; raises if wrong."""
    for manifest in result.conversion.written:
        for secret in manifest.draft.secrets:
            file = folder / secret.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("secret")
    path = folder / "autoscaler.yaml"
    path.write_text(result.text)
    load(path)
