"""Compares each target in shadow with the HPA that controls it; the record keeps what is known."""

from collections.abc import Iterable, Sequence

from autoscaler.agreement.comparison import HpaComparison
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.persistence.record import RecordWriter
from autoscaler.persistence.record.agreement import Stretch, joined
from autoscaler.sync.ports import Reporter


class Comparer(Reporter):
    """Takes each result of a target in shadow to its comparison."""

    def __init__(self, writer: RecordWriter) -> None:
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
        if result.decision.in_shadow:
            comparison = self._comparisons.setdefault(key, HpaComparison())
            self._hand_in(key, comparison.add(result))
        else:
            self._end(key)

    def close(self) -> None:
        """Hand in what is known and not handed in yet."""
        for key in [*self._comparisons]:
            self._end(key)

    def _end(self, key: str) -> None:
        comparison = self._comparisons.pop(key, None)
        if comparison is not None:
            self._hand_in(key, comparison.rest())
            self._last.pop(key, None)

    def _hand_in(self, key: str, stretches: Iterable[Stretch]) -> None:
        for stretch in stretches:
            last = self._last.get(key)
            both = None if last is None else joined(last, stretch)
            self._last[key] = both or stretch
            self._writer.put_agreement(key, self._last[key])
