"""What would have had to be different, in sentences."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from autoscaler.core.breaker import held_back
from autoscaler.core.entry import Entry
from autoscaler.core.extensions import Extensions, Fallback, Idle, Pause
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.rendering.alternatives import alternatives
from tests.core.builders import (
    BASE,
    average,
    behavior,
    cpu,
    external,
    per_pod,
    pods_policy,
    rules,
    spec,
    utilization,
)
from tests.core.entries import entries, of_last
from tests.core.timeline import Timeline

JOBS, MAILS = external(average("5"), "jobs"), external(average("5"), "mails")
FREE = behavior(up=rules(pods_policy(100), window=0), down=rules(pods_policy(100), window=0))


def target(of: HorizontalPodAutoscalerSpec | None = None, **extensions: object) -> Timeline:
    """Begin a timeline of a target with 8 replicas whose scale-down nothing holds."""
    more = Extensions(**extensions)  # type: ignore[arg-type]
    return Timeline(of or spec(JOBS, behavior=FREE), replicas=8, extensions=more)


def fought() -> Timeline:
    """Let others undo our changes three times."""
    timeline = target().at("0s", jobs=60)
    for second in (15, 30, 45):
        timeline.by_hand(8, "kubectl").at(f"{second}s", jobs=60)
    return timeline


SLOW_UP = behavior(up=rules(pods_policy(2, 60), window=0))
BOTH = spec(JOBS, MAILS, behavior=FREE)


@pytest.mark.parametrize(
    ("timeline", "sentence"),
    [
        pytest.param(
            target(spec(JOBS)).at("0s", jobs=40).at("15s", jobs=45).at("30s", jobs=25),
            "without the recommendation of 9 at 00:00:15Z it would have gone to 8; "
            "that no longer counts from 00:05:15Z on",
            id="recommendation",
        ),
        pytest.param(
            target(spec(JOBS)).at("0s", jobs=40).at("15s", jobs=40).at("30s", jobs=25),
            "without the earlier recommendations it would have gone to 5; the last that holds it, "
            "8 at 00:00:15Z, no longer counts from 00:05:15Z on",
            id="recommendations",
        ),
        pytest.param(
            target(spec(JOBS)).at("0s", jobs=25),
            "without the count of 8 at the first sync, 00:00:00Z, it would have gone to 5; "
            "that no longer counts from 00:05:00Z on",
            id="first sync",
        ),
        pytest.param(
            target(spec(JOBS, behavior=SLOW_UP)).at("0s", jobs=60),
            "without the limit of each step it would have gone to 12; "
            "more is permitted from 00:01:00Z on",
            id="policy",
        ),
        pytest.param(
            target(spec(JOBS, maximum=10)).at("0s", jobs=60),
            "with a maxReplicas of 12 it would have gone to 12",
            id="maximum",
        ),
        pytest.param(
            target().asked_bounds(least=float("nan")).at("0s", jobs=20),
            "if minReplicasQuery had given 4 it would have gone to 4",
            id="minimum of a query",
        ),
        pytest.param(
            target(BOTH).at("0s", jobs=25, mails=None),
            "without mails, which failed, it would have gone to 5",
            id="failed",
        ),
        pytest.param(
            target(BOTH, fallback=Fallback(12, 1)).at("0s", jobs=25, mails=None),
            "without the fallback it would have stayed at 8",
            id="fallback",
        ),
        pytest.param(
            target(pause=Pause()).at("0s", jobs=25),
            "without the pause it would have gone to 5",
            id="pause",
        ),
        pytest.param(
            target(idle=Idle(after=0.0)).at("0s", jobs=0),
            "without its `idle` it would have gone to 1",
            id="idle",
        ),
        pytest.param(
            target().controlled_by('HorizontalPodAutoscaler "web"').at("0s", jobs=60),
            "without the other autoscaler it would have gone to 12",
            id="another autoscaler",
        ),
        pytest.param(
            fought(),
            "without the changes that others made against ours it would have gone to 12; "
            "they count until 00:10:45Z",
            id="reversals",
        ),
        pytest.param(
            target().at("0s", jobs=41),
            "at 45 instead of 41, jobs would have asked for 9, and the target would have gone to 9",
            id="value",
        ),
        pytest.param(
            target(spec(cpu(utilization(80)), behavior=FREE)).at("0s", cpu=80),
            "with 11.25% more load on each pod (89% instead of 80%), cpu would have asked for 9, "
            "and the target would have gone to 9",
            id="load",
        ),
        pytest.param(
            target(spec(per_pod("100"), behavior=FREE)).at("0s", rps=100),
            "with 12.5% less load on each pod (87.5 instead of 100), "
            "rps would have asked for 7, and the target would have gone to 7",
            id="load of a Pods metric",
        ),
    ],
)
def test_one_sentence_for_each(timeline: Timeline, sentence: str) -> None:
    """With the names and numbers that the operator knows."""
    assert sentence in alternatives(of_last(timeline))


def test_the_breaker() -> None:
    """It says until when it holds."""
    entry = of_last(target().at("0s", jobs=25))
    before = entry.inputs.history
    held, _ = held_back(entry.decision, before, before, "", BASE + 600)
    assert alternatives(replace(entry, decision=held))[0] == (
        "without the scale-down breaker it would have gone to 5; that holds until 00:10:00Z"
    )


def test_values_at_which_the_target_moves_come_first_and_are_not_too_many() -> None:
    """A target may have many metrics."""
    names = [f"m{index}" for index in range(9)]
    of = spec(*(external(average("5"), name) for name in names), behavior=FREE)
    readings: dict[str, float | None] = dict.fromkeys(names, 40.0)
    found = alternatives(of_last(target(of).at("0s", **readings)))  # type: ignore[arg-type]
    assert len(found) == 8
    assert all("would have gone to 9" in one for one in found)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(entries)
def test_every_decision_has_its_sentences(entry: Entry) -> None:
    """None is said twice, and each is printable."""
    found = alternatives(entry)
    assert len(set(found)) == len(found)
    assert all(one.isprintable() and "None" not in one for one in found)
