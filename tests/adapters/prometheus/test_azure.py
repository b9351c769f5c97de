"""Tokens of Entra ID, from stand-ins of its endpoints."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from autoscaler import clock
from autoscaler.config.prometheus_connection import (
    AzureAdSettings,
    AzureOAuthSettings,
    ManagedIdentitySettings,
    WorkloadIdentitySettings,
)
from autoscaler.core.series import QueryResult
from autoscaler.prometheus.azuread import AzureFetch
from tests.adapters.prometheus.reading import answered, ask, failed, query, reading
from tests.worlds.certificates import self_signed
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import behind_tls, denied, form, only_with
from tests.worlds.prometheus.token_endpoints import token_answer as token
from tests.worlds.waiting import soon

TOKEN, OTHER = "eyJ0-first-token-of-azure", "eyJ0-second-token-of-azure"
SECRET = "client~secret/of.azure"  # noqa: S105 - made up
SCOPE = "https://prometheus.monitor.azure.com/.default"


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what may be configured here."""
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


def of_machine(token: str, seconds: int = 3600) -> Step:
    """Answer as the metadata service of a machine does."""

    def step(peer: Peer) -> None:
        until = str(int(clock.wall()) + seconds)
        body = {"access_token": token, "expires_in": str(seconds), "expires_on": until}
        more = {"resource": "https://prometheus.monitor.azure.com", "token_type": "Bearer"}
        answer(body | more, headers={"Content-Type": "application/json"})(peer)

    return step


@pytest.mark.parametrize("client_id", [None, "11111111-2222-3333-4444-555555555555"])
def test_a_managed_identity(client_id: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine gives the token: for its identity, or the one that is named."""
    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(of_machine(TOKEN)) as machine:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", machine.url)
        with reading(server.url, sign_in=machine_of(client_id)) as reader:
            for _ in range(3):
                answered(query(reader))
        assert 3500 < (AzureFetch(machine_of(client_id))().seconds or 0) <= 3600
    target = machine.received[-1].target
    assert target.startswith("/metadata/identity/oauth2/token?")
    assert "resource=https://prometheus.monitor.azure.com" in unquote(target)
    assert (f"client_id={client_id}" in target) is (client_id is not None)
    assert machine.received[-1].headers["Metadata"] == "true"


def test_a_refused_token_and_a_machine_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 401 fetches another at once, past what the library remembers, and failures end."""
    bad = answer({"error": "x"}, "500 Internal Server Error", {"Content-Type": "application/json"})
    with (
        ScriptedServer(only_with(OTHER)) as server,
        ScriptedServer(of_machine(TOKEN), bad, bad, of_machine(OTHER)) as machine,
    ):
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", machine.url)
        with reading(server.url, sign_in=machine_of(None)) as reader:
            assert "did not accept the credentials" in failed(query(reader))
            soon(lambda: isinstance(query(reader), QueryResult))


def machine_of(client_id: str | None) -> AzureAdSettings:
    """Return settings of the identity of a machine."""
    identity = ManagedIdentitySettings.model_construct(client_id=client_id)
    return AzureAdSettings.model_construct(managed_identity=identity)


def workload(client_id: str | None = None, token_file_path: Path | None = None) -> AzureAdSettings:
    """Return settings of a service account."""
    return AzureAdSettings.model_construct(
        workload_identity=WorkloadIdentitySettings.model_construct(
            client_id=client_id, token_file_path=token_file_path
        )
    )


class Authority:
    """A stand-in of login.microsoftonline.com, which has to be reached by TLS."""

    def __init__(self) -> None:
        self.token: Step = denied("invalid_client", "AADSTS7000215: wrong")
        self.requests: list[faults.Received] = []

    def __call__(self, peer: Peer) -> None:
        """Tell where the endpoints are, or give a token."""
        if peer.received.target.startswith("/tenant/v2.0/.well-known"):
            base = f"https://{peer.received.headers['Host']}/tenant"
            answer(
                {
                    "issuer": f"{base}/v2.0",
                    "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{base}/oauth2/v2.0/token",
                },
                headers={"Content-Type": "application/json"},
            )(peer)
        else:
            self.requests.append(peer.received)
            self.token(peer)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """Give the stand-in; the library is told of it as an operator would."""
    pair = self_signed(tmp_path, "localhost")
    one = Authority()
    server = ScriptedServer(one)
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", behind_tls(server, pair))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pair.certificate))
    with server:
        yield one


def client(folder: Path, secret: str = SECRET) -> AzureAdSettings:
    """Return options of an application whose secret is in a file."""
    (folder / "secret").write_text(f"{secret}\n")
    return AzureAdSettings.model_construct(
        oauth=AzureOAuthSettings.model_construct(
            client_id="the-client", tenant_id="tenant", client_secret_file=folder / "secret"
        )
    )


def test_a_client_secret_that_rotates(authority: Authority, tmp_path: Path) -> None:
    """The secret is read for each token; the scope is that of the managed Prometheus."""
    authority.token = token(TOKEN)
    with (
        ScriptedServer(only_with(OTHER)) as server,
        reading(server.url, sign_in=client(tmp_path)) as reader,
    ):
        assert "did not accept the credentials" in failed(query(reader))
        client(tmp_path, "rotated")
        authority.token = token(OTHER)
        soon(lambda: isinstance(query(reader), QueryResult))
    first, last = form(authority.requests[0]), form(authority.requests[-1])
    assert first["scope"] == SCOPE
    assert (first["client_id"], first["grant_type"]) == ("the-client", "client_credentials")
    assert (first["client_secret"], last["client_secret"]) == (SECRET, "rotated")


def test_a_workload_identity(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token of the service account is exchanged; Azure's webhook says where it is."""
    authority.token = token(TOKEN)
    (tmp_path / "federated").write_text("service-account-token")
    monkeypatch.setenv("AZURE_CLIENT_ID", "the-client")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "federated"))
    with ScriptedServer(only_with(TOKEN)) as server:
        answered(ask(server.url, "x", sign_in=workload()))
        named = workload(client_id="another", token_file_path=tmp_path / "federated")
        named = named.model_copy(update={"scope": "api://x/.default"})
        answered(ask(server.url, "x", sign_in=named))
    one, two = (form(request) for request in authority.requests)
    assert (one["client_assertion"], one["client_id"]) == ("service-account-token", "the-client")
    assert (two["client_id"], two["scope"]) == ("another", "api://x/.default")


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (denied("invalid_client", "AADSTS7000215: Invalid client secret"), "AADSTS7000215: Inval"),
        (faults.hang_up, "closed the connection without an answer"),
    ],
)
def test_what_is_wrong_is_said(
    authority: Authority, tmp_path: Path, step: Step, sentence: str
) -> None:
    """And nothing is sent to Prometheus."""
    authority.token = step
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", sign_in=client(tmp_path)))
    assert message.startswith("there is no valid access token of Azure: ")
    assert sentence in message
    assert server.received == []


def test_what_is_missing_is_named() -> None:
    """Of a workload identity without its webhook."""
    message = failed(ask("http://127.0.0.1:1", "x", sign_in=workload()))
    assert message.startswith("there is no valid access token of Azure: ")
    assert "'tenant_id'" in message


def test_no_secret_is_told(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by servers that repeat what they were sent, nor by a log or a repr."""
    caplog.set_level(logging.DEBUG)

    def repeat(peer: Peer) -> None:
        denied("invalid_client", f"AADSTS1: {json.dumps(form(peer.received))}")(peer)

    authority.token = repeat
    options = client(tmp_path)
    with (
        ScriptedServer(faults.echo("401 Unauthorized")) as server,
        reading(server.url, sign_in=options) as reader,
    ):
        said = failed(query(reader))
        assert "AADSTS1: " in said
        assert "<hidden>" in said
        authority.token = token(TOKEN)
        soon(lambda: failed(query(reader)) != "" and len(server.received) > 0)
        said += failed(query(reader)) + repr(vars(reader._sign_in)) + repr(options)
    said += "".join(record.getMessage() for record in caplog.records)
    for secret in (SECRET, TOKEN):
        assert secret not in said
