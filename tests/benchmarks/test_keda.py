"""What `benchmarks.keda` tells both sides, and what it makes of what it saw; KEDA does not run."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import yaml

from autoscaler.config import load
from autoscaler.core.target import Target
from benchmarks.bed import Bed
from benchmarks.beside import Pair
from benchmarks.keda import pairs
from benchmarks.keda.pairs import Times
from benchmarks.keda.programs import KEDA as MODULE
from tests.importers.importing import imported

PROMETHEUS = "http://127.0.0.1:9090"
TIMES = Times(poll=5, period=5, cooldown=30)
PAIRS = (Pair("one"), Pair("two"))


def ours(folder: Path) -> tuple[Target, ...]:
    """Return our targets, as the daemon reads them."""
    prometheus = SimpleNamespace(url=PROMETHEUS)
    bed = SimpleNamespace(prometheus=prometheus, folder=folder, kubeconfig=folder / "kubeconfig")
    bed.kubeconfig.touch()
    return load(pairs.config(cast("Bed", bed), PAIRS, TIMES)).targets


def theirs(folder: Path, pair: Pair) -> Target:
    """Return the target that `autoscaler import` makes of the ScaledObject."""
    text = yaml.safe_dump(pairs.scaled_object(pair, TIMES, PROMETHEUS))
    (target,) = imported(folder, text).config.targets
    return target


def test_both_sides_are_told_the_same(tmp_path: Path) -> None:
    """The ScaledObject of a pair, converted, is our target, but for names and the query."""
    for pair, target in zip(PAIRS, ours(tmp_path), strict=True):
        converted = theirs(tmp_path, pair)
        assert target.spec.scale_target_ref.name == f"autoscaler-{pair.queue}"
        assert converted.spec.scale_target_ref.name == f"keda-{pair.queue}"
        for field in ("min_replicas", "max_replicas", "behavior"):
            assert getattr(converted.spec, field) == getattr(target.spec, field)
        assert target.sync_period == TIMES.period  # an import keeps that of KEDA's HPA, 15 s
        assert converted.extensions == target.extensions
        targets = [one.spec.metrics[0].target for one in (converted, target)]
        assert targets[0] == targets[1]


def test_what_is_built_is_pinned() -> None:
    """go.mod says which KEDA the figures are of."""
    assert MODULE.version() == "v2.21.0"
