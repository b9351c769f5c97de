"""Builds the daemon from the configuration and runs it until it is stopped.

The log options of users are defined here, since `logs`, which renders the log, is slow to import.
"""

from enum import StrEnum


class LogFormat(StrEnum):
    """The form of log lines; auto is console on a terminal and JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """The least severe lines that are printed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
