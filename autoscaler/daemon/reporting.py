"""Results as log lines: one canonical line per target and sync."""

import dataclasses
import logging
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from autoscaler.app import wording
from autoscaler.app.ports import Reporter, SyncResult, SyncSummary
from autoscaler.app.record import write_word
from autoscaler.app.standing import verdict
from autoscaler.core.decision import Calculation, MetricResult, Outcome
from autoscaler.core.writes import NotWritten, Written

_ROUNDING = 1e-3


class LogReporter:
    """Logs what each target's sync came to.

    A change of scale is logged at info, a failure at warning, and a sync that leaves all as
    it is at debug.  A change by somebody else is info, and warning where it undoes our own.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def report(self, result: SyncResult) -> None:
        """Log one target's result."""
        level = _level(result)
        foreign = result.decision.foreign
        if foreign is not None:
            self._log.log(
                logging.WARNING if foreign.reversal else logging.INFO,
                "replicas_changed_by_other",
                target=result.target.key,
                message=wording.foreign(foreign),
                before=foreign.before,
                after=foreign.after,
                manager=foreign.manager or None,
            )
        self._tell_of_returned(result)
        if self._log.is_enabled_for(level):
            self._log.log(level, "sync", **_fields(result))

    def _tell_of_returned(self, result: SyncResult) -> None:
        """Log once that a reading is back: at the sync that reads it first."""
        decision = result.decision
        for metric in decision.metrics:
            back = metric.refill
            if back is not None and not back.first and back.returned >= decision.stamp - _ROUNDING:
                self._log.info(
                    "reading_returned",
                    target=result.target.key,
                    metric=wording.metric_name(metric.metric),
                    message="it is read again after a gap; its range may lack samples, so nothing "
                    f"goes down before {wording.instant(back.until)}",
                )

    def fault(self, error: BaseException) -> None:
        """Log a defect with its traceback."""
        self._log.error("fault", exc_info=error)

    def clock_set(self, seconds: float) -> None:
        """Log a step of the clock."""
        self._log.warning(
            "clock_set",
            message="the system's clock was set; windows and periods last as if it had not been",
            seconds=round(seconds, 3),
        )

    def synced(self, summary: SyncSummary) -> None:
        """Log the end of a sync."""
        self._log.debug("synced", **dataclasses.asdict(summary))


class Reporters:
    """Several reporters as one; a defect of one keeps nothing from the others, and is told."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)

    def report(self, result: SyncResult) -> None:
        """Tell each of a target's result."""
        for one in self._reporters:
            try:
                one.report(result)
            except Exception as error:  # noqa: BLE001 - scaling goes on, whoever cannot tell of it
                self.fault(error)

    def fault(self, error: BaseException) -> None:
        """Tell each of a defect."""
        for one in self._reporters:
            one.fault(error)

    def clock_set(self, seconds: float) -> None:
        """Tell each of a step of the clock."""
        for one in self._reporters:
            one.clock_set(seconds)

    def synced(self, summary: SyncSummary) -> None:
        """Tell each of the end of a sync."""
        for one in self._reporters:
            one.synced(summary)


def _level(result: SyncResult) -> int:
    decision = result.decision
    written = isinstance(result.write, Written | NotWritten | None)
    if decision.outcome is not Outcome.OK or not written:
        return logging.WARNING
    if isinstance(result.write, NotWritten):
        return logging.DEBUG  # whoever leads writes it, and says so
    return logging.INFO if decision.rescale else logging.DEBUG


def _fields(result: SyncResult) -> dict[str, object]:
    decision = result.decision
    fields: dict[str, object] = {
        "target": result.target.key,
        "message": verdict(result),
        "outcome": decision.outcome.value,
        "current": decision.current,
        "desired": None if decision.current is None else decision.desired,
        "reason": decision.reason,
        "metrics": [_metric(one) for one in decision.metrics],
    }
    for stage in decision.stages:
        if stage.name in {"stabilize", "limit"} and stage.before != stage.after:
            fields[stage.name] = {
                "before": stage.before,
                "after": stage.after,
                "reason": stage.reason,
            }
    if decision.held_until is not None:
        fields["held_until"] = wording.instant(decision.held_until)
    if decision.releases_at is not None:
        fields["releases_at"] = wording.instant(decision.releases_at)
    if result.write is not None:
        fields["write"] = write_word(result)
    warnings = [f"{one.reason}: {one.message}" for one in decision.events if one.type == "Warning"]
    if warnings:
        fields["warnings"] = warnings
    return fields


def _metric(result: MetricResult) -> dict[str, object]:
    fields: dict[str, object] = {
        "type": result.metric.type,
        "name": wording.metric_name(result.metric),
        "target": wording.target(result.metric),
    }
    if isinstance(result.outcome, Calculation):
        return fields | {"current": wording.usage(result), "proposal": result.outcome.proposal}
    return fields | {"failed": result.outcome.reason}
