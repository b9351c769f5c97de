"""Results as log lines: one canonical line per target and sync."""

import dataclasses
import logging

from structlog.typing import FilteringBoundLogger

from autoscaler.app import wording
from autoscaler.app.explanation import verdict
from autoscaler.app.ports import SyncResult, SyncSummary
from autoscaler.app.record import write_word
from autoscaler.core.decision import Calculation, MetricResult, Outcome
from autoscaler.core.writes import NotWritten, Written


class LogReporter:
    """Logs what each target's sync came to.

    A change of scale is logged at info, a failure at warning, and a sync that leaves all as
    it is at debug.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def report(self, result: SyncResult) -> None:
        """Log one target's result."""
        level = _level(result)
        if self._log.is_enabled_for(level):
            self._log.log(level, "sync", **_fields(result))

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


def _level(result: SyncResult) -> int:
    decision = result.decision
    written = isinstance(result.write, Written | NotWritten | None)
    if decision.outcome is not Outcome.OK or not written:
        return logging.WARNING
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
