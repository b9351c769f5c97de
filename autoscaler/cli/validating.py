"""`autoscaler validate`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.pod_namespace import ANYWHERE, pod_namespace
from autoscaler.config.security import warnings_of


def validate_files(files: Sequence[Path]) -> int:
    """Check every file, print all that is wrong or unwise, and return the exit code."""
    invalid = False
    for file in files:
        try:
            config = load(file, _namespace)
        except ConfigError as error:
            invalid = True
            print(error, file=sys.stderr)
        else:
            print(f"{file}: valid, {_counted(config)}")
            for warning in [*_election_warnings(config), *warnings_of(config)]:
                print(f"{file}: warning: {warning}", file=sys.stderr)
    return 2 if invalid else 0


def _namespace() -> str | None:
    """Let a file for a pod be checked where there is none."""
    return pod_namespace() or ANYWHERE


def _election_warnings(config: Config) -> list[str]:
    if not config.leader_election.enabled or pod_namespace() is not None:
        return []
    if config.leader_election.namespace != ANYWHERE:
        return []
    return ["leaderElection.namespace is that of the daemon's pod; outside of a pod `run` needs it"]


def _counted(config: Config) -> str:
    targets, files = len(config.targets), len(config.sources.digests)
    counted = f"{targets} {'target' if targets == 1 else 'targets'}"
    return counted if files == 1 else f"{counted} in {files} files"
