"""The ways to sign in that fetch credentials, each with a stand-in of what gives them."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.compute_engine import _metadata

from autoscaler import clock
from tests.adapters.prometheus.signatures import KEY, REGION, assert_signed
from tests.worlds.certificates import self_signed
from tests.worlds.prometheus.faults import Peer, Received, ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import (
    basic,
    behind_tls,
    claims,
    denied,
    form,
    token_answer,
)

SECRETS = FIRST, ROTATED = "s3cret&of/the client", "rotated"
READ = "https://www.googleapis.com/auth/monitoring.read"
ROLE = "arn:aws:iam::123456789012:role/metrics"
OF_AZURE = "https://prometheus.monitor.azure.com"
OTHER_CLIENT = "11111111-2222-3333-4444-555555555555"
JSON, XML = {"Content-Type": "application/json"}, {"Content-Type": "text/xml"}
_GOOGLE = {"Metadata-Flavor": "Google"}


@cache
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class Endpoint:
    """Plays a step for each request of credentials, the last one again and again."""

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] = ()
        self.requests: list[Received] = []

    def __call__(self, peer: Peer) -> None:
        received = peer.received
        # The libraries of Azure and Google ask first what is there.
        if received.target.startswith("/tenant/v2.0/.well-known"):
            base = f"https://{received.headers['Host']}/tenant"
            answer(
                {
                    "issuer": f"{base}/v2.0",
                    "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{base}/oauth2/v2.0/token",
                },
                headers=JSON,
            )(peer)
        elif received.headers.get("Metadata-Flavor") and "/token" not in received.target:
            account = {"email": "default", "scopes": [READ], "aliases": []}
            answer(account, headers=JSON | _GOOGLE)(peer)
        else:
            self.requests.append(received)
            self.steps[min(len(self.requests), len(self.steps)) - 1](peer)


def token_of(number: int) -> str:
    return f"eyJ0-token-{number}-of-the-endpoint"


def _keys_of_amazon(number: int, seconds: float, token: str) -> dict[str, str]:
    return {
        "AccessKeyId": f"ASIA{number}",
        "SecretAccessKey": f"role-secret-{number}",
        token: f"session+token/{number}==",
        "Expiration": datetime.fromtimestamp(clock.wall() + seconds, UTC).isoformat(),
    }


def _role_answer(keys: Mapping[str, str]) -> Step:
    credentials = "".join(f"<{name}>{value}</{name}>" for name, value in keys.items())
    return answer(
        "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult>"
        f"<Credentials>{credentials}</Credentials></AssumeRoleResult></AssumeRoleResponse>",
        headers=XML,
    )


@dataclass
class Way:
    """A way to sign in; ``settings`` name an endpoint that gives credentials 1, 2, ..."""

    name: str
    settings: str
    endpoint: Endpoint
    url: str
    file: Path

    @property
    def of_amazon(self) -> bool:
        return self.name in {"role", "container"}

    def write(self, secret: str) -> None:
        """Put a secret into the file of the settings."""
        of_google = {
            "type": "service_account",
            "project_id": "shop",
            "private_key_id": "1",
            "private_key": private_key(),
            "client_email": f"{secret}@shop",
            "token_uri": self.url,
        }
        self.file.write_text(json.dumps(of_google) if self.name.startswith("google") else secret)

    def gives(self, number: int, seconds: float = 3600) -> Step:
        """Return an answer with credentials that are valid for so long."""
        if self.name == "role":
            return _role_answer(_keys_of_amazon(number, seconds, "SessionToken"))
        if self.name == "container":
            return answer(_keys_of_amazon(number, seconds, "Token"))
        more = {}
        if self.name.startswith("machine"):
            more = {"expires_on": str(int(clock.wall() + seconds)), "resource": OF_AZURE}
        return token_answer(token_of(number), int(seconds), **more)

    def denies(self, words: str) -> Step:
        """Return a refusal that repeats some words."""
        if self.name != "role":
            return denied("invalid_client", f"AADSTS7000215: {words}")
        error = f"<Code>AccessDenied</Code><Message>{escape(words)}</Message>"
        body = f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"
        return answer(body, "403 Forbidden", XML)

    def number_of(self, received: Received) -> int:
        """Return the number of the credentials that a request was signed with."""
        authorization = received.headers["Authorization"]
        number = int(re.findall(r"(?:ASIA|-token-)(\d)", authorization)[0])
        if self.of_amazon:
            secret, token = f"role-secret-{number}", f"session+token/{number}=="
            assert_signed(received, secret=secret, token=token)
        else:
            assert authorization == f"Bearer {token_of(number)}"
        return number

    def accepts(self, wanted: int) -> Step:
        """Return an answer to queries with these credentials; others are refused and repeated."""

        def step(peer: Peer) -> None:
            given = peer.received.headers["Authorization"]
            if self.number_of(peer.received) == wanted:
                answer()(peer)
            else:
                # Amazon sends this status where a signature has expired.
                status = "403 Forbidden" if self.of_amazon else "401 Unauthorized"
                answer(f"{given} is not accepted", status)(peer)

        return step

    def fields_of(self, received: Received) -> Mapping[str, object]:
        """Return what credentials are asked for with: by the target, a form, headers or claims."""
        target = urlsplit(received.target)
        fields: dict[str, object] = {**form(received), **dict(parse_qsl(target.query))}
        fields |= {**received.headers, "path": target.path}
        if self.name.startswith("google") and "assertion" in fields:
            fields |= claims(str(fields["assertion"]))
        if self.name == "oauth2" and "Authorization" in fields:
            fields["pair"] = basic(received)
        for secret in SECRETS if self.name == "role" else ():
            with suppress(AssertionError):
                assert_signed(received, secret=secret, service="sts")
                fields["secret"] = secret
        return fields


_PARAMETERS = "endpointParams: {audience: 'https://api/?a=b&c', assertion: param-secret}"
_CLIENT = "clientId: the client, clientSecretFile: FILE, scopes: [read, metrics]"
OAUTH2 = f"oauth2: {{{_CLIENT}, tokenUrl: 'URL', {_PARAMETERS}}}"
KEYED = f"sigv4: {{region: {REGION}, accessKey: {KEY}, secretKeyFile: FILE}}"
SETTINGS = {
    "oauth2": OAUTH2,
    "google": "googleIam: {credentialsFile: FILE}",
    "google-default": "googleIam: {}",
    "google-machine": "googleIam: {}",
    "azure": "azuread: {oauth: {clientId: the-client, tenantId: tenant, clientSecretFile: FILE}}",
    "workload": "azuread: {workloadIdentity: {}}",
    "workload-named": "azuread: {scope: 'api://x/.default', workloadIdentity: "
    "{clientId: another, tokenFilePath: FILE}}",
    "machine": "azuread: {managedIdentity: {}}",
    "machine-named": f"azuread: {{managedIdentity: {{clientId: {OTHER_CLIENT}}}}}",
    "role": KEYED.replace("}", f", roleArn: '{ROLE}', externalId: shop}}"),
    "container": f"sigv4: {{region: {REGION}}}",
}


def with_names(settings: str, file: Path, url: str = "") -> str:
    """Return settings with the names of a secret's file and of an endpoint."""
    return settings.replace("FILE", str(file)).replace("URL", url)


def environment_of(
    name: str, server: ScriptedServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name the server and the file to the libraries as an operator or a vendor does."""
    if name in {"azure", "workload", "workload-named"}:
        pair = self_signed(file.parent, "localhost")
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", behind_tls(server, pair))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pair.certificate))
    if name == "google-machine":
        host = server.url.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", False)
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_IP", host)
    variables = {
        "google-default": {"GOOGLE_APPLICATION_CREDENTIALS": str(file)},
        "workload": {
            "AZURE_CLIENT_ID": "the-client",
            "AZURE_TENANT_ID": "tenant",
            "AZURE_FEDERATED_TOKEN_FILE": str(file),
        },
        "workload-named": {"AZURE_TENANT_ID": "tenant"},
        "role": {"AWS_ENDPOINT_URL_STS": server.url},
        "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url},
    }
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
    for variable, value in variables.get(name, {}).items():
        monkeypatch.setenv(variable, value)
