"""Range queries: series of answers, and parts that a server is able to answer."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from urllib.parse import parse_qs

import pytest

from autoscaler import clock
from autoscaler.core.series import QueryFailure
from autoscaler.lab.past import range_fetching
from autoscaler.lab.past.range_fetching import AnswerPart, RangeReader
from autoscaler.lab.past.ranges import Grid, Matrix, RangeRequest
from autoscaler.transport.answers import AnswerMemory
from autoscaler.transport.network_errors import Kind
from tests.adapters.prometheus.reading import Observed, network_sentence, reading
from tests.narrowing import assert_parts
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer, error
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer

GRID = Grid(15_000, 5_000)
FIRST = 113_333_333
"""The number of an instant of the grid, at 1,700,000,000."""
ASKED = RangeRequest(GRID, FIRST, FIRST + 4)


def matrix(*result: object, kind: str = "matrix", **more: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": kind, "result": list(result)}, **more}


def series(*values: tuple[float, str], **labels: str) -> dict[str, object]:
    """Return one series; times are seconds after the first instant."""
    return {"metric": labels, "values": [[1_700_000_000 + at, value] for at, value in values]}


def whole(peer: Peer) -> None:
    """Answer a range with the number of each instant, as a healthy server does."""
    asked = {name: values[0] for name, values in parse_qs(peer.received.body.decode()).items()}
    begin, end, step = (round(float(asked[name]) * 1000) for name in ("start", "end", "step"))
    values = [[at / 1000, str(at // step)] for at in range(begin, end + 1, step)]
    answer(matrix({"metric": {}, "values": values}))(peer)


@contextmanager
def range_reading(url: str, **changes: object) -> Iterator[RangeReader]:
    changes = {"most_tries": 3, "absent_seconds": 1.0, **changes}
    with reading(url, **changes) as reader:  # type: ignore[arg-type]  # checked at run time
        yield RangeReader(reader)


def ask_range(
    url: str, asked: RangeRequest = ASKED, promql: str = "x", **changes: object
) -> list[AnswerPart]:
    with range_reading(url, **changes) as reader:
        return list(reader.parts(promql, asked))


def failures(parts: Sequence[AnswerPart]) -> list[str]:
    return [part.answer.message for part in parts if isinstance(part.answer, QueryFailure)]


def covered(parts: Sequence[AnswerPart]) -> list[tuple[int, int]]:
    return [(part.begin, part.end) for part in parts]


NOT_ASKED, NO_FLOATS = "not asked for", "matrix of floats"

# -- what is made of an answer -------------------------------------------------------------------


def test_series_are_values_at_instants_of_the_grid() -> None:
    found = matrix(
        series((0, "1"), (15, "NaN"), (45, "+Inf"), queue="a"), series((30, "2.5"), queue="b")
    )
    with ScriptedServer(answer(found | {"warnings": ["a warning"]})) as server:
        (part,) = ask_range(server.url)
        sent = parse_qs(server.received[0].body.decode())
    assert isinstance(part.answer, Matrix)
    first, second = part.answer.series
    assert (first.labels, first.runs) == ({"queue": "a"}, [(FIRST, 2), (FIRST + 3, 1)])
    assert list(first.values) == pytest.approx([1.0, math.nan, math.inf], nan_ok=True)
    assert (second.runs, list(second.values)) == ([(FIRST + 2, 1)], [2.5])
    assert part.answer.warnings == ("a warning",)
    assert (sent["start"], sent["end"]) == (["1700000000.000"], ["1700000045.000"])
    assert (sent["step"], sent["nocache"], sent["query"]) == (["15.000"], ["1"], ["x"])


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (matrix(series((0, "1"), (0, "2"))), ["2023-11-14T22:13:20Z twice"]),
        (matrix(series((30, "1"), (15, "2"))), ["2023-11-14T22:13:35Z", "later"]),
        (matrix(series((1, "1"))), ["2023-11-14T22:13:21Z", NOT_ASKED]),
        (matrix(series((60, "1"))), ["2023-11-14T22:14:20Z", NOT_ASKED]),
        (matrix(series((-15, "1"))), ["2023-11-14T22:13:05Z", NOT_ASKED]),
        (matrix({"metric": {}, "histograms": [[0, {}]]}), ["native histograms"]),
        (matrix({"metric": {}, "values": [[1_700_000_000, 1.0]]}), [NO_FLOATS]),
        (matrix({"metric": {}, "values": [[1_700_000_000, "x"]]}), [NO_FLOATS]),
        (matrix({"metric": {"a": 1}, "values": []}), [NO_FLOATS]),
        (matrix({"values": []}), [NO_FLOATS]),
        (matrix(kind="vector"), ["matrix", "vector"]),
        (matrix() | {"warnings": "x"}, ["warnings", "list"]),
        ({"status": "success"}, ["data.resultType"]),
        ('{"status":"success","data":{"resultType":"matrix","result":{}}}', ["list"]),
    ],
)
def test_an_answer_of_another_shape_or_time_fails(body: object, parts: list[str]) -> None:
    with ScriptedServer(answer(body)) as server:
        answers = ask_range(server.url)
    assert covered(answers) == [(FIRST, FIRST + 4)]
    (message,) = failures(answers)
    assert_parts(message, *parts)


# -- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most_points", "most_samples", "lengths", "statuses"),
    [
        # Prometheus refuses 11,001 points of a series; no request asks for so many.
        (range_fetching.MOST_POINTS, None, [6_250] * 4, ["200"] * 4),
        (20_000, None, [6_000] * 2, ["400", "200", "200"]),
        (range_fetching.MOST_POINTS, 1_000, [750] * 4, ["422", *["422", "200", "200"] * 2]),
    ],
)
def test_a_range_beyond_a_limit_of_prometheus_is_asked_in_parts(
    start_prometheus: StartPrometheus,
    monkeypatch: pytest.MonkeyPatch,
    most_points: int,
    most_samples: int | None,
    lengths: list[int],
    statuses: list[str],
) -> None:
    monkeypatch.setattr(range_fetching, "MOST_POINTS", most_points)
    server = start_prometheus(flags=[f"--query.max-samples={most_samples or 50_000_000}"])
    received: list[str] = []
    grid = Grid(1_000, 0)
    begin = grid.first_from(clock.wall() - 50_000)
    asked = RangeRequest(grid, begin, begin + sum(lengths))
    parts = ask_range(server.url, asked, "vector(7)", observer=Observed(received))
    assert covered(parts) == list(pairwise(accumulate(lengths, initial=begin)))
    assert received == statuses
    for part in parts:
        assert isinstance(part.answer, Matrix)
        (series,) = part.answer.series
        assert series.runs == [(part.begin, part.end - part.begin)]
        assert set(series.values) == {7.0}


def test_an_answer_that_is_too_large_is_asked_in_smaller_parts() -> None:
    with ScriptedServer(whole) as server:
        parts = ask_range(
            server.url,
            RangeRequest(GRID, FIRST, FIRST + 8_000),
            memory=AnswerMemory(1 << 16, parsed=200 << 20),
        )
    assert failures(parts) == []
    assert [number for part in parts for number in range(part.begin, part.end)] == [
        *range(FIRST, FIRST + 8_000)
    ]
    values = [value for part in parts for series in part.answer.series for value in series.values]  # type: ignore[union-attr]  # none failed
    assert values == list(map(float, range(FIRST, FIRST + 8_000)))


def test_a_wrong_query_is_asked_once(prometheus_server: PrometheusServer) -> None:
    """Its refusal holds for all of the range."""
    statuses: list[str] = []
    asked = RangeRequest(GRID, FIRST, FIRST + 30_000)
    parts = ask_range(prometheus_server.url, asked, "sum(", observer=Observed(statuses))
    assert (covered(parts), statuses) == ([(FIRST, FIRST + 30_000)], ["400"])
    assert_parts(failures(parts)[0], "unclosed left parenthesis")
    assert isinstance(parts[0].answer, QueryFailure)
    assert parts[0].answer.refused


# -- a server that fails -------------------------------------------------------------------------

LONG = RangeRequest(GRID, FIRST, FIRST + 40_000)
"""Four parts."""
LAST = FIRST + 8_192
NO_MORE = "nothing more"
BROKEN = answer("broken", "500 Internal Server Error")
TOO_MANY = answer(error("execution", "exceeded series limit"), "422 Unprocessable Entity")
TOO_OFTEN = "429 Too Many Requests"


@pytest.mark.parametrize(
    ("steps", "lengths", "failed", "words"),
    [
        ((whole, BROKEN, whole), [10_000] * 4, [1], ["500", ": broken"]),
        ((BROKEN, BROKEN, whole, BROKEN, BROKEN, whole), [10_000] * 8, [0, 1, 3, 4], [": broken"]),
        # Smaller parts are asked for, down to 16 evaluations.
        ((TOO_MANY,) * 3, [64], [0], ["exceeded series limit", "16 evaluations"]),
        ((faults.hang, *[whole] * 8), [100] * 8, [], []),
        # The same part is tried again: its failure is no limit that smaller parts keep to.
        ((answer("busy", TOO_OFTEN),) * 3, [64], [0], ["429", ": busy"]),
        ((answer("busy", TOO_OFTEN, {"Retry-After": "1"}), whole), [4], [], []),
        ((faults.break_off, whole), [4], [], []),
        ((faults.reset, whole), [4], [], []),
    ],
)
def test_a_part_that_fails_leaves_the_others(
    steps: Sequence[Step], lengths: list[int], failed: list[int], words: list[str]
) -> None:
    asked = RangeRequest(GRID, FIRST, FIRST + sum(lengths))
    with ScriptedServer(*steps) as server:
        timeout = 0.5 if faults.hang in steps else 10.0
        parts = ask_range(server.url, asked, timeout=timeout)
        assert len(server.received) == max(len(steps), len(lengths))
    begins = accumulate(lengths, initial=FIRST)
    assert covered(parts) == list(pairwise(begins))
    assert [part for part in range(len(parts)) if failures(parts[part : part + 1])] == failed
    for message in failures(parts):
        assert_parts(message, *words)


@pytest.mark.parametrize(
    ("step", "asked", "requests", "words", "last"),
    [
        (BROKEN, LONG, 3, [": broken"], (FIRST + 30_000, FIRST + 40_000)),
        (faults.hang, RangeRequest(GRID, FIRST, LAST), 4, ["16 evaluations"], (FIRST, LAST)),
    ],
)
def test_after_failures_in_a_row_nothing_more_is_asked(
    step: Step, asked: RangeRequest, requests: int, words: list[str], last: tuple[int, int]
) -> None:
    timeout = 0.2 if step is faults.hang else 10.0
    with ScriptedServer(step) as server, range_reading(server.url, timeout=timeout) as reader:
        parts = list(reader.parts("x", asked))
        others = list(reader.parts("y", ASKED))
        assert len(server.received) == requests
    assert covered(parts)[-1] == last
    assert_parts(failures(parts)[0], *words)
    assert_parts(failures(others)[0], NO_MORE)


def test_an_absent_server_costs_a_moment() -> None:
    begin = time.monotonic()
    parts = ask_range("http://127.0.0.1:9", LONG)
    assert len(failures(parts)) == 4
    assert failures(parts)[0] == network_sentence(Kind.REFUSED, "Prometheus at http://127.0.0.1:9")
    assert time.monotonic() - begin < 10.0


def test_requests_keep_to_the_rate() -> None:
    times: list[float] = []

    def noting(peer: Peer) -> None:
        times.append(time.monotonic())
        whole(peer)

    with ScriptedServer(noting) as server, range_reading(server.url) as reader:
        for _ in range(10):
            assert failures(list(reader.parts("x", ASKED))) == []
    assert times[-1] - times[0] >= 8.5 / range_fetching.REQUESTS_A_SECOND
