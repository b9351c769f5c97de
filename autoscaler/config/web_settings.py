"""The models of `web`: where the pages and the API are, and who may read them.

The words are those of Prometheus' web configuration.
"""

from typing import Literal

from pydantic import Field

from autoscaler.config.fields import FilePath, Listen
from autoscaler.config.model_base import Model, OrDefault

REQUIRED = "RequireAndVerifyClientCert"


class WebTls(Model):
    """The certificate of our server, and what it asks of its clients."""

    cert_file: FilePath = Field(
        description="Our certificate with its intermediates, PEM; read again when it changes."
    )
    key_file: FilePath = Field(description="Its key, PEM; read again when it changes.")
    client_auth_type: OrDefault[
        Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
    ] = Field(default="NoClientCert", description="Whether clients show a certificate.")
    client_ca_file: FilePath | None = Field(
        default=None,
        alias="clientCAFile",
        description="The authorities that vouch for clients, PEM; read again when it changes.",
    )
    min_version: OrDefault[Literal["TLS12", "TLS13"]] = Field(
        default="TLS12", description="The oldest version of TLS that is spoken."
    )


class WebAuth(Model):
    """How clients sign in; each way that is set is enough."""

    bearer_token_file: FilePath | None = Field(
        default=None, description="The file that holds a token; read again when it changes."
    )
    basic_auth_users_file: FilePath | None = Field(
        default=None,
        description="A YAML file of users, each with the bcrypt hash of the password; read again "
        "when it changes.",
    )


class WebSettings(Model):
    """Where the pages and the API are, and who may read them."""

    listen: Listen | None = Field(
        default=None,
        description="Where the pages and the API are; metrics and probes stay at the document's "
        "`listen`. Default: there as well.",
    )
    tls: WebTls | None = Field(default=None, description="Serves https. Default: http.")
    auth: WebAuth | None = Field(
        default=None, description="How clients sign in. Default: only this machine may read."
    )

    @property
    def needs_certificate(self) -> bool:
        """Whether each client has to show a certificate."""
        return self.tls is not None and self.tls.client_auth_type == REQUIRED
