"""A record in memory with the same content and readers as the daemon's record in a file."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Self

from autoscaler.core.classification import Mark
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import AcceptedWrite, WriteFailure
from autoscaler.persistence.codec import dumps
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.changes import Seen, change_key, numbers_of, seen_after
from autoscaler.persistence.record.rows import Change, Lapse, LastState, RecordError, Sample
from autoscaler.rendering.reasons import verdict
from tests.core.timeline import Timeline

_TIME = attrgetter("time")


def synced(timeline: Timeline, namespace: str = "shop") -> SyncResult:
    decision, spec = timeline.decision, timeline.spec
    assert decision is not None
    queries = tuple(Query(f"sum(m{index})") for index in range(len(spec.metrics)))
    target = Target(namespace, spec, queries, extensions=timeline.extensions)
    write: AcceptedWrite | WriteFailure | None = None
    if decision.written:
        write = AcceptedWrite(decision.scale)  # type: ignore[arg-type] # it was read
    elif decision.rescale:
        write = WriteFailure("refused")
    return SyncResult(target, decision, write, given=timeline.inputs, flags=timeline.flags)


class MemoryRecord(DirectoryRecord):
    """Keeps syncs in the order of their times, of any number of targets."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._entries: dict[int, SyncResult] = {}
        self._keys: dict[str, Seen] = {}
        self._rules: dict[str, int] = {}
        self._samples: dict[str, list[Sample]] = {}
        self._lapses: dict[str, list[Lapse]] = {}
        self._times: list[float] = []

    # -- writing ---------------------------------------------------------------------------------

    def keep(self, result: SyncResult) -> Self:
        """Keep a sync with its inputs: a sample, and a change if it is one."""
        decision, key = result.decision, result.target.key
        self.keep_sample(key, Sample(decision.stamp, numbers_of(decision)))
        rules = result.rules
        kept = seen_after(self._keys.get(key), change_key(result), decision)
        if self._keys.get(key) == kept:
            return self
        self._keys[key] = kept
        classified = result.classified()
        change = Change(
            len(self._changes) + 1,
            key,
            decision.stamp,
            classified.state,
            decision.current,
            None if decision.current is None else decision.desired,
            decision.min_replicas,
            decision.max_replicas,
            classified.marks,
            verdict(result),
            "" if decision.foreign is None else decision.foreign.manager,
            self._rules.setdefault(dumps(rules), len(self._rules) + 1),
        )
        return self.keep_change(change, result)

    def keep_synced(self, timeline: Timeline, namespace: str = "shop") -> Self:
        return self.keep(synced(timeline, namespace))

    def keep_change(self, change: Change, entry: SyncResult | None = None) -> Self:
        """Keep a change, whose entry is lost unless given."""
        self._changes.append(change)
        self._times.append(change.time)
        if entry is not None:
            self._entries[change.id] = entry
        return self

    def keep_sample(self, target: str, sample: Sample) -> Self:
        """Keep a sample, unless its numbers hold already."""
        samples = self._samples.setdefault(target, [])
        self._times.append(sample.time + sample.seconds)
        held = samples[-1] if samples and not self._lapsed(target, samples[-1].time) else None
        if held is None or held.numbers != sample.numbers or sample.seconds:
            samples.append(sample)
        return self

    def keep_lapse(self, target: str, begin: float, end: float) -> Self:
        """Note that nothing was recorded in a time; what comes after it is a change."""
        self._lapses.setdefault(target, []).append(Lapse(begin, end))
        self._keys.pop(target, None)
        return self

    # -- reading ---------------------------------------------------------------------------------

    def targets(self) -> Sequence[str]:
        return sorted(self._samples.keys() | {change.target for change in self._changes})

    def span(self) -> tuple[float, float] | None:
        return (min(self._times), max(self._times)) if self._times else None

    def standings(self) -> Mapping[str, LastState]:
        found: dict[str, LastState] = {}
        for change in self._changes_of(None):
            key, before = change.target, found.pop(change.target, None)
            if Mark.REMOVED not in change.marks:
                goes_on = before is not None and before.state == change.state
                found[key] = before if before and goes_on else LastState(change.state, change.time)
        return found

    def change_at(self, target: str, at: float) -> Change | None:
        own = self._changes_of([target])
        index = bisect_right(own, at, key=_TIME)
        return own[index - 1] if index else None

    def change_after(self, change: Change) -> Change | None:
        own = self._changes_of([change.target])
        return next((later for later in own if later.id > change.id), None)

    def last_count_change(self, target: str, until: float) -> Change | None:
        counts = Mark.WRITTEN | Mark.FOREIGN
        own = [
            change
            for change in self._changes_of([target])
            if change.time <= until and change.marks & counts
        ]
        return own[-1] if own else None

    def changes(
        self,
        targets: Collection[str] | None,
        begin: float,
        end: float,
        *,
        limit: int,
        before: int | None = None,
    ) -> Sequence[Change]:
        within = [
            change
            for change in self._changes_of(targets)
            if begin <= change.time < end and (before is None or change.id < before)
        ]
        return within[::-1][:limit]

    def entry(self, change: Change) -> SyncResult:
        entry = self._entries.get(change.id)
        if entry is None:
            raise RecordError(f"no entry: {change.target}")
        return entry

    def samples(self, target: str, begin: float, end: float) -> Iterator[Sample]:
        own = self._samples.get(target, [])
        first = bisect_right(own, begin, key=_TIME) - 1
        if first >= 0 and self._lapsed(target, own[first].time, begin):
            first += 1
        return iter(own[max(first, 0) : bisect_left(own, end, key=_TIME)])

    def lapses(self, target: str | None, begin: float, end: float) -> Sequence[Lapse]:
        own: Iterable[Lapse] = self._lapses.get(target or "", ())
        if target is None:
            own = sorted({lapse for lapses in self._lapses.values() for lapse in lapses})
        return [lapse for lapse in own if lapse.begin < end and begin < lapse.end]

    def _lapsed(self, target: str, after: float, until: float = math.inf) -> bool:
        """Return whether a lapse began after an instant, and until another one."""
        return any(after < lapse.begin <= until for lapse in self._lapses.get(target, ()))

    def _changes_of(self, targets: Collection[str] | None) -> list[Change]:
        return [change for change in self._changes if targets is None or change.target in targets]
