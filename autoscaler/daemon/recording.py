"""Results as rows of the record, changes in full, and their comparison with HPAs."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from typing import NamedTuple

from autoscaler.agreement.comparison import HpaComparison
from autoscaler.config import Config
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import Rules, SyncResult
from autoscaler.core.target import Target
from autoscaler.daemon.announcements import Announcements
from autoscaler.persistence.record import DirectoryRecord, Limits, RecordWriter, SyncRow
from autoscaler.persistence.record.agreement import AgreementInterval, joined
from autoscaler.persistence.record.changes import Seen, change_key, numbers_of, seen_after
from autoscaler.persistence.record.rows import RecordError
from autoscaler.persistence.temporary_folders import temporary_folder
from autoscaler.rendering.reasons import verdict
from autoscaler.sync.ports import Reporter
from autoscaler.telemetry.metrics import Metrics


class Recorder(Reporter):
    """Passes each result to a writer, and for targets in shadow its comparison with the HPA."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self._epoch = writer.epoch
        self._rules: dict[str, Rules] = {}
        self._seen: dict[str, Seen] = {}
        """By target, with the hash of the key, since thousands of keys would be too large."""
        self._comparisons: dict[str, HpaComparison] = {}
        self._last: dict[str, AgreementInterval] = {}

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:
        """Continue with these targets; no sync of a changed or removed target may run."""
        before = self._rules
        self._rules = {target.key: Rules(target, flags) for target in targets}
        seen = self._seen.copy()
        self._seen = {
            key: decision for key, decision in seen.items() if self._rules.get(key) == before[key]
        }
        self._writer.retain(self._rules.keys())
        for key in self._comparisons.keys() - self._rules.keys():
            self._end_comparison(key)

    def report(self, result: SyncResult) -> None:
        """Record one target's result."""
        key = result.target.key
        if key in self._rules and result.given is not None:
            self._record(key, result)
        if result.decision.in_shadow:
            comparison = self._comparisons.setdefault(key, HpaComparison())
            self._hand_in(key, comparison.add(result))
        else:
            self._end_comparison(key)

    def close(self) -> None:
        """Record the remaining results of comparisons."""
        for key in [*self._comparisons]:
            self._end_comparison(key)

    def _record(self, target: str, result: SyncResult) -> None:
        decision, epoch = result.decision, self._writer.epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._seen = {}
        key, before = hash(change_key(result)[1:]), self._seen.get(target)
        seen = seen_after(before, key, decision)
        row = SyncRow(target, decision.stamp, result.target.sync_period, numbers_of(decision))
        if seen != before:
            self._seen[target] = seen
            row = row._replace(
                change=result, state=result.classified().state, message=verdict(result)
            )
        self._writer.put(row)

    def _end_comparison(self, key: str) -> None:
        comparison = self._comparisons.pop(key, None)
        if comparison is not None:
            self._hand_in(key, comparison.rest())
            self._last.pop(key, None)

    def _hand_in(self, key: str, stretches: Iterable[AgreementInterval]) -> None:
        for stretch in stretches:
            last = self._last.get(key)
            both = None if last is None else joined(last, stretch)
            self._last[key] = both or stretch
            self._writer.put_agreement(key, self._last[key])


class Recording(NamedTuple):
    """The writer of results and their reader; None if the record is off."""

    recorder: Recorder | None = None
    reader: DirectoryRecord | None = None


def open_recording(
    config: Config, announcements: Announcements, metrics: Metrics, stack: ExitStack
) -> Recording:
    """Open the record until ``stack`` closes it; without a state directory a temporary one."""
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
        """Report the state of the record, on its thread, and once the last states of targets."""
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
    return Recording(stack.enter_context(closing(Recorder(writer))), reader)
