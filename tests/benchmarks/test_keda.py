"""What `benchmarks.keda` tells both sides; KEDA does not run."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import yaml

from autoscaler.config import load
from benchmarks.bed import Bed
from benchmarks.keda import pairs
from benchmarks.keda.programs import KEDA as MODULE
from tests.importers.importing import imported

PROMETHEUS = "http://127.0.0.1:9090"


def test_both_sides_have_the_same_configuration(tmp_path: Path) -> None:
    prometheus = SimpleNamespace(url=PROMETHEUS)
    bed = SimpleNamespace(prometheus=prometheus, folder=tmp_path, kubeconfig=tmp_path / "config")
    bed.kubeconfig.touch()
    (ours,) = load(pairs.config(cast("Bed", bed), [3])).targets
    manifest = yaml.safe_dump(pairs.scaled_object(3, PROMETHEUS))
    (theirs,) = imported(tmp_path, manifest).config.targets
    assert ours.spec.scale_target_ref.name == "worker-3"
    assert theirs.spec.scale_target_ref.name == "keda-worker-3"
    for field in ("min_replicas", "max_replicas", "behavior"):
        assert getattr(theirs.spec, field) == getattr(ours.spec, field)
    assert ours.sync_period == theirs.sync_period == pairs.PERIOD
    assert theirs.extensions == ours.extensions
    assert theirs.spec.metrics[0].target == ours.spec.metrics[0].target


def test_the_keda_version_is_pinned() -> None:
    assert MODULE.version() == "v2.21.0"
