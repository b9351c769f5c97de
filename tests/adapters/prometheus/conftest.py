"""Tokens of these tests are fetched again soon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.auth.compute_engine import _metadata

from autoscaler.transport import credentials
from tests.adapters.prometheus.ways import (
    FIRST,
    SETTINGS,
    Endpoint,
    Way,
    environment_of,
    with_names,
)
from tests.worlds.prometheus.faults import ScriptedServer


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SHORTEST_PAUSE", "_REFUSED_PAUSE"):
        monkeypatch.setattr(credentials, name, 0.05)
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 20.0)


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        *("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"),
        *("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"),
        "GOOGLE_APPLICATION_CREDENTIALS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", True)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    _no_credentials_of_this_machine: None,
) -> Iterator[Way]:
    """Start the endpoint of a way to sign in; the secret for it is in place."""
    name, endpoint, file = str(request.param), Endpoint(), tmp_path / "secret"
    server = ScriptedServer(endpoint)
    environment_of(name, server, file, monkeypatch)
    url = f"{server.url}/oauth2/token"
    way = Way(name, with_names(SETTINGS[name], file, url), endpoint, url, file)
    way.write(FIRST)
    with server:
        yield way
