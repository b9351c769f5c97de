"""The soak, shortened: what grows with every sync shows in some hundreds of them."""

from tests.faults.soak import soak

_SYNCS = 200
_MOST_OBJECTS_A_SYNC = 100
"""Each of 200 targets would add 200, were one object of it kept at each sync.

What does grow is bounded, and fills: the Events that are remembered, 11 of a reason and object,
about 60 on a machine that is busy.
"""
_MOST_BYTES_A_SYNC = 40_000
"""The same of memory: 200 bytes of each target."""
_MOST_SOCKETS_A_SYNC = 0.1
"""Less than the faults: none may leave one behind. Pools keep some more as they are needed."""
_MOST_WORKERS = 80
"""The sizes of the pools: 16 for queries, 16 for slow ones, 24 to read, 24 to write."""


def test_no_memory_file_or_thread_piles_up() -> None:
    report = soak(_SYNCS, 200, every=10)
    assert report.defects == []
    assert report.measured[-1]["syncs"] == _SYNCS
    assert report.met > _SYNCS / 10
    assert report.changes > _SYNCS
    assert report.slope("objects") < _MOST_OBJECTS_A_SYNC
    assert report.slope("resident") < _MOST_BYTES_A_SYNC
    assert report.slope("sockets") < _MOST_SOCKETS_A_SYNC < report.met / _SYNCS
    for what in ("files", "threads"):
        assert len({sample[what] for sample in report.warm}) == 1
    assert max(sample["workers"] for sample in report.warm) <= _MOST_WORKERS
