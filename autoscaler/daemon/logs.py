"""Structured logs: JSON lines for machines, aligned text for a terminal."""

import logging
import sys
import threading
import traceback
from contextlib import suppress
from io import StringIO
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from autoscaler import clock
from autoscaler.core.text import printable
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.token_bucket import TokenBucket
from autoscaler.transport.credentials import silence

# The values of variables may be secrets.
_traceback_without_values = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)

_LONGEST_TEXT = 8192


def _all_printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape and shorten texts, so that none controls terminals, forges lines or fills disks."""
    return {key: value if key == "exc_info" else _printable(value) for key, value in event.items()}


def _printable(value: object) -> object:
    if isinstance(value, str):
        return printable(value, _LONGEST_TEXT)
    if isinstance(value, list | tuple):
        return [_printable(element) for element in value]
    if isinstance(value, dict):
        return {key: _printable(element) for key, element in value.items()}
    return value


_MOST_TRACEBACKS, _TRACEBACK_SECONDS = 3, 600.0
"""The burst of tracebacks per place in the code, and the seconds per further traceback."""


class _TracebackLimiter:
    """Drops lines with the same traceback as many others; the next line has their number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[tuple[object, ...], tuple[TokenBucket, int]] = {}
        """By exception and line of code: the bucket, and the number of dropped lines."""

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        given = event.get("exc_info")
        error = given if isinstance(given, BaseException) else sys.exc_info()[1]
        if not given or error is None:
            return event
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        frame = next(reversed(list(traceback.walk_tb(error.__traceback__))), None)
        place = type(error), frame and (frame[0].f_code.co_filename, frame[1])
        with self._lock:
            fresh = TokenBucket(_MOST_TRACEBACKS, _TRACEBACK_SECONDS), 0
            bucket, dropped = self._places.setdefault(place, fresh)
            taken = bucket.take(clock.monotonic())
            self._places[place] = bucket, 0 if taken else dropped + 1
        if not taken:
            raise structlog.DropEvent
        return {**event, "untold": dropped} if dropped else event


def _plain_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    """Format a traceback; the text of its exception may be foreign, so it is escaped."""
    whole = StringIO()
    structlog.dev.plain_traceback(whole, exc_info)
    for line in whole.getvalue().splitlines():
        text = line.lstrip(" ")
        indent = line[: len(line) - len(text)]
        stream.write(f"\n{indent}{printable(text, _LONGEST_TEXT)}" if text else "")


_LEVEL_WIDTH = 8
_TRACEBACKS = ("exc_info", "exception", "stack")
"""The fields that a line shows in addition to its message."""


def _for_terminals(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put a line's subject and its sentence first, and drop fields that they repeat."""
    name, level = event.pop("event"), event.pop("level")
    time = event.pop("time").partition(".")[0].rstrip("Z")
    if "logger" in event:  # A library's own line.
        name, message = event.pop("logger"), name
    else:
        message = event.pop("message", None)
    shown: EventDict = {"time": f"{time}Z", "level": level, "subject": event.pop("target", name)}
    if message is not None:
        shown["message"] = "\n    ".join((message, *event.pop("problems", ())))
        event = {key: event[key] for key in _TRACEBACKS if key in event}
    shown.update(event)
    return shown


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def _console(*, colors: bool) -> structlog.dev.ConsoleRenderer:
    """Render time, level, subject and sentence, then the rest as `key=value`."""
    levels = structlog.dev.ConsoleRenderer.get_default_level_styles(colors)
    dim, bold, reset = ("\x1b[2m", "\x1b[1m", "\x1b[0m") if colors else ("", "", "")
    column = structlog.dev.KeyValueColumnFormatter
    level = structlog.dev.LogLevelColumnFormatter(levels, reset, width=_LEVEL_WIDTH)
    return structlog.dev.ConsoleRenderer(
        columns=[
            structlog.dev.Column("time", column(None, dim, reset, str)),
            structlog.dev.Column("level", level),
            structlog.dev.Column("subject", column(None, bold, reset, str, postfix=":")),
            structlog.dev.Column("message", column(None, "", "", str)),
            structlog.dev.Column("", column(dim, "", reset, _plain)),
        ],
        exception_formatter=_plain_traceback,
        sort_keys=False,
    )


class _LossyStream:
    """Ignores a closed stream or a full disk, which must not stop the scaling."""

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
    """Send our lines, and the libraries' warnings, to one stream in one form."""
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = format_ is LogFormat.JSON or (format_ is LogFormat.AUTO and not stream.isatty())
    lossy = cast("TextIO", _LossyStream(stream))
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    final: list[Processor] = [_all_printable, _for_terminals, _console(colors=stream.isatty())]
    if as_json:
        final = [_traceback_without_values, _all_printable, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[_TracebackLimiter(), *shared, *final],
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
    # Both repeat what our own lines say.
    for library in ("apscheduler", "urllib3"):
        silence(library)
