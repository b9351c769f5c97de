"""The settings of a configuration: the models of everything in it but the specs of targets.

A value is as the code uses it: seconds, absolute paths, the default where nothing is written.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, WithJsonSchema

from autoscaler.config.fields import (
    DNS_LABEL,
    POSITIVE_DURATION_SCHEMA,
    Address,
    Between,
    ByteSize,
    DnsLabel,
    DnsSubdomain,
    Duration,
    FilePath,
    FolderPath,
    Listen,
    LongerThanZero,
    PositiveCount,
    Share,
    SyncPeriod,
    Text,
    Tolerance,
    Url,
)
from autoscaler.config.model_base import (
    Items,
    Model,
    OrDefault,
    SchemaAlternative,
    aliases,
    seconds,
)
from autoscaler.config.spec_model import QuerySource, TargetModel
from autoscaler.config.web_settings import WebSettings
from autoscaler.core.breaker import Breaker
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target

LISTEN = Address("127.0.0.1", 9191)
STATE_DIRECTORY = "/var/lib/autoscaler"
DEFAULT_SERVER = "default"
"""What queries call the server at the top of `prometheus`; in the core its name is empty."""
_FLAGS = Flags()
_BREAKER = Breaker()
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _header_name(name: str) -> str:
    if name.lower() in {"authorization", "proxy-authorization"}:
        raise ValueError(
            "must not be set here, where it would be written down in the configuration; use "
            "bearerTokenFile, basicAuth with passwordFile, or another way to sign in"
        )
    if _TOKEN.fullmatch(name) is None:
        raise ValueError("must be the name of an HTTP header such as X-Scope-OrgID")
    return name


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise ValueError("must be one line without control characters")
    if any(ord(character) > 255 for character in text):
        raise ValueError("must be of Latin-1 characters: a header cannot carry others")
    if text != text.strip():
        raise ValueError("must not begin or end with white space, which a header loses")
    return value


def _server_name(name: str) -> str:
    if name == DEFAULT_SERVER:
        raise ValueError("is the name of the server at the top of `prometheus`; use another one")
    return name


def _user_name(text: str) -> str:
    if ":" in text:
        raise ValueError('must not contain ":", which separates user and password')
    return text


def _parameter(value: object) -> object:
    return [value] if isinstance(value, str) else value


HeaderName = Annotated[
    str,
    AfterValidator(_header_name),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(?!([Pp][Rr][Oo][Xx][Yy]-)?[Aa][Uu][Tt][Hh][Oo][Rr][Ii][Zz][Aa]"
            r"[Tt][Ii][Oo][Nn]$)[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        }
    ),
]
HeaderValue = Annotated[
    SecretStr,
    AfterValidator(_header_value),
    WithJsonSchema(
        {"type": "string", "pattern": r"^([!-~\xa1-\xff]([ -~\xa0-\xff]*[!-~\xa1-\xff])?)?$"}
    ),
]
Parameter = Annotated[
    Items[str], BeforeValidator(_parameter), SchemaAlternative({"type": "string"})
]
ServerName = Annotated[
    DnsLabel,
    AfterValidator(_server_name),
    WithJsonSchema({"type": "string", "pattern": rf"^(?!{DEFAULT_SERVER}$){DNS_LABEL}$"}),
]
UserName = Annotated[
    Text,
    AfterValidator(_user_name),
    WithJsonSchema({"type": "string", "pattern": r"^[^:]*[^:\s][^:]*$"}),
]
# The Lease object holds whole seconds, at least one.
LeaseDuration = Annotated[float, BeforeValidator(Between(1.0, 3600.0)), POSITIVE_DURATION_SCHEMA]
HoldTime = Annotated[float, BeforeValidator(Between(60.0, 43200.0)), POSITIVE_DURATION_SCHEMA]
RecordAge = Annotated[
    float, BeforeValidator(Between(3600.0, 3650 * 86400.0)), POSITIVE_DURATION_SCHEMA
]


class BasicAuth(Model):
    """A user name, and the file that holds the password."""

    username: UserName = Field(description="The user's name.")
    password_file: FilePath = Field(
        description="The file that holds the password; read again when it changes."
    )


class Tls(Model):
    """How the server proves itself to us, and we to it."""

    ca_file: FilePath | None = Field(
        default=None, description="The authorities to trust, PEM. Default: the system's."
    )
    cert_file: FilePath | None = Field(
        default=None, description="Our certificate, PEM; with keyFile."
    )
    key_file: FilePath | None = Field(default=None, description="Our key, PEM; with certFile.")
    server_name: Text | None = Field(
        default=None, description="The name in the server's certificate, where it is not the host."
    )
    insecure_skip_verify: OrDefault[bool] = Field(
        default=False, description="Trust any certificate. Only for a test."
    )


def _endpoint_parameter(name: str) -> str:
    if name in {"grant_type", "scope", "client_id", "client_secret"}:
        raise ValueError("is set by the other keys of oauth2")
    return name


EndpointParameter = Annotated[
    str,
    AfterValidator(_endpoint_parameter),
    WithJsonSchema(
        {"type": "string", "pattern": "^(?!(grant_type|scope|client_id|client_secret)$)"}
    ),
]


class OAuth2Settings(Model):
    """A token that an OAuth 2.0 server gives for client credentials."""

    client_id: Text = Field(description="The client's id.")
    client_secret_file: FilePath = Field(
        description="The file that holds the client's secret; read again for each token."
    )
    token_url: Url = Field(description="Where the token is asked for.")
    scopes: OrDefault[Items[Text]] = Field(
        default_factory=tuple, description="The scopes that are asked for."
    )
    endpoint_params: OrDefault[dict[EndpointParameter, str]] = Field(
        default_factory=dict,
        description="Further parameters of the request for a token, such as audience.",
        repr=False,
    )
    tls: OrDefault[Tls] = Field(default_factory=Tls, description="Certificates, for the token URL.")


class SigV4Settings(Model):
    """Signatures with credentials of Amazon (Signature Version 4)."""

    region: Text | None = Field(
        default=None, description="The region. Default: the environment's or the profile's."
    )
    profile: Text | None = Field(
        default=None, description="The profile of the shared files. Default: AWS_PROFILE."
    )
    access_key: Text | None = Field(
        default=None,
        description="The id of an access key; with secretKeyFile. Default: Amazon's usual places.",
    )
    secret_key_file: FilePath | None = Field(
        default=None, description="The file that holds the secret key; with accessKey."
    )
    role_arn: Text | None = Field(default=None, description="A role to assume.")
    external_id: Text | None = Field(
        default=None, description="What the role asks for; with roleArn."
    )


class GoogleIamSettings(Model):
    """A token of Google; without a file that of the application default credentials."""

    credentials_file: FilePath | None = Field(
        default=None,
        description="The key of a service account, or another file of credentials, JSON; read "
        "again for each token.",
    )


class ManagedIdentitySettings(Model):
    """The identity of the Azure machine."""

    client_id: Text | None = Field(
        default=None, description="Which identity, where there are several."
    )


class WorkloadIdentitySettings(Model):
    """The Kubernetes service account; what is not set here Azure's webhook has set."""

    client_id: Text | None = Field(default=None, description="Default: AZURE_CLIENT_ID.")
    tenant_id: Text | None = Field(default=None, description="Default: AZURE_TENANT_ID.")
    token_file_path: FilePath | None = Field(
        default=None,
        description="The service account's token. Default: AZURE_FEDERATED_TOKEN_FILE.",
    )


class AzureOAuthSettings(Model):
    """An application that is registered with Entra ID."""

    client_id: Text = Field(description="The application's id.")
    tenant_id: Text = Field(description="The tenant that it is of.")
    client_secret_file: FilePath = Field(
        description="The file that holds its secret; read again for each token."
    )


class AzureAdSettings(Model):
    """A token of Entra ID; just one of managedIdentity, workloadIdentity and oauth."""

    cloud: OrDefault[Literal["AzurePublic", "AzureGovernment", "AzureChina"]] = Field(
        default="AzurePublic", description="The cloud."
    )
    scope: Text | None = Field(
        default=None, description="What the token is for. Default: the cloud's managed Prometheus."
    )
    managed_identity: ManagedIdentitySettings | None = Field(
        default=None, description="The identity of the machine."
    )
    workload_identity: WorkloadIdentitySettings | None = Field(
        default=None, description="The Kubernetes service account."
    )
    oauth: AzureOAuthSettings | None = Field(
        default=None, description="An application with a secret."
    )


class PrometheusSettings(Model):
    """A connection to a server with Prometheus' query API."""

    url: Url = Field(description="The address, such as http://prometheus:9090.")
    """Without a slash at its end."""
    timeout: OrDefault[LongerThanZero] = seconds(10.0, "How long one request may take.")
    bearer_token_file: FilePath | None = Field(
        default=None, description="The file that holds a token; read again when it changes."
    )
    basic_auth: BasicAuth | None = Field(default=None, description="User and password.")
    oauth2: OAuth2Settings | None = Field(
        default=None, description="A token for client credentials."
    )
    sigv4: SigV4Settings | None = Field(default=None, description="Signatures, for Amazon.")
    google_iam: GoogleIamSettings | None = Field(default=None, description="A token of Google.")
    azuread: AzureAdSettings | None = Field(default=None, description="A token of Entra ID.")
    tls: OrDefault[Tls] = Field(default_factory=Tls, description="Certificates, for https.")
    headers: OrDefault[dict[HeaderName, HeaderValue]] = Field(
        default_factory=dict, description="Headers sent with each request, such as X-Scope-OrgID."
    )
    query_parameters: OrDefault[dict[str, Parameter]] = Field(
        default_factory=dict, description="URL parameters sent with each request.", repr=False
    )


class NamedServer(PrometheusSettings):
    """A server that queries name, and what is asked of it for resources."""

    resource_queries: OrDefault[dict[Text, QuerySource]] = Field(
        default_factory=dict,
        description="PromQL by resource for metrics that ask this server; replaces what the "
        "document's `resourceQueries` says.",
    )


class PrometheusServers(PrometheusSettings):
    """Where the metrics come from: the server that is asked by default, and others by name."""

    servers: OrDefault[dict[ServerName, NamedServer]] = Field(
        default_factory=dict,
        description="Further servers by the name that queries and targets call them by.",
    )


class KubernetesSettings(Model):
    """Which cluster: by default the one that we run in, else the environment's kubeconfig."""

    kubeconfig: FilePath | None = Field(
        default=None, description="A kubeconfig file. Default: in-cluster, else the environment's."
    )
    context: Text | None = Field(
        default=None, description="A context of the kubeconfig. Default: its current one."
    )
    max_writes_per_second: OrDefault[PositiveCount] = Field(
        default=100,
        description="The most scales written in a second, after a burst of ten times as many; "
        "the most urgent first.",
    )


class LeaderElection(Model):
    """Of several daemons with one Lease, the one that holds it writes; the others stand by."""

    enabled: OrDefault[bool] = Field(
        default=False, description="Whether to write only while holding the Lease."
    )
    namespace: OrDefault[DnsLabel] = Field(
        default="", description="The namespace of the Lease. Default: that of the daemon's pod."
    )
    """In a `Config` it is empty only where the election is not enabled."""
    name: OrDefault[DnsSubdomain] = Field(
        default="autoscaler", description="The name of the Lease."
    )
    identity: Text | None = Field(
        default=None,
        description="What the Lease calls this process, before a random part that tells it from "
        "others of the name. Default: the host's name.",
    )
    lease_duration: OrDefault[LeaseDuration] = seconds(
        15.0, "How long the others wait after the last renewal that they saw, 1s to 1h."
    )
    renew_deadline: OrDefault[LongerThanZero] = seconds(
        10.0, "A leader that could not renew for so long stops writing; shorter than leaseDuration."
    )
    retry_period: OrDefault[LongerThanZero] = seconds(
        2.0, "The time from one try to the next; 1.2 times it is shorter than renewDeadline."
    )


class ScaleDownBreaker(Model):
    """Holds all scale-downs while too many targets of one Prometheus server would go down."""

    share: OrDefault[Share] = Field(
        default=_BREAKER.share,
        description="More than this share of the targets that read from one server trips it.",
        json_schema_extra={"default": f"{_BREAKER.share}%"},
    )
    min_targets: OrDefault[PositiveCount] = Field(
        default=_BREAKER.min_targets,
        description="It watches the servers that at least so many targets read from.",
    )
    hold: OrDefault[HoldTime] = seconds(
        _BREAKER.hold, "How long nothing goes down, 1m to 12h; scale-ups go on."
    )


class Record(Model):
    """What is kept of all decisions, in the state directory; the oldest go first."""

    max_size: OrDefault[ByteSize] = Field(
        default=2**30,
        description="How large its file may become, 16Mi or more.",
        json_schema_extra={"default": "1Gi"},
    )
    max_age: OrDefault[RecordAge] = seconds(
        14 * 86400.0, "How long decisions are kept, 1h to 3650d."
    )


class Settings(Model):
    """All of a configuration but its queries and targets."""

    prometheus: PrometheusServers = Field(description="Where the metrics come from.")
    kubernetes: OrDefault[KubernetesSettings] = Field(
        default_factory=KubernetesSettings, description="Which cluster the targets are in."
    )
    sync_period: OrDefault[SyncPeriod] = seconds(
        15.0, "The time from one decision to the next, 1s to 1h."
    )
    tolerance: OrDefault[Tolerance] = Field(
        default=_FLAGS.tolerance,
        description="How far from 1 the ratio of metric to target may be without a change.",
    )
    downscale_stabilization: OrDefault[Duration] = seconds(
        _FLAGS.downscale_stabilization,
        "The time over which the highest recommendation counts before scaling down.",
    )
    cpu_initialization_period: OrDefault[Duration] = seconds(
        _FLAGS.cpu_initialization_period,
        "The time after a pod's start in which its CPU samples are taken with care.",
    )
    initial_readiness_delay: OrDefault[Duration] = seconds(
        _FLAGS.initial_readiness_delay,
        "A pod that went unready within this time of its start was never ready.",
    )
    state_directory: FolderPath | None = Field(
        default=Path(STATE_DIRECTORY),
        description="The folder that keeps histories over a restart; null keeps nothing.",
    )
    record: Record | None = Field(
        default_factory=Record,
        description="How much is kept of all decisions; null records nothing.",
    )
    listen: Listen | None = Field(
        default=LISTEN,
        description="Where metrics and health are served, as HOST:PORT or :PORT; null listens "
        "nowhere.",
        json_schema_extra={"default": str(LISTEN)},
    )
    web: OrDefault[WebSettings] = Field(
        default_factory=WebSettings,
        description="Where the pages and the API are, and who may read them.",
    )
    events: OrDefault[bool] = Field(
        default=True,
        description="Whether what happens to a workload is told as Kubernetes Events on it.",
    )
    per_target_metrics: OrDefault[bool] = Field(
        default=True, description="Whether the metrics page has series for each target."
    )
    leader_election: OrDefault[LeaderElection] = Field(
        default_factory=LeaderElection, description="Which of several daemons writes."
    )

    scale_down_breaker: ScaleDownBreaker | None = Field(
        default=None, description="What keeps bad data from taking a fleet down. Default: off."
    )

    @property
    def web_listen(self) -> Address | None:
        """Where the pages and the API are; None where nothing is."""
        return self.web.listen or self.listen

    @property
    def web_url(self) -> str | None:
        """The URL by which this machine reaches them; None where there is none to know."""
        address = self.web_listen
        if address is None or not address.port:
            return None
        return address.url_of("http" if self.web.tls is None else "https")

    @property
    def breaker(self) -> Breaker | None:
        """The scale-down breaker; None where there is none."""
        one = self.scale_down_breaker
        return None if one is None else Breaker(one.share, one.min_targets, one.hold)

    @property
    def servers(self) -> Mapping[str, PrometheusSettings]:
        """The connections to Prometheus by `core.target.Query.server`."""
        return {"": self.prometheus, **self.prometheus.servers}

    @property
    def flags(self) -> Flags:
        """The flags of kube-controller-manager among the settings."""
        return Flags(
            tolerance=self.tolerance,
            downscale_stabilization=self.downscale_stabilization,
            cpu_initialization_period=self.cpu_initialization_period,
            initial_readiness_delay=self.initial_readiness_delay,
        )


class MainFile(Settings):
    """The configuration of autoscaler."""

    include: Annotated[Items[Text], Field(min_length=1)] | None = Field(
        default=None,
        description="Further files of `queries` and `targets`, by name or by pattern such as "
        "targets.d/*.yaml.",
    )
    queries: OrDefault[dict[Text, QuerySource]] = Field(
        default_factory=dict, description="PromQL by name; each is asked once per sync."
    )
    resource_queries: OrDefault[dict[Text, QuerySource]] = Field(
        default_factory=dict,
        description="PromQL by resource: replaces the built-in of cpu or memory, or adds one.",
    )
    targets: OrDefault[Items[TargetModel]] = Field(
        default_factory=tuple, description="The workloads to scale."
    )


class IncludedFile(Model):
    """A file that the configuration of autoscaler includes."""

    queries: OrDefault[dict[Text, QuerySource]] = Field(
        default_factory=dict, description="PromQL by name, for the targets of all files."
    )
    targets: OrDefault[Items[TargetModel]] = Field(
        default_factory=tuple, description="The workloads to scale."
    )


KEYS = frozenset(aliases(MainFile))
"""The keys at the top of a configuration."""

INCLUDED_KEYS = frozenset(aliases(IncludedFile))
"""The keys at the top of an included file."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The files that a configuration was read from, be it valid or refused.  Paths are absolute."""

    digests: Mapping[Path, str | None]
    """Of each file's content, the main file first; None for what could not be read."""
    include: tuple[Path, ...] = ()
    """The names and patterns of `include`, which may come to match other files."""
    unusable: tuple[Path, ...] = ()
    """Among the files: what the configuration names, as for a secret, and was refused for."""


class Config(Settings):
    """A configuration, valid: its settings, and the targets of all files with their queries."""

    path: Path
    """Of the main file, as it was given."""
    sources: Sources
    targets: tuple[Target, ...]
    """In the order of the files; each workload once."""
