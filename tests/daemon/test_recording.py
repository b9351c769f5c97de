"""What the daemon records, and where: changes in full, the numbers of syncs, how HPAs agree."""

import errno
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from autoscaler import clock
from autoscaler.core.extensions import Extensions
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.recording import Recorder, Recording, open_recording
from autoscaler.persistence.record import DirectoryRecord, RecordWriter, SyncRow
from autoscaler.persistence.record.agreement import Agreement, AgreementInterval
from autoscaler.telemetry.health import Component
from tests.adapters.record.recording import decided, running
from tests.config.documents import loaded, top
from tests.core.builders import BASE, average, external, spec
from tests.core.hpa_beside import HpaBeside
from tests.core.timeline import Timeline
from tests.daemon.test_service import TARGET, Daemon
from tests.narrowing import assert_parts, known
from tests.telemetry.results import result_of, series_of, target_of
from tests.worlds.announced import Announced
from tests.worlds.record import synced
from tests.worlds.waiting import wait_until

WEB, KEY = "shop/Deployment/web", "shop/Deployment/a"


class FakeWriter:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.epoch = 0
        self.rows: list[SyncRow] = []
        self.retained: list[set[str]] = []
        self.agreed: list[AgreementInterval] = []

    def put(self, row: SyncRow) -> None:
        self.rows.append(row)

    def retain(self, targets: Collection[str]) -> None:
        self.retained.append(set(targets))

    def put_agreement(self, target: str, stretch: AgreementInterval) -> None:
        assert target == WEB
        self.agreed.append(stretch)


def recorder(writer: FakeWriter) -> Recorder:
    return Recorder(cast("RecordWriter", writer))


@pytest.fixture
def writer() -> FakeWriter:
    return FakeWriter()


def test_a_change_is_recorded_in_full_and_other_syncs_by_their_numbers(
    writer: FakeWriter,
) -> None:
    timeline = Timeline(spec(external(average("10"))), replicas=3)
    recording = recorder(writer)
    result = synced(timeline.sync("0s", queue=30))
    recording.configure([result.target], timeline.flags)
    recording.report(result)
    for second, queue in ((15, 31), (30, 60), (45, 60)):
        recording.report(synced(timeline.sync(f"{second}s", queue=queue)))
    assert [row.change is not None for row in writer.rows] == [True, False, True, True]
    assert [row.numbers for row in writer.rows] == [
        (3, 3, 10_000, 3),
        *((3, 3, 10_334, 3), (3, 6, 20_000, 6), (6, 6, 10_000, 6)),
    ]
    assert_parts(writer.rows[2].message, "3 -> 6")
    assert known(writer.rows[2].change).decision.written
    assert writer.retained == [{WEB}]


def test_after_a_loss_and_with_other_flags_everything_is_recorded_again(
    writer: FakeWriter,
) -> None:
    """Lost rows may have been the last change, and other flags are other rules."""
    recording = recorder(writer)
    result = synced(Timeline(spec(external(average("10"))), replicas=3).sync("0s", queue=30))
    for flags, epoch in ((Flags(), 0), (Flags(), 1), (replace(Flags(), tolerance=0.2), 1)):
        writer.epoch = epoch
        recording.configure([result.target], flags)
        for _ in range(2):
            recording.report(result)
    assert [row.change is not None for row in writer.rows] == [True, False] * 3
    recording.configure([], Flags())
    recording.report(result)
    assert len(writer.rows) == 6


class DatabaseFile(Announced):
    """A recording as the daemon opens it, and what the daemon reports of it."""

    def __init__(self, folder: Path, text: str, stack: ExitStack) -> None:
        super().__init__()
        config = loaded(folder, top(text))
        self.recording = open_recording(config, self.announcements, self.metrics, stack)

    @property
    def state(self) -> tuple[bool, str] | None:
        """The state of the record in the health, once it was reported."""
        return self.component(Component.RECORD)

    def wait_state(self) -> tuple[bool, str]:
        return known(wait_until("the state", lambda: self.state))


def test_the_record_is_in_the_state_directory(tmp_path: Path) -> None:
    with capture_logs() as lines, ExitStack() as stack:
        opened = DatabaseFile(tmp_path, f"stateDirectory: {tmp_path}/state", stack)
        ok, message = opened.wait_state()
        wait_until(
            "the size", lambda: series_of(opened.metrics, "autoscaler_record_bytes")[()] > 10_000
        )
        assert known(opened.recording.reader).targets() == []
    assert ok
    assert_parts(message, f"{tmp_path}/state/record.db")
    assert [
        (line["log_level"], line["message"]) for line in lines if line["event"] == "record"
    ] == [("info", message)]


def test_the_time_of_a_state_is_known_after_a_restart(tmp_path: Path) -> None:
    target = target_of()
    with running(tmp_path / "state") as writer:
        writer.put(decided(target=target.key))
    with ExitStack() as stack:
        opened = DatabaseFile(tmp_path, f"stateDirectory: {tmp_path}/state", stack)
        states = opened.metrics.states
        states.set_targets([target])
        opened.wait_state()

        def since() -> float | None:
            states.note(result_of(target))
            return states.known()[0].since

        wait_until("the time", lambda: since() == BASE)


def test_without_a_state_directory_the_record_lives_as_long_as_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ExitStack() as stack:
        ok, message = DatabaseFile(tmp_path, "stateDirectory: null", stack).wait_state()
    assert ok
    assert_parts(message, f"{tmp_path}/autoscaler-", "/record.db", "stateDirectory is null")
    assert [file.name for file in tmp_path.iterdir()] == ["autoscaler.yaml"]


@pytest.mark.parametrize("text", ["stateDirectory: null", "stateDirectory: {}/state\nrecord: null"])
def test_nothing_is_recorded_without_a_folder_or_if_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with ExitStack() as stack:
        opened = DatabaseFile(tmp_path, text.format(tmp_path), stack)
        assert opened.recording == Recording()
    if "record" in text:
        assert opened.state is None
    else:
        ok, message = known(opened.state)
        assert not ok
        assert_parts(message, "stateDirectory", os.strerror(errno.ENOENT))
    assert [file.name for file in tmp_path.iterdir()] == ["autoscaler.yaml"]


def test_the_daemon_records_its_decisions(tmp_path: Path) -> None:
    record = DirectoryRecord(tmp_path / "state")
    more = {"stateDirectory": str(tmp_path / "state"), "syncPeriod": "1s"}
    with Daemon(tmp_path, targets=[TARGET], **more) as daemon:
        loop = daemon.loop()
        synced = loop.telemetry.health.sync_completed

        def stop(name: str) -> None:
            synced(name)
            daemon.signals.stop.set()

        loop.telemetry.health.sync_completed = stop  # type: ignore[method-assign]
        loop.run()
    (change,) = record.changes([KEY], 0, 2e12, limit=2)
    assert (change.state, change.current) == ("failing", None)
    assert record.entry(change).rules.target.key == KEY


# -- targets in shadow are compared while the daemon runs ------------------------------------------

SPEC = spec(external(average("10")), maximum=20)
LESS = spec(external(average("10")), maximum=5)


def results(seconds: float) -> Iterator[SyncResult]:
    """Play a target in shadow beside an HPA with a smaller maximum; yield our syncs."""
    beside = HpaBeside(SPEC, lambda *_: {"queue": 100}, theirs=LESS, replicas=3)
    for until in range(15, int(seconds), 15):
        beside.play(until)
        yield beside.sides[1].line.result


def live(result: SyncResult) -> SyncResult:
    """Return the result of the same target, which is not in shadow."""
    return replace(result, decision=replace(result.decision, shadow=False))


def test_intervals_of_one_kind_are_joined(writer: FakeWriter) -> None:
    with closing(recorder(writer)) as recording:
        played = [*results(900)]
        for result in played:
            recording.report(result)
    by_begin = {row.begin: row for row in writer.agreed}
    first, second = by_begin.values()
    assert (first.kind, second.kind) == (Agreement.NOT_COMPARED, Agreement.DIFFERENT)
    assert (second.ours, second.theirs, first.end) == (10, 5, second.begin)
    assert len(writer.agreed) > len(by_begin)
    assert all(before.end < after.end for before, after in pairwise(writer.agreed))
    assert second.end == pytest.approx(played[-1].decision.stamp - 16.5)


@pytest.mark.parametrize("becomes_live", [True, False], ids=["live", "removed"])
def test_a_comparison_ends_with_the_shadow_of_its_target(
    writer: FakeWriter, *, becomes_live: bool
) -> None:
    with closing(recorder(writer)) as recording:
        played = [*results(345)]
        for result in played:
            recording.report(result)
        result = played[-1]
        target = replace(result.target, extensions=Extensions())
        recording.configure([result.target], Flags())
        before = len(writer.agreed)
        recording.configure([target] if becomes_live else [], Flags())
        if becomes_live:
            recording.report(live(result))
        assert writer.agreed[-1].end == pytest.approx(result.decision.stamp - 16.5)
        after = len(writer.agreed)
        assert after > before
    assert len(writer.agreed) == after


def test_the_record_keeps_the_comparison(tmp_path: Path) -> None:
    begin = clock.wall() - 900  # what is older than the record keeps may be removed at once
    with ExitStack() as stack:
        opened = DatabaseFile(tmp_path, f"stateDirectory: {tmp_path}/state", stack)
        for result in results(900):
            decision = replace(result.decision, stamp=begin + result.decision.stamp)
            known(opened.recording.recorder).report(replace(result, decision=decision))
    totals = DirectoryRecord(tmp_path / "state").agreement(None, 0.0, 0.0)[WEB].totals
    assert totals[Agreement.DIFFERENT].seconds > 200
