"""Structured logs: JSON lines for machines, aligned text for a terminal."""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog
from structlog.typing import Processor

from autoscaler.daemon.log_options import LogFormat, LogLevel

# The values of variables may be secrets.
_traceback_without_values = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


class _Lossy:
    """A stream that nobody reads any more, or a full disk, must not stop the scaling."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def configure(level: LogLevel, format_: LogFormat, stream: TextIO = sys.stdout) -> None:
    """Send our lines, and the warnings of the libraries, to one stream in one form."""
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = format_ is LogFormat.JSON or (format_ is LogFormat.AUTO and not stream.isatty())
    lossy = cast("TextIO", _Lossy(stream))
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    final: list[Processor] = (
        [_traceback_without_values, structlog.processors.JSONRenderer()]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(lossy),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(lossy)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # Both repeat as a log line what our own lines say in a sentence.
    for library in ("apscheduler", "urllib3"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
