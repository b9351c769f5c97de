"""Short ways to write a file of policy tests, and to run it."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from autoscaler.config import ConfigError
from autoscaler.config.problems import Problem
from autoscaler.lab.policy_tests.expectations import UnmetExpectation, unmet
from autoscaler.lab.policy_tests.loading import PolicyTestFile, load_tests
from autoscaler.lab.policy_tests.running import PolicyTestRun, TargetRun, run

QUEUE = """\
queries: {queue: sum(queue_length)}
targets:
- namespace: shop
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  minReplicas: 1
  maxReplicas: 20
  metrics:
  - type: External
    external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 30}}
"""
"""One worker for each 30 of a queue, with the HPA's defaults."""

_OTHER = QUEUE[QUEUE.index("- namespace") :].replace("worker", "b")
TWO_OF_A_QUEUE = QUEUE + _OTHER.replace("maxReplicas: 20", "maxReplicas: 9")
"""The same, and a second target `b` of the same queue, of 9 at most."""

WEB = """\
queries: {rps: "sum(rate(http_requests_total[2m])) by (namespace, pod)"}
targets:
- namespace: shop
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 50
  metrics:
  - type: Pods
    pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 10}}
"""
"""One pod for each 10 requests a second."""


def written(folder: Path, tests: str, config: str = QUEUE) -> Path:
    file = folder / "tests.yaml"
    file.write_text(config + textwrap.dedent(tests), encoding="utf-8")
    return file


def loaded(folder: Path, tests: str, config: str = QUEUE) -> PolicyTestFile:
    return load_tests(written(folder, tests, config))


def mistakes(folder: Path, tests: str, config: str = QUEUE) -> Sequence[Problem]:
    try:
        loaded(folder, tests, config)
    except ConfigError as error:
        return error.problems
    return ()


def ran(folder: Path, test: str, config: str = QUEUE) -> PolicyTestRun:
    entry = textwrap.indent(textwrap.dedent(test).strip(), "  ")
    (ready,) = loaded(folder, f"tests:\n- name: a test\n{entry}\n", config).tests
    return run(ready)


def only(of: PolicyTestRun) -> TargetRun:
    (found,) = of.targets.values()
    return found


def counts(folder: Path, test: str, config: str = QUEUE) -> list[int]:
    return [count.replicas for count in only(ran(folder, test, config)).counts]


def broken(folder: Path, test: str, config: str = QUEUE) -> list[UnmetExpectation]:
    """Return the expectations of the one test that do not hold."""
    return unmet(ran(folder, test, config))
