"""The connection to a Prometheus: its configuration, and the arguments of the connection."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from autoscaler.config.fields import FilePath, Form, LongerThanZero, Text, Url, matching
from autoscaler.config.models import Items, Model, OrDefault, SchemaAlternative, seconds

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _header_name(name: str) -> str:
    if name.lower() == "authorization":
        raise ValueError(
            "must not be set here, where it would be written down in the configuration; use "
            "bearerTokenFile, basicAuth with passwordFile, or another way to sign in; headersFiles "
            "takes the whole header from a file"
        )
    return _header_name_of_file(name)


def _header_name_of_file(name: str) -> str:
    if name.lower() == "proxy-authorization":
        raise ValueError(
            "must not be set here: it is for the proxy, and would be sent to Prometheus; write "
            "the proxy's user and password into the URL of HTTPS_PROXY or HTTP_PROXY"
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


def _parameter(value: object) -> object:
    return [value] if isinstance(value, str) else value


_AUTHORIZATION = "[Aa][Uu][Tt][Hh][Oo][Rr][Ii][Zz][Aa][Tt][Ii][Oo][Nn]"
_PROXY = "[Pp][Rr][Oo][Xx][Yy]-"

HeaderName = Annotated[
    str,
    AfterValidator(_header_name),
    matching(rf"^(?!({_PROXY})?{_AUTHORIZATION}$){_TOKEN.pattern}$"),
]
HeaderNameOfFile = Annotated[
    str,
    AfterValidator(_header_name_of_file),
    matching(rf"^(?!{_PROXY}{_AUTHORIZATION}$){_TOKEN.pattern}$"),
]
HeaderValue = Annotated[
    SecretStr,
    AfterValidator(_header_value),
    matching(r"^([!-~\xa1-\xff]([ -~\xa0-\xff]*[!-~\xa1-\xff])?)?$"),
]
Parameter = Annotated[
    Items[str], BeforeValidator(_parameter), SchemaAlternative({"type": "string"})
]
UserName = Annotated[
    Text, Form(r"[^:]*[^:\s][^:]*", 'must not contain ":", which separates user and password')
]


class BasicAuth(Model):
    """A user name, and the file that holds the password."""

    username: UserName
    """The user's name."""
    password_file: FilePath
    """The file with the password; read again when it changes."""


class Tls(Model):
    """The certificates of the server and of the client."""

    ca_file: FilePath | None = None
    """The trusted CAs, PEM. Default: the system's."""
    cert_file: FilePath | None = None
    """The client certificate, PEM; with keyFile."""
    key_file: FilePath | None = None
    """The client key, PEM; with certFile."""
    server_name: Text | None = None
    """The name in the server's certificate, if it is not the host."""
    insecure_skip_verify: OrDefault[bool] = False
    """Trust any certificate. Only for tests."""


EndpointParameter = Annotated[
    str,
    Form(
        "^(?!(grant_type|scope|client_id|client_secret)$)",
        "is set by the other keys of oauth2",
        whole=False,
    ),
]


class OAuth2Settings(Model):
    """A token of an OAuth 2.0 server for client credentials."""

    client_id: Text
    """The client's id."""
    client_secret_file: FilePath
    """The file with the client secret; read again for each token."""
    token_url: Url
    """The URL of the token endpoint."""
    scopes: OrDefault[Items[Text]] = Field(default_factory=tuple)
    """The requested scopes."""
    endpoint_params: OrDefault[dict[EndpointParameter, str]] = Field(
        default_factory=dict, repr=False
    )
    """Further parameters of the token request, such as audience."""
    tls: OrDefault[Tls] = Field(default_factory=Tls)
    """Certificates, for the token URL."""


class SigV4Settings(Model):
    """Signatures with credentials of Amazon (Signature Version 4)."""

    region: Text | None = None
    """The region. Default: the environment's or the profile's."""
    profile: Text | None = None
    """The profile of the shared files. Default: AWS_PROFILE."""
    access_key: Text | None = None
    """The id of an access key; with secretKeyFile. Default: Amazon's usual places."""
    secret_key_file: FilePath | None = None
    """The file with the secret key; with accessKey."""
    role_arn: Text | None = None
    """A role to assume."""
    external_id: Text | None = None
    """The external id of the role; with roleArn."""


class GoogleIamSettings(Model):
    """A token of Google; without a file, of the application default credentials."""

    credentials_file: FilePath | None = None
    """A service account's key, or another credentials file, JSON; read again for each token."""


class ManagedIdentitySettings(Model):
    """The managed identity of the Azure machine."""

    client_id: Text | None = None
    """The client id of the identity, if there are several."""


class WorkloadIdentitySettings(Model):
    """The Kubernetes service account; Azure's webhook sets the keys that are not set here."""

    client_id: Text | None = None
    """The client id. Default: AZURE_CLIENT_ID."""
    tenant_id: Text | None = None
    """The tenant id. Default: AZURE_TENANT_ID."""
    token_file_path: FilePath | None = None
    """The service account's token. Default: AZURE_FEDERATED_TOKEN_FILE."""


class AzureOAuthSettings(Model):
    """An application that is registered with Entra ID."""

    client_id: Text
    """The application's id."""
    tenant_id: Text
    """The tenant's id."""
    client_secret_file: FilePath
    """The file with the client secret; read again for each token."""


class AzureAdSettings(Model):
    """A token of Entra ID; exactly one of managedIdentity, workloadIdentity and oauth."""

    cloud: OrDefault[Literal["AzurePublic", "AzureGovernment", "AzureChina"]] = "AzurePublic"
    """The cloud."""
    scope: Text | None = None
    """The scope of the token. Default: the cloud's managed Prometheus."""
    managed_identity: ManagedIdentitySettings | None = None
    """The identity of the machine."""
    workload_identity: WorkloadIdentitySettings | None = None
    """The Kubernetes service account."""
    oauth: AzureOAuthSettings | None = None
    """An application with a secret."""


class PrometheusSettings(Model):
    """A connection to a server with Prometheus' query API."""

    # Without a slash at its end.
    url: Url
    """The address, such as http://prometheus:9090."""
    timeout: OrDefault[LongerThanZero] = seconds(10.0)
    """The time limit of one request."""
    bearer_token_file: FilePath | None = None
    """The file with a token; read again when it changes."""
    basic_auth: BasicAuth | None = None
    """User name and password."""
    oauth2: OAuth2Settings | None = None
    """A token for client credentials."""
    sigv4: SigV4Settings | None = None
    """Signatures, for Amazon."""
    google_iam: GoogleIamSettings | None = None
    """A token of Google."""
    azuread: AzureAdSettings | None = None
    """A token of Entra ID."""
    tls: OrDefault[Tls] = Field(default_factory=Tls)
    """Certificates, for https."""
    headers: OrDefault[dict[HeaderName, HeaderValue]] = Field(default_factory=dict)
    """Headers sent with each request, such as X-Scope-OrgID."""
    headers_files: OrDefault[dict[HeaderNameOfFile, FilePath]] = Field(default_factory=dict)
    """Files with values of further headers, by the header's name; read again on change."""
    query_parameters: OrDefault[dict[str, Parameter]] = Field(default_factory=dict, repr=False)
    """URL parameters sent with each request."""
