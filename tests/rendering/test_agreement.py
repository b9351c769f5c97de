"""How a target agrees, in words: each difference, each verdict, and the shares they are of."""

from collections.abc import Mapping

import pytest

from autoscaler.agreement.sentences import (
    AGREEMENT_WORDS,
    DIFFERS,
    EARLY,
    NOT_COMPARED,
    READY,
    agreement_answer,
    disagreement,
    moved,
    percent,
)
from autoscaler.config.comparison import FieldChange
from autoscaler.core.observation import Hpa, HpaStatus
from autoscaler.persistence.record.agreement import (
    Agreement,
    AgreementInterval,
    DifferingReading,
    KindTotal,
    RecordedAgreement,
)
from tests.core.builders import BASE
from tests.tables import rows

A = Agreement
WEB = "shop/Deployment/web"
FIELD = FieldChange("maxReplicas", "50", "10")


def reading(metric: str, ours: int, theirs: int, *, percent: bool = False) -> DifferingReading:
    return DifferingReading(metric, ours, theirs, percent=percent)


DIFFERENCES: dict[str, tuple[tuple[FieldChange, ...], tuple[DifferingReading, ...]]] = {
    "maxReplicas is 50 here and 10 there": ((FIELD,), ()),
    "paused is set here and not set there": ((FieldChange("paused", "set", None),), ()),
    "queue is 40 here and 44.5 there (+11.2 %)": ((), (reading("queue", 40_000, 44_500),)),
    "maxReplicas is 50 here and 10 there; cpu is 93% here and 70% there (-24.7 %)": (
        *((FIELD,), (reading("cpu", 93, 70, percent=True),)),
    ),
    "queue is 0 here and 1 there": ((), (reading("queue", 0, 1000),)),
    "no field and no reading differs": ((), ()),
}


@pytest.mark.parametrize("text", DIFFERENCES)
def test_a_difference_has_both_values_and_their_ratio(text: str) -> None:
    fields, readings = DIFFERENCES[text]
    answer = disagreement(AgreementInterval(BASE, BASE + 60, A.DIFFERENT, 9, 8, fields, readings))
    assert (answer.message, answer.ours, answer.theirs) == (text, 9, 8)
    assert (len(answer.fields), len(answer.readings)) == (len(fields), len(readings))


def test_each_kind_of_agreement_has_words() -> None:
    assert set(AGREEMENT_WORDS) == set(A)


def agreement(
    seconds: Mapping[Agreement, float], last: Mapping[Agreement, float] | None = None
) -> RecordedAgreement:
    """Return an agreement with these seconds of each kind, in total and on the last day."""
    last = seconds if last is None else last
    totals = {
        kind: KindTotal(BASE, seconds, last.get(kind, 0.0), 1, seconds)
        for kind, seconds in seconds.items()
    }
    different = AgreementInterval(BASE, BASE + 50, A.DIFFERENT, 9, 8, (FIELD,))
    return RecordedAgreement(
        totals,
        (different,) if A.DIFFERENT in seconds else (),
        {"no value there: queue": seconds[A.NOT_COMPARED]} if A.NOT_COMPARED in seconds else {},
    )


AGREES = "it agrees with the HPA in"
ADOPT = "ready: autoscaler adopt shop/Deployment/web"
LONGEST = "the longest difference: 9 here, 8 there for 50 s: maxReplicas is 50 here and 10 there"


SIX_DAYS = {A.EQUAL: 594_000, A.DIFFERENT: 6000, A.NOT_COMPARED: 90_000}
RECORDS = {
    "nothing": None,
    "nothing compared": agreement({A.NOT_COMPARED: 90}),
    "all equal": agreement({A.EQUAL: 4000}),
    "nearly all equal": agreement({A.EQUAL: 9000, A.WITHIN_PERIOD: 700, A.DIFFERENT: 300}),
    "for a short time": agreement({A.EQUAL: 600, A.NOT_COMPARED: 9000}),
    "different at times": agreement({A.EQUAL: 880, A.DIFFERENT: 120}),
    "different on the last day": agreement(SIX_DAYS, {A.EQUAL: 70_000, A.DIFFERENT: 6000}),
    "not compared on the last day": agreement(SIX_DAYS, {A.NOT_COMPARED: 86_400}),
    "equal on the last day": agreement(SIX_DAYS, {A.EQUAL: 600}),
}
VERDICTS = f"""
nothing | {NOT_COMPARED} | nothing has been compared: no HorizontalPodAutoscaler of its object was
    seen, or more than one
nothing compared | {NOT_COMPARED} | nothing has been compared: no value there: queue
all equal | {READY} | {AGREES} 100 % of 1 h 6 min; {ADOPT}
nearly all equal | {READY} | {AGREES} 97 % of 2 h 46 min; {LONGEST}; {ADOPT}
for a short time | {EARLY} | {AGREES} 100 % of 10 min 0 s so far; compare for 50 min 0 s more before
    you rely on that
different at times | {DIFFERS} | {AGREES} 88 % of 16 min 40 s; {LONGEST}
different on the last day | {DIFFERS}
    | {AGREES} 99 % of 6 d 22 h, and in 92.1 % of the last 24 hours; {LONGEST}
not compared on the last day | {NOT_COMPARED} | {AGREES} 99 % of 6 d 22 h; nothing was compared in
    the last 24 hours: no value there: queue
equal on the last day | {READY} | {AGREES} 99 % of 6 d 22 h; {LONGEST}; {ADOPT}
"""


@pytest.mark.parametrize(("name", "verdict", "message"), rows(VERDICTS))
def test_each_verdict_has_a_reason(name: str, verdict: str, message: str) -> None:
    answer = agreement_answer(WEB, RECORDS[name])
    assert (answer.verdict, answer.message) == (verdict, message)


def test_without_a_comparison_the_hpa_is_the_reason() -> None:
    answer = agreement_answer(WEB, None, Hpa("web", statuses=(HpaStatus(BASE, 3, 3),)))
    assert answer.message == "nothing has been compared: the comparison has just begun"
    answer = agreement_answer(WEB, None, Hpa("web", undecided="FailedGetExternalMetric"))
    assert answer.message == (
        "nothing has been compared: the HPA has decided nothing yet: FailedGetExternalMetric"
    )


def test_shares_are_of_the_compared_time() -> None:
    seconds = {A.EQUAL: 60, A.WITHIN_PERIOD: 20, A.DIFFERENT: 20, A.NOT_COMPARED: 300}
    found = agreement(seconds, {A.EQUAL: 50, A.NOT_COMPARED: 9})
    answer = agreement_answer(WEB, found, differences=(FIELD,))
    assert (answer.agreement, answer.equal, answer.compared_seconds) == (0.8, 0.6, 100)
    assert answer.last_day.compared_seconds == 50
    assert {time.kind: time.share for time in answer.times} == {
        "equal": 0.6,
        "withinPeriod": 0.2,
        "different": 0.2,
        "notCompared": 0.75,
    }
    assert [difference.field for difference in answer.differences] == ["maxReplicas"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100 %"), (0.99999, "99.9 %"), (0.5, "50 %"), (0.0001, "less than 0.1 %"), (0, "0 %")],
)
def test_a_share_is_rounded_down(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("live", "shadow", "text"),
    [(3, 7, "3 of 10 targets moved, 7 in shadow"), (0, 1, "0 of 1 target moved, 1 in shadow")],
)
def test_the_progress_of_a_move_counts_all_targets(live: int, shadow: int, text: str) -> None:
    assert moved(live, shadow) == text
