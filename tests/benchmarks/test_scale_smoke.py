"""A small run of `benchmarks.scale` on real servers.  No time is asserted: machines differ."""

import dataclasses
import os

import pytest

from benchmarks import scale
from benchmarks.figures import Figures, Steady
from benchmarks.scale import QUICK, Results
from tests.narrowing import assert_parts
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.prometheus_adapter.adapter import ADAPTER_MODULE

TARGETS = 20
SMALL = dataclasses.replace(
    QUICK,
    targets=TARGETS,
    # A busy controller may be late with some of its syncs at rest.
    period=1.0,
    syncs=3,
    side_by_side=ADAPTER_MODULE.cached() or "CI" in os.environ,
)

# The binaries are built where they are not there yet, which takes minutes.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def results() -> Results:
    """Give the figures of a run, next to the HPA unless its adapter would have to be built."""
    with if_available():
        return scale.run(SMALL, print)


def reached(figures: Figures) -> list[int]:
    """Return how many targets reached their replicas, for each step up and down."""
    return [len(step.landings) for step in (*figures.ups, *figures.downs)]


def ours(results: Results) -> list[Figures]:
    return [figures for figures in results.compared if not figures.name.startswith("HPA")]


def rest(figures: Figures) -> Steady:
    assert figures.steady is not None
    return figures.steady


def test_every_target_reaches_its_replicas(results: Results) -> None:
    assert [reached(figures) for figures in ours(results)] == 2 * [[TARGETS, TARGETS]]
    for figures in ours(results):
        for step in figures.ups:
            assert step.began is not None
            assert step.changed <= step.landings[0]
            assert step.began <= step.landings[0] <= step.landings[-1]


def test_all_processes_are_measured_at_rest(results: Results) -> None:
    processes = {"autoscaler", "kube-apiserver", "etcd", "prometheus"}
    for figures in (*ours(results), *results.pods):
        assert set(rest(figures).window.cpu) == processes
        assert min(rest(figures).window.resident.values()) > 1_000_000
        assert rest(figures).window.queries >= 1
        assert not {name for name in rest(figures).window.api if "PUT" in name or "PATCH" in name}
        assert (figures.start or 0) > 0


def test_the_tables_have_every_row(results: Results) -> None:
    text = scale.text(results, SMALL)
    assert_parts(text, f"## {TARGETS} targets", "## Pods and CPU metrics")
    assert_parts(text, "| start to", "| API requests", "| CPU per target", "| resident: autoscaler")
    assert_parts(text, "all processes, ms ", "baseline loop ", "last write, s ")


def test_the_hpa_scales_the_same_targets_beside_it(results: Results) -> None:
    if not SMALL.side_by_side:
        pytest.skip("prometheus-adapter is not built; `benchmarks.scale --side-by-side` builds it")
    hpas = [figures for figures in results.compared if figures.name.startswith("HPA")]
    assert [reached(figures) for figures in hpas] == [[TARGETS], [TARGETS]]
    for figures in hpas:
        assert {"kube-controller-manager", "prometheus-adapter"} < set(rest(figures).window.cpu)
        assert rest(figures).decisions >= TARGETS
        assert rest(figures).window.api["GET external metric"] >= TARGETS
    assert "| HPA, tuned / autoscaler" in scale.text(results, SMALL)
