"""What `benchmarks.keda` tells both sides, and what it makes of what it saw; KEDA does not run."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import yaml

from autoscaler.config import load
from autoscaler.core.target import Target
from benchmarks.bed import Bed
from benchmarks.figures import Steady, Window
from benchmarks.keda import pairs, report
from benchmarks.keda.options import PARTS, parse
from benchmarks.keda.pairs import KEDA, OURS, Pair, Times
from benchmarks.keda.programs import KEDA as MODULE
from benchmarks.keda.scenarios import Results, Timeline
from tests.config.documents import loaded, refused

PROMETHEUS = "http://127.0.0.1:9090"
TIMES = Times(poll=5, period=5, cooldown=30)
PAIRS = (Pair("plain"), Pair("safe", fallback=True))


def ours(folder: Path) -> tuple[Target, ...]:
    """Return our targets, as the daemon reads them."""
    prometheus = SimpleNamespace(url=PROMETHEUS)
    bed = SimpleNamespace(prometheus=prometheus, folder=folder, kubeconfig=folder / "kubeconfig")
    bed.kubeconfig.touch()
    return load(pairs.config(cast("Bed", bed), PAIRS, TIMES)).targets


def theirs(folder: Path, pair: Pair) -> Target:
    """Return the target that `autoscaler validate` makes of the ScaledObject."""
    (problem,) = refused(folder, yaml.safe_dump(pairs.scaled_object(pair, TIMES, PROMETHEUS)))
    (target,) = loaded(folder, problem.ready).targets
    return target


def test_both_sides_are_told_the_same(tmp_path: Path) -> None:
    """The ScaledObject of a pair, converted, is our target, but for names and the query."""
    for pair, target in zip(PAIRS, ours(tmp_path), strict=True):
        converted = theirs(tmp_path, pair)
        assert target.spec.scale_target_ref.name == f"autoscaler-{pair.queue}"
        assert converted.spec.scale_target_ref.name == f"keda-{pair.queue}"
        for field in ("min_replicas", "max_replicas", "behavior"):
            assert getattr(converted.spec, field) == getattr(target.spec, field)
        assert converted.sync_period == target.sync_period
        assert converted.extensions == target.extensions
        targets = [one.spec.metrics[0].target for one in (converted, target)]
        assert targets[0] == targets[1]


def test_the_command_line_chooses_the_parts() -> None:
    """All parts unless some are named, in their own order."""
    assert tuple(parse([], "").parts) == PARTS
    options = parse(["--parts", "rest", "queue", "--targets", "7", "--poll", "30"], "")
    assert options.parts == ["queue", "rest"]
    assert (options.rest.targets, options.plan.times) == (7, Times(30, 5, 30))


def test_what_is_built_is_pinned() -> None:
    """go.mod says which KEDA the figures are of."""
    assert MODULE.version() == "v2.21.0"


def test_counts_side_by_side() -> None:
    """A line for each change and each event, in the order of time."""
    changes = {KEDA: [(5.0, 1), (9.0, 7)], OURS: [(2.0, 4), (7.0, 7)]}
    timeline = Timeline("A queue fills", 0, [(0.0, "200 messages")], changes)
    assert [timeline.path(side) for side in (KEDA, OURS)] == ["0 -> 1 -> 7", "0 -> 4 -> 7"]
    lines = report.side_by_side(timeline).splitlines()[4:]
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines] == [
        ["0.0", "0", "0", "200 messages"],
        ["2.0", "0", "4", ""],
        ["5.0", "1", "4", ""],
        ["7.0", "1", "7", ""],
        ["9.0", "7", "7", ""],
    ]


def test_what_did_not_happen_is_told() -> None:
    """A sample that is missing is none of the median, and is counted."""
    results = Results()
    for theirs_, ours_ in ((4.0, 2.0), (6.0, None)):
        results.add("waking, s", KEDA, theirs_)
        results.add("waking, s", OURS, ours_)
    assert report.rows(results).splitlines()[-1].split("|")[2:-1] == [
        " 5.0 (4.0 to 6.0) ",
        " 2.0 (2.0 to 2.0), 1 of 2 never ",
        "               2.5 ",
    ]


def test_the_cost_at_rest() -> None:
    """Per target and period; the servers' own work is told apart."""

    def steady(cpu: float, queries: int) -> Steady:
        window = Window(60.0, {"etcd": cpu}, {"etcd": 2**20}, {}, queries)
        return Steady(10, 40, window, {"etcd": 0.001})

    lines = report.rest({KEDA: steady(4.0, 80), OURS: steady(0.4, 4)}).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[2:7] == [
        ["CPU per target and 15 s, all processes, ms", "100.0", "10.0", "10.0"],
        ["- with nothing running, ms", "1.5", "1.5", ""],
        ["- above that, ms", "98.5", "8.5", "11.6"],
        ["- of etcd, ms", "100.00", "10.00", ""],
        ["Prometheus queries per 15 s", "20", "1", "20.0"],
    ]
