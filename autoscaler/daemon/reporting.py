"""Results as log lines: each change in full, lasting failures as a summary each minute.

An outage lasts for hundreds of syncs of thousands of targets: one line for each would bury its end.
"""

import dataclasses
import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from autoscaler import clock
from autoscaler.core.classification import State
from autoscaler.core.contention import CONTROLLED_BY_OTHER
from autoscaler.core.decision import Decision, MetricResult, Outcome, Zone
from autoscaler.core.observation import Scale
from autoscaler.core.spec import Flags
from autoscaler.core.status import SCALE_DOWN_HELD
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Target
from autoscaler.core.text import duration, rfc3339
from autoscaler.core.writes import AcceptedWrite, WriteConflict
from autoscaler.rendering import wording
from autoscaler.rendering.answers import Metric, TargetDecision
from autoscaler.rendering.record import WRITTEN, decided, decision_metric, stages_of
from autoscaler.rendering.wording import time_of_day
from autoscaler.sync.ports import BreakerNews, Reporter, SyncSummary
from autoscaler.token_bucket import TokenBucket

_ROUNDING = 1e-3
SUMMARY_SECONDS = 60.0
"""How often lasting failures are summarized, in seconds."""
_MOST_CAUSES = 10
"""The most causes with their own summary each minute."""
_MOST_NAMES = 5

_FIELDS = TargetDecision.model_fields.keys() - {
    *("time", "message", "metrics", "min_replicas", "max_replicas", "hpa")
}
_METRIC_FIELDS = {*Metric.model_fields, "usage", "request", "total", "failed", "error"}


class Pace(NamedTuple):
    """The burst of lines per target and kind, and the seconds per further line."""

    lines: int
    refill_seconds: float


FAILURES, QUIET = Pace(3, 1800.0), Pace(10, 600.0)
"""The pace of failures, and of normal states, which may begin and end all day with the load."""


class _StateMessage(NamedTuple):
    """How the log reports a state."""

    trouble: str = ""
    """The word in summaries, for a state that needs an operator; it begins with a warning."""
    ended: str = ""
    """The text before its duration."""
    pace: Pace | None = None
    """None for long states, whose lines cannot fill the log."""
    begins: bool = True
    """Whether its start has a line; not where the count stays the same."""


_TELLING = {
    State.FAILING: _StateMessage("failing", "recovered after", FAILURES),
    State.CONTESTED: _StateMessage("not written to", "written to again after"),
    State.SHADOW: _StateMessage(ended="live after", pace=QUIET),
    State.CONTROLLED: _StateMessage(ended="live after"),
    State.PAUSED: _StateMessage(ended="no longer paused, after", pace=QUIET),
    State.IDLE: _StateMessage(ended="awake after", pace=QUIET),
    State.AT_MAXIMUM: _StateMessage(pace=QUIET),
    State.LIMITED: _StateMessage(pace=QUIET),
    State.HELD: _StateMessage(pace=QUIET, begins=False),
    State.STABILIZING: _StateMessage(pace=QUIET, begins=False),
    State.DISABLED: _StateMessage(),
    State.OK: _StateMessage(begins=False),
}
_STOPPED = {State.PAUSED, State.DISABLED}
"""States that do not mean that an idle target has woken up."""


class StateChange(NamedTuple):
    """A change of a target's state; the previous one, ``before``, lasted ``seconds``, if known."""

    before: State | None
    """None at its first sync."""
    seconds: float | None
    logged: bool = True
    """Whether it has a line."""
    silent_until: float | None = None
    """Until this Unix time there are no more lines of its kind."""


class Summary(NamedTuple):
    """Targets in the same state for the same cause, and the start of it for the first of them."""

    state: State
    cause: str
    targets: int
    names: tuple[str, ...]
    since: float


@dataclass(slots=True)
class _LoggedState:
    """The state of a target, its start, and whether it was logged."""

    state: State | None
    cause: str = ""
    since: float | None = None
    """Unix time; None if the state was the same at the first sync."""
    cause_since: float = 0.0
    """The same for its cause, which may change during the state."""
    logged: bool = False
    left: dict[Pace, TokenBucket] = field(default_factory=dict)
    """The number of lines left."""


class StateChanges:
    """Which changes of state have a log line; a target is noted by one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, _LoggedState | None] = {}
        """None for a target that was always ok."""
        self._summed_up: float | None = None
        self._lock = threading.Lock()

    def note(self, target: str, state: State, cause: str, now: float) -> StateChange | None:
        """Note the state of a target at a Unix time; return the change, if any.

        The end of a logged state is logged. A start, or another cause of the same failure, is
        logged while the target has lines left.
        """
        known = self._known.get(target)
        if known is None:
            if state is State.OK:
                self._known[target] = None
                return None
            known = _LoggedState(State.OK if target in self._known else None)
            self._known[target] = known
        telling, other = _TELLING[state], state is not known.state
        # Operators want to see a hold by holdScaleDownQuery, since they wrote the query.
        by_query = cause == SCALE_DOWN_HELD
        if not other and (cause == known.cause or not (telling.trouble or by_query)):
            return None
        begins, silent = telling.begins or by_query, None
        if begins and telling.pace is not None:
            lines = known.left.setdefault(telling.pace, TokenBucket(*telling.pace))
            begins = lines.take(now)
            silent = lines.empty_until() if begins else None
        seconds = None if known.since is None else now - known.since
        change = StateChange(known.state, seconds, begins or (known.logged and other), silent)
        if other:
            known.since = now
        known.cause_since = now
        known.state, known.cause = state, cause
        known.logged = begins or (known.logged and not other)
        return change

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all targets but these."""
        for gone in self._known.copy().keys() - targets:
            del self._known[gone]

    def shift(self, seconds: float) -> None:
        """Move with a clock that was set."""
        for _, known in self._not_always_ok():
            if known.since is not None:
                known.since += seconds
            known.cause_since += seconds
            for lines in known.left.copy().values():
                lines.refilled += seconds
        if self._summed_up is not None:
            self._summed_up += seconds

    def due_summaries(self, now: float) -> list[Summary]:
        """Return the summaries of lasting failures once a minute, the most frequent cause first."""
        with self._lock:
            if self._summed_up is not None and now - self._summed_up < SUMMARY_SECONDS:
                return []
            self._summed_up = now
        return list(self._summaries(now))

    def _not_always_ok(self) -> Iterator[tuple[str, _LoggedState]]:
        for target, known in self._known.copy().items():
            if known is not None:
                yield target, known

    def _summaries(self, now: float) -> Iterator[Summary]:
        alike: dict[tuple[State, str], list[tuple[float, str]]] = defaultdict(list)
        lasting: set[tuple[State, str]] = set()
        for target, known in self._not_always_ok():
            state, since = known.state, known.since
            if state is not None and _TELLING[state].trouble and since is not None:
                kind = (state, known.cause)
                alike[kind].append((known.cause_since, target))
                # States that began within the last minute have just been logged in full.
                if not known.logged or now - since >= SUMMARY_SECONDS:
                    lasting.add(kind)
        ranked = sorted(lasting, key=lambda kind: (-len(alike[kind]), kind))
        for kind in ranked[:_MOST_CAUSES]:
            yield _summary(*kind, alike[kind])
        others = ranked[_MOST_CAUSES:]
        for state in sorted({state for state, _ in others}):
            rest = [kind for kind in others if kind[0] is state]
            targets = [target for kind in rest for target in alike[kind]]
            yield _summary(state, wording.counted(len(rest), "other cause"), targets)


def _summary(state: State, cause: str, targets: list[tuple[float, str]]) -> Summary:
    targets.sort()
    names = tuple(target for _, target in targets[:_MOST_NAMES])
    return Summary(state, cause, len(targets), names, targets[0][0])


class LogReporter(Reporter):
    """Logs each target's sync: changes at info, failures as warnings, the rest at debug."""

    def __init__(self) -> None:
        self._log: FilteringBoundLogger = structlog.get_logger()
        self._states = StateChanges()
        self._saturated: dict[str, float] = {}
        """By target whose saturation was logged: its start."""
        self._off_under_load: set[str] = set()
        """The disabled targets for which a demand was logged."""

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:  # noqa: ARG002
        """Forget all targets but these."""
        keys = {target.key for target in targets}
        self._states.retain(keys)
        for gone in self._saturated.keys() - keys:
            del self._saturated[gone]
        self._off_under_load &= keys

    def report(self, result: SyncResult) -> None:
        """Log one target's result."""
        decision, target = result.decision, result.target.key
        self._log_saturated(target, decision)
        _, state, cause, _ = result.classified()
        change = self._states.note(target, state, cause, decision.time)
        self._log_news(target, decision)
        logged, level = change is not None and change.logged, logging.DEBUG
        if isinstance(result.write, WriteConflict) or (logged and _TELLING[state].trouble):
            level = logging.WARNING
        elif logged or isinstance(result.write, AcceptedWrite):
            level = logging.INFO
        if self._log.is_enabled_for(level):
            self._log.log(level, "sync", **_fields(result, state, change))

    def _log_news(self, target: str, decision: Decision) -> None:
        """Log once: changes by other clients, returned readings, and load on disabled targets."""
        for event in decision.events:
            if event.reason == CONTROLLED_BY_OTHER:
                self._log.warning("controlled_by_other", target=target, message=event.message)
        if (foreign := decision.foreign) is not None:
            self._log.log(
                logging.WARNING if foreign.reversal else logging.INFO,
                "replicas_changed_by_other",
                target=target,
                message=wording.foreign(foreign),
                before=foreign.before,
                after=foreign.after,
                manager=foreign.manager or None,
            )
        for metric in decision.metrics:
            back = metric.refill
            if back is not None and not back.first and back.returned >= decision.stamp - _ROUNDING:
                name = wording.metric_name(metric.metric)
                message = (
                    f"{name} is read again after a gap; its range may lack samples, so this target "
                    f"does not scale down before {rfc3339(back.until)}"
                )
                self._log.info("reading_returned", target=target, metric=name, message=message)
        if decision.zone not in {Zone.DISABLED, Zone.UNKNOWN}:
            self._off_under_load.discard(target)
        elif decision.wanted_by is not None and target not in self._off_under_load:
            self._off_under_load.add(target)
            manager = decision.scale.replicas_by if isinstance(decision.scale, Scale) else ""
            self._log.warning(
                "off_under_load",
                target=target,
                message=f"{wording.metric_name(decision.wanted_by)} asks for replicas, and "
                f"{manager or 'somebody'} has set them to 0: nothing is scaled until they are set "
                "to 1 or more",
                manager=manager or None,
            )

    def _log_saturated(self, target: str, decision: Decision) -> None:
        begun, blocked = self._saturated.get(target), decision.outcome is Outcome.BLOCKED
        if decision.saturation is None and begun is not None and not blocked:
            del self._saturated[target]
            seconds = round(decision.stamp - begun, 3)
            message = f"no longer saturated, after {duration(seconds)}"
            self._log.warning("saturation_over", target=target, message=message, seconds=seconds)
        lasting = decision.lasting_saturation
        if lasting is not None and begun is None:
            self._saturated[target] = lasting.since
            since = rfc3339(lasting.since)
            self._log.warning(
                "saturated",
                target=target,
                message=f"{wording.counted(lasting.missing, 'replica')} missing since {since}: "
                f"more are wanted than its bounds and policies permit ({lasting.reason})",
                missing=lasting.missing,
                reason=lasting.reason,
                since=since,
            )

    def _sum_up(self, summary: Summary) -> None:
        begun = rfc3339(summary.since)
        targets = f"{wording.counted(summary.targets, 'target')} {_TELLING[summary.state].trouble}"
        self._log.warning(
            f"still_{summary.state}",
            message=f"{targets}, the first since {begun}: {summary.cause}",
            cause=summary.cause,
            targets=summary.targets,
            first=list(summary.names),
            since=begun,
        )

    def clock_set(self, seconds: float) -> None:
        """Log a step of the clock."""
        self._states.shift(seconds)
        for target in list(self._saturated):
            self._saturated[target] += seconds
        self._log.warning(
            "clock_set",
            message=f"the system's clock was set by {seconds:.3f} s; windows and periods last as "
            "if it had not been",
            seconds=round(seconds, 3),
        )

    def synced(self, summary: SyncSummary) -> None:
        """Log the end of a sync, and once a minute lasting failures."""
        targets = wording.counted(summary.targets, "target")
        message = f"{targets} synced in {summary.seconds:.3f} s"
        self._log.debug("synced", message=message, **dataclasses.asdict(summary))
        for due in self._states.due_summaries(clock.wall()):
            self._sum_up(due)


class Reporters(Reporter):
    """Several reporters as one; a defect of one is reported to all, and stops no other.

    Reporters of a cluster, such as of its Events, get only the results of its targets.
    """

    def __init__(
        self,
        reporters: Sequence[Reporter],
        of_clusters: Mapping[str, Sequence[Reporter]] = MappingProxyType({}),
    ) -> None:
        self._reporters = tuple(reporters)
        self._of_clusters = of_clusters

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:
        """Configure each of them."""
        for reporter in self._reporters:
            reporter.configure(targets, flags)

    def report(self, result: SyncResult) -> None:
        """Report to each of them."""
        own = self._of_clusters.get(result.target.cluster, ())
        for reporter in (*self._reporters, *own):
            try:
                reporter.report(result)
            except Exception as error:  # noqa: BLE001 - scaling continues without it
                self.fault(error)

    def fault(self, error: BaseException) -> None:
        """Report to each of them."""
        for reporter in self._reporters:
            reporter.fault(error)

    def breaker_changed(self, news: BreakerNews) -> None:
        """Report to each of them."""
        for reporter in (*self._reporters, *chain(*self._of_clusters.values())):
            reporter.breaker_changed(news)

    def clock_set(self, seconds: float) -> None:
        """Report to each of them."""
        for reporter in self._reporters:
            reporter.clock_set(seconds)

    def synced(self, summary: SyncSummary) -> None:
        """Report to each of them."""
        for reporter in self._reporters:
            reporter.synced(summary)


def _fields(result: SyncResult, state: State, change: StateChange | None) -> dict[str, object]:
    decision, record = result.decision, decided(result)
    sentence = record.message
    fields: dict[str, object] = {}
    if change is not None:
        sentence = _ended(record, state, change) + sentence
        if change.silent_until is not None:
            until = time_of_day(change.silent_until, record.time)
            sentence += f" (further such changes of this target are not logged before {until})"
        fields["state_before"] = None if change.before is None else change.before.value
        fields["seconds_before"] = None if change.seconds is None else round(change.seconds, 3)
    for stage in stages_of(decision):
        if stage.name in {"stabilize", "limit"} and stage.before != stage.after:
            counts = {"before": stage.before, "after": stage.after}
            fields[stage.name] = {**counts, "reason": stage.reason}
    return record.log_fields(_FIELDS) | {
        "message": sentence,
        "reason": wording.reason(decision),
        "metrics": [_metric(metric, sentence) for metric in decision.metrics],
        **fields,
    }


def _ended(record: TargetDecision, state: State, change: StateChange) -> str:
    """Return which state ended and how long it lasted; empty if the new state says enough."""
    before, lasted = change.before, duration(change.seconds or 0.0)
    if before in {None, State.OK, state} or _TELLING[state].trouble or change.seconds is None:
        return ""
    if _TELLING[before].ended and not (before is State.IDLE and state in _STOPPED):
        return f"{_TELLING[before].ended} {lasted}: "
    # A scaling shows that the target is no longer held.
    scaled = record.write == WRITTEN
    return "" if scaled or state is not State.OK else f"no longer {before} after {lasted}: "


def _metric(result: MetricResult, sentence: str) -> dict[str, object]:
    fields = decision_metric(result).log_fields(_METRIC_FIELDS)
    if fields.get("error") and str(fields["error"]) in sentence:
        del fields["error"]
    return fields
