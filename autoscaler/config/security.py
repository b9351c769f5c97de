"""What is left open to others: warnings, said by `validate` and by the daemon.

Those of a configuration come at every start and reload; the way to the cluster is taken once.
"""

import ipaddress
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from autoscaler.config.rules import SIGN_IN
from autoscaler.config.settings import Config, PrometheusSettings, Sources
from autoscaler.config.sources import folder_of
from autoscaler.config.web_settings import WebSettings

_MOST_CHANGEABLE = 10
"""Files and folders that are named one by one."""


def warnings_of(config: Config) -> list[str]:
    """Return a sentence for each secret or file that is open to others, and each check left out."""
    servers = list(_servers(config))
    secrets = [
        (f"{place}.{key}", path) for place, server in servers for key, path in _secrets(server)
    ]
    secrets += _secrets_of_web(config.web)
    warnings = _open_ones((name, path) for name, path in secrets if path is not None)
    warnings += _changeable(config.sources)
    for path, server in servers:
        warnings += _warnings_of_server(path, server)
    return warnings


def _servers(config: Config) -> Iterator[tuple[str, PrometheusSettings]]:
    """Yield the connections to Prometheus with the places where they stand."""
    for name, server in config.servers.items():
        yield f"prometheus.servers.{name}" if name else "prometheus", server


def _warnings_of_server(path: str, server: PrometheusSettings) -> Iterator[str]:
    if server.tls.insecure_skip_verify:
        yield (
            f"{path}.tls.insecureSkipVerify: any certificate is trusted, so that anyone on the "
            "way to Prometheus can read the credentials and invent the metrics; name the "
            "authority in caFile instead"
        )
    if _in_the_clear(server.url):
        for key in _ways_to_sign_in(server):
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
    """Return the same of the way to the API server at ``url``, which ``origin`` names.

    ``secrets`` are files that hold credentials, each with its name; ``verified`` is whether a
    server that is reached by TLS has to prove who it is.
    """
    warnings = _open_ones(secrets)
    if _in_the_clear(url):
        warnings.append(
            f"{origin}: the server is {_without_user(url)}, so that anyone on the way to it can "
            "read the credentials and answer in its place; use https://"
        )
    elif not verified:
        warnings.append(
            f"{origin}: insecure-skip-tls-verify is set, so that anyone on the way to the API "
            "server can read the credentials and answer in its place; name the authority in "
            "certificate-authority instead"
        )
    return warnings


def _without_user(url: str) -> str:
    """Return the URL without the name and the password that it may hold."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _open_ones(secrets: Iterable[tuple[str, Path]]) -> list[str]:
    return [f"{name}: {fault}" for name, path in secrets if (fault := _fault_of(path)) is not None]


def _changeable(sources: Sources) -> list[str]:
    """Say which files of a configuration, and which of their folders, others may change."""
    files = list(sources.digests)
    patterns = {folder for pattern in sources.include if (folder := folder_of(pattern)) is not None}
    # A link may be replaced in its folder, and what it leads to in another one.
    parents = (folder for file in files for folder in (file.parent, file.resolve().parent))
    named = dict.fromkeys([*parents, *sorted(patterns)])
    folders = dict.fromkeys([*named, *(above for one in named for above in _above(one))])
    # Where the sticky bit is set no user replaces a file of others, but a pattern matches new ones.
    sticky = dict.fromkeys(folders.keys() - patterns, stat.S_ISVTX)
    faults = [fault for one in [*files, *folders] if (fault := _writers(one, sticky.get(one, 0)))]
    left = len(faults) - _MOST_CHANGEABLE
    more = [f"the configuration: {left} more files and folders are as open to others"]
    told = [f"the configuration: {fault}" for fault in faults[:_MOST_CHANGEABLE]]
    return told + more if left > 0 else told


def _above(folder: Path) -> Iterator[Path]:
    """Yield the folders that a folder is in: who may write there can put another in its place.

    A volume of the kubelet cannot be replaced in its pod, as a mount cannot.
    """
    if not _is_volume(folder):
        yield from folder.parents


def _writers(path: Path, sticky: int) -> str | None:
    """Say who else may write a file, or a folder unless its mode has the bit ``sticky``."""
    try:
        status = path.stat()
        if _is_volume(path):
            return None
    except OSError:
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


def _ways_to_sign_in(server: PrometheusSettings) -> list[str]:
    given = server.model_dump(by_alias=True, exclude_none=True)
    return [key for key in SIGN_IN if key in given]


def _secrets(prometheus: PrometheusSettings) -> Iterator[tuple[str, Path | None]]:
    """Yield the files of a connection that hold credentials, by their keys."""
    yield "bearerTokenFile", prometheus.bearer_token_file
    if (basic := prometheus.basic_auth) is not None:
        yield "basicAuth.passwordFile", basic.password_file
    if (oauth2 := prometheus.oauth2) is not None:
        yield "oauth2.clientSecretFile", oauth2.client_secret_file
        yield "oauth2.tls.keyFile", oauth2.tls.key_file
    if (sigv4 := prometheus.sigv4) is not None:
        yield "sigv4.secretKeyFile", sigv4.secret_key_file
    if (google := prometheus.google_iam) is not None:
        yield "googleIam.credentialsFile", google.credentials_file
    if (azure := prometheus.azuread) is not None:
        if azure.oauth is not None:
            yield "azuread.oauth.clientSecretFile", azure.oauth.client_secret_file
        if azure.workload_identity is not None:
            yield "azuread.workloadIdentity.tokenFilePath", azure.workload_identity.token_file_path
    yield "tls.keyFile", prometheus.tls.key_file


def _secrets_of_web(web: WebSettings) -> Iterator[tuple[str, Path | None]]:
    if web.tls is not None:
        yield "web.tls.keyFile", web.tls.key_file
    if web.auth is not None:
        yield "web.auth.bearerTokenFile", web.auth.bearer_token_file
        yield "web.auth.basicAuthUsersFile", web.auth.basic_auth_users_file


def _in_the_clear(url: str) -> bool:
    """Return whether requests leave this machine unencrypted."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return False
    try:
        return not ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname != "localhost"


def _fault_of(path: Path) -> str | None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if _mounted(path):
            return None
    except OSError:
        return None  # reading it fails with a message
    others = []
    if mode & stat.S_IROTH:
        others.append("read by every user of this machine")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        others.append("written by others than its owner")
    if not others:
        return None
    return f"{path} can be {' and '.join(others)} (its mode is {mode:04o}); chmod 600 ends that"


def _is_volume(path: Path) -> bool:
    """Return whether a file or folder is of a volume of the kubelet, or is one."""
    return _mounted(path) or (path / "..data").is_symlink()


def _mounted(path: Path) -> bool:
    """Return whether a file is of a volume of the kubelet, which keeps versions in folders `..*`.

    A volume is open to the containers of its pod only, and its files are readable by all unless
    told otherwise.
    """
    return any(part.startswith("..") for part in path.resolve().parts)
