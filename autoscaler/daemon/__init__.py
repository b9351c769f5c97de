"""The composition root: builds everything from the configuration and runs it until stopped.

Here is what a user may choose of the log: `logs`, which renders it, is slow to import.
"""

from enum import StrEnum


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
