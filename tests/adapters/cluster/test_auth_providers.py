"""What reads credentials may fail in ways of its own: a sentence, and requests go on."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import urllib3
from kubernetes.client import Configuration

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError, Failure, connect, connection
from autoscaler.adapters.cluster.credentials import Access, Credentials
from tests.worlds.cluster.cluster import eventually
from tests.worlds.cluster.scripted import ScriptedServer, failure
from tests.worlds.controlplane.credentials import kubeconfig

NO_DATE = "\nexpires: 2020-13-45\n"
"""YAML takes it for a date, and there is no such date."""


@pytest.mark.parametrize("error", [urllib3.exceptions.MaxRetryError, AttributeError, ImportError])
def test_whatever_a_provider_raises_the_last_token_stands(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again some time later, and no thread dies of it."""
    died: list[object] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    asked: list[Configuration] = []

    def refresh(configuration: Configuration) -> None:
        asked.append(configuration)
        raise error(None, "s3cret", None)

    configuration = Configuration()
    configuration.host = "http://127.0.0.1:1"
    configuration.api_key = {"BearerToken": "Bearer last"}
    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment] # as the client does
    credentials = Credentials(configuration, None, lambda: None, "origin", takes_long=True)
    credentials._fresh_until = 0.0
    for _ in range(30):
        access = credentials.access(clock.monotonic() + 5)
        assert isinstance(access, Access)
        assert access.authorization == "Bearer last"
        eventually(lambda: asked, bool)
    eventually(credentials._busy.locked, lambda busy: not busy)
    assert len(asked) == 1
    assert died == []


def test_an_issuer_out_of_reach_is_a_sentence(tmp_path: Path) -> None:
    """The client asks it when the kubeconfig is read; its texts are not repeated."""
    expired = "a.eyJleHAiOiAxMH0.c"
    options = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "a", "refresh-token": "s3cret"}
    provider = {"name": "oidc", "config": {**options, "client-secret": "s", "id-token": expired}}
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig({"server": "https://127.0.0.1:1"}, {"auth-provider": provider}))
    with pytest.raises(ConnectError) as raised:
        connect(path)
    told = "cannot be used: its auth provider gave no credentials (MaxRetryError)"
    assert str(raised.value) == f'context "main" of {path} {told}'


def test_a_date_that_there_is_not_is_a_sentence(tmp_path: Path) -> None:
    """At a start it ends the command; while requests go on it ends none."""
    path = tmp_path / "kubeconfig"
    with ScriptedServer(failure(401, "Unauthorized", "Unauthorized")) as server:
        server.write_kubeconfig(path, token="one")  # noqa: S106 - no secret
        with connect(path) as api:
            path.write_text(path.read_text() + NO_DATE)
            answer = api.once("GET", "/api", clock.monotonic() + 5)
    assert isinstance(answer, Failure)
    assert answer.status == 401
    with pytest.raises(ConnectError) as raised:
        connect(path)
    assert str(raised.value) == f"the kubeconfig {path} is not YAML"


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text(":"), Path.mkdir])
def test_a_file_that_changes_while_it_is_read_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    """It is checked first, and then read by the client."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig({"server": "http://127.0.0.1:1"}, {"token": "s3cret"}))
    check = connection._check_form

    def check_and_spoil(file: Path) -> None:
        check(file)
        if spoil is Path.mkdir:
            file.unlink()
        spoil(file)

    monkeypatch.setattr(connection, "_check_form", check_and_spoil)
    with pytest.raises(ConnectError) as raised:
        connect(path)
    assert str(raised.value) == f"the kubeconfig {path} changed while it was read"
