"""Compares each target in shadow with the HPA that controls it, and hands in what becomes known."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from autoscaler.agreement.comparison import HpaComparison, Stretch, compared, ended, extended
from autoscaler.agreement.database import AgreementRow, AgreementWriter, DirectoryAgreement
from autoscaler.config import Config
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.daemon.announcements import Announcements
from autoscaler.persistence.state_directory import temporary_folder
from autoscaler.sync.ports import Reporter

_MAX_AGE_SECONDS = 14 * 86400.0
"""How long it is kept where there is no record."""


class Comparer(Reporter):
    """Takes each result of a target in shadow to its comparison."""

    def __init__(self, writer: AgreementWriter) -> None:
        self._writer = writer
        self._comparisons: dict[str, HpaComparison] = {}
        self._last: dict[str, Stretch] = {}

    def configure(self, targets: Sequence[Target]) -> None:
        """Go on with these targets; no sync may run of one that is changed or removed."""
        for key in self._comparisons.keys() - {one.key for one in targets}:
            self._end(key)

    def report(self, result: SyncResult) -> None:
        """Take one target's result."""
        key = result.target.key
        if not result.decision.in_shadow or result.given is None:
            self._end(key)
            return
        state, stretches = compared(self._comparisons.get(key, HpaComparison()), result)
        self._comparisons[key] = state
        self._hand_in(key, state, stretches)

    def _end(self, key: str) -> None:
        state = self._comparisons.pop(key, None)
        if state is not None:
            self._hand_in(key, state, ended(state))
            self._last.pop(key, None)

    def free_count(self, target: str) -> int | None:
        """Return what the free run of a target has come to; None if it has none."""
        state = self._comparisons.get(target)
        return None if state is None else state.free_count

    def close(self) -> None:
        """Hand in what is left to be said."""
        for key, state in self._comparisons.items():
            self._hand_in(key, state, ended(state))

    def _hand_in(self, key: str, state: HpaComparison, stretches: Sequence[Stretch]) -> None:
        for stretch in stretches:
            last = self._last.get(key)
            joined = None if last is None else extended(last, stretch)
            self._last[key] = joined or stretch
            current = state.points[-1].current if state.points else 0
            free = state.free_count
            row = AgreementRow(
                key,
                joined or stretch,
                stretch.end - stretch.begin,
                joined is None,
                current,
                current if free is None else free,
            )
            self._writer.put(row)


class Comparing(NamedTuple):
    """What compares, and what reads that; None where nothing is compared."""

    comparer: Comparer | None = None
    reader: DirectoryAgreement | None = None

    def free_count(self, target: str) -> int | None:
        """Return what the free run of a target has come to; None if it has none."""
        return None if self.comparer is None else self.comparer.free_count(target)


def open_comparing(config: Config, announcements: Announcements, stack: ExitStack) -> Comparing:
    """Compare until ``stack`` closes it.

    Without a state directory it is kept in a temporary one; without that nothing is compared.
    """
    directory: Path | None = config.state_directory
    if directory is None:
        try:
            directory = stack.enter_context(temporary_folder("autoscaler-agreement-"))
        except OSError:
            return Comparing()
    max_age = _MAX_AGE_SECONDS if config.record is None else config.record.max_age
    writer = AgreementWriter(
        directory, announcements.agreement, max_age, cluster=config.first_cluster
    )
    stack.enter_context(closing(writer))
    writer.start()
    comparer = stack.enter_context(closing(Comparer(writer)))
    return Comparing(comparer, DirectoryAgreement(directory))
