"""Log lines of the daemon about results."""

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.daemon.logs import configure
from autoscaler.daemon.reporting import LogReporter


@contextmanager
def logging(
    form: LogFormat = LogFormat.JSON,
    level: LogLevel = LogLevel.INFO,
    stream: io.StringIO | None = None,
) -> Iterator[io.StringIO]:
    """Log as the daemon does, to a stream that no terminal reads."""
    stream = stream or io.StringIO()
    configure(level, form, stream)
    yield stream
    structlog.reset_defaults()


def log_of(
    results: Iterable[SyncResult], level: LogLevel = LogLevel.INFO, form: LogFormat = LogFormat.AUTO
) -> str:
    """Return the lines about results."""
    reporter = LogReporter()
    with logging(form, level) as stream:
        for result in results:
            reporter.report(result)
    return stream.getvalue()


def log_lines(
    results: Iterable[SyncResult], level: LogLevel = LogLevel.INFO
) -> list[dict[str, Any]]:
    """Return the same, read back from JSON."""
    return [json.loads(line) for line in log_of(results, level).splitlines()]
