"""Tokens of Entra ID (Azure AD), by azure-identity.

https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-api-promql
"""

import os
from pathlib import Path

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.identity import (
    AzureAuthorityHosts,
    ClientSecretCredential,
    CredentialUnavailableError,
    ManagedIdentityCredential,
    WorkloadIdentityCredential,
)

from autoscaler import clock
from autoscaler.config.prometheus_connection import AzureAdSettings
from autoscaler.prometheus.answers import lost_connection
from autoscaler.transport.credentials import SecretError, SecretFile, Token, silence
from autoscaler.transport.redaction import Redactor

silence("azure")
silence("msal")

_LONGEST_TEXT = 300
_TOKEN_FILE = "AZURE_FEDERATED_TOKEN_FILE"  # noqa: S105 - the name of a variable
# The authority (None for AZURE_AUTHORITY_HOST, else the public one), and the domain of the metrics
# hosts.
_CLOUDS = {
    "AzurePublic": (None, "com"),
    "AzureGovernment": (AzureAuthorityHosts.AZURE_GOVERNMENT, "us"),
    "AzureChina": (AzureAuthorityHosts.AZURE_CHINA, "cn"),
}

_Credential = ManagedIdentityCredential | WorkloadIdentityCredential | ClientSecretCredential


class AzureFetch:
    """Fetches one token each time it is called; raises SecretError."""

    def __init__(self, settings: AzureAdSettings) -> None:
        self._settings = settings
        authority, end = _CLOUDS[settings.cloud]
        self._scope = settings.scope or f"https://prometheus.monitor.azure.{end}/.default"
        # The authority is a constant or the operator's choice, so its validation is disabled.
        self._usual: dict[str, object] = {"disable_instance_discovery": True, "retry_total": 1}
        if authority is not None:
            self._usual["authority"] = authority
        self._secret: SecretFile | None = None
        if (oauth := settings.oauth) is not None:
            self._secret = SecretFile("client secret", oauth.client_secret_file)
        elif (workload := settings.workload_identity) is not None:
            path = workload.token_file_path or os.environ.get(_TOKEN_FILE)
            self._secret = SecretFile("service account token", Path(path)) if path else None

    def __call__(self) -> Token[str]:
        """Ask with new credentials, which have no cached token."""
        secret = "" if self._secret is None else self._secret.read()
        try:
            with self._credential(secret) as credential:
                token = credential.get_token(self._scope)
        except ValueError as error:  # The tenant or the client is missing or malformed.
            raise SecretError(_line(str(error), secret)) from None
        except AzureError as error:
            raise SecretError(_sentence(error, secret)) from None
        return Token(token.token, token.expires_on - clock.wall())

    def _credential(self, secret: str) -> _Credential:
        if (oauth := self._settings.oauth) is not None:
            return ClientSecretCredential(oauth.tenant_id, oauth.client_id, secret, **self._usual)
        if (workload := self._settings.workload_identity) is not None:
            file = workload.token_file_path
            return WorkloadIdentityCredential(
                tenant_id=workload.tenant_id,
                client_id=workload.client_id,
                token_file_path=None if file is None else str(file),
                **self._usual,
            )
        machine = self._settings.managed_identity
        client_id = None if machine is None else machine.client_id
        return ManagedIdentityCredential(client_id=client_id, retry_total=1)


def _line(text: str, secret: str) -> str:
    return Redactor(filter(None, [secret])).line(text, _LONGEST_TEXT)


def _sentence(error: AzureError, secret: str) -> str:
    text = lost_connection(error, "Azure's token endpoint")
    if text is None and isinstance(error, ClientAuthenticationError | CredentialUnavailableError):
        text = _line(error.message, secret)
    return text or f"fetching it failed ({type(error).__name__})"
