"""Exposed secrets, exposed files with targets, and unencrypted connections."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from autoscaler.config.documents import path_of
from autoscaler.config.fields import is_loopback
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.config.settings import Config, Sources
from autoscaler.config.settings_rules import SIGN_IN
from autoscaler.config.sources import folder_of, named_files

_PUBLIC = {"caFile", "certFile", "clientCAFile"}
"""The keys of files without a secret."""

_MOST_CHANGEABLE = 10
"""The most files and folders that are named individually."""


def warnings_of(config: Config) -> list[str]:
    """Return a sentence for each exposed secret or file, and for each omitted check."""
    settings = config.model_dump(by_alias=True, include={"prometheus", "web"})
    secrets = (
        (path_of(place), Path(path))
        for place, path in named_files(settings, Config)
        if place[-1] not in _PUBLIC
    )
    warnings = [*_open_ones(secrets), *_changeable(config.sources)]
    for name, server in config.servers.items():
        path = f"prometheus.servers.{name}" if name else "prometheus"
        warnings += _warnings_of_server(path, server)
    return warnings


def _warnings_of_server(path: str, server: PrometheusSettings) -> Iterator[str]:
    if server.tls.insecure_skip_verify:
        yield (
            f"{path}.tls.insecureSkipVerify: any certificate is trusted, so that anyone on the "
            "way to Prometheus can read the credentials and invent the metrics; name the "
            "authority in caFile instead"
        )
    if _in_the_clear(server.url):
        given = server.model_dump(by_alias=True, exclude_none=True)
        ways = [key for key in SIGN_IN if key in given]
        for key in [*ways, "headersFiles"] if server.headers_files else ways:
            yield (
                f"{path}.url: {key} is sent to {server.url} without encryption, so that "
                "anyone on the way to Prometheus can read it; use https://"
            )
    if server.oauth2 is not None and _in_the_clear(server.oauth2.token_url):
        yield (
            f"{path}.oauth2.tokenUrl: the client's secret is sent to {server.oauth2.token_url} "
            "without encryption, so that anyone on the way can read it; use https://"
        )


def warnings_of_access(
    origin: str, secrets: Iterable[tuple[str, Path]], *, url: str, verified: bool
) -> list[str]:
    """Return the same for the connection to the API server at ``url``; ``origin`` names its source.

    ``secrets`` are files with credentials, each with its name; ``verified`` is whether a TLS
    server's certificate is verified.
    """
    warnings = _open_ones(secrets)
    if _in_the_clear(url):
        parts = urlsplit(url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        warnings.append(
            f"{origin}: the server is {shown}, so that anyone on the way to it can read the "
            "credentials and answer in its place; use https://"
        )
    elif not verified:
        warnings.append(
            f"{origin}: insecure-skip-tls-verify is set, so that anyone on the way to the API "
            "server can read the credentials and answer in its place; name the authority in "
            "certificate-authority instead"
        )
    return warnings


def _in_the_clear(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname
    return parts.scheme == "http" and host is not None and not is_loopback(host)


def _open_ones(secrets: Iterable[tuple[str, Path]]) -> list[str]:
    return [f"{name}: {fault}" for name, path in secrets if (fault := _fault_of(path)) is not None]


def _fault_of(path: Path) -> str | None:
    status = _status(path)
    if status is None:
        return None
    mode, others = stat.S_IMODE(status.st_mode), []
    if mode & stat.S_IROTH:
        others.append("read by every user of this machine")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        others.append("written by others than its owner")
    if not others:
        return None
    return f"{path} can be {' and '.join(others)} (its mode is {mode:04o}); chmod 600 ends that"


def _changeable(sources: Sources) -> list[str]:
    files = list(sources.digests)
    patterns = {folder for pattern in sources.include if (folder := folder_of(pattern)) is not None}
    # A link can be replaced in its folder, and its target in another one.
    parents = (folder for file in files for folder in (file.parent, file.resolve().parent))
    holding = dict.fromkeys([*parents, *sorted(patterns)])
    # Whoever may write in a folder above can replace it, except a volume of the kubelet in its pod:
    # a mount cannot be replaced.
    above = (folder for path in holding if not _is_volume(path) for folder in path.parents)
    folders = dict.fromkeys([*holding, *above])
    # With the sticky bit no user replaces a file of others, but a pattern matches new ones.
    sticky = dict.fromkeys(folders.keys() - patterns, stat.S_ISVTX)
    faults = [
        fault for path in [*files, *folders] if (fault := _writers(path, sticky.get(path, 0)))
    ]
    left = len(faults) - _MOST_CHANGEABLE
    more = [f"the configuration: {left} more files and folders are as open to others"]
    named = [f"the configuration: {fault}" for fault in faults[:_MOST_CHANGEABLE]]
    return named + more if left > 0 else named


def _writers(path: Path, sticky: int) -> str | None:
    """Return who else may write a file, or a folder unless its mode has the bit ``sticky``."""
    status = _status(path)
    if status is None:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & sticky:
        return (
            f"{path} can be written by others than its owner (its mode is {mode:04o}), who can "
            "change what is scaled and how; chmod go-w ends that"
        )
    if status.st_uid not in {0, os.geteuid()}:
        return (
            f"{path} belongs to user {status.st_uid}, who can change what is scaled and how; "
            "right is root, or the user that runs this"
        )
    return None


def _status(path: Path) -> os.stat_result | None:
    """Return the stat of a file; None if reading it fails with a message, or only a pod sees it."""
    try:
        return None if _is_volume(path) else path.stat()
    except OSError:
        return None


def _is_volume(path: Path) -> bool:
    """Return whether a file or folder belongs to a volume of the kubelet (`..*`), or is one."""
    mounted = any(part.startswith("..") for part in path.resolve().parts)
    return mounted or (path / "..data").is_symlink()
