"""What the daemon's log says of results."""

import io
import json
from collections.abc import Iterable
from typing import Any

import structlog

from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.daemon.logs import configure
from autoscaler.daemon.reporting import LogReporter


def log_of(
    results: Iterable[SyncResult], level: LogLevel = LogLevel.INFO, form: LogFormat = LogFormat.AUTO
) -> str:
    """Return the lines about results, of which no terminal reads them."""
    stream = io.StringIO()
    configure(level, form, stream)
    reporter = LogReporter()
    for result in results:
        reporter.report(result)
    structlog.reset_defaults()
    return stream.getvalue()


def log_lines(
    results: Iterable[SyncResult], level: LogLevel = LogLevel.INFO
) -> list[dict[str, Any]]:
    """Return the same, read back from JSON."""
    return [json.loads(line) for line in log_of(results, level).splitlines()]
