"""Results as rows of the record: the numbers of each sync, and in full what has changed."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from autoscaler.adapters.record import DirectoryRecord, Limits, NewChange, RecordWriter, Row
from autoscaler.config import Config
from autoscaler.core.entry import Rules
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition import Metrics
from autoscaler.record.changes import change_key, marks_of, numbers_of
from autoscaler.record.rows import RecordReader
from autoscaler.rendering.verdict import state_of, verdict
from autoscaler.sync.ports import SyncResult, SyncSummary


class Recorder:
    """Hands each result to a writer."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self._epoch = writer.epoch
        self._rules: dict[str, Rules] = {}
        self._keys: dict[str, int] = {}
        """By target the hash of its last change's key: thousands of these are too much to keep."""

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:
        """Go on with these targets and no others; call it while no sync runs."""
        before = self._rules
        self._rules = {target.key: Rules(target, flags) for target in targets}
        self._keys = {
            key: one for key, one in self._keys.items() if self._rules.get(key) == before[key]
        }
        self._writer.retain(self._rules.keys())

    def report(self, result: SyncResult) -> None:
        """Hand in one target's result."""
        target, decision, write = result.target, result.decision, result.write
        rules = self._rules.get(target.key)
        if rules is None or result.inputs is None:
            return
        epoch = self._writer.epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._keys = {}
        key = hash(change_key(rules, decision, write)[1:])
        change = None
        if self._keys.get(target.key) != key:
            self._keys[target.key] = key
            foreign = decision.foreign
            change = NewChange(
                state_of(result),
                verdict(result),
                marks_of(decision, write),
                "" if foreign is None else foreign.manager,
                rules,
                result.inputs,
                decision,
                write,
            )
        numbers = numbers_of(decision)
        self._writer.put(Row(target.key, decision.stamp, target.sync_period, numbers, change))

    def fault(self, error: BaseException) -> None:
        """Leave it to others."""

    def clock_set(self, seconds: float) -> None:
        """Go on: what is recorded keeps its times."""

    def synced(self, summary: SyncSummary) -> None:
        """Leave it to others."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What hands in the results, and what reads them; None where nothing is recorded."""

    recorder: Recorder | None = None
    reader: RecordReader | None = None


def open_recording(
    config: Config, announcements: Announcements, metrics: Metrics, stack: ExitStack
) -> Recording:
    """Open the record; ``stack`` closes it.

    Without a state directory it is in a temporary one, which goes with the process.
    """
    settings, directory, note = config.record, config.state_directory, ""
    if settings is None:
        return Recording()
    if directory is None:
        note = "only as long as this process runs: stateDirectory is null"
        try:
            folder = tempfile.TemporaryDirectory(prefix="autoscaler-", ignore_cleanup_errors=True)
        except OSError as error:
            announcements.record(
                False,  # noqa: FBT003 - the shape of such callbacks
                "nothing is recorded: stateDirectory is null, and no temporary folder can be "
                f"made: {error.strerror}",
            )
            return Recording()
        directory = Path(stack.enter_context(folder))
    limits = Limits(settings.max_size, settings.max_age)
    writer = RecordWriter(directory, announcements.record, limits, note=note)
    metrics.ask_for_record(lambda: writer.status)
    stack.enter_context(closing(writer))
    writer.start()
    return Recording(Recorder(writer), DirectoryRecord(directory))
