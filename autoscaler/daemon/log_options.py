"""What a user may choose of the log, apart from what renders it, which is slow to import."""

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
