"""Tokens of Google, from a stand-in of its token endpoint."""

import json
import logging
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.compute_engine import _metadata

from autoscaler.config.prometheus_connection import GoogleIamSettings
from autoscaler.core.series import QueryResult
from autoscaler.prometheus.google_iam import fetch_token
from tests.adapters.prometheus.reading import answered, ask, failed, query, reading
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import claims, denied, form, only_with
from tests.worlds.prometheus.token_endpoints import token_answer as token
from tests.worlds.waiting import soon

TOKEN, OTHER = "ya29.first-token-of-google", "ya29.second-token-of-google"
READ = "https://www.googleapis.com/auth/monitoring.read"


@pytest.fixture(scope="module")
def private_key() -> str:
    """Return the key of a service account, PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide what may be configured here."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", True)


def google(file: Path) -> GoogleIamSettings:
    """Return settings with a file of credentials."""
    return GoogleIamSettings.model_construct(credentials_file=file)


def account(folder: Path, private_key: str, tokens: ScriptedServer, name: str = "reader") -> Path:
    """Write the key file of a service account whose tokens the stand-in gives."""
    file = folder / "account.json"
    content = {
        "type": "service_account",
        "project_id": "shop",
        "private_key_id": "1",
        "private_key": private_key,
        "client_email": f"{name}@shop.iam.gserviceaccount.com",
        "token_uri": f"{tokens.url}/token",
    }
    file.write_text(json.dumps(content))
    return file


def test_a_service_account_gets_a_token_to_read_metrics(tmp_path: Path, private_key: str) -> None:
    """Once for many queries."""
    with (
        ScriptedServer(only_with(TOKEN)) as server,
        ScriptedServer(token(TOKEN)) as tokens,
        reading(server.url, sign_in=google(account(tmp_path, private_key, tokens))) as reader,
    ):
        for _ in range(3):
            answered(query(reader))
    (asked,) = tokens.received
    assert form(asked)["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claimed = claims(form(asked)["assertion"])
    assert claimed["scope"] == READ
    assert claimed["iss"] == "reader@shop.iam.gserviceaccount.com"


def test_a_refused_token_and_a_rotated_file(tmp_path: Path, private_key: str) -> None:
    """The next token is that of the account which the file holds then."""
    with (
        ScriptedServer(only_with(OTHER)) as server,
        ScriptedServer(token(TOKEN), token(OTHER)) as tokens,
    ):
        file = account(tmp_path, private_key, tokens)
        with reading(server.url, sign_in=google(file)) as reader:
            soon(lambda: len(tokens.received) == 1)
            account(tmp_path, private_key, tokens, "another")
            assert "did not accept the credentials" in failed(query(reader))
            soon(lambda: isinstance(query(reader), QueryResult))
    assert str(claims(form(tokens.received[-1])["assertion"])["iss"]).startswith("another@")


def test_the_application_default_credentials(
    tmp_path: Path, private_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no file is named, those that GOOGLE_APPLICATION_CREDENTIALS names."""
    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(token(TOKEN)) as tokens:
        file = account(tmp_path, private_key, tokens)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        answered(ask(server.url, "x", sign_in=GoogleIamSettings()))
        assert 3500 < (fetch_token(None).seconds or 0) <= 3600
    assert claims(form(tokens.received[0])["assertion"])["scope"] == READ


def test_the_metadata_server_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of GKE's Workload Identity."""

    def metadata(peer: Peer) -> None:
        body: object = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}
        if "/token" not in peer.received.target:
            body = {"email": "default", "scopes": [READ], "aliases": []}
        answer(body, headers={"Metadata-Flavor": "Google", "Content-Type": "application/json"})(
            peer
        )

    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(metadata) as machine:
        host = machine.url.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", False)
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_IP", host)
        answered(ask(server.url, "x", sign_in=GoogleIamSettings()))


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (denied("invalid_grant", "no such account", "400 Bad Request"), "gave none: invalid_grant"),
        (answer("<html>"), "Google's token endpoint sent an answer that is no token"),
        (faults.hang_up, "Google's token endpoint closed the connection without an answer"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, private_key: str, step: Step, sentence: str) -> None:
    """And nothing is sent to Prometheus."""
    with ScriptedServer(answer()) as server, ScriptedServer(step) as tokens:
        file = account(tmp_path, private_key, tokens)
        message = failed(ask(server.url, "x", sign_in=google(file)))
    assert message.startswith("there is no valid access token of Google: ")
    assert sentence in message
    assert server.received == []


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    """Whatever is wrong with it; nothing of it is told."""
    file = tmp_path / "account.json"
    start = f"there is no valid access token of Google: the credentials file {file} cannot be used"
    for content in (None, "", "s3cret", '{"type": "s3cret"}', '{"type": "service_account"}'):
        if content is not None:
            file.write_text(content)
        message = failed(ask("http://127.0.0.1:1", "x", sign_in=google(file)))
        assert message.startswith(start)
        assert "s3cret" not in message
    message = failed(ask("http://127.0.0.1:1", "x", sign_in=GoogleIamSettings()))
    assert "default credentials were not found" in message


def test_no_secret_is_told(
    tmp_path: Path, private_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the assertion nor a token, by servers that repeat what they were sent."""
    caplog.set_level(logging.DEBUG)

    def repeat(peer: Peer) -> None:
        sent = form(peer.received)["assertion"]
        denied("invalid_grant", sent, "400 Bad Request")(peer)

    with (
        ScriptedServer(faults.echo("401 Unauthorized")) as server,
        ScriptedServer(repeat, token(TOKEN)) as tokens,
    ):
        options = google(account(tmp_path, private_key, tokens))
        with reading(server.url, sign_in=options) as reader:
            said = failed(query(reader))
            assert "invalid_grant" in said
            soon(lambda: failed(query(reader)) != "" and len(server.received) > 0)
            said += failed(query(reader)) + repr(vars(reader._sign_in))
    assertion = form(tokens.received[0])["assertion"]
    said += "".join(record.getMessage() for record in caplog.records)
    for secret in (TOKEN, assertion, assertion.rpartition(".")[2], private_key.splitlines()[1]):
        assert secret not in said
