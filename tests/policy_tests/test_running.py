"""What happens in a policy test happens to its targets as it would to those of a daemon."""

from pathlib import Path

import pytest

from autoscaler.core.observation import Gap, GapKind, Values
from autoscaler.core.step import Step
from autoscaler.lab.policy_tests.expectations import limits_of, proposal_of
from autoscaler.lab.policy_tests.running import TargetRun
from tests.narrowing import known
from tests.policy_tests.files import QUEUE, TWO_OF_A_QUEUE, WEB, counts, only, ran

UNKNOWN_RANGES = ("2m*2+1m", "3e2", "0x12c", "max(5m,step())", "1i", "$__interval", "")

SERIES = "series: {queue: 200x40}\nstart: {replicas: 7}\nnever: {above: 20}"
"""What needs seven, for ten minutes."""


def steps_of(run: TargetRun) -> list[Step]:
    return [count.step for count in run.counts if count.step is not None]


def kinds(run: TargetRun) -> list[str]:
    """Return at each sync what kind of gap the first metric has; empty without one."""
    found = []
    for count in run.counts:
        (reading,) = known(count.step).inputs.observation.readings
        gaps = getattr(reading, "gaps", ())
        item = reading if isinstance(reading, Gap) else next(iter(gaps), None)
        found.append("" if item is None else item.kind.value)
    return found


def test_error_empty_nan_and_partial_are_different_gaps(tmp_path: Path) -> None:
    events = "events: [{at: 1m, queryFails: down}, {at: 2m, for: 15s, partial: a warning}]"
    of_queue = f"{events}\nseries: {{queue: 1 1 NaN stale}}\nnever: {{above: 20}}"
    expected = ["", "", "NaN", "empty", *["error"] * 6]
    assert kinds(only(ran(tmp_path, of_queue))) == expected
    of_pods = of_queue.replace("queue", "rps")
    assert kinds(only(ran(tmp_path, of_pods, WEB))) == expected
    again = of_queue.replace("{at: 1m, queryFails: down}, ", "").replace("stale", "stale 1x9")
    assert kinds(only(ran(tmp_path, again)))[7:10] == ["", GapKind.PARTIAL.value, ""]


def test_a_query_fails_by_its_name(tmp_path: Path) -> None:
    test = """
        series: {queue: 600x8, maxReplicasQuery: 5}
        start: {replicas: 5}
        events: [{at: 1m, query: maxReplicasQuery, queryFails: timeout}]
        never: {above: 5}
    """
    run = only(ran(tmp_path, test, QUEUE + "  maxReplicasQuery: max(m)\n"))
    bounds = [step.decision.bounds for step in steps_of(run)]
    assert [bool(bound and bound.missing) for bound in bounds] == [False] * 4 + [True] * 5
    assert kinds(run) == [""] * 9


@pytest.mark.parametrize("text", UNKNOWN_RANGES)
def test_an_outage_takes_nothing_down_where_the_range_is_unknown(text: str, tmp_path: Path) -> None:
    """It is unknown, and not none: what comes after two minutes is of a range that fills again."""
    query = f"rate(queue_length[{text}])" if text else "rate(queue_length)"
    behavior = "  behavior: {scaleDown: {stabilizationWindowSeconds: 30}}\n"
    config = QUEUE.replace("sum(queue_length)", f"'sum({query})'") + behavior
    test = """
        start: {replicas: 10}
        series: {queue: 300x28 90 135 180 210 240 270 300x20}
        events: [{at: 5m, for: 2m, queryFails: timeout}]
        never: {below: 10}
    """
    assert set(counts(tmp_path, test, config)) == {10}
    # So it is for a query without a range, whose first reading counts.
    assert min(counts(tmp_path, test, QUEUE + behavior)) < 10


def test_the_load_of_pods_is_shared_by_them(tmp_path: Path) -> None:
    test = "series: {rps: 80x8}\nstart: {replicas: 3, readyAfter: 1s}\nnever: {above: 24}"
    run = only(ran(tmp_path, test, WEB))
    assert [count.replicas for count in run.counts] == [6, 12, 24, 24, 24, 24, 24, 24, 24]
    # Each pod that is not ready yet has no sample; then all are.
    assert [change.ready for change in run.ready] == [3, 6, 12, 24]


def test_each_pod_reads_the_same_where_the_load_is_recorded(tmp_path: Path) -> None:
    loads = "loads: [{metric: rps, model: recorded}]"
    test = f"{loads}\nseries: {{rps: 80x20}}\nstart: {{replicas: 3}}\nnever: {{above: 50}}"
    assert counts(tmp_path, test, WEB)[-1] == 50


def test_series_with_labels_are_of_their_pods(tmp_path: Path) -> None:
    test = """
        start: {replicas: 3}
        series:
          rps{pod="web-0"}: 30x2
          rps{pod="web-1"}: 40x2
          rps{pod="web-50"}: 1000x2
        never: {above: 7}
    """
    run = only(ran(tmp_path, test, WEB))
    first = known(run.counts[0].step)
    (metric,) = first.decision.metrics
    assert metric.groups is not None
    assert (metric.groups.ready, metric.groups.missing) == (2, ("web-2",))
    assert proposal_of(first) == 7  # ceil((30 + 40 + 0) / 10)


def test_a_queue_follows_its_pods(tmp_path: Path) -> None:
    """60 a second come in, a pod takes 10 a second: it grows until there are more than 6."""
    test = """
        start: {replicas: 1, readyAfter: 5s}
        loads: [{metric: queue, model: queue, arrivals: "rate(sent[1m])", servedPerPod: 10}]
        series: {'rate(sent[1m])': 60x240}
        never: {above: 20}
    """
    run = only(ran(tmp_path, test))
    most = max(count.replicas for count in run.counts)
    assert 6 < most <= 20
    combined = [step.decision.combination for step in steps_of(run)]
    proposals = [value.after for value in combined if value is not None]
    assert proposals[0] == 0
    assert max(proposals) > 6
    assert proposals[-1] < max(proposals)


def test_no_sync_happens_while_the_daemon_is_down(tmp_path: Path) -> None:
    test = f"{SERIES}\nevents: [{{at: 1m, for: 2m, down: true}}, {{at: 90s, setReplicas: 3}}]"
    run = only(ran(tmp_path, test))
    steps = [count.step for count in run.counts]
    away = [index for index in range(1, len(steps)) if steps[index] is steps[index - 1]]
    assert away == list(range(4, 12))
    assert [run.counts[index].replicas for index in (5, 6, 11, 12, 13)] == [7, 3, 3, 6, 7]


SINKS = """
start: {replicas: 7}
series: {queue: 200x4 0x60}
never: {above: 7}
"""


def test_a_restart_with_its_state_changes_nothing(tmp_path: Path) -> None:
    usual = counts(tmp_path, SINKS)
    restarted = only(ran(tmp_path, f"{SINKS}events: [{{at: 3m, restart: true}}]"))
    assert usual == [count.replicas for count in restarted.counts]
    reads = [step.inputs.observation.last_read is None for step in steps_of(restarted)]
    assert [index for index, is_first in enumerate(reads) if is_first] == [0, 12]
    without = counts(tmp_path, f"{SINKS}events: [{{at: 3m, loseState: true}}]")
    assert usual.index(1) < without.index(1) == 12 + 20  # five minutes from the loss on


def test_a_standby_takes_over(tmp_path: Path) -> None:
    run = only(ran(tmp_path, f"{SINKS}events: [{{at: 2m, takeover: true}}]"))
    found = [count.replicas for count in run.counts]
    restarted = counts(tmp_path, f"{SINKS}events: [{{at: 2m, restart: true}}]")
    assert found.index(1) == restarted.index(1)
    assert all(step.decision.foreign is None for step in steps_of(run))
    seen = [step.inputs.observation for step in steps_of(run)]
    # Its first sync does not know whether the other one has written since it looked last.
    assert [observation.sole_writer for observation in seen[7:10]] == [True, False, True]
    assert seen[8].last_sync == seen[7].last_sync + 15.0  # type: ignore[operator] # there was one


def test_others_may_set_the_count_annotate_and_control_a_target(tmp_path: Path) -> None:
    test = """
        series: {queue: 200x40}
        start: {replicas: 7}
        never: {above: 20}
        events:
        - {at: 1m, setReplicas: 3, by: somebody}
        - {at: 2m, for: 1m, annotations: {autoscaler/paused-replicas: "2"}}
        - {at: 5m, for: 1m, controlledBy: HorizontalPodAutoscaler/worker}
        - {at: 7m, for: 1m, unreadable: forbidden}
    """
    run = only(ran(tmp_path, test))
    steps = steps_of(run)
    changed = known(steps[4].decision.foreign)
    assert (changed.before, changed.after, changed.manager) == (7, 3, "somebody")
    states = [step.result.classified().state.value for step in steps]
    for state, begin, end in (("paused", 8, 12), ("controlled", 20, 24), ("failing", 28, 32)):
        found = [index for index, name in enumerate(states) if name == state]
        assert found == [*range(begin, end)]
    assert "Paused" in limits_of(steps[9])
    assert [count.replicas for count in run.counts][8:12] == [2] * 4


def test_schedules_open_at_the_instant_of_the_begin(tmp_path: Path) -> None:
    window = "{name: day, start: 0 8 * * *, end: 0 20 * * *, timezone: UTC, minReplicas: 5}"
    config = QUEUE + f"  schedules: [{window}]\n"
    test = """
        start: {at: 2026-03-02T07:59:00Z, replicas: 1}
        series: {queue: 0x8}
        never: {above: 5}
    """
    assert counts(tmp_path, test, config) == [1, 1, 1, 1, 5, 5, 5, 5, 5]


def test_the_breaker_of_the_configuration_holds(tmp_path: Path) -> None:
    breaker = "scaleDownBreaker: {minTargets: 2, hold: 5m}\ndownscaleStabilization: 0s\n"
    test = "target: shop/*\nstart: {replicas: 7}\nseries: {queue: 200x4 0x20}\nnever: {above: 9}"
    runs = ran(tmp_path, test, breaker + TWO_OF_A_QUEUE).targets
    assert set(runs) == {"shop/Deployment/worker", "shop/Deployment/b"}
    for run in runs.values():
        assert "ScaleDownBreaker" in limits_of(known(run.counts[5].step))
        assert run.counts[5].replicas == 7


# -- each kind of event, crossed -----------------------------------------------------------------

EVENTS = {
    "by hand": "setReplicas: 3",
    "paused": "for: 2m, annotations: {autoscaler/paused: 'true'}",
    "restart": "restart: true",
    "lost state": "loseState: true",
    "takeover": "takeover: true",
    "down": "for: 2m, down: true",
    "query fails": "for: 2m, queryFails: timeout",
    "partial": "for: 2m, partial: store eu",
    "write fails": "for: 2m, writeFails: forbidden",
    "unreadable": "for: 2m, unreadable: forbidden",
    "controlled": "for: 2m, controlledBy: HorizontalPodAutoscaler/worker",
    "slow pods": "for: 2m, readyAfter: 5m",
}
BESIDE = {
    "gap": ("200x20 stale _x29 200x129", ""),
    "partial answer": ("200x180", "{at: 6m, for: 3m, partial: store eu}"),
    "restart": ("200x180", "{at: 6m, restart: true}"),
    "takeover": ("200x180", "{at: 6m, takeover: true}"),
    "zero": ("0x60 200x119", ""),
    "pause": ("200x180", "{at: 6m, for: 3m, annotations: {autoscaler/paused: 'true'}}"),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("event", EVENTS)
def test_the_count_recovers_from_any_two_events(event: str, beside: str, tmp_path: Path) -> None:
    samples, more = BESIDE[beside]
    is_idle = beside == "zero"
    test = f"""
        start: {{replicas: {1 if is_idle else 7}}}
        series: {{queue: {samples}}}
        events: [{", ".join(filter(None, (f"{{at: 5m, {EVENTS[event]}}}", more)))}]
        never: {{above: 7}}
    """
    config = QUEUE + ("  idle: {}\n" if is_idle else "")
    run = only(ran(tmp_path, test, config))
    assert run.counts[-1].replicas == 7
    by_hand = event == "by hand"
    if not is_idle and not by_hand:
        assert {count.replicas for count in run.counts} == {7}
    if is_idle:
        assert min(count.replicas for count in run.counts) == 0
    # What is down is a sync that is left out, and nothing else is.
    left_out = sum(
        count.step is before.step for before, count in zip(run.counts, run.counts[1:], strict=False)
    )
    assert left_out == (8 if event == "down" and beside != "takeover" else left_out)
    assert len(run.counts) == 181


def test_a_queue_grows_while_its_query_fails(tmp_path: Path) -> None:
    test = """
        start: {replicas: 1}
        loads: [{metric: queue, model: queue, arrivals: "rate(sent[1m])", servedPerPod: 1}]
        series: {'rate(sent[1m])': 2x8}
        events: [{at: 15s, for: 45s, queryFails: timeout}]
        never: {above: 20}
    """
    run = only(ran(tmp_path, test))
    assert kinds(run)[:5] == ["", "error", "error", "error", ""]
    step = known(run.counts[4].step)
    assert step.inputs.observation.readings == (Values((60_000,)),)
