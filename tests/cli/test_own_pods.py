"""Which pods are a target's own, and their totals."""

import math
import re
from array import array
from dataclasses import replace

import pytest

from autoscaler.core.series import QueryFailure
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Query, SeriesLabels, Target
from autoscaler.lab.engine.loads import Total
from autoscaler.lab.past.own_pods import kept_totals, of_own_pods, pods_of, totals_of
from autoscaler.lab.past.range_fetching import AnswerPart, FetchedRange
from autoscaler.lab.past.range_files import RangeKey
from autoscaler.lab.past.range_needs import TimeGrid
from autoscaler.lab.past.ranges import Grid, Matrix, MatrixSeries
from tests.core.builders import per_pod, spec
from tests.narrowing import assert_parts, instance


@pytest.mark.parametrize(
    ("kind", "name", "own", "foreign"),
    [
        ("Deployment", "web", "web-7d9fbb8c4d-x7k2p web-7d9f-bcdfg", "web-api-7d9fbb8c4d-x7k2p"),
        ("Deployment", "web", "", "web-0 web-api-x7k2p web-x7k2p aweb-7d9f-bcdfg"),
        ("Rollout", "web", "web-7d9fbb8c4d-x7k2p", "web-0"),
        ("ReplicaSet", "web", "web-x7k2p", "web-7d9fbb8c4d-x7k2p"),
        ("ReplicationController", "web", "web-x7k2p", "web-12"),
        ("StatefulSet", "db", "db-0 db-12", "db-a db-0-x7k2p db-x7k2p"),
        ("Deployment", "a.b", "a.b-7d9f-bcdfg", "axb-7d9f-bcdfg"),
        ("Deployment", '(a+)+"', "xa+)+y-7d9f-bcdfg", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-"),
        ("JobSet", "jobs", "jobs-anything-at-all", "jobs job-1"),
    ],
)
def test_own_pods_have_names_of_their_kind(kind: str, name: str, own: str, foreign: str) -> None:
    scaled = replace(spec(), scale_target_ref=ScaleTargetRef("apps/v1", kind, name))
    fits = re.compile(pods_of(Target("shop", scaled, ()))).fullmatch
    assert [pod for pod in f"{own} {foreign}".split() if fits(pod)] == own.split()


def test_a_query_whose_labels_need_quotes_is_not_restricted_to_own_pods() -> None:
    assert of_own_pods(Query("load"), TARGET).startswith('load{namespace="shop",pod=~"web-')
    labels = SeriesLabels(pod="the pod")
    assert of_own_pods(Query("load", labels=labels), TARGET) == "load"


GRID = Grid(15_000, 0)
TARGET = Target("shop", spec(per_pod("1")), (Query("load"),))
A, B = "web-7d9f-bbbbb", "web-7d9f-ccccc"


def totals(*pods: tuple[str, list[float]], warnings: tuple[str, ...] = ()) -> list[object]:
    """Return the totals of pods whose first values are at the instants 100, 101, ..."""
    series = [
        MatrixSeries({"namespace": "shop", "pod": pod}, [(100, len(of))], array("d", of))
        for pod, of in pods
    ]
    part = AnswerPart(100, 103, totals_of(TARGET, 0, GRID, Matrix(series, warnings)))
    time = TimeGrid(GRID.instant(100), GRID.instant(103), 15.0)
    answers = FetchedRange(RangeKey("server", "load", GRID, "totals"), (part,)).answers(time)
    return [kept_totals(answers)(GRID.instant(at)) for at in range(100, 103)]


def test_a_total_is_of_the_pods_with_a_sample() -> None:
    assert totals((A, [0.0004, 0.0006]), (B, [0.0004, 2.0, 0.1])) == [
        Total(0.0, 2),
        Total(2.001, 2),
        Total(0.1, 1),
    ]
    assert totals((A, [1.0, 2.0])) == [Total(1.0, 1), Total(2.0, 1), None]
    assert totals() == [None, None, None]


def test_a_pod_without_a_usable_sample_leaves_no_total() -> None:
    assert totals((A, [1.0, math.nan, 1.0]), (B, [1.0] * 3)) == [Total(2.0, 2), None, Total(2.0, 2)]
    assert totals((A, [1.0]), (A, [2.0])) == [None, None, None]


def test_the_total_of_an_incomplete_answer_is_not_known() -> None:
    for total in totals((A, [1.0] * 3), warnings=("store away",)):
        assert_parts(instance(QueryFailure, total), "incomplete", "store away")
