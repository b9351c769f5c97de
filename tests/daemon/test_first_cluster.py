"""A daemon that is given `clusters` continues with its history, as the one of the first cluster."""

from contextlib import closing
from pathlib import Path

from autoscaler.core.history import Contention, History
from autoscaler.daemon.remembered import of_cluster
from autoscaler.persistence.record import DirectoryRecord, RecordWriter
from autoscaler.persistence.store import Resumption
from autoscaler.persistence.store.rows import Stamp
from tests.adapters.record.agreed import record_with, stretch
from tests.adapters.record.recording import plain

OLD, NEW = "shop/Deployment/web", "eu/shop/Deployment/web"


def history(replicas: int) -> History:
    """Return a history that is told from others."""
    return History(contention=Contention(replicas))


def test_histories_get_the_name_of_the_cluster() -> None:
    other = "us/shop/Deployment/web"
    known = {OLD: history(1), other: history(2), "shop/Deployment/api": history(3)}
    before = Resumption(Stamp(1.0, 1.0, ""), known, undecided={OLD: 5.0})
    after = of_cluster(before, "eu")
    assert after.histories == {
        NEW: history(1),
        other: history(2),
        "eu/shop/Deployment/api": history(3),
    }
    assert after.undecided == {NEW: 5.0}
    kept = of_cluster(Resumption(before.now, {NEW: history(4), OLD: history(1)}), "eu")
    assert kept.histories == {NEW: history(4)}
    assert of_cluster(before, "") is before


def written(folder: Path, target: str, at: float, cluster: str) -> list[str]:
    """Record a sync of a target, and return the keys that the record has then."""
    with closing(RecordWriter(folder, lambda *_: None, cluster=cluster)) as writer:
        writer.start()
        writer.put(plain(at, 1, target))
    return list(DirectoryRecord(folder).targets())


def compared(folder: Path, target: str, begin: float, cluster: str) -> dict[str, float]:
    """Keep ten minutes of agreement of a target, and return the seconds of each that are kept."""
    record = record_with(folder, (target, stretch(begin, 600.0)), cluster=cluster)
    found = record.agreement(None, 0.0, 0.0)
    return {
        key: sum(kind.seconds for kind in value.totals.values()) for key, value in found.items()
    }


def test_the_record_and_the_agreement_get_the_name_of_the_cluster(tmp_path: Path) -> None:
    other = "us/shop/Deployment/web"
    steps = [
        (OLD, "", {OLD: 600.0}),
        (NEW, "eu", {NEW: 1200.0}),
        (other, "eu", {NEW: 1200.0, other: 600.0}),
    ]
    for number, (target, cluster, seconds) in enumerate(steps):
        at = 600.0 * number
        assert written(tmp_path / "record", target, 1000.0 + at, cluster) == list(seconds)
        assert compared(tmp_path / "agreement", target, at, cluster) == seconds
