"""Structured logs: JSON lines for machines, aligned text for a terminal."""

import logging
import sys
from enum import StrEnum
from typing import TextIO

import structlog
from structlog.typing import Processor


class LogFormat(StrEnum):
    """How log lines look; auto is console on a terminal and JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """The least severe lines that are printed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure(level: LogLevel, format_: LogFormat, stream: TextIO = sys.stdout) -> None:
    """Send our lines, and the warnings of the libraries, to one stream in one form."""
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = format_ is LogFormat.JSON or (format_ is LogFormat.AUTO and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    final: list[Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    )
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
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
