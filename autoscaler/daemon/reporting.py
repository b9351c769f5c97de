"""Results as log lines: each change in full, lasting trouble summed up each minute."""

import dataclasses
import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from structlog.typing import FilteringBoundLogger

from autoscaler import clock
from autoscaler.core.decision import MetricResult, Outcome
from autoscaler.core.text import duration, rfc3339
from autoscaler.core.writes import Superseded, Written
from autoscaler.daemon.state_changes import TROUBLE, Change, StateChanges, Summary
from autoscaler.rendering import wording
from autoscaler.rendering.record import WRITTEN, Record, as_fields, metric_details, record_of
from autoscaler.rendering.verdict import State, cause_of, state_of
from autoscaler.rendering.wording import time_of_day
from autoscaler.sync.ports import Reporter, SyncResult, SyncSummary

_ROUNDING = 1e-3

_FIELDS = frozenset(
    {
        "target",
        "state",
        "cause",
        "outcome",
        "current_replicas",
        "desired_replicas",
        "held_until",
        "breaker",
        "releases_at",
        "write",
        "min_replicas_by",
        "max_replicas_by",
        "missing_bound",
        "pause",
        "idle",
    }
)
_METRIC_FIELDS = frozenset({"usage", "request", "total", "failed", "error"})
_STAGE_FIELDS = frozenset({"before", "after", "reason"})

_ENDED: dict[State | None, str] = {
    State.FAILING: "recovered after",
    State.CONTROLLED: "no longer controlled by another autoscaler, after",
    State.CONTESTED: "written to again after",
    State.PAUSED: "no longer paused, after",
    State.IDLE: "awake after",
}
"""What the end of a state is, before how long it lasted."""
_STOPPED = frozenset({State.PAUSED, State.DISABLED})
"""States in which a target that was idle does not wake up."""


class LogReporter:
    """Logs the result of each target's sync.

    A change of scale, and the beginning and the end of a hold or a limit, are lines at info; the
    beginning of a failure, and once a minute how many targets fail for the same cause, are
    warnings, and the end of it is a line at info.  Every other sync is a line at debug.  A change
    by others is info, and warning where it undoes our own.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._states = StateChanges()
        self._saturated: dict[str, float] = {}
        """The targets whose saturation was told, and since when it lasts."""

    def retain(self, targets: AbstractSet[str]) -> None:
        """Forget all targets but these."""
        self._states.retain(targets)
        for gone in self._saturated.keys() - targets:
            del self._saturated[gone]

    def report(self, result: SyncResult) -> None:
        """Log one target's result."""
        decision, target = result.decision, result.target.key
        foreign = decision.foreign
        if foreign is not None:
            self._log.log(
                logging.WARNING if foreign.reversal else logging.INFO,
                "replicas_changed_by_other",
                target=target,
                message=wording.foreign(foreign),
                before=foreign.before,
                after=foreign.after,
                manager=foreign.manager or None,
            )
        self._log_returned(result)
        self._log_saturated(result)
        state = state_of(result)
        cause = cause_of(result, state)
        change = self._states.note(target, state, cause, decision.time)
        level = _level(result, state, logged=change is not None and change.logged)
        if self._log.is_enabled_for(level):
            self._log.log(level, "sync", **_fields(result, state, change))

    def _log_returned(self, result: SyncResult) -> None:
        """Log once that a reading is back: at the sync that reads it first."""
        decision = result.decision
        for metric in decision.metrics:
            back = metric.refill
            if back is not None and not back.first and back.returned >= decision.stamp - _ROUNDING:
                self._log.info(
                    "reading_returned",
                    target=result.target.key,
                    metric=wording.metric_name(metric.metric),
                    message=f"{wording.metric_name(metric.metric)} is read again after a gap; its "
                    f"range may lack samples, so nothing goes down before {rfc3339(back.until)}",
                )

    def _log_saturated(self, result: SyncResult) -> None:
        """Log once that a saturation lasts, and once that it is over."""
        decision, target = result.decision, result.target.key
        now, since = decision.saturation, self._saturated.get(target)
        if now is None and since is not None and decision.outcome is not Outcome.BLOCKED:
            del self._saturated[target]
            lasted = duration(decision.stamp - since)
            self._log.warning(
                "saturation_over",
                target=target,
                message=f"no longer saturated, after {lasted}",
                seconds=round(decision.stamp - since, 3),
            )
        lasting = decision.lasting_saturation
        if lasting is not None and since is None:
            self._saturated[target] = lasting.since
            missing = wording.counted(lasting.missing, "replica")
            self._log.warning(
                "saturated",
                target=target,
                message=f"{missing} missing since {rfc3339(lasting.since)}: more are wanted than "
                f"its bounds and policies permit ({lasting.reason})",
                missing=lasting.missing,
                reason=lasting.reason,
                since=rfc3339(lasting.since),
            )

    def _sum_up(self, summary: Summary) -> None:
        """Log how many targets are still in one state for one cause."""
        begun = rfc3339(summary.since)
        targets = wording.counted(summary.targets, "target")
        what = {
            State.FAILING: f"{targets} failing, the first since {begun}",
            State.CONTROLLED: f"{targets} left alone, the first since {begun}",
            State.CONTESTED: f"{targets} not written to, the first since {begun}",
        }[summary.state]
        self._log.warning(
            f"still_{summary.state}",
            message=f"{what}: {summary.cause}",
            cause=summary.cause,
            targets=summary.targets,
            first=list(summary.names),
            since=begun,
        )

    def fault(self, error: BaseException) -> None:
        """Log a defect with its traceback."""
        self._log.error("fault", exc_info=error)

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
        """Log the end of a sync, and once a minute lasting trouble."""
        targets = wording.counted(summary.targets, "target")
        message = f"{targets} synced in {summary.seconds:.3f} s"
        self._log.debug("synced", message=message, **dataclasses.asdict(summary))
        for one in self._states.due_summaries(clock.wall()):
            self._sum_up(one)


class Reporters:
    """Several reporters as one; a defect of one is reported, and stops no other."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)

    def report(self, result: SyncResult) -> None:
        """Report to each of them."""
        for one in self._reporters:
            try:
                one.report(result)
            except Exception as error:  # noqa: BLE001 - scaling goes on without it
                self.fault(error)

    def fault(self, error: BaseException) -> None:
        """Report to each of them."""
        for one in self._reporters:
            one.fault(error)

    def clock_set(self, seconds: float) -> None:
        """Report to each of them."""
        for one in self._reporters:
            one.clock_set(seconds)

    def synced(self, summary: SyncSummary) -> None:
        """Report to each of them."""
        for one in self._reporters:
            one.synced(summary)


def _level(result: SyncResult, state: State, *, logged: bool) -> int:
    if isinstance(result.write, Superseded):
        return logging.WARNING
    if logged and state in TROUBLE:
        return logging.WARNING
    if logged or isinstance(result.write, Written):
        return logging.INFO
    return logging.DEBUG


def _fields(result: SyncResult, state: State, change: Change | None) -> dict[str, object]:
    decision, record = result.decision, record_of(result, state)
    sentence = _sentence(record, change)
    fields = as_fields(record, _FIELDS) | {
        "message": sentence,
        "reason": wording.reason(decision),
        "metrics": [
            as_fields(metric) | _metric_details(one, sentence)
            for metric, one in zip(record.metrics, decision.metrics, strict=True)
        ],
    }
    if change is not None:
        fields["state_before"] = None if change.before is None else change.before.value
        fields["seconds_before"] = None if change.seconds is None else round(change.seconds, 3)
    for stage in decision.stages:
        if stage.name in {"stabilize", "limit"} and stage.before != stage.after:
            fields[stage.name] = as_fields(stage, _STAGE_FIELDS)
    return fields


def _sentence(record: Record, change: Change | None) -> str:
    """Return the verdict, with what it is the end of, and until when there are no more lines."""
    if change is None:
        return record.message
    silent = ""
    if change.silent_until is not None:
        until = time_of_day(change.silent_until, record.time)
        silent = f" (the log tells no more such changes of it before {until})"
    return _ended(record, change) + record.message + silent


def _ended(record: Record, change: Change) -> str:
    """Return what a change is the end of; empty where the new state says enough."""
    state = record.state
    if change.before in {None, State.OK, state} or state in TROUBLE or change.seconds is None:
        return ""
    lasted = duration(change.seconds)
    if change.before in _ENDED and not (change.before is State.IDLE and state in _STOPPED):
        return f"{_ENDED[change.before]} {lasted}: "
    # That it is scaled says that it is no longer held.
    scaled = record.write == WRITTEN
    return "" if scaled or state is not State.OK else f"no longer {change.before} after {lasted}: "


def _metric_details(result: MetricResult, sentence: str) -> dict[str, object]:
    details = as_fields(metric_details(result), _METRIC_FIELDS)
    if details.get("error") and str(details["error"]) in sentence:
        del details["error"]
    return details
