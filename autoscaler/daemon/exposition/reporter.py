"""Results as metrics."""

from autoscaler.daemon.exposition.instruments import Instruments
from autoscaler.daemon.exposition.target_states import TargetStates
from autoscaler.daemon.schedule import Punctuality
from autoscaler.sync.ports import SyncResult, SyncSummary


class MetricsReporter(Punctuality):
    """Fits `sync.ports.Reporter`, and is told how punctual the syncs are."""

    def __init__(self, instruments: Instruments, states: TargetStates) -> None:
        self._instruments = instruments
        self._states = states

    def report(self, result: SyncResult) -> None:
        """Take in one target's result."""
        self._states.note(result)
        if result.write is not None:
            decision = result.decision
            up = decision.desired > (decision.current or 0)
            self._instruments.written(result.write, up=up)

    def fault(self, error: BaseException) -> None:  # noqa: ARG002 - the log has it
        """Count a defect."""
        self._instruments.fault()

    def clock_set(self, seconds: float) -> None:
        """Count a step of the clock."""
        self._states.clock_set(seconds)
        self._instruments.clock_set()

    def synced(self, summary: SyncSummary) -> None:
        """Take in the end of a sync."""
        self._instruments.synced(summary.seconds, summary.targets, summary.failed)

    def began(self, period: float, lag: float) -> None:  # noqa: ARG002 - all periods alike
        """Take in how late a sync began."""
        self._instruments.sync_began(lag)

    def left_out(self, period: float) -> None:  # noqa: ARG002 - as above
        """Count a sync that was left out."""
        self._instruments.sync_skipped()

    def failed(self, period: float) -> None:  # noqa: ARG002 - as above
        """Count a sync that a defect ended."""
        self._instruments.sync_failed()
