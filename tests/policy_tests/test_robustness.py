"""Any file of tests runs or is refused with messages: never a traceback."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from autoscaler.config import ConfigError
from autoscaler.config.documents import Location, Value, read
from autoscaler.lab.policy_tests import running
from autoscaler.lab.policy_tests.expectations import unmet
from autoscaler.lab.policy_tests.loading import load_tests
from autoscaler.lab.policy_tests.running import TooLargeTestError, run
from autoscaler.lab.policy_tests.settings import ReadyTest
from tests.config.test_robustness import VALUES, with_value
from tests.places import places
from tests.policy_tests.files import WEB, ran

DOCUMENT = """
queries: {queue: sum(queue_length)}
targets:
- namespace: shop
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  maxReplicas: 20
  metrics:
  - type: External
    external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 30}}
interval: 15s
never: {above: 20, below: 1, changesPer10m: 4}
tests:
- name: all keys
  target: shop/worker
  start: {at: "2026-01-05T00:00:00Z", replicas: 2, readyAfter: 30s, requests: {cpu: 1}}
  workloads: [{target: shop/*, replicas: 3}]
  interval: 15s
  duration: 5m
  series: {queue: 10+5x8 _ stale}
  loads: [{metric: queue, model: shared, capacity: 30}]
  events:
  - {at: 1m, for: 1m, target: "*", query: queue, queryFails: timeout}
  - {at: 1m, for: 1m, partial: w, writeFails: w, unreadable: u, controlledBy: c, readyAfter: 5s}
  - {at: 2m, setReplicas: 5, by: me, restart: true, loseState: true, takeover: true}
  - {at: 3m, for: 30s, down: true, annotations: {autoscaler/paused: "true"}}
  expect:
  - {at: 1m, replicas: 1, ready: 1, proposal: 1, desired: 1, reason: a, limitedBy: nothing}
  - {from: 1m, to: 2m, above: 1, below: 9, noChange: true, event: FailedRescale, state: ok}
  - {at: 1m, target: shop/worker, conditions: {AbleToScale: "True"}}
"""


def document() -> JsonValue:
    value: Value = read(DOCUMENT, lambda *_: None)
    plain: JsonValue = json.loads(json.dumps(value))
    return plain


PLACES = [place for place in places(document()) if place]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_at_any_place_is_accepted_or_refused(
    tmp_path: Path, place: Location, value: JsonValue
) -> None:
    file = tmp_path / "tests.yaml"
    text = json.dumps(with_value(document(), place, value))
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    tests: Sequence[ReadyTest] = ()
    refused = None
    try:
        tests = load_tests(file).tests
    except ConfigError as error:
        refused = error
    assert tests or (refused is not None and all(problem.message for problem in refused.problems))
    for test in tests:
        for expectation in unmet(run(test)):
            assert expectation.sentence


def test_the_document_has_every_key(tmp_path: Path) -> None:
    file = tmp_path / "tests.yaml"
    file.write_text(DOCUMENT)
    (test,) = load_tests(file).tests
    assert unmet(run(test))


def test_a_run_has_a_limit_of_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MOST_SAMPLES_OF_PODS", 100)
    test = "start: {replicas: 30}\nseries: {rps: 10x20}\nnever: {above: 50}"
    with pytest.raises(TooLargeTestError, match="more than 100 samples"):
        ran(tmp_path, test, WEB)
