"""The whole document as a user writes it: Prometheus, Kubernetes, flags, queries, targets."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, SecretStr, WithJsonSchema

from autoscaler.config import schema_rules as schema
from autoscaler.config.addresses import Listen, Url
from autoscaler.config.fields import (
    Duration,
    Items,
    LongerThanZero,
    Model,
    PositiveCount,
    SchemaAlternative,
    SyncPeriod,
    Text,
    Tolerance,
)
from autoscaler.config.query_model import QuerySource
from autoscaler.config.service_model import LeaderElectionModel
from autoscaler.config.settings import LISTEN, STATE_DIRECTORY
from autoscaler.config.spec_model import TargetModel

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _header_name(name: str) -> str:
    if name.lower() in {"authorization", "proxy-authorization"}:
        raise ValueError(
            "must not be set here, where it would be written down in the configuration; use "
            "bearerTokenFile, or basicAuth with passwordFile"
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
        {
            "type": "string",
            "pattern": r"^([!-~\xa1-\xff]([ -~\xa0-\xff]*[!-~\xa1-\xff])?)?$",
        }
    ),
]
Parameter = Annotated[
    Items[str], BeforeValidator(_parameter), SchemaAlternative({"type": "string"})
]
UserName = Annotated[
    Text,
    AfterValidator(_user_name),
    WithJsonSchema({"type": "string", "pattern": r"^[^:]*[^:\s][^:]*$"}),
]


class BasicAuthModel(Model):
    """A user name, and the file that holds the password."""

    username: UserName = Field(description="The user's name.")
    password_file: Text = Field(
        description="The file that holds the password; read again when it changes."
    )


class TlsModel(Model):
    """How the server proves itself to us, and we to it."""

    model_config = ConfigDict(json_schema_extra={"allOf": schema.CERTIFICATE_AND_KEY})
    ca_file: Text | None = Field(
        default=None, description="The authorities to trust, PEM. Default: the system's."
    )
    cert_file: Text | None = Field(default=None, description="Our certificate, PEM; with keyFile.")
    key_file: Text | None = Field(default=None, description="Our key, PEM; with certFile.")
    server_name: Text | None = Field(
        default=None, description="The name in the server's certificate, where it is not the host."
    )
    insecure_skip_verify: bool | None = Field(
        default=None,
        description="Trust any certificate. Only for a test.",
        json_schema_extra={"default": False},
    )


class PrometheusModel(Model):
    """Where the metrics come from: any server with Prometheus' query API."""

    model_config = ConfigDict(json_schema_extra={"allOf": schema.ONE_CREDENTIAL})
    url: Url = Field(description="The address, such as http://prometheus:9090.")
    timeout: LongerThanZero | None = Field(
        default=None,
        description="How long one request may take.",
        json_schema_extra={"default": "10s"},
    )
    bearer_token_file: Text | None = Field(
        default=None, description="The file that holds a token; read again when it changes."
    )
    basic_auth: BasicAuthModel | None = Field(default=None, description="User and password.")
    tls: TlsModel | None = Field(default=None, description="Certificates, for https.")
    headers: dict[HeaderName, HeaderValue] | None = Field(
        default=None, description="Headers sent with each request, such as X-Scope-OrgID."
    )
    query_parameters: dict[str, Parameter] | None = Field(
        default=None, description="URL parameters sent with each request."
    )


class KubernetesModel(Model):
    """Which cluster: by default the one that we run in, else the environment's kubeconfig."""

    kubeconfig: Text | None = Field(
        default=None, description="A kubeconfig file. Default: in-cluster, else the environment's."
    )
    context: Text | None = Field(
        default=None, description="A context of the kubeconfig. Default: its current one."
    )
    max_writes_per_second: PositiveCount | None = Field(
        default=None,
        description="The most scales written in a second, after a burst of ten times as many; "
        "the most urgent first.",
        json_schema_extra={"default": 100},
    )


class DocumentModel(Model):
    """The configuration of autoscaler."""

    model_config = ConfigDict(json_schema_extra={"allOf": schema.TARGETS_OR_INCLUDE})
    include: Annotated[Items[Text], Field(min_length=1)] | None = Field(
        default=None,
        description="Further files of `queries` and `targets`, by name or by pattern such as "
        "targets.d/*.yaml.",
    )
    prometheus: PrometheusModel = Field(description="Where the metrics come from.")
    kubernetes: KubernetesModel | None = Field(
        default=None, description="Which cluster the targets are in."
    )
    sync_period: SyncPeriod | None = Field(
        default=None,
        description="The time from one decision to the next, 1s to 1h.",
        json_schema_extra={"default": "15s"},
    )
    tolerance: Tolerance | None = Field(
        default=None,
        description="How far from 1 the ratio of metric to target may be without a change.",
        json_schema_extra={"default": 0.1},
    )
    downscale_stabilization: Duration | None = Field(
        default=None,
        description="The time over which the highest recommendation counts before scaling down.",
        json_schema_extra={"default": "5m"},
    )
    cpu_initialization_period: Duration | None = Field(
        default=None,
        description="The time after a pod's start in which its CPU samples are taken with care.",
        json_schema_extra={"default": "5m"},
    )
    initial_readiness_delay: Duration | None = Field(
        default=None,
        description="A pod that went unready within this time of its start was never ready.",
        json_schema_extra={"default": "30s"},
    )
    state_directory: Text | None = Field(
        default=STATE_DIRECTORY,
        description="The folder that keeps histories over a restart; null keeps nothing.",
    )
    listen: Listen | None = Field(
        default=LISTEN,
        description="Where metrics and health are served, as HOST:PORT or :PORT; null listens "
        "nowhere.",
        json_schema_extra={"default": str(LISTEN)},
    )
    events: bool | None = Field(
        default=None,
        description="Whether what happens to a workload is told as Kubernetes Events on it.",
        json_schema_extra={"default": True},
    )
    per_target_metrics: bool | None = Field(
        default=None,
        description="Whether the metrics page has series for each target.",
        json_schema_extra={"default": True},
    )
    leader_election: LeaderElectionModel | None = Field(
        default=None, description="Which of several daemons writes."
    )
    queries: dict[Text, QuerySource] | None = Field(
        default=None, description="PromQL by name; each is asked once per sync."
    )
    resource_queries: dict[Text, QuerySource] | None = Field(
        default=None,
        description="PromQL by resource: replaces the built-in of cpu or memory, or adds one.",
    )
    targets: Items[TargetModel] | None = Field(default=None, description="The workloads to scale.")


class IncludedModel(Model):
    """A file that the configuration of autoscaler includes."""

    queries: dict[Text, QuerySource] | None = Field(
        default=None, description="PromQL by name, for the targets of all files."
    )
    targets: Items[TargetModel] | None = Field(default=None, description="The workloads to scale.")
