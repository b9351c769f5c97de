"""What is left open to others: warnings, said by `validate` and by the daemon.

Those of a configuration come at every start and reload; the way to the cluster is taken once.
"""

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from autoscaler.config.settings import Config


def warnings_of(config: Config) -> list[str]:
    """Return a sentence for each secret that others can get at, and for each check left out."""
    warnings = _open_ones((key, path) for key, path in _secrets(config) if path is not None)
    if config.prometheus.tls.insecure_skip_verify:
        warnings.append(
            "prometheus.tls.insecureSkipVerify: any certificate is trusted, so that anyone on the "
            "way to Prometheus can read the credentials and invent the metrics; name the "
            "authority in caFile instead"
        )
    return warnings


def warnings_of_access(
    origin: str, secrets: Iterable[tuple[str, Path]], *, verified: bool
) -> list[str]:
    """Return the same of the way to the API server, which ``origin`` names.

    ``secrets`` are files that hold credentials, each with its name; ``verified`` tells whether
    the server has to prove who it is.
    """
    warnings = _open_ones(secrets)
    if not verified:
        warnings.append(
            f"{origin}: insecure-skip-tls-verify is set, so that anyone on the way to the API "
            "server can read the credentials and answer in its place; name the authority in "
            "certificate-authority instead"
        )
    return warnings


def _open_ones(secrets: Iterable[tuple[str, Path]]) -> list[str]:
    return [f"{name}: {fault}" for name, path in secrets if (fault := _fault_of(path)) is not None]


def _secrets(config: Config) -> Iterator[tuple[str, Path | None]]:
    prometheus = config.prometheus
    basic = prometheus.basic_auth
    yield "prometheus.bearerTokenFile", prometheus.bearer_token_file
    yield "prometheus.basicAuth.passwordFile", None if basic is None else basic.password_file
    yield "prometheus.tls.keyFile", prometheus.tls.key_file


def _fault_of(path: Path) -> str | None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        mounted = any(part.startswith("..") for part in path.resolve().parts)
    except OSError:
        return None  # whoever reads it says so
    if mounted:
        # The kubelet keeps the versions of a volume in folders that begin so; a volume is open to
        # the containers of its pod only, and its files are readable by all unless told otherwise.
        return None
    others = []
    if mode & stat.S_IROTH:
        others.append("read by every user of this machine")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        others.append("written by others than its owner")
    if not others:
        return None
    return f"{path} can be {' and '.join(others)} (its mode is {mode:04o}); chmod 600 ends that"
