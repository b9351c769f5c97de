"""`autoscaler validate`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.security import warnings_of


def validate_files(files: Sequence[Path]) -> int:
    """Check every file, print all that is wrong or unwise, and return the exit code."""
    invalid = False
    for file in files:
        try:
            config = load(file)
        except ConfigError as error:
            invalid = True
            print(error, file=sys.stderr)
        else:
            print(f"{file}: valid, {_counted(config)}")
            for warning in warnings_of(config):
                print(f"{file}: warning: {warning}", file=sys.stderr)
    return 2 if invalid else 0


def _counted(config: Config) -> str:
    targets, files = len(config.targets), len(config.sources.digests)
    counted = f"{targets} {'target' if targets == 1 else 'targets'}"
    return counted if files == 1 else f"{counted} in {files} files"
