"""What queries return over time, from samples in parts."""

import math
from array import array
from collections.abc import Iterator, Sequence

import pytest

from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.lab.engine.answers import AnswerChunk, Answers, RecordedSeries, answers_from
from tests.core.builders import BASE
from tests.narrowing import instance

_FAILED = QueryFailure("no answer")


def series(*samples: tuple[float, float | None], **labels: str) -> RecordedSeries:
    times = array("d", [BASE + time for time, _ in samples])
    return RecordedSeries(labels, times, [value for _, value in samples])


def chunk(
    begin: float, end: float, *found: RecordedSeries, warnings: tuple[str, ...] = ()
) -> AnswerChunk:
    return AnswerChunk(BASE + begin, BASE + end, found, warnings)


def values(answers: Answers, *instants: float) -> Sequence[list[float]]:
    found = []
    for instant in instants:
        answer = instance(QueryResult, answers(BASE + instant))
        found.append([series.value for series in answer.series])
    return found


def test_a_sample_is_the_value_until_the_next_one() -> None:
    answers = answers_from([chunk(0, 600, series((0, 1.0), (60, 2.0)))])
    assert values(answers, 0, 59.9, 60, 100) == [[1.0], [1.0], [2.0], [2.0]]
    last = instance(QueryResult, answers(BASE + 110))
    assert last.series[0].timestamp == BASE + 110


@pytest.mark.parametrize("lookback", [15.0, 300.0])
def test_a_sample_is_too_old_after_the_lookback(lookback: float) -> None:
    answers = answers_from([chunk(0, 9000, series((0, 1.0), (4000, 2.0)))], lookback)
    found = values(answers, lookback - 0.1, lookback, 3999, 4000)
    assert found == [[1.0], [], [], [2.0]]


def test_a_stale_marker_ends_a_series() -> None:
    first = series((0, 1.0), (30, None), (90, 3.0), pod="a")
    other = series((0, 2.0), pod="b")
    answers = answers_from([chunk(0, 600, first, other)])
    assert values(answers, 29, 30, 89, 90) == [[1.0, 2.0], [2.0], [2.0], [3.0, 2.0]]


def test_nan_is_a_value() -> None:
    ((value,),) = values(answers_from([chunk(0, 60, series((0, math.nan)))]), 10)
    assert math.isnan(value)


def test_outside_of_parts_there_are_no_series() -> None:
    parts = [chunk(10, 60, series((0, 1.0))), chunk(100, 160, series((60, 2.0)))]
    found = values(answers_from(parts), 5, 10, 59.9, 60, 99.9, 100, 159.9, 160)
    assert found == [[], [1.0], [1.0], [], [], [2.0], [2.0], []]


def test_a_failed_part_answers_with_its_failure() -> None:
    parts = [
        AnswerChunk(BASE, BASE + 60, _FAILED),
        chunk(60, 120, series((60, 1.0)), warnings=("partial",)),
    ]
    answers = answers_from(parts)
    assert answers(BASE + 30) == _FAILED
    after = instance(QueryResult, answers(BASE + 60))
    assert after.warnings == ("partial",)


def test_series_come_and_go_with_parts() -> None:
    parts = [
        chunk(0, 60, series((0, 1.0), (15, 2.0), (30, 3.0), pod="a")),
        chunk(60, 120, series((60, 4.0), pod="a"), series((75, 5.0), pod="b")),
    ]
    assert values(answers_from(parts), 45, 60, 80) == [[3.0], [4.0], [4.0, 5.0]]


def test_parts_are_read_as_they_are_needed() -> None:
    read = []

    def parts() -> Iterator[AnswerChunk]:
        for number in range(100):
            read.append(number)
            begin = 60.0 * number
            yield chunk(begin, begin + 60, series((begin, float(number))))

    answers = answers_from(parts())
    assert values(answers, 0, 130) == [[0.0], [2.0]]
    assert read == [0, 1, 2, 3]
