"""`autoscaler validate`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.config import ConfigError, load


def validate_files(files: Sequence[Path]) -> int:
    """Check every file and print all that is wrong; return the exit code."""
    invalid = False
    for file in files:
        try:
            config = load(file)
        except ConfigError as error:
            invalid = True
            print(error, file=sys.stderr)
        else:
            count = len(config.targets)
            print(f"{file}: valid, {count} {'target' if count == 1 else 'targets'}")
    return 2 if invalid else 0
