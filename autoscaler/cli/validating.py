"""`autoscaler validate`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.adapters.cluster import ConnectError, find_api_server
from autoscaler.config import Config, ConfigError, KubernetesSettings, load
from autoscaler.config.pod_namespace import ANYWHERE, pod_namespace
from autoscaler.config.security import warnings_of, warnings_of_access


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
            for warning in (
                *_election_warnings(config),
                *warnings_of(config),
                *_access_warnings(config.kubernetes),
            ):
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


def _access_warnings(settings: KubernetesSettings) -> list[str]:
    """Warn of the kubeconfig that `run` would use; where there is none, nobody asks for it."""
    try:
        server = find_api_server(settings.kubeconfig, settings.context)
    except ConnectError:
        return []
    return warnings_of_access(
        server.origin, server.secrets, url=server.url, verified=server.verified
    )


def _counted(config: Config) -> str:
    targets, files = len(config.targets), len(config.sources.digests)
    counted = f"{targets} {'target' if targets == 1 else 'targets'}"
    return counted if files == 1 else f"{counted} in {files} files"
