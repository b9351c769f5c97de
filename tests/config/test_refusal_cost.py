"""What a refused configuration costs the daemon that reads it, whatever is in a file."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.config.documents import PROMETHEUS, QUERIES, REF

MOST_MEBIBYTES = 150
MOST_SECONDS = 2.0
"""The longest time in which no other thread could run."""

GOOD = f"{PROMETHEUS}{QUERIES}"
ROW = f"namespace: shop, maxReplicas: 3, {REF.strip()}"
METRIC = "{type: External, external: {metric: {name: rps}, target: {type: Value, value: 1}}}"
LARGE = """\
- namespace: team-%d
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  minReplicas: 2
  maxReplicas: 40
  metrics:
  - type: External
    external:
      metric: {name: queue_length, selector: {matchLabels: {queue: orders, vhost: shop}}}
      target: {type: AverageValue, averageValue: 30}
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}
  - type: Resource
    resource: {name: memory, target: {type: Utilization, averageUtilization: 70}}
  - type: Pods
    pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 20}}
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
      policies:
      - {type: Percent, value: 100, periodSeconds: 15}
      - {type: Pods, value: 4, periodSeconds: 15}
    scaleDown:
      stabilizationWindowSeconds: 300
      policies: [{type: Percent, value: 10, periodSeconds: 60}]
  fallback: {replicas: 6, failureThreshold: 3}
  schedules:
  - {name: office, start: 0 8 * * 1-5, end: 0 18 * * 1-5, timezone: Europe/Berlin, minReplicas: 4}
"""
TOO_LARGE = "the configuration takes more than 72 MiB of memory"
MEGA = 2**20


def numbered(form: str, count: int) -> str:
    """Return the form with each number up to the count."""
    return "".join(form % number for number in range(count))


FILES: dict[str, tuple[Callable[[], str], str]] = {
    "thousands of targets and a mistake": (
        lambda: f"{GOOD}targets:\n{numbered(LARGE, 2500)}- {{{ROW}, maxReplica: 3}}\n",
        "targets[2500].maxReplica: is not known here",
    ),
    "small mappings": (lambda: f"{GOOD}targets:\n" + "- {a: 1}\n" * (7 * MEGA // 9), TOO_LARGE),
    "keys": (
        lambda: f"{GOOD}x-a:\n" + numbered("  k%d:\n", 10**6),
        "a target, or a key at the top, has more than 200,000 keys and values",
    ),
    "aliases of metrics": (
        lambda: (
            f"{GOOD}targets:\n- &a\n  {{{ROW}, metrics: &m [{', '.join([METRIC] * 100)}]}}\n"
            + numbered("- {<<: *a, namespace: n%d}\n", 800)
            + "- 5\n"
        ),
        "targets[801]: must be a mapping",
    ),
    "a text": (
        lambda: f"{GOOD}targets: {'x' * (15 * MEGA)}\U0001f600\n",
        "no key and no value ends in 4 MiB",
    ),
    "a key": (lambda: f"? {'k' * (3 * MEGA)}\n: 1\n", "may have 65,536"),
    "empty lines before what is no YAML": (
        lambda: f"{GOOD}targets:\n" + ("\n" * 3 * MEGA + "- {}\n") * 5 + "- [",
        "not YAML",
    ),
    "levels": (lambda: f"{GOOD}targets: {'[' * 10**7}", "more than 40 deep"),
    "directives": (
        lambda: numbered("%%TAG !a%d! x\n", 10**6 // 2) + f"---\n{GOOD}",
        "more than 100 lines begin with %",
    ),
    "documents": (
        lambda: "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n---\n" * 100_000,
        "this is a Kubernetes manifest (ConfigMap)",
    ),
    "mistakes that are deep": (
        lambda: (
            f"{GOOD}x-a:\n"
            + "".join(f"{'  ' * number}{'a' * 190}:\n" for number in range(1, 38))
            + f"{'  ' * 38}k: 1\n" * 20_001
        ),
        "duplicate key",
    ),
    "names that are unknown": (
        lambda: (
            f"{PROMETHEUS}queries: {{{numbered('query%d: up, ', 10_000)}}}\ntargets:\n"
            + numbered(f"- {{{ROW}, metrics: [{METRIC.replace('rps', 'query%dx')}]}}\n", 1500)
        ),
        "did you mean `query0`?",
    ),
    "entries of include": (
        lambda: f"{GOOD}targets: []\ninclude: [{numbered('a%d, ', 150_000)}]\n",
        "must name a file",
    ),
}


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Load all files, each in a process of its own."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "good.yaml").write_text(f"{GOOD}targets:\n- {{{ROW}, metrics: [{METRIC}]}}\n")
    for number, (make, _) in enumerate(FILES.values()):
        (folder / f"{number}.yaml").write_text(make(), encoding="utf-8")
    paths = [folder / "good.yaml", *(folder / f"{number}.yaml" for number in range(len(FILES)))]
    command = [sys.executable, "-m", "tests.config.loading_cost", *map(str, paths)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for path in paths:
        path.unlink()
    return dict(zip(FILES, map(json.loads, output.splitlines()), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_a_refusal_costs_little(costs: dict[str, dict[str, object]], name: str) -> None:
    """It takes at most 150 MiB of memory, and syncs may run within 2 s at any time of it."""
    cost = costs[name]
    assert FILES[name][1] in str(cost["first"])
    assert cost["mebibytes"] <= MOST_MEBIBYTES  # type: ignore[operator]
    assert cost["longest"] <= MOST_SECONDS  # type: ignore[operator]
    assert cost["seconds"] <= 25  # type: ignore[operator]
