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


_ALL_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not listened on


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host means all addresses, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it as the configuration does."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Where this machine reaches whoever listens there."""
        host = _ALL_ADDRESSES.get(self.host, self.host)
        return f"http://{Address(host, self.port)}"


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Which of several daemons writes: the one that holds the Lease.  Times are in seconds.

    ``lease_duration`` is longer than ``renew_deadline``, and that than 1.2 times
    ``retry_period``.
    """

    enabled: bool = False
    namespace: str = ""
    """Of the Lease; empty only where the election is not enabled."""
    name: str = "autoscaler"
    """Of the Lease."""
    identity: str | None = None
    """What the Lease calls this process; None leaves the choice to the daemon."""
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class Sources:
    """The files that a configuration was read from, be it valid or refused.  Paths are absolute."""

    digests: Mapping[Path, str | None]
    """Of each file's content, the main file first; None for what could not be read."""
    include: tuple[Path, ...] = ()
    """The names and patterns of `include`, which may come to match other files."""
    unusable: tuple[Path, ...] = ()
    """Among the files: what the configuration names, as for a secret, and was refused for."""


LISTEN = Address("127.0.0.1", 9191)
STATE_DIRECTORY = "/var/lib/autoscaler"


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration, valid and defaulted."""

    path: Path
    """Of the main file, as it was given."""
    sources: Sources
    prometheus: PrometheusSettings
    kubernetes: KubernetesSettings
    sync_period: float
    """Seconds from one sync to the next, for targets that do not say otherwise."""
    flags: Flags
    state_directory: Path | None
    """Absolute, and need not exist; None keeps nothing over a restart."""
    listen: Address | None
    """Where metrics and health are served; None means nowhere."""
    events: bool
    """Whether Kubernetes Events are written."""
    per_target_metrics: bool
    """Whether the metrics page has series for each target."""
    leader_election: LeaderElection
    targets: tuple[Target, ...]
    """In the order of the files; each workload once."""
