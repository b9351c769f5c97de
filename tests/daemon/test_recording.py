"""What the daemon records, and where: changes in full, the numbers of syncs, how HPAs agree."""

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
from autoscaler.config import Config
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
from tests.narrowing import known
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


def test_a_change_is_recorded_in_full_and_what_is_between_by_its_numbers() -> None:
    """A row for each sync; the decision with it where something but a value differs."""
    writer, timeline = FakeWriter(), Timeline(spec(external(average("10"))), replicas=3)
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
    scaled = known(writer.rows[2].change)
    assert writer.rows[2].message.startswith("scaled 3 -> 6: ")
    assert scaled.decision.written
    assert writer.retained == [{WEB}]


def test_after_a_loss_and_with_other_flags_everything_is_recorded_anew() -> None:
    """Where rows were lost nobody knows what holds, and other flags are other rules."""
    writer, timeline = FakeWriter(), Timeline(spec(external(average("10"))), replicas=3)
    recording = recorder(writer)
    result = synced(timeline.sync("0s", queue=30))
    recording.configure([result.target], timeline.flags)
    for _ in range(2):
        recording.report(result)
    writer.epoch += 1
    for _ in range(2):
        recording.report(result)
    recording.configure([result.target], replace(Flags(), tolerance=0.2))
    for _ in range(2):
        recording.report(result)
    assert [row.change is not None for row in writer.rows] == [True, False] * 3
    recording.configure([], Flags())
    recording.report(result)
    assert len(writer.rows) == 6


def config_of(folder: Path, text: str) -> Config:
    """Return a configuration without targets."""
    return loaded(folder, top(text))


class DatabaseFile(Announced):
    """A recording as the daemon opens it, and what was said of it."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        super().__init__()
        self.recording = open_recording(config, self.announcements, self.metrics, stack)

    def told(self) -> tuple[bool, str] | None:
        """Return what the health says of the record."""
        return self.component(Component.RECORD)


def test_it_is_in_the_state_directory(tmp_path: Path) -> None:
    """The health and the log say where, and metrics how large it is."""
    with capture_logs() as lines, ExitStack() as stack:
        opened = DatabaseFile(config_of(tmp_path, f"stateDirectory: {tmp_path}/state"), stack)
        sentence = f"decisions are recorded in {tmp_path}/state/record.db"
        wait_until("it is said", lambda: opened.told() == (True, sentence))
        wait_until(
            "it is measured",
            lambda: series_of(opened.metrics, "autoscaler_record_bytes")[()] > 10_000,
        )
        assert opened.recording.reader is not None
        assert opened.recording.reader.targets() == []
    assert [line["message"] for line in lines if line["event"] == "record"] == [sentence]


def test_how_targets_stood_is_known_after_a_restart(tmp_path: Path) -> None:
    """Since when a state lasts goes on from what is recorded."""
    target = target_of()
    config = config_of(tmp_path, f"stateDirectory: {tmp_path}/state")
    with running(tmp_path / "state") as writer:
        writer.put(decided(target=target.key))
    with ExitStack() as stack:
        opened = DatabaseFile(config, stack)
        opened.metrics.states.set_targets([target])
        states = opened.metrics.states
        wait_until("it is said", opened.told)

        def since() -> float | None:
            states.note(result_of(target))
            return states.known()[0].since

        wait_until("it goes on", lambda: since() == BASE)


def test_without_a_state_directory_it_lives_as_long_as_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a temporary folder, which is gone afterwards; the sentence says so."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ExitStack() as stack:
        opened = DatabaseFile(config_of(tmp_path, "stateDirectory: null"), stack)
        wait_until("it is said", opened.told)
        told = known(opened.told())
        assert told[1].startswith(f"decisions are recorded in {tmp_path}/autoscaler-")
        assert told[1].endswith(
            "/record.db only as long as this process runs: stateDirectory is null"
        )
    assert [file.name for file in tmp_path.iterdir()] == ["autoscaler.yaml"]


def test_where_nothing_can_be_written_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with a read-only file system."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with ExitStack() as stack:
        opened = DatabaseFile(config_of(tmp_path, "stateDirectory: null"), stack)
        assert opened.recording == Recording()
        why = (
            "stateDirectory is null, and no temporary folder can be made: No such file or directory"
        )
        assert opened.told() == (False, f"nothing is recorded: {why}")


def test_null_records_nothing(tmp_path: Path) -> None:
    """No file, no thread, and nothing to be said."""
    with ExitStack() as stack:
        text = f"stateDirectory: {tmp_path}/state\nrecord: null"
        opened = DatabaseFile(config_of(tmp_path, text), stack)
        assert opened.recording == Recording()
    assert opened.told() is None
    assert not (tmp_path / "state").exists()


def test_the_daemon_records_what_it_decides(tmp_path: Path) -> None:
    """A target whose scale cannot be read is in the record a moment after its sync."""
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


# -- targets in shadow are compared while the daemon runs, and what became known is handed in ------

SPEC = spec(external(average("10")), maximum=20)
LESS = spec(external(average("10")), maximum=5)


def results(seconds: float) -> Iterator[SyncResult]:
    """Play a target in shadow beside an HPA with a smaller maximum; yield our syncs."""
    beside = HpaBeside(SPEC, lambda *_: {"queue": 100}, theirs=LESS, replicas=3)
    for until in range(15, int(seconds), 15):
        beside.play(until)
        yield beside.sides[1].line.result


def test_stretches_that_follow_each_other_are_one() -> None:
    """It is handed in again with another end; the first window is another stretch."""
    writer = FakeWriter()
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


@pytest.mark.parametrize("change", ["live", "removed"])
def test_a_target_that_leaves_the_shadow_is_forgotten(change: str) -> None:
    """What is known is handed in then, and nothing more at the end."""
    writer = FakeWriter()
    with closing(recorder(writer)) as recording:
        for result in results(345):
            recording.report(result)
        live = replace(result.target, extensions=Extensions())
        recording.configure([result.target], Flags())
        told = len(writer.agreed)
        recording.configure([live] if change == "live" else [], Flags())
        if change == "live":
            recording.report(replace(result, decision=replace(result.decision, shadow=False)))
        assert writer.agreed[-1].end == pytest.approx(result.decision.stamp - 16.5)
        assert len(writer.agreed) > told
        told = len(writer.agreed)
    assert len(writer.agreed) == told


def test_a_live_target_is_not_compared() -> None:
    """Nothing else scales it."""
    writer = FakeWriter()
    with closing(recorder(writer)) as recording:
        for result in results(300):
            recording.report(replace(result, decision=replace(result.decision, shadow=False)))
    assert writer.agreed == []


def test_the_record_keeps_it(tmp_path: Path) -> None:
    """With the last of it, as the daemon ends."""
    config = config_of(tmp_path, f"stateDirectory: {tmp_path}/state")
    begin = clock.wall() - 900  # what is older than the record keeps may be removed at once
    with ExitStack() as stack:
        recorder = known(DatabaseFile(config, stack).recording.recorder)
        for result in results(900):
            decision = replace(result.decision, stamp=begin + result.decision.stamp)
            recorder.report(replace(result, decision=decision))
    totals = DirectoryRecord(tmp_path / "state").agreement(None, 0.0, 0.0)[WEB].totals
    assert totals[Agreement.DIFFERENT].seconds > 200
