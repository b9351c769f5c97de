"""What is expected is compared with what is so, and what is not is told with both."""

from pathlib import Path

import pytest

from autoscaler.lab.policy_tests.expectations import unmet
from autoscaler.lab.policy_tests.running import run
from tests.policy_tests.files import QUEUE, TWO_OF_A_QUEUE, broken, loaded, ran
from tests.tables import rows

UP = """
start: {replicas: 2, readyAfter: 20s}
series: {queue: 60x3 240x8}
"""
"""2, then 4 at a minute, and 8 a quarter of a minute later."""


EXPECTED = """
at: 45s, replicas: 2, ready: 2, proposal: 2, desired: 2 | -
at: 1m, replicas: 4, proposal: 8, desired: 4 | -
at: 74s, replicas: 4 | -
at: 1m15s, replicas: 8, proposal: 8 | -
at: 1m, replicas: 3 | at 1m: replicas: expected 3, got 4
at: 1m, proposal: 4 | at 1m: proposal: expected 4, got 8
at: 1m, desired: 8 | at 1m: desired: expected 8, got 4
at: 1m10s, ready: 2 | -
at: 1m22s, ready: 4 | -
at: 1m22s, ready: 8 | at 1m15s: ready: expected 8, got 4
at: 1m, limitedBy: ScaleUpLimit | -
at: 1m15s, limitedBy: nothing | -
at: 45s, limitedBy: TooFewReplicas | expected TooFewReplicas, got nothing
at: 1m, limitedBy: nothing | limitedBy: expected nothing, got ScaleUpLimit
at: 1m, reason: above target | -
at: 1m, reason: scaled 2 -> 4 | -
at: 1m, reason: below target | reason: expected below target, got scaled 2 -> 4
at: 1m, state: limited | -
at: 1m, state: ok | at 1m: state: expected ok, got limited
at: 1m, event: SuccessfulRescale | -
at: 45s, event: SuccessfulRescale | expected SuccessfulRescale, got no event
at: 1m, conditions: {AbleToScale: SucceededRescale, ScalingLimited: 'True'} | -
at: 1m, conditions: {ScalingLimited: 'False'}
    | conditions.ScalingLimited: expected False, got True / ScaleUpLimit
at: 1m, conditions: {Fallback: 'False'} | expected False, got nothing
at: 1m, above: 3, below: 5 | -
at: 1m, above: 4 | at 1m: above: expected above 4, got 4
from: 0s, to: 45s, replicas: 2, noChange: true | -
from: 0s, to: 1m, noChange: true | expected 2 all the time, got 2 -> 4
from: 1m1s, to: 1m10s, noChange: true | -
from: 1m15s, to: 2m45s, noChange: true | -
from: 0s, to: 2m45s, above: 1, below: 9 | -
from: 0s, to: 2m45s, below: 8 | at 1m15s: below: expected below 8, got 8
from: 0s, to: 2m45s, replicas: 2 | at 1m: replicas: expected 2, got 4
from: 0s, to: 2m45s, event: SuccessfulRescale | -
from: 0s, to: 2m45s, event: FailedRescale | expected FailedRescale, got SuccessfulRescale
"""


@pytest.mark.parametrize(("expected", "unmet_of_it"), rows(EXPECTED))
def test_what_is_expected_is_compared(expected: str, unmet_of_it: str, tmp_path: Path) -> None:
    found = broken(tmp_path, f"{UP}expect: [{{{expected}}}]\n")
    assert [unmet_of_it in text for text in found] == [True] * (unmet_of_it != "-")


def test_an_event_of_one_sync_is_not_one_of_the_time_after_it(tmp_path: Path) -> None:
    down = "events: [{at: 1m15s, for: 1m, down: true}]\n"
    expected = "expect: [{from: 1m15s, to: 1m45s, event: SuccessfulRescale}]\n"
    assert "got no event" in broken(tmp_path, f"{UP}{down}{expected}")[0]


@pytest.mark.parametrize(
    ("never", "unmet_of_it"),
    [
        ("{below: 2, above: 8, changesPer10m: 2}", ""),
        ("{below: 3}", "at 0s: replicas: expected never below 3, got 2"),
        ("{above: 7}", "at 1m15s: replicas: expected never above 7, got 8"),
        ("{changesPer10m: 1}", "expected no more than 1 change in 10 minutes, got 2"),
    ],
)
def test_never_is_looked_for_at_every_sync(never: str, unmet_of_it: str, tmp_path: Path) -> None:
    found = broken(tmp_path, f"{UP}never: {never}\n")
    assert [unmet_of_it in text for text in found] == ([True] if unmet_of_it else [])


def test_changes_are_ours_and_of_ten_minutes(tmp_path: Path) -> None:
    test = """
        start: {replicas: 2}
        series: {queue: 60x3 120x39 240x40}
        events: [{at: 5m, setReplicas: 5}]
        never: {changesPer10m: 1}
    """
    found = broken(tmp_path, test, f"downscaleStabilization: 0s\n{QUEUE}")
    # At 1m, 5m (back to 4) and 11m: the last two are within ten minutes, as the first two are.
    assert found == ["at 5m: changes: expected no more than 1 change in 10 minutes, got 2"]
    assert broken(tmp_path, test.replace("changesPer10m: 1", "changesPer10m: 2")) == []


def test_what_never_happens_in_a_file_holds_for_each_of_its_tests(tmp_path: Path) -> None:
    test = "- {name: a, start: {replicas: 2}, series: {queue: 60}, never: {above: 1}}\n"
    (ready,) = loaded(tmp_path, f"never: {{below: 3}}\ntests:\n{test}").tests
    places = [expectation.location for expectation in unmet(run(ready))]
    assert places == [("never", "below"), ("tests", 0, "never", "above")]


def test_of_several_targets_some_may_be_meant(tmp_path: Path) -> None:
    test = """
        target: shop/*
        workloads: [{target: shop/b, replicas: 1}]
        start: {replicas: 10}
        series: {queue: 300x8}
        expect:
        - {at: 2m, target: shop/b, replicas: 9}
        - {at: 2m, target: shop/worker, replicas: 10}
        - {at: 2m, replicas: 10}
    """
    found = [
        (expectation.run.target.key, expectation.got)
        for expectation in unmet(ran(tmp_path, test, TWO_OF_A_QUEUE))
    ]
    assert found == [("shop/Deployment/b", "9")]
