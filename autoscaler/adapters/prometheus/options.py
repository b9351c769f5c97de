"""Connection settings of Prometheus."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from autoscaler.transport.redaction import credentials_of, without_secrets

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Shorter values (a tenant "1", dedup=true) would blank out innocent words of an error text.
_SHORTEST_SECRET = 6


@dataclass(frozen=True)
class Endpoint:
    """A server's URL and the TLS with it.

    Files are paths; they are read again whenever they change.  Raises ValueError, without secrets,
    for settings that cannot work.
    """

    url: str = field(repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False
    redacted_url: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "redacted_url", without_secrets(self.url))
        # urlsplit quotes a URL that it cannot parse; the parts of "" are refused below.
        parts = urlsplit(self.url if self.redacted_url else "")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(
                f"{self.redacted_url or 'this'} is no URL such as http://prometheus:9090"
            )
        if parts.query or parts.fragment:
            raise ValueError(f"{self.redacted_url}?...: parameters belong in queryParameters")
        if self.key_file and not self.cert_file:
            raise ValueError("a client key needs its certificate (certFile)")

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def uses_tls(self) -> bool:
        """Whether the URL says https."""
        return urlsplit(self.url).scheme == "https"


@dataclass(frozen=True)
class OAuth2:
    """Sign in with a token that an OAuth 2.0 server gives for client credentials."""

    client_id: str
    client_secret_file: str
    endpoint: Endpoint
    """The token URL."""
    scopes: tuple[str, ...] = ()
    endpoint_params: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further parameters of the request for a token."""


@dataclass(frozen=True)
class SigV4:
    """Sign each request with credentials of Amazon; those that are not named are looked for."""

    region: str | None = None
    profile: str | None = None
    access_key: str | None = None
    secret_key_file: str | None = None
    role_arn: str | None = None
    """The role to assume with the credentials."""
    external_id: str | None = None
    """What the role's trust policy may ask for."""


@dataclass(frozen=True)
class GoogleIam:
    """Sign in as a service account of Google, or as the application default credentials say."""

    credentials_file: str | None = None


@dataclass(frozen=True)
class ManagedIdentity:
    """The identity of the Azure machine; with a client id one of several."""

    client_id: str | None = None


@dataclass(frozen=True)
class WorkloadIdentity:
    """A Kubernetes service account that is an identity of Azure too.

    What is not named the webhook of Azure sets in the environment.
    """

    client_id: str | None = None
    tenant_id: str | None = None
    token_file_path: str | None = None


@dataclass(frozen=True)
class ClientSecret:
    """An application that is registered with Entra ID."""

    client_id: str
    tenant_id: str
    client_secret_file: str


AzureIdentity: TypeAlias = ManagedIdentity | WorkloadIdentity | ClientSecret


@dataclass(frozen=True)
class AzureAd:
    """Sign in with a token of Entra ID."""

    identity: AzureIdentity
    cloud: str = "AzurePublic"
    """AzurePublic, AzureGovernment or AzureChina."""
    scope: str | None = None
    """By default that of the cloud's managed Prometheus."""


SignInOptions: TypeAlias = OAuth2 | SigV4 | GoogleIam | AzureAd


@dataclass(frozen=True)
class PrometheusOptions(Endpoint):
    """The settings of the connection, as a user writes them under `prometheus:`.

    ``name`` is that of the server in the configuration, empty for the default one.  ``url`` is the
    base to which `/api/v1/query` is added.  ``timeout_seconds`` limits one request with its whole
    answer.  Files are paths; they are read again whenever they change.  Values of
    ``headers`` and ``query_parameters``, and a user or password in the URL, may be secrets: those
    of 6 characters or more are redacted from messages.  ``query_parameters`` go into the URL, where
    proxies that authorize by them expect them, the query itself into the body.

    Raises ValueError, without secrets, for settings that cannot work.  The configuration reports
    them earlier, by file and key path; here they are checked for any other caller.
    """

    timeout_seconds: float = 10.0
    bearer_token_file: str | None = None
    basic_auth_username: str | None = None
    basic_auth_password_file: str | None = None
    sign_in: SignInOptions | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query_parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.timeout_seconds > 0:
            raise ValueError(f"a timeout of {self.timeout_seconds} s: it must be above 0")
        basic = self.basic_auth_username or self.basic_auth_password_file
        if sum(1 for way in (self.bearer_token_file, basic, self.sign_in) if way) > 1:
            raise ValueError(
                "bearerTokenFile, basicAuth and the other ways to sign in exclude each other"
            )
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"header {name!r}: name or value is not one that HTTP allows")

    @property
    def subject(self) -> str:
        """The server, for messages."""
        return f"{self.called} at {self.redacted_url}"

    @property
    def called(self) -> str:
        """The server by its name, for messages."""
        return f"Prometheus {self.name}".rstrip()

    @property
    def fixed_secrets(self) -> tuple[str, ...]:
        """Values to redact from messages, except the contents of secret files."""
        parts = urlsplit(self.url)
        values = [unquote(part) for part in (parts.username, parts.password) if part]
        for name, value in self.headers.items():
            own = credentials_of(value) if name.lower().endswith("authorization") else ()
            values += [value, *own]
        for values_of_name in self.query_parameters.values():
            values += values_of_name
        if isinstance(self.sign_in, OAuth2):
            values += self.sign_in.endpoint_params.values()
        return tuple(value for value in values if len(value) >= _SHORTEST_SECRET)
