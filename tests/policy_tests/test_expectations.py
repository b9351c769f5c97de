"""Expectations are compared with a run; those that are not met have both values."""

from pathlib import Path

import pytest

from autoscaler.config.durations import format_seconds
from autoscaler.lab.policy_tests.expectations import UnmetExpectation, unmet
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
at: 1m, replicas: 3 | 1m | replicas | 3 | 4
at: 1m, proposal: 4 | 1m | proposal | 4 | 8
at: 1m, desired: 8 | 1m | desired | 8 | 4
at: 1m10s, ready: 2 | -
at: 1m22s, ready: 4 | -
at: 1m22s, ready: 8 | 1m15s | ready | 8 | 4
at: 1m, limitedBy: ScaleUpLimit | -
at: 1m15s, limitedBy: nothing | -
at: 45s, limitedBy: TooFewReplicas | 45s | limitedBy | TooFewReplicas | nothing
at: 1m, limitedBy: nothing | 1m | limitedBy | nothing | ScaleUpLimit
at: 1m, reason: above target | -
at: 1m, reason: scaled 2 -> 4 | -
at: 1m, reason: below target | 1m | reason | below target | scaled 2 -> 4
at: 1m, state: limited | -
at: 1m, state: ok | 1m | state | ok | limited
at: 1m, event: SuccessfulRescale | -
at: 45s, event: SuccessfulRescale | 45s | event | SuccessfulRescale | no event
at: 1m, conditions: {AbleToScale: SucceededRescale, ScalingLimited: 'True'} | -
at: 1m, conditions: {ScalingLimited: 'False'}
    | 1m | conditions.ScalingLimited | False | True / ScaleUpLimit
at: 1m, conditions: {Fallback: 'False'} | 1m | conditions.Fallback | False | nothing
at: 1m, above: 3, below: 5 | -
at: 1m, above: 4 | 1m | above | above 4 | 4
from: 0s, to: 45s, replicas: 2, noChange: true | -
from: 0s, to: 1m, noChange: true | 1m | replicas | 2 | 2 -> 4
from: 1m1s, to: 1m10s, noChange: true | -
from: 1m15s, to: 2m45s, noChange: true | -
from: 0s, to: 2m45s, above: 1, below: 9 | -
from: 0s, to: 2m45s, below: 8 | 1m15s | below | below 8 | 8
from: 0s, to: 2m45s, replicas: 2 | 1m | replicas | 2 | 4
from: 0s, to: 2m45s, event: SuccessfulRescale | -
from: 0s, to: 2m45s, event: FailedRescale
    | 2m45s | event | FailedRescale | SuccessfulRescale
"""


@pytest.mark.parametrize("row", rows(EXPECTED), ids=lambda row: row[0])
def test_an_expectation_is_compared_with_the_run(row: list[str], tmp_path: Path) -> None:
    expected, *parts = row
    found = [fields_of(item) for item in broken(tmp_path, f"{UP}expect: [{{{expected}}}]\n")]
    assert found == ([] if parts == ["-"] else [parts])


def fields_of(expectation: UnmetExpectation) -> list[str]:
    """Return the time, the field, and both values without what explains them."""
    expected, got = expectation.expected.partition(" all ")[0], expectation.got.partition(":")[0]
    return [format_seconds(expectation.time), expectation.what, expected, got]


def test_the_sentence_has_time_target_and_both_values(tmp_path: Path) -> None:
    (expectation,) = broken(tmp_path, f"{UP}expect: [{{at: 1m, replicas: 3}}]\n")
    target = "shop/Deployment/worker"
    assert expectation.sentence == f"at 1m {target}: replicas: expected 3, got 4"


def test_an_event_of_one_sync_is_not_one_of_the_time_after_it(tmp_path: Path) -> None:
    down = "events: [{at: 1m15s, for: 1m, down: true}]\n"
    expected = "expect: [{from: 1m15s, to: 1m45s, event: SuccessfulRescale}]\n"
    assert broken(tmp_path, f"{UP}{down}{expected}")[0].got == "no event"


@pytest.mark.parametrize(
    ("never", "key", "got"),
    [
        ("{below: 2, above: 8, changesPer10m: 2}", None, []),
        ("{below: 3}", "below", [(0.0, "2")]),
        ("{above: 7}", "above", [(75.0, "8")]),
        ("{changesPer10m: 1}", "changesPer10m", [(75.0, "2")]),
    ],
)
def test_never_is_checked_at_every_sync(
    never: str, key: str | None, got: list[tuple[float, str]], tmp_path: Path
) -> None:
    found = broken(tmp_path, f"{UP}never: {never}\n")
    assert [(unmet.time, unmet.got) for unmet in found] == got
    assert all(unmet.location == ("tests", 0, "never", key) for unmet in found)


def test_only_our_changes_within_ten_minutes_count(tmp_path: Path) -> None:
    test = """
        start: {replicas: 2}
        series: {queue: 60x3 120x39 240x40}
        events: [{at: 5m, setReplicas: 5}]
        never: {changesPer10m: 1}
    """
    found = broken(tmp_path, test, f"downscaleStabilization: 0s\n{QUEUE}")
    # At 1m, 5m (back to 4) and 11m: the last two are within ten minutes, as the first two are.
    assert [fields_of(item)[:2] for item in found] == [["5m", "changes"]]
    assert found[0].got == "2"
    assert broken(tmp_path, test.replace("changesPer10m: 1", "changesPer10m: 2")) == []


def test_never_of_a_file_applies_to_each_of_its_tests(tmp_path: Path) -> None:
    test = "- {name: a, start: {replicas: 2}, series: {queue: 60}, never: {above: 1}}\n"
    (ready,) = loaded(tmp_path, f"never: {{below: 3}}\ntests:\n{test}").tests
    places = [expectation.location for expectation in unmet(run(ready))]
    assert places == [("never", "below"), ("tests", 0, "never", "above")]


def test_an_expectation_may_apply_to_some_of_several_targets(tmp_path: Path) -> None:
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
