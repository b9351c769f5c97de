"""What a valid configuration says, in the units of the code: seconds, paths, core types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from autoscaler.core.spec import Flags
from autoscaler.core.target import Target


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """A user name, and the file whose content is the password."""

    username: str
    password_file: Path


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates; None means the system's authorities, no certificate of ours, the host."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """How to reach Prometheus.  Paths are absolute; secret files are read by who sends requests."""

    url: str
    """Without a slash at its end."""
    timeout: float = 10.0
    """Seconds that one request may take."""
    bearer_token_file: Path | None = None
    basic_auth: BasicAuth | None = None
    tls: Tls = Tls()
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    query_parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Which cluster; None means in-cluster, else the kubeconfig and context of the environment."""

    kubeconfig: Path | None = None
    context: str | None = None
    max_writes_per_second: int = 100
    """Over all targets; a burst may be ten times as many."""


@dataclass(frozen=True, slots=True)
class Config:
    """One configuration file, valid and defaulted."""

    path: Path
    prometheus: PrometheusSettings
    kubernetes: KubernetesSettings
    sync_period: float
    """Seconds from one sync to the next, for targets that do not say otherwise."""
    flags: Flags
    targets: tuple[Target, ...]
    """In the order of the file; each workload once."""
