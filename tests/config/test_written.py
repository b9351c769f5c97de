"""The configuration in force: written again it is the same target."""

from pathlib import Path

import pytest
import yaml

from autoscaler.config import load
from autoscaler.config.written import as_written
from tests.config.documents import loaded

EXAMPLES = sorted(Path("config").glob("*.yaml"))
FULL = """
prometheus: {url: http://prometheus:9090, servers: {mimir: {url: http://mimir}}}
queries:
  queue: {query: sum(queue), server: mimir, window: 5m, maxAge: 90s, empty: zero, nan: zero}
  rps: {query: sum by (pod) (rps), labels: {pod: instance}, partial: use}
resourceQueries: {example.com/gpu: 'sum by (namespace, pod, container) (gpu)'}
syncPeriod: 30s
targets:
- namespace: shop
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}
  minReplicas: 1
  maxReplicas: 20
  minReplicasQuery: {query: min, server: mimir}
  maxReplicasQuery: {query: max, maxAge: 1h}
  holdScaleDownQuery: {name: rps, selector: {matchLabels: {tier: a}}}
  ignoreSurge: true
  idle: {replicas: 0, after: 10m, initially: 1m}
  fallback: {replicas: 6, failureThreshold: 5, behavior: currentReplicasIfHigher}
  paused: scaleDown
  schedules:
  - {name: day, start: 0 8 * * 1-5, end: 0 18 * * 1-5, timezone: Europe/Berlin, minReplicas: 4}
  - {name: night, start: 0 22 * * *, end: 0 4 * * *, maxReplicas: 3, gradual: true}
  metrics:
  - type: External
    activation: "-500u"
    external:
      metric:
        name: queue
        selector:
          matchLabels: {queue: orders}
          matchExpressions: [{key: tier, operator: In, values: [a, b]}]
      target: {type: AverageValue, averageValue: 1500m}
  - type: Pods
    pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 1k}}
  - type: Object
    object:
      describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}
      metric: {name: queue}
      target: {type: Value, value: 2Gi}
  - type: ContainerResource
    containerResource:
      name: example.com/gpu
      container: app
      target: {type: AverageValue, averageValue: 2}
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
  behavior:
    scaleUp: {policies: [{type: Pods, value: 3, periodSeconds: 60}], tolerance: 0.05}
    scaleDown: {selectPolicy: Disabled, stabilizationWindowSeconds: 600}
"""


def rewritten(folder: Path, file: Path) -> None:
    """Fail unless the targets of a file, written into another one, are the same."""
    config, document = load(file), yaml.safe_load(file.read_text())
    kept = {key: document[key] for key in ("prometheus",)}
    kept["targets"] = [as_written(one) for one in config.targets]
    again = loaded(folder, yaml.safe_dump(kept))
    assert again.targets == config.targets


@pytest.mark.parametrize("file", EXAMPLES, ids=str)
def test_an_example_is_the_same(tmp_path: Path, file: Path) -> None:
    """Each file of config/."""
    if "prometheus" in yaml.safe_load(file.read_text()):
        rewritten(tmp_path, file)


def test_every_setting_of_a_target_is_the_same(tmp_path: Path) -> None:
    """All metrics, queries and extensions."""
    file = tmp_path / "full.yaml"
    file.write_text(FULL)
    rewritten(tmp_path, file)


@pytest.mark.parametrize("paused", ["true", "scaleUp", "{replicas: 2}"])
def test_a_pause_is_the_same(tmp_path: Path, paused: str) -> None:
    """In each of its forms."""
    file = tmp_path / "full.yaml"
    file.write_text(FULL.replace("paused: scaleDown", f"paused: {paused}"))
    rewritten(tmp_path, file)
