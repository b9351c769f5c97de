"""`autoscaler validate`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.cli.asking import ask_every_query
from autoscaler.cli.cautions import cautions_on
from autoscaler.config import Config, ConfigError, KubernetesSettings, Problem, load
from autoscaler.config.exposure import warnings_of, warnings_of_access
from autoscaler.config.loading import ANYWHERE, namespace_or_anywhere, pod_namespace
from autoscaler.config.reading import MOST_OF_A_FILE
from autoscaler.daemon.clusters import endpoint_of
from autoscaler.kubernetes import ConnectError
from autoscaler.rendering import wording

_STANDARD_INPUT = Path("-")
_SHOWN = Path("standard input")
"""The name in messages.  Included files are relative to the working directory."""


def validate_files(
    files: Sequence[Path], *, ask_prometheus: bool = False, strict: bool = False
) -> int:
    """Check every file, print all mistakes and warnings, and return the exit code.

    ``ask_prometheus`` also asks the queries of each valid file; ``strict`` makes warnings mistakes.
    """
    codes = {_validate(file, ask_prometheus=ask_prometheus, strict=strict) for file in files}
    return max(codes, default=0)


def _validate(file: Path, *, ask_prometheus: bool, strict: bool) -> int:
    try:
        content = _standard_input() if file == _STANDARD_INPUT else None
        path = file if content is None else _SHOWN
        config = load(path, namespace_or_anywhere, content)
    except ConfigError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    print(f"{config.path}: valid, {_counted(config)}", flush=True)
    warnings = [
        f"{one.file}:{one.line}: warning: {one.path}: {one.message}"
        for one in cautions_on(config, content)
    ]
    doubts = _election_warnings(config) + warnings_of(config)
    for settings in config.connections.values():
        doubts += _access_warnings(settings)
    warnings += [f"{config.path}: warning: {one}" for one in doubts]
    for warning in warnings:
        print(warning, file=sys.stderr)
    code = ask_every_query(config, content, strict=strict) if ask_prometheus else 0
    return 2 if strict and warnings else code


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise ConfigError([Problem(str(_SHOWN), None, "", None, "it is closed")])
    if sys.stdin.isatty():
        print("reading standard input; Ctrl-D ends it", file=sys.stderr)
    # One byte more than permitted, so that too much is refused as in a file.
    return sys.stdin.buffer.read(MOST_OF_A_FILE + 1)


def _election_warnings(config: Config) -> list[str]:
    if not config.leader_election.enabled or pod_namespace() is not None:
        return []
    if config.leader_election.namespace != ANYWHERE:
        return []
    return ["leaderElection.namespace is that of the daemon's pod; outside of a pod `run` needs it"]


def _access_warnings(settings: KubernetesSettings) -> list[str]:
    """Return the warnings about the kubeconfig that `run` would use; none if there is none."""
    try:
        server = endpoint_of(settings)
    except ConnectError:
        return []
    return warnings_of_access(
        server.origin, server.secrets, url=server.url, verified=server.verified
    )


def _counted(config: Config) -> str:
    counted = wording.counted(len(config.targets), "target")
    files = len(config.sources.digests) + (config.path == _SHOWN)
    return counted if files == 1 else f"{counted} in {files} files"
