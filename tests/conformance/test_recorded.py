"""Every recorded tick, kept in the record's file and computed again from what it holds."""

from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import pytest

from autoscaler.core.step import recompute
from autoscaler.persistence.codec import is_same
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.file import open_file
from tests.adapters.record.recording import row_of
from tests.conformance.player import played_ticks


@pytest.mark.slow
def test_every_recorded_tick_is_computed_again_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [list(results) for _, results in groupby(played_ticks(), lambda tick: tick.target.key)]
    file = open_file(tmp_path, 0.0, print)
    for results in kept:
        rows = [row_of(result, result.decision.stamp) for result in results]
        file.write(rows, rows[-1].time)
    file.close()
    record = DirectoryRecord(tmp_path)
    compared = 0
    with record._opened() as connection:
        # Each call would open the file anew.
        monkeypatch.setattr(record, "_opened", lambda: nullcontext(connection))
        for results in kept:
            key = results[0].target.key
            changes = record.changes([key], -1e18, 1e18, limit=len(results) + 1)
            for result, change in zip(results, reversed(changes), strict=True):
                entry = record.entry(change)
                assert is_same(entry.decision, result.decision), change
                assert is_same(recompute(entry), result.decision), change
                compared += 1
    assert compared == 353 + 9_864
