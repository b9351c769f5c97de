"""How a target agrees, in words: each cause, each verdict, and the shares they are of."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.agreement.causes import Deviation
from autoscaler.agreement.comparison import Agreement, Stretch
from autoscaler.agreement.database import KeptAgreement, Sum
from autoscaler.agreement.readings import DifferingReading
from autoscaler.agreement.sentences import (
    AGREEMENT_WORDS,
    DEVIATION_WORDS,
    DIFFERS,
    EARLY,
    NOT_COMPARED,
    READY,
    agreement_answer,
    cause_text,
    disagreement,
    field_text,
    moved,
    percent,
    verdict_on,
)
from autoscaler.agreement.spec_differences import FieldDifference
from autoscaler.core.observation import Hpa, HpaStatus
from tests.core.builders import BASE

A = Agreement
WEB = "shop/Deployment/web"
FIELD = FieldDifference("maxReplicas", "50", "10")
FLAG = FieldDifference("--horizontal-pod-autoscaler-tolerance", "0.1", "0.5")


def stretch(kind: Agreement, begin: float = 0.0, seconds: float = 60.0, **more: object) -> Stretch:
    """Return a time of one kind."""
    return Stretch(BASE + begin, BASE + begin + seconds, kind, 9, 8, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (stretch(A.CONFIGURATION, fields=(FIELD,)), "maxReplicas is 50 here and 10 there"),
        (
            stretch(A.CONFIGURATION, fields=(FIELD, FLAG)),
            (
                "maxReplicas is 50 here and 10 there; "
                "the HPA acts as if --horizontal-pod-autoscaler-tolerance were 0.5 than 0.1"
            ),
        ),
        (
            stretch(A.READING, readings=(DifferingReading(0, "queue", 40_000, 44_500),)),
            "queue is 40 here and 44.5 there (+11.2 %)",
        ),
        (
            stretch(A.READING, readings=(DifferingReading(0, "queue", 40_000, 20_000, 75.0),)),
            "queue is 40 here and 20 there (-50 %), as ours was 1 min 15 s before",
        ),
        (
            stretch(A.READING, readings=(DifferingReading(0, "cpu", 93, 70, percent=True),)),
            "cpu is 93% here and 70% there (-24.7 %)",
        ),
        (
            stretch(A.READING, readings=(DifferingReading(0, "queue", 0, 1000),)),
            "queue is 0 here and 1 there",
        ),
        (
            stretch(A.READING, readings=(DifferingReading(0, "queue", 1000, None),)),
            "queue has no value there, and 1 here",
        ),
        (
            stretch(
                A.READING, readings=(DifferingReading(0, "queue", None, 1000, failure="no answer"),)
            ),
            "queue is 1 there, and has no value here: no answer",
        ),
        (
            stretch(A.SAMPLING, remembered=BASE),
            (
                "what was recommended at 2026-01-01T00:00:00Z is still held: "
                "a reading of another instant is held"
            ),
        ),
        (stretch(A.UNKNOWN), "not known"),
        (stretch(A.NOT_COMPARED, why="the scale was not read"), "the scale was not read"),
        *((stretch(A.DEVIATION, deviation=one), words) for one, words in DEVIATION_WORDS.items()),
    ],
)
def test_each_cause_is_a_sentence(one: Stretch, text: str) -> None:
    """With what differs, both values, and by how much where that is a number."""
    assert cause_text(one) == text
    assert disagreement(one).message == text


def test_each_kind_and_each_deviation_has_words() -> None:
    """None is told by its name in the code."""
    assert set(AGREEMENT_WORDS) == set(A)
    assert set(DEVIATION_WORDS) == set(Deviation)


def kept(seconds: Mapping[Agreement, float], *stretches: Stretch) -> KeptAgreement:
    """Return so many seconds of each kind, with four replicas, and five of the free run."""
    sums = {kind: Sum(time, 1, time, 4 * time, 5 * time) for kind, time in seconds.items()}
    return KeptAgreement(BASE, sums, stretches)


LIMIT = stretch(A.CONFIGURATION, seconds=50, fields=(FIELD,))
LONGER = stretch(A.CONFIGURATION, 100, 70, fields=(FLAG,))
AGREES = "it agrees with the HPA in"
ADOPT = "nothing stands against going over: autoscaler adopt shop/Deployment/web"


@pytest.mark.parametrize(
    ("found", "verdict", "message"),
    [
        (
            None,
            NOT_COMPARED,
            (
                "nothing has been compared: no HorizontalPodAutoscaler of its object was seen, or "
                "more than one"
            ),
        ),
        (kept({A.NOT_COMPARED: 90}), NOT_COMPARED, "nothing has been compared: no Horizontal"),
        (kept({A.EQUAL: 4000}), READY, f"{AGREES} 100 % of 1 h 6 min; {ADOPT}"),
        (
            kept({A.EQUAL: 9000, A.TIMING: 950, A.CONFIGURATION: 50}, LIMIT),
            READY,
            (
                f"{AGREES} 99.5 % of 2 h 46 min; else a different configuration in 0.5 %: "
                f"maxReplicas is 50 here and 10 there; {ADOPT}"
            ),
        ),
        (
            kept({A.EQUAL: 600, A.NOT_COMPARED: 9000}),
            EARLY,
            (
                f"{AGREES} 100 % of 10 min 0 s so far; compare for 50 min 0 s more before "
                "you rely on that"
            ),
        ),
        (
            kept({A.EQUAL: 880, A.CONFIGURATION: 120}, LIMIT, LONGER),
            DIFFERS,
            (
                f"{AGREES} 88 % of 16 min 40 s; else a different configuration in 12 %: the HPA "
                "acts as if --horizontal-pod-autoscaler-tolerance were 0.5 than 0.1"
            ),
        ),
        (
            kept({A.EQUAL: 9999, A.UNKNOWN: 1}, stretch(A.UNKNOWN)),
            DIFFERS,
            f"{AGREES} 99.9 % of 2 h 46 min; else not known in less than 0.1 %",
        ),
    ],
)
def test_each_verdict_says_why(found: KeptAgreement | None, verdict: str, message: str) -> None:
    """What is not compared does not count; one second that is not known is too much."""
    told = agreement_answer(WEB, found)
    assert told.verdict == verdict
    assert told.message.startswith(message)
    if found is not None:
        assert verdict_on({kind: one.seconds for kind, one in found.sums.items()}) == verdict


def test_beside_an_hpa_that_was_seen_it_has_just_begun() -> None:
    """It is not said then that there is none; one that has decided nothing says why."""
    told = agreement_answer(WEB, None, Hpa("web", statuses=(HpaStatus(BASE, 3, 3),)))
    assert told.message == "the comparison has just begun: two syncs are needed"
    told = agreement_answer(WEB, None, Hpa("web", undecided="FailedGetExternalMetric"))
    assert told.message == (
        "nothing has been compared: the HPA has decided nothing yet: FailedGetExternalMetric"
    )


def test_fields_that_differ_are_told_though_they_have_changed_nothing_yet() -> None:
    """A bound that no load has met yet is seen before going over."""
    field = FieldDifference("maxReplicas", "10", "12")
    told = agreement_answer(WEB, kept({A.EQUAL: 7200}), differences=(field,))
    (only,) = told.differences
    assert field_text(only) == "maxReplicas is 10 here and 12 there"
    assert told.verdict == READY


def test_readings_that_differ_under_the_same_count_are_told_apart() -> None:
    """With the time of each metric, and its largest difference; they are no disagreement."""
    far, near = (
        DifferingReading(0, "queue", 100_000, theirs, lag=lag)
        for theirs, lag in ((60_000, 45.0), (95_000, None))
    )
    found = [
        Stretch(BASE + at, BASE + at + 30, A.EQUAL, 4, 4, readings=(one,))
        for at, one in ((0, near), (60, far))
    ]
    told = agreement_answer(WEB, replace(kept({A.EQUAL: 600}), other_readings=tuple(found)))
    (only,) = told.other_readings
    assert (only.metric, only.seconds, only.share) == ("queue", 60, 0.1)
    assert only.message == "queue is 100 here and 60 there (-40 %), as ours was 45 s before"
    assert told.disagreements == ()


def test_shares_are_of_what_was_compared() -> None:
    """Those of what was not are of all; the means leave it out."""
    told = agreement_answer(
        WEB, kept({A.EQUAL: 60, A.TIMING: 20, A.READING: 20, A.NOT_COMPARED: 300}), free=7
    )
    assert (told.agreement, told.equal, told.compared_seconds) == (0.8, 0.6, 100)
    assert {one.kind: one.share for one in told.times} == {
        "equal": 0.6,
        "timing": 0.2,
        "reading": 0.2,
        "notCompared": 0.75,
    }
    assert (told.mean_replicas, told.mean_free_replicas, told.free_replicas) == (4, 5, 7)


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100 %"), (0.99999, "99.9 %"), (0.5, "50 %"), (0.0001, "less than 0.1 %"), (0, "0 %")],
)
def test_a_share_is_rounded_down(share: float, text: str) -> None:
    """A hundred percent is all of it, and what there is is not none."""
    assert percent(share) == text


@pytest.mark.parametrize(
    ("live", "shadow", "text"),
    [(3, 7, "3 of 10 targets moved, 7 in shadow"), (0, 1, "0 of 1 target moved, 1 in shadow")],
)
def test_how_far_a_move_has_come(live: int, shadow: int, text: str) -> None:
    """Of all targets."""
    assert moved(live, shadow) == text
