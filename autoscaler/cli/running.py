"""`autoscaler run`."""

import sys
from pathlib import Path

from autoscaler.adapters.cluster import ConnectError
from autoscaler.config import ConfigError, load
from autoscaler.daemon import logs
from autoscaler.daemon.exposition.listener import ListenError
from autoscaler.daemon.log_options import LogFormat, LogLevel
from autoscaler.daemon.service import serve


def run_daemon(file: Path, log_level: LogLevel, log_format: LogFormat) -> int:
    """Load the configuration, run until a signal, and return the exit code."""
    try:
        config = load(file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    logs.configure(log_level, log_format)
    try:
        serve(config)
    except (ConnectError, ListenError) as error:
        print(f"autoscaler cannot start: {error}", file=sys.stderr)
        return 1
    return 0
