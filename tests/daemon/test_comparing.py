"""Targets in shadow are compared while the daemon runs, and what became known is handed in."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.recording import Recorder, open_recording
from autoscaler.persistence.record import DirectoryRecord, RecordWriter
from autoscaler.persistence.record.agreement import Agreement, Stretch
from tests.core.builders import average, external, spec
from tests.core.hpa_beside import HpaBeside
from tests.telemetry.results import metrics_of
from tests.web.pages.reading import config_of
from tests.worlds.announced import Announced

SPEC = spec(external(average("10")), maximum=20)
LESS = spec(external(average("10")), maximum=5)
WEB = "shop/Deployment/web"


class Rows(list[Stretch]):
    """What was handed in of comparisons, in place of the writer."""

    epoch = 0

    def put(self, row: object) -> None:
        """Let it be."""

    def retain(self, targets: object) -> None:
        """Keep all."""

    def put_agreement(self, target: str, stretch: Stretch) -> None:
        assert target == WEB
        self.append(stretch)


def results(seconds: float) -> Iterator[SyncResult]:
    """Play a target in shadow beside an HPA with a smaller maximum; yield our syncs."""
    beside = HpaBeside(SPEC, lambda *_: {"queue": 100}, theirs=LESS, replicas=3)
    for until in range(15, int(seconds), 15):
        beside.play(until)
        yield beside.sides[1].line.result


@contextmanager
def comparer() -> Iterator[tuple[Recorder, Rows]]:
    """Give one, and what it hands in; at the end it is closed."""
    rows = Rows()
    one = Recorder(cast("RecordWriter", rows))
    yield one, rows
    one.close()


def test_stretches_that_follow_each_other_are_one() -> None:
    """It is handed in again with another end; the first window is another stretch."""
    with comparer() as (one, rows):
        played = [*results(900)]
        for result in played:
            one.report(result)
    by_begin = {row.begin: row for row in rows}
    first, second = by_begin.values()
    assert (first.kind, second.kind) == (Agreement.NOT_COMPARED, Agreement.DIFFERENT)
    assert (second.ours, second.theirs, first.end) == (10, 5, second.begin)
    assert len(rows) > len(by_begin)
    assert all(before.end < after.end for before, after in pairwise(rows))
    assert second.end == pytest.approx(played[-1].decision.stamp - 16.5)


@pytest.mark.parametrize("change", ["live", "removed"])
def test_a_target_that_leaves_the_shadow_is_forgotten(change: str) -> None:
    """What is known is handed in then, and nothing more at the end."""
    with comparer() as (one, rows):
        for result in results(345):
            one.report(result)
        live = replace(result.target, extensions=Extensions())
        one.configure([result.target], Flags())
        told = len(rows)
        one.configure([live] if change == "live" else [], Flags())
        if change == "live":
            one.report(replace(result, decision=replace(result.decision, shadow=False)))
        assert rows[-1].end == pytest.approx(result.decision.stamp - 16.5)
        assert len(rows) > told
        told = len(rows)
    assert len(rows) == told


def test_a_live_target_is_not_compared() -> None:
    """Nothing else scales it."""
    with comparer() as (one, rows):
        for result in results(300):
            one.report(replace(result, decision=replace(result.decision, shadow=False)))
    assert rows == []


def test_the_record_keeps_it(tmp_path: Path) -> None:
    """With the last of it, as the daemon ends."""
    config = config_of(tmp_path, stateDirectory=str(tmp_path / "state"))
    begin = clock.wall() - 900  # what is older than the record keeps may be removed at once
    with ExitStack() as stack:
        opened = open_recording(config, Announced().announcements, metrics_of(), stack)
        assert opened.recorder is not None
        for result in results(900):
            decision = replace(result.decision, stamp=begin + result.decision.stamp)
            opened.recorder.report(replace(result, decision=decision))
    totals = DirectoryRecord(tmp_path / "state").agreement(None, 0.0, 0.0)[WEB].totals
    assert totals[Agreement.DIFFERENT].seconds > 200
