"""Results as rows of the record: the numbers of each sync, and in full what has changed."""

from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from typing import NamedTuple

from autoscaler.config import Config
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.core.target import Target
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.comparing import Comparer
from autoscaler.persistence.record import DirectoryRecord, Limits, RecordWriter, SyncRow
from autoscaler.persistence.record.changes import Seen, change_key, numbers_of, seen_after
from autoscaler.persistence.record.rows import RecordError
from autoscaler.persistence.temporary_folders import temporary_folder
from autoscaler.rendering.reasons import verdict
from autoscaler.sync.ports import Reporter
from autoscaler.telemetry.metrics import Metrics


class Recorder(Reporter):
    """Hands each result to a writer."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self._epoch = writer.epoch
        self._rules: dict[str, Rules] = {}
        self._seen: dict[str, Seen] = {}
        """By target, with the hash of the key: thousands of keys are too much to keep."""

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:
        """Go on with these targets; no sync may run of one that is changed or removed."""
        before = self._rules
        self._rules = {target.key: Rules(target, flags) for target in targets}
        seen = self._seen.copy()
        self._seen = {key: one for key, one in seen.items() if self._rules.get(key) == before[key]}
        self._writer.retain(self._rules.keys())

    def report(self, result: SyncResult) -> None:
        """Hand in one target's result."""
        target, decision = result.target, result.decision
        rules = self._rules.get(target.key)
        if rules is None or result.given is None:
            return
        epoch = self._writer.epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._seen = {}
        key, before = hash(change_key(result)[1:]), self._seen.get(target.key)
        seen = seen_after(before, key, decision)
        row = SyncRow(target.key, decision.stamp, target.sync_period, numbers_of(decision))
        if seen != before:
            self._seen[target.key] = seen
            row = row._replace(
                change=result, state=result.classified().state, message=verdict(result)
            )
        self._writer.put(row)


class Recording(NamedTuple):
    """What hands in and compares the results, and what reads them; None where it is off."""

    recorder: Recorder | None = None
    comparer: Comparer | None = None
    reader: DirectoryRecord | None = None


def open_recording(
    config: Config, announcements: Announcements, metrics: Metrics, stack: ExitStack
) -> Recording:
    """Open the record until ``stack`` closes it, without a state directory in a temporary one."""
    settings, directory, note = config.record, config.state_directory, ""
    if settings is None:
        return Recording()
    if directory is None:
        note = "only as long as this process runs: stateDirectory is null"
        try:
            directory = stack.enter_context(temporary_folder("autoscaler-record-"))
        except OSError as error:
            announcements.record(
                False,  # noqa: FBT003 - the shape of such callbacks
                "nothing is recorded: stateDirectory is null, and no temporary folder can be "
                f"made: {error.strerror}",
            )
            return Recording()
    limits, reader = Limits(settings.max_size, settings.max_age), DirectoryRecord(directory)
    resumed = False

    def recorded(ok: bool, sentence: str) -> None:  # noqa: FBT001 - a callback's shape
        """Report how the record stands, on its thread, and once how targets stood before."""
        nonlocal resumed
        announcements.record(ok, sentence)
        if ok and not resumed:
            resumed = True
            with suppress(RecordError):
                metrics.states.resume(reader.standings())

    writer = RecordWriter(directory, recorded, limits, note=note, cluster=config.first_cluster)
    metrics.record = lambda: writer.status
    stack.enter_context(closing(writer))
    writer.start()
    comparer = stack.enter_context(closing(Comparer(writer)))
    return Recording(Recorder(writer), comparer, reader)
