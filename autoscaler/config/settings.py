"""The models of all settings, in seconds, and `Config`, which has them with the targets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from autoscaler.config.fields import (
    DNS_LABEL,
    POSITIVE_DURATION_SCHEMA,
    Address,
    ByteSize,
    DnsLabel,
    DnsSubdomain,
    Duration,
    DurationBounds,
    ExternalUrl,
    FilePath,
    FolderPath,
    Form,
    Listen,
    LongerThanZero,
    PositiveCount,
    Share,
    SyncPeriod,
    Text,
    Tolerance,
    matching,
)
from autoscaler.config.models import Items, Model, OrDefault, fields_by_key, seconds
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.config.shards import Shard, url_of
from autoscaler.config.spec_model import (
    LabelSelector,
    QueryModel,
    QuerySource,
    TargetModel,
    Undecided,
)
from autoscaler.core.breaker import Breaker
from autoscaler.core.extensions import Mode
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target

LISTEN = Address("127.0.0.1", 9191)
STATE_DIRECTORY = "/var/lib/autoscaler"
DEFAULT_SERVER = "default"
"""The name in queries of the server at the top of `prometheus`; empty in the core."""
_FLAGS = Flags()
_BREAKER = Breaker()


def _server_name(name: str) -> str:
    if name == DEFAULT_SERVER:
        raise ValueError("is the name of the server at the top of `prometheus`; use another one")
    return name


LabelName = Annotated[
    str,
    Form(
        "[a-zA-Z_][a-zA-Z0-9_]*",
        "must be the name of a label: letters, digits and _, not beginning with a digit",
    ),
]
ServerName = Annotated[
    DnsLabel, AfterValidator(_server_name), matching(rf"^(?!{DEFAULT_SERVER}$){DNS_LABEL}$")
]
# The Lease object holds whole seconds, at least one.
LeaseDuration = Annotated[
    float, BeforeValidator(DurationBounds(1.0, 3600.0)), POSITIVE_DURATION_SCHEMA
]
HoldTime = Annotated[
    float, BeforeValidator(DurationBounds(60.0, 43200.0)), POSITIVE_DURATION_SCHEMA
]
RecordAge = Annotated[
    float, BeforeValidator(DurationBounds(3600.0, 3650 * 86400.0)), POSITIVE_DURATION_SCHEMA
]


class NamedServer(PrometheusSettings):
    """A server with a name, and its queries for resources."""

    resource_queries: OrDefault[dict[Text, QuerySource]] = Field(default_factory=dict)
    """PromQL by resource for metrics that ask this server; replaces the document's
    `resourceQueries`."""


class PrometheusServers(PrometheusSettings):
    """The Prometheus servers: the default one, and others by name."""

    servers: OrDefault[dict[ServerName, NamedServer]] = Field(default_factory=dict)
    """Further servers by their names in queries and targets."""


class KubernetesSettings(Model):
    """The cluster: by default the daemon pod's own, or the environment's kubeconfig's."""

    kubeconfig: FilePath | None = None
    """A kubeconfig file. Default: in-cluster, else the environment's."""
    context: Text | None = None
    """A context of the kubeconfig. Default: its current one."""
    max_writes_per_second: OrDefault[PositiveCount] = 100
    """The most scales written per second, after a burst of ten times as many; the most urgent
    first."""


class ClusterSettings(KubernetesSettings):
    """One of several clusters."""

    name: DnsLabel
    """Its name in targets."""
    kubeconfig: FilePath | None = None
    """A kubeconfig file. Default: the environment's."""
    in_cluster: OrDefault[bool] = False
    """Whether it is the cluster of the daemon's pod."""
    allow_exec: OrDefault[bool] = False
    """Whether its kubeconfig may run programs (exec, auth-provider) and name files outside of its
    folder: its author can then do whatever the daemon's user can."""
    series_labels: OrDefault[dict[LabelName, Text]] = Field(default_factory=dict)
    """The labels that identify its series in a Prometheus with several clusters. Default: none."""
    prometheus: Text | None = None
    """A key of `prometheus.servers`, or default: the server of targets without their own. Default:
    default."""


class LeaderElection(Model):
    """Of several daemons with one Lease, the holder writes; the others are standbys."""

    enabled: OrDefault[bool] = False
    """Whether to write only while holding the Lease."""
    # In a `Config` it is empty only where the election is not enabled.
    namespace: OrDefault[DnsLabel] = ""
    """The namespace of the Lease. Default: the namespace of the daemon's pod."""
    name: OrDefault[DnsSubdomain] = "autoscaler"
    """The name of the Lease."""
    identity: Text | None = None
    """The identity in the Lease, before a random part that makes it unique. Default: the host's
    name."""
    lease_duration: OrDefault[LeaseDuration] = seconds(15.0)
    """How long the others wait after the last renewal that they saw, 1s to 1h."""
    renew_deadline: OrDefault[LongerThanZero] = seconds(10.0)
    """A leader that could not renew for this time stops writing; shorter than leaseDuration."""
    retry_period: OrDefault[LongerThanZero] = seconds(2.0)
    """The time between two tries; 1.2 times it is shorter than renewDeadline."""
    external_url: ExternalUrl | None = None
    """The URL of this process' pages, for links of others; `{hostname}` is the name of the host.
    Default: no links."""


class ScaleDownBreaker(Model):
    """Stops all scale-downs while too many targets of one Prometheus server ask for one."""

    share: OrDefault[Share] = Field(
        default=_BREAKER.share, json_schema_extra={"default": f"{_BREAKER.share}%"}
    )
    """It trips at more than this share of the targets that read from one server."""
    min_targets: OrDefault[PositiveCount] = _BREAKER.min_targets
    """It watches servers with at least this number of targets."""
    hold: OrDefault[HoldTime] = seconds(_BREAKER.hold)
    """How long it holds scale-downs, 1m to 12h; scale-ups continue."""


class Record(Model):
    """The limits of the record of decisions in the state directory; the oldest go first."""

    max_size: OrDefault[ByteSize] = Field(default=2**30, json_schema_extra={"default": "1Gi"})
    """The largest size of its file, 16Mi or more."""
    max_age: OrDefault[RecordAge] = seconds(14 * 86400.0)
    """How long decisions are kept, 1h to 3650d."""


REQUIRED = "RequireAndVerifyClientCert"


class WebTls(Model):
    """The server certificate, and the requirements for client certificates."""

    cert_file: FilePath
    """The server certificate with its intermediates, PEM; read again when it changes."""
    key_file: FilePath
    """Its key, PEM; read again when it changes."""
    client_auth_type: OrDefault[
        Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
    ] = "NoClientCert"
    """Whether clients must show a certificate."""
    client_ca_file: FilePath | None = Field(default=None, alias="clientCAFile")
    """The CAs of client certificates, PEM; read again when it changes."""
    min_version: OrDefault[Literal["TLS12", "TLS13"]] = "TLS12"
    """The oldest accepted version of TLS."""


class WebAuth(Model):
    """The authentication of clients; any configured method is sufficient."""

    bearer_token_file: FilePath | None = None
    """The file with a token; read again when it changes."""
    basic_auth_users_file: FilePath | None = None
    """A YAML file of users, each with the bcrypt hash of the password; read again when it
    changes."""


class WebSettings(Model):
    """The address of the pages and the API, and the access to them."""

    listen: Listen | None = None
    """The address of the pages and the API; metrics and probes stay at the document's `listen`.
    Default: `listen`."""
    tls: WebTls | None = None
    """Enables https. Default: http."""
    auth: WebAuth | None = None
    """The authentication of clients. Default: only this machine may read."""

    @property
    def needs_certificate(self) -> bool:
        """Whether every client must show a certificate."""
        return self.tls is not None and self.tls.client_auth_type == REQUIRED


class NamespaceSelector(LabelSelector):
    """Selects namespaces by their labels; all conditions must hold."""


class NamespaceSelection(Model):
    """Namespaces by name, or by label."""

    names: OrDefault[Items[DnsLabel]] = Field(default_factory=tuple)
    """The names of the namespaces."""
    selector: NamespaceSelector | None = None
    """Selects namespaces by their labels, in place of `names`."""


class ObjectQuotas(Model):
    """What the PromqlAutoscalers of one namespace may use together or each."""

    objects: OrDefault[PositiveCount] = 100
    """The most objects of a namespace."""
    queries: OrDefault[PositiveCount] = 200
    """The most different queries that a namespace sends per sync."""
    sync_period: OrDefault[SyncPeriod] = seconds(15.0)
    """The shortest `syncPeriod` of an object."""
    max_replicas: OrDefault[PositiveCount] = 1000
    """The largest number of replicas of an object."""


class ObjectsSettings(Model):
    """The PromqlAutoscaler objects in the clusters: who may have some, and what they may use."""

    enabled: OrDefault[bool] = False
    """Whether the objects in the clusters are targets too."""
    namespaces: NamespaceSelection | None = None
    """The namespaces whose objects count. Default: all."""
    servers: OrDefault[Annotated[Items[Text], Field(min_length=1)]] = (DEFAULT_SERVER,)
    """The Prometheus servers that objects may name: keys of `prometheus.servers`, or default."""
    queries: OrDefault[Items[Text]] = Field(default_factory=tuple)
    """The keys of `queries` that objects may name; their PromQL is not restricted."""
    unrestricted_namespaces: OrDefault[Items[DnsLabel]] = Field(default_factory=tuple)
    """Namespaces whose objects may query the series of all namespaces."""
    quotas: OrDefault[ObjectQuotas] = Field(default_factory=ObjectQuotas)
    """The limits of each namespace."""


class Settings(Model):
    """All settings of a configuration, without queries and targets."""

    prometheus: PrometheusServers
    """The Prometheus servers."""
    kubernetes: OrDefault[KubernetesSettings] = Field(default_factory=KubernetesSettings)
    """The cluster of the targets."""
    clusters: Annotated[Items[ClusterSettings], Field(min_length=1)] | None = None
    """The clusters of the targets, if there are several, in place of `kubernetes`."""
    sync_period: OrDefault[SyncPeriod] = seconds(15.0)
    """The time from one decision to the next, 1s to 1h."""
    tolerance: OrDefault[Tolerance] = _FLAGS.tolerance
    """How much the ratio of metric to target may differ from 1 without a change."""
    downscale_stabilization: OrDefault[Duration] = seconds(_FLAGS.downscale_stabilization)
    """The stabilization window of scale-down: the highest recommendation in it counts."""
    cpu_initialization_period: OrDefault[Duration] = seconds(_FLAGS.cpu_initialization_period)
    """The time after a pod's start in which its CPU samples count only if they are complete and it
    is ready."""
    initial_readiness_delay: OrDefault[Duration] = seconds(_FLAGS.initial_readiness_delay)
    """A pod that became unready within this time of its start counts as never ready."""
    state_directory: FolderPath | None = Path(STATE_DIRECTORY)
    """The folder that stores histories over a restart; null stores nothing."""
    record: Record | None = Field(default_factory=Record)
    """The limits of the record of decisions; null records nothing."""
    listen: Listen | None = Field(default=LISTEN, json_schema_extra={"default": str(LISTEN)})
    """The address of metrics and health, as HOST:PORT or :PORT; null disables it."""
    web: OrDefault[WebSettings] = Field(default_factory=WebSettings)
    """The address of the pages and the API, and the access to them."""
    events: OrDefault[bool] = True
    """Whether Kubernetes Events report the decisions on a workload."""
    per_target_metrics: OrDefault[bool] = True
    """Whether the metrics page has series for each target."""
    leader_election: OrDefault[LeaderElection] = Field(default_factory=LeaderElection)
    """Which of several daemons writes."""
    shards: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The number of daemons that share the targets, by cluster or else by namespace, 1 to 1000.
    Default: no sharing."""

    scale_down_breaker: ScaleDownBreaker | None = None
    """Protects a fleet from bad data. Default: off."""
    objects: OrDefault[ObjectsSettings] = Field(default_factory=ObjectsSettings)
    """The PromqlAutoscaler objects in the clusters, which are targets too. Default: none."""

    @property
    def web_listen(self) -> Address | None:
        """The address of the pages and the API; None without one."""
        return self.web.listen or self.listen

    @property
    def web_url(self) -> str | None:
        """The URL at which this machine reaches them; None if unknown."""
        address = self.web_listen
        if address is None or not address.port:
            return None
        return address.url("http" if self.web.tls is None else "https")

    @property
    def breaker(self) -> Breaker | None:
        """The scale-down breaker, if configured."""
        breaker = self.scale_down_breaker
        return None if breaker is None else breaker.as_core(Breaker)

    @property
    def servers(self) -> Mapping[str, PrometheusSettings]:
        """The connections to Prometheus by `core.target.Query.server`."""
        return {"": self.prometheus, **self.prometheus.servers}

    @property
    def first_cluster(self) -> str:
        """The cluster of data from before there were `clusters`; empty without any."""
        return "" if self.clusters is None else self.clusters[0].name

    @property
    def flags(self) -> Flags:
        """The flags of kube-controller-manager among the settings."""
        return self.as_core(Flags)


class MainFile(Settings):
    """The configuration of autoscaler."""

    include: Annotated[Items[Text], Field(min_length=1)] | None = None
    """Further files with `queries` and `targets`, by name or pattern such as targets.d/*.yaml."""
    queries: OrDefault[dict[Text, QuerySource]] = Field(default_factory=dict)
    """PromQL by name; each query is sent once per sync."""
    resource_queries: OrDefault[dict[Text, QuerySource]] = Field(default_factory=dict)
    """PromQL by resource: replaces the built-in query of cpu or memory, or adds one."""
    targets: OrDefault[Items[TargetModel]] = Field(default_factory=tuple)
    """The workloads to scale."""
    undecided: Undecided


class IncludedFile(Model):
    """An included file of a configuration."""

    queries: OrDefault[dict[Text, QuerySource]] = Field(default_factory=dict)
    """PromQL by name, for the targets of all files."""
    targets: OrDefault[Items[TargetModel]] = Field(default_factory=tuple)
    """The workloads to scale."""
    undecided: Undecided


KEYS = frozenset(fields_by_key(MainFile))
"""The keys at the top of a configuration."""

INCLUDED_KEYS = frozenset(fields_by_key(IncludedFile))
"""The keys at the top of an included file."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a configuration, valid or refused. Paths are absolute."""

    digests: Mapping[Path, str | None]
    """By file, the main file first: a hash of the content; None if it could not be read."""
    include: tuple[Path, ...] = ()
    """The names and patterns of `include`, which may match other files later."""
    unusable: tuple[Path, ...] = ()
    """The files among them that caused a refusal, such as a missing secret."""


@dataclass(frozen=True)
class QueryModels:
    """The queries of a configuration, from which later targets are made."""

    named: Mapping[str, QueryModel]
    """`queries` of all files."""
    resources: Mapping[str, QueryModel]
    """`resourceQueries` of the main file."""


class Config(Settings):
    """A valid configuration: its settings, and the targets of all files with their queries."""

    path: Path
    """The path of the main file, as it was given."""
    sources: Sources
    targets: tuple[Target, ...]
    """In the order of the files; each workload once."""
    shard: Shard | None = None
    """The shard of this process; the targets and connections are its own."""
    query_models: QueryModels = QueryModels({}, {})
    """The queries for targets of objects."""

    @property
    def connections(self) -> Mapping[str, KubernetesSettings]:
        """The connections to its clusters, by `core.target.Target.cluster`."""
        if self.clusters is None:
            return {"": self.kubernetes}
        served = (
            cluster
            for cluster in self.clusters
            if self.shard is None or self.shard.owns(cluster.name)
        )
        return {cluster.name: cluster for cluster in served}

    @property
    def lease_shard(self) -> Shard | None:
        """The shard of the Lease; each of several clusters has one Lease for all shards."""
        return self.shard if self.clusters is None else None

    def of_shard(self, number: int) -> "Config":
        """Return the part of a process with a number; numbers above the shards are standbys."""
        if self.shards is None:
            return self
        template = self.leader_election.external_url
        urls = tuple(url_of(other, template) for other in range(self.shards))
        shard = Shard(number % self.shards, self.shards, urls)
        targets = tuple(target for target in self.targets if shard.owns(target.key))
        return self.model_copy(update={"targets": targets, "shard": shard})

    def other_shard(self, name: str) -> tuple[int, str | None] | None:
        """Return the shard that serves a key if this process does not, and the URL of its pages."""
        return None if self.shard is None else self.shard.other(name)

    def in_shadow(self) -> "Config":
        """Return it with every target in shadow and without a Lease, since it never writes."""
        targets = [
            replace(target, extensions=replace(target.extensions, mode=Mode.SHADOW))
            for target in self.targets
        ]
        election = self.leader_election.model_copy(update={"enabled": False})
        return self.model_copy(update={"targets": tuple(targets), "leader_election": election})
