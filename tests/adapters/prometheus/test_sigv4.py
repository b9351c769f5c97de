"""Requests signed by Signature Version 4, and what is hidden of them."""

import base64
from contextlib import closing
from pathlib import Path

import pytest
import requests

from autoscaler.prometheus.sign_in import SignIn
from autoscaler.transport import redaction
from autoscaler.transport.redaction import Redactor
from tests.adapters.prometheus.reading import answered, ask, failed, settings
from tests.adapters.prometheus.signatures import KEY, SECRET, assert_signed, signature
from tests.adapters.prometheus.ways import KEYED, ROLE, SETTINGS, with_names
from tests.narrowing import assert_parts
from tests.worlds.prometheus.faults import Received, ScriptedServer, answer
from tests.worlds.prometheus.token_endpoints import form


def test_the_check_agrees_with_the_example_of_amazon() -> None:
    headers = {
        "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
        "Host": "iam.amazonaws.com",
        "X-Amz-Date": "20150830T123600Z",
    }
    example = Received("GET", "/?Action=ListUsers&Version=2010-05-08", headers, b"")
    assert (
        signature(SECRET, ("20150830", "us-east-1", "iam"), example, headers)
        == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


@pytest.mark.parametrize(
    "promql",
    [
        "up",
        'sum by (queue) (rate(q{queue=~"a b|c+d",x!="ü%20&=/?#"}[5m])) * 1e3 or vector(0)',
        "x" * 20_000,
    ],
)
@pytest.mark.parametrize(
    "parameters",
    [{}, {"dedup": ("false",), "b": ("2", "1", ""), "a b": ("c d+e/f~g*h",), "B": ("ü&=%",)}],
)
def test_queries_are_signed(
    tmp_path: Path, promql: str, parameters: dict[str, tuple[str, ...]]
) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    with ScriptedServer(answer()) as server:
        base = f"{server.url}/workspaces/ws-1:a/%7Eb"
        headers = {"X-Scope-OrgID": "shop", "X-Amz-Custom": "a  b"}
        answered(
            ask(
                base,
                promql,
                sign_in=with_names(KEYED, tmp_path / "key"),
                query_parameters=parameters,
                headers=headers,
            )
        )
    (received,) = server.received
    assert_signed(received)
    assert form(received)["query"] == promql
    assert received.headers["X-Amz-Custom"]
    assert "x-amz-custom" in received.headers["Authorization"]
    assert "accept-encoding" not in received.headers["Authorization"]  # which proxies change


def test_settings_left_out_come_from_the_profile_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("[profile metrics]\nregion = eu-central-1\n")
    (tmp_path / "credentials").write_text(
        f"[metrics]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    with ScriptedServer(answer()) as server:
        answered(ask(server.url, "x", sign_in="sigv4: {profile: metrics}"))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env-secret")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")
        answered(ask(server.url, "x", sign_in="sigv4: {region: us-east-2}"))
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
        unreachable = f"sigv4: {{region: us-east-2, roleArn: '{ROLE}'}}"
        assert_parts(failed(ask(server.url, "x", sign_in=unreachable)), "AWS", "127.0.0.1:1")
    first, second = server.received
    assert_signed(first, region="eu-central-1")
    assert_signed(second, secret="env-secret", token="env-token", region="us-east-2")  # noqa: S106 - made up


def test_a_session_token_is_prepared_for_redaction_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is long and the same for many requests; a piece of it is hidden in every answer."""
    token = base64.b64encode(bytes(range(256)) * 3).decode()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    looked_at: list[int] = []
    without_blanks = redaction._without_blanks

    def counting(text: str) -> tuple[str, list[int]]:
        looked_at.append(len(text))
        return without_blanks(text)

    monkeypatch.setattr(redaction, "_without_blanks", counting)
    redactor, works = Redactor(), []
    with closing(SignIn(settings("", sign_in=SETTINGS["container"]))) as sign_in:
        for _ in range(3):
            request = requests.Request("POST", "http://127.0.0.1/api/v1/query").prepare()
            own = sign_in.sign(request, redactor, 5.0)
            signature = request.headers["Authorization"][-64:]
            told = f"throttled {token[100:120]} {signature[8:24]}"
            assert own.line(told, 100) == "throttled <hidden> <hidden>"
            works.append(sum(looked_at))
            looked_at.clear()
    assert max(works[1:]) * 2 < works[0]
