"""Which pods are a target's own, by the names that Kubernetes gives them."""

import re
from dataclasses import replace

import pytest

from autoscaler.cli.own_pods import pods_of, runs_of
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Target
from tests.core.builders import spec


@pytest.mark.parametrize(
    ("kind", "name", "own", "foreign"),
    [
        (
            "Deployment",
            "web",
            ["web-7d9fbb8c4d-x7k2p", "web-7d9f-bcdfg"],
            ["web-api-7d9fbb8c4d-x7k2p", "web-0", "web-api-x7k2p", "web-x7k2p", "aweb-7d9f-bcdfg"],
        ),
        ("Rollout", "web", ["web-7d9fbb8c4d-x7k2p"], ["web-0"]),
        ("ReplicaSet", "web", ["web-x7k2p"], ["web-7d9fbb8c4d-x7k2p"]),
        ("ReplicationController", "web", ["web-x7k2p"], ["web-12"]),
        ("StatefulSet", "db", ["db-0", "db-12"], ["db-a", "db-0-x7k2p", "db-x7k2p"]),
        ("Deployment", "a.b", ["a.b-7d9f-bcdfg"], ["axb-7d9f-bcdfg"]),
        ("JobSet", "jobs", ["jobs-anything-at-all"], ["jobs", "job-1"]),
    ],
)
def test_own_pods(kind: str, name: str, own: list[str], foreign: list[str]) -> None:
    """And not those of a workload whose name begins with the target's."""
    target = Target(
        "shop", replace(spec(), scale_target_ref=ScaleTargetRef("apps/v1", kind, name)), ()
    )
    fits = re.compile(pods_of(target)).fullmatch
    assert [one for one in (*own, *foreign) if fits(one)] == own


def test_runs() -> None:
    """Numbers in order, as pairs of the first one and how many there are."""
    assert runs_of([]) == []
    assert runs_of([3, 4, 5, 8, 10, 11]) == [(3, 3), (8, 1), (10, 2)]
