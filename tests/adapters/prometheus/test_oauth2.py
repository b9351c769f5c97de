"""Client credentials of OAuth 2.0, with a token endpoint on this machine."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoscaler.config.prometheus_connection import OAuth2Settings, PrometheusSettings, Tls
from autoscaler.core.series import QueryResult
from tests.adapters.prometheus.reading import (
    Observed,
    answered,
    ask,
    failed,
    query,
    reading,
    settings,
)
from tests.worlds.certificates import self_signed
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import (
    basic,
    behind_tls,
    denied,
    form,
    only_with,
    token_answer,
)
from tests.worlds.waiting import soon

SECRET = "s3cret&of/the client"  # noqa: S105 - made up
TOKEN, OTHER = "first-token-of-the-endpoint", "second-token-of-the-endpoint"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    """Write the client's secret."""
    file = tmp_path / "client-secret"
    file.write_text(f"{SECRET}\n")
    return file


def options(
    server: ScriptedServer | str,
    tokens: ScriptedServer | str,
    secret_file: Path,
    *,
    scopes: tuple[str, ...] = (),
    params: Mapping[str, str] | None = None,
    tls: Tls | None = None,
) -> PrometheusSettings:
    """Return those of a Prometheus that is signed in to."""
    return settings(
        server if isinstance(server, str) else server.url,
        timeout=2.0,
        sign_in=OAuth2Settings.model_construct(
            client_id="the client",
            client_secret_file=secret_file,
            token_url=tokens if isinstance(tokens, str) else f"{tokens.url}/oauth2/token",
            scopes=scopes,
            endpoint_params=dict(params or {}),
            tls=tls or Tls(),
        ),
    )


def test_a_token_is_asked_for_once_and_sent_with_each_query(secret_file: Path) -> None:
    """The request is that of RFC 6749 4.4.2, with the parameters that the user added."""
    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(token_answer(TOKEN)) as tokens:
        given = {"audience": "https://api/?a=b&c", "resource": "r"}
        with reading(
            options(server, tokens, secret_file, scopes=("read", "metrics"), params=given)
        ) as reader:
            for _ in range(5):
                answered(query(reader))
    (asked,) = tokens.received
    assert asked.target == "/oauth2/token"
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert form(asked) == {"grant_type": "client_credentials", "scope": "read metrics", **given}
    # Both are encoded before they are joined: RFC 6749 2.3.1.
    assert basic(asked) == "the+client:s3cret%26of%2Fthe+client"


def test_a_server_that_wants_the_secret_in_the_body_gets_it_there(secret_file: Path) -> None:
    """As Prometheus does, and from then on at once."""
    script = (denied("invalid_client"), token_answer(TOKEN, 1), token_answer(OTHER))
    with (
        ScriptedServer(only_with(TOKEN, OTHER)) as server,
        ScriptedServer(*script) as tokens,
        reading(options(server, tokens, secret_file)) as reader,
    ):
        answered(query(reader))
        soon(lambda: len(tokens.received) == 3)
    assert form(tokens.received[1]) == form(tokens.received[2])
    assert form(tokens.received[1])["client_id"] == "the client"
    assert form(tokens.received[1])["client_secret"] == SECRET
    assert "Authorization" not in tokens.received[1].headers


def test_a_refused_token_and_a_rotated_secret(secret_file: Path) -> None:
    """A 401 of Prometheus fetches another token soon, with the secret that the file has then."""
    script = (token_answer(TOKEN), token_answer(OTHER))
    with (
        ScriptedServer(only_with(OTHER)) as server,
        ScriptedServer(*script) as tokens,
        reading(options(server, tokens, secret_file)) as reader,
    ):
        soon(lambda: len(tokens.received) == 1)
        secret_file.write_text("rotated")
        message = failed(query(reader))
        assert "did not accept the credentials, or wants some (HTTP 401" in message
        assert message.endswith(": Bearer is none of mine")  # the token is hidden
        soon(lambda: isinstance(query(reader), QueryResult))
    assert basic(tokens.received[-1]) == "the+client:rotated"


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (denied("invalid_client", "unknown"), "HTTP 401 Unauthorized: invalid_client: unk"),
        (denied("invalid_scope", "", "400 Bad Request"), "HTTP 400 Bad Request: invalid_scope"),
        (answer("<html>", "503 Service Unavailable"), "answered HTTP 503 Service Unavailable"),
        (answer("", "302 Found", {"Location": "http://127.0.0.1:1/"}), "answered HTTP 302 Found"),
        (answer("<html>"), "sent an answer that is no token"),
        (answer("[]"), "sent an answer that is no token"),
        (answer({"token": "x"}), "sent an answer that is no token"),
        (answer({"access_token": 5}), "sent an answer that is no token"),
        (answer({"access_token": "a", "expires_in": 1e999}), "sent an answer that is no token"),
        (answer({"access_token": "a\nb"}), "gave holds characters that no token may have"),
        (answer({"access_token": "a", "token_type": "mac"}), "of another type than Bearer"),
        (answer("x" * (1 << 20) + "x"), "sent more than 1 MiB"),
        (faults.hang_up, "closed the connection without an answer"),
        (faults.speak(b"garbage\r\n\r\n"), "answered what is not HTTP"),
    ],
)
def test_what_is_wrong_is_said(secret_file: Path, step: Step, sentence: str) -> None:
    """In a sentence that names the endpoint, and is observed; nothing is sent to Prometheus."""
    told: list[str] = []
    with ScriptedServer(answer()) as server, ScriptedServer(step) as tokens:
        message = failed(ask(options(server, tokens, secret_file), "x", observer=Observed(told)))
    assert message.startswith("there is no valid access token: ")
    assert f"{tokens.url}/oauth2/token" in message
    assert sentence in message
    assert told == [message]
    assert server.received == []


def test_a_token_endpoint_with_a_certificate_of_its_own(secret_file: Path, tmp_path: Path) -> None:
    """It is trusted if its authority is named, and the secret is not sent otherwise."""
    pair = self_signed(tmp_path, "localhost")
    tokens = ScriptedServer(token_answer(TOKEN))
    url = behind_tls(tokens, pair)
    with ScriptedServer(only_with(TOKEN)) as server, tokens:
        message = failed(ask(options(server, url, secret_file), "x"))
        assert f"the token endpoint {url} is not trusted: TLS verification failed" in message
        assert tokens.received == []
        trusted = Tls.model_construct(ca_file=pair.certificate)
        answered(ask(options(server, url, secret_file, tls=trusted), "x"))


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    """By its file."""
    with ScriptedServer(token_answer(TOKEN)) as tokens:
        message = failed(ask(options("http://h", tokens, tmp_path / "none"), "x"))
    assert f"the client secret file {tmp_path}/none cannot be read: No such file" in message
    assert tokens.received == []


def test_credentials_are_sent_to_nobody_else(secret_file: Path) -> None:
    """Neither Prometheus nor the token endpoint can lead them to another server."""
    with ScriptedServer(answer()) as other:
        elsewhere = answer("", "307 Temporary Redirect", {"Location": other.url})
        with ScriptedServer(elsewhere) as server, ScriptedServer(token_answer(TOKEN)) as tokens:
            failed(ask(options(server, tokens, secret_file), "x"))
            assert len(server.received) == 1
        with ScriptedServer(elsewhere) as tokens:
            failed(ask(options("http://127.0.0.1:1", tokens, secret_file), "x"))
        assert other.received == []


@pytest.mark.parametrize(
    "step", [faults.echo("401 Unauthorized"), faults.echo("200 OK"), faults.hang_up]
)
def test_no_secret_is_told(step: Step, secret_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither by servers that repeat what they were sent, nor by a log or a repr."""
    caplog.set_level(logging.DEBUG)
    params = {"assertion": "param-secret"}

    def repeat(peer: faults.Peer) -> None:
        sent = (
            peer.received.headers.get("Authorization", "")
            if len(tokens.received) % 2
            else peer.received.body.decode()
        )
        denied("invalid_client", f"{SECRET} {sent}")(peer)

    said = ""
    with ScriptedServer(step) as server:
        for tokens_step in (token_answer(TOKEN), repeat):
            with ScriptedServer(tokens_step) as tokens:
                given = options(server, tokens, secret_file, params=params)
                with reading(given) as reader:
                    said += failed(query(reader, within=1.0)) + repr(given)
                    asked = len(tokens.received)
                    if tokens_step is repeat:
                        soon(lambda: len(tokens.received) > asked + 1)  # noqa: B023 - called here
                        said += failed(query(reader, within=1.0))
    said += "".join(record.getMessage() for record in caplog.records)
    assert "invalid_client: <hidden> " in said
    for secret in (SECRET, "s3cret", TOKEN, "param-secret", "M2NyZXQlMjZvZiUyRnRoZ"):
        assert secret not in said
