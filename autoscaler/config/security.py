"""What a valid configuration leaves open to others: warnings, said at every start and reload."""

import stat
from collections.abc import Iterator
from pathlib import Path

from autoscaler.config.settings import Config


def warnings_of(config: Config) -> list[str]:
    """Return a sentence for each secret that others can get at, and for each check left out."""
    warnings = [
        f"{key}: {fault}"
        for key, path in _secrets(config)
        if path is not None and (fault := _fault_of(path)) is not None
    ]
    if config.prometheus.tls.insecure_skip_verify:
        warnings.append(
            "prometheus.tls.insecureSkipVerify: any certificate is trusted, so that anyone on the "
            "way to Prometheus can read the credentials and invent the metrics; name the "
            "authority in caFile instead"
        )
    return warnings


def _secrets(config: Config) -> Iterator[tuple[str, Path | None]]:
    prometheus = config.prometheus
    basic = prometheus.basic_auth
    yield "prometheus.bearerTokenFile", prometheus.bearer_token_file
    yield "prometheus.basicAuth.passwordFile", None if basic is None else basic.password_file
    yield "prometheus.tls.keyFile", prometheus.tls.key_file
    yield "kubernetes.kubeconfig", config.kubernetes.kubeconfig


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
