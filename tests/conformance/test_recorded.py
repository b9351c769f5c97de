"""Every recorded tick, kept in the record's file and computed again from what it holds."""

from pathlib import Path

import pytest

from autoscaler.adapters.record import DirectoryRecord
from autoscaler.adapters.record.file import open_file
from autoscaler.adapters.record.row import NewChange, Row
from autoscaler.config import parse_spec, to_core
from autoscaler.core.entry import Inputs, Rules, is_same, recompute
from autoscaler.core.history import History
from autoscaler.core.observation import Scale
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import Written
from autoscaler.record.changes import marks_of, numbers_of
from autoscaler.rendering.verdict import state_of, verdict
from autoscaler.sync.ports import SyncResult
from tests.conformance.player import Json, flags_of, observation_of, play_tick, scenarios

FOLDER = Path(__file__).parent


def rows_of(scenario: Json) -> list[Row]:
    """Play a scenario; return each of its ticks as a change."""
    spec, flags = to_core(parse_spec(scenario["spec"])), flags_of(scenario["flags"])
    queries = tuple(Query(f"metric_{index}") for index in range(len(spec.metrics)))
    target = Target(scenario["name"], spec, queries)
    rules, history, rows = Rules(target, flags), History(), []
    for tick in scenario["ticks"]:
        seen, now = observation_of(tick["observed"]), tick["t"]
        inputs = Inputs(seen, history, now, now)
        decision, history = play_tick(spec, flags, tick, history)
        assert isinstance(seen.scale, Scale)
        write = Written(seen.scale) if decision.rescale else None
        result = SyncResult(target, decision, write, inputs=inputs)
        change = NewChange(
            state_of(result),
            verdict(result),
            marks_of(decision, write),
            "",
            rules,
            inputs,
            decision,
            write,
        )
        rows.append(Row(target.key, now, 15.0, numbers_of(decision), change))
    return rows


@pytest.mark.slow
def test_every_recorded_tick_is_computed_again_to_the_same_result(tmp_path: Path) -> None:
    """More than 10,000 decisions of all kinds that the real controller has taken too."""
    kept = [
        rows_of(scenario)
        for name in ("documented.jsonl.gz", "random.jsonl.gz")
        for scenario in scenarios(FOLDER / name)
    ]
    file = open_file(tmp_path, 0.0, print)
    for rows in kept:
        file.write(rows, rows[-1].time)
    file.close()
    record = DirectoryRecord(tmp_path)
    compared = 0
    for rows in kept:
        changes = record.changes([rows[0].target], -1e18, 1e18, limit=len(rows) + 1)
        assert len(changes) == len(rows)
        for row, change in zip(rows, reversed(changes), strict=True):
            entry = record.entry(change)
            assert row.change is not None
            assert is_same(entry.decision, row.change.decision), change
            assert is_same(recompute(entry), row.change.decision), change
            compared += 1
    assert compared == 353 + 9864
