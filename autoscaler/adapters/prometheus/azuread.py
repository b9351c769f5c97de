"""Tokens of Entra ID (Azure AD), by azure-identity.

https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-api-promql
"""

import os
from pathlib import Path
from typing import NamedTuple, assert_never

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.identity import (
    AzureAuthorityHosts,
    ClientSecretCredential,
    CredentialUnavailableError,
    ManagedIdentityCredential,
    WorkloadIdentityCredential,
)

from autoscaler import clock
from autoscaler.adapters.prometheus.failures import lost_connection
from autoscaler.adapters.prometheus.options import (
    AzureAd,
    ClientSecret,
    ManagedIdentity,
    WorkloadIdentity,
)
from autoscaler.transport.background_token import Token, TokenError
from autoscaler.transport.library_logs import silence
from autoscaler.transport.redaction import Redactor
from autoscaler.transport.secret_files import SecretError, SecretFile

silence("azure")
silence("msal")

_LONGEST_TEXT = 300
_TOKEN_FILE = "AZURE_FEDERATED_TOKEN_FILE"  # noqa: S105 - the name of a variable


class _Cloud(NamedTuple):
    authority: str | None
    """None for the environment's, AZURE_AUTHORITY_HOST, else the public one."""
    scope: str


_CLOUDS = {
    "AzurePublic": _Cloud(None, "https://prometheus.monitor.azure.com/.default"),
    "AzureGovernment": _Cloud(
        AzureAuthorityHosts.AZURE_GOVERNMENT, "https://prometheus.monitor.azure.us/.default"
    ),
    "AzureChina": _Cloud(
        AzureAuthorityHosts.AZURE_CHINA, "https://prometheus.monitor.azure.cn/.default"
    ),
}

_Credential = ManagedIdentityCredential | WorkloadIdentityCredential | ClientSecretCredential


class AzureFetch:
    """Fetches one token each time it is called; raises TokenError."""

    def __init__(self, options: AzureAd) -> None:
        self._identity = options.identity
        cloud = _CLOUDS[options.cloud]
        self._scope = options.scope or cloud.scope
        # An authority is ours or the operator's: there is nobody to ask whether it is one.
        self._settings: dict[str, object] = {"disable_instance_discovery": True, "retry_total": 1}
        if cloud.authority is not None:
            self._settings["authority"] = cloud.authority
        self._secret = _secret_file(options)

    def __call__(self) -> Token[str]:
        """Ask with credentials made anew, which remember no token."""
        try:
            secret = "" if self._secret is None else self._secret.read()
        except SecretError as error:
            raise TokenError(str(error)) from None
        try:
            with self._credential(secret) as credential:
                token = credential.get_token(self._scope)
        except ValueError as error:  # a tenant or a client that cannot be one
            text = Redactor(filter(None, [secret])).line(str(error), _LONGEST_TEXT)
            raise TokenError(text) from None
        except AzureError as error:
            raise TokenError(_sentence(error, secret)) from None
        return Token(token.token, token.expires_on - clock.wall())

    def _credential(self, secret: str) -> _Credential:
        one = self._identity
        if isinstance(one, ManagedIdentity):
            return ManagedIdentityCredential(client_id=one.client_id, retry_total=1)
        if isinstance(one, ClientSecret):
            return ClientSecretCredential(one.tenant_id, one.client_id, secret, **self._settings)
        if isinstance(one, WorkloadIdentity):
            _check_workload(one)
            return WorkloadIdentityCredential(
                tenant_id=one.tenant_id,
                client_id=one.client_id,
                token_file_path=one.token_file_path,
                **self._settings,
            )
        assert_never(one)


def _check_workload(one: WorkloadIdentity) -> None:
    needed = {
        "clientId": (one.client_id, "AZURE_CLIENT_ID"),
        "tenantId": (one.tenant_id, "AZURE_TENANT_ID"),
        "tokenFilePath": (one.token_file_path, _TOKEN_FILE),
    }
    missing = [
        f"{key} ({variable})"
        for key, (value, variable) in needed.items()
        if not (value or os.environ.get(variable))
    ]
    if missing:
        raise TokenError(
            f"workloadIdentity does not name {', '.join(missing)}, nor does the environment, which "
            "Azure's webhook sets in pods with the label azure.workload.identity/use"
        )


def _sentence(error: AzureError, secret: str) -> str:
    text = lost_connection(_innermost(error), "Azure's token endpoint")
    if text is None and isinstance(error, ClientAuthenticationError | CredentialUnavailableError):
        text = Redactor(filter(None, [secret])).line(error.message, _LONGEST_TEXT)
    return text or f"fetching it failed ({type(error).__name__})"


def _innermost(error: AzureError) -> Exception:
    """Return what azure-core wrapped, which it keeps in a place of its own."""
    for one in (error, error.__cause__):
        if isinstance(one, AzureError) and isinstance(one.inner_exception, Exception):
            return one.inner_exception
    return error


def _secret_file(options: AzureAd) -> SecretFile | None:
    one = options.identity
    if isinstance(one, ClientSecret):
        return SecretFile("client secret", Path(one.client_secret_file))
    if isinstance(one, WorkloadIdentity):
        path = one.token_file_path or os.environ.get(_TOKEN_FILE)
        return SecretFile("service account token", Path(path)) if path else None
    return None
