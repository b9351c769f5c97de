"""Signature Version 4: checked by an implementation of its own, as Amazon's documentation has it.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import base64
import hashlib
import hmac
import logging
import re
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
import requests

from autoscaler import clock
from autoscaler.config.prometheus_connection import SigV4Settings
from autoscaler.prometheus.sign_in import SignIn
from autoscaler.transport import redaction
from autoscaler.transport.redaction import Redactor
from tests.adapters.prometheus.reading import answered, ask, failed, query, reading, settings
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, Received, ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import form
from tests.worlds.waiting import soon

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ROLE = "arn:aws:iam::123456789012:role/metrics"
_ALGORITHM = "AWS4-HMAC-SHA256"
_STARTS = re.compile(
    rf"{_ALGORITHM} Credential=(\w+)/(\d{{8}})/([\w-]+)/(\w+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)


def signature(
    secret: str,
    scope: tuple[str, str, str],
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
) -> str:
    """Return the signature of a request with just the headers that are signed."""
    path, _, parameters = target.partition("?")
    # Decoded as a server does, which takes + for a blank, and encoded as the documentation says.
    pairs = [item.partition("=") for item in parameters.split("&") if item]
    decoded = [(unquote(a.replace("+", " ")), unquote(b.replace("+", " "))) for a, _, b in pairs]
    lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    canonical = "\n".join(
        [
            method,
            quote(path, safe="/-_.~"),
            "&".join(
                sorted(f"{quote(a, safe='-_.~')}={quote(b, safe='-_.~')}" for a, b in decoded)
            ),
            *(f"{name}:{lower[name]}" for name in sorted(lower)),
            "",
            ";".join(sorted(lower)),
            hashlib.sha256(body).hexdigest(),
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"{_ALGORITHM}\n{lower['x-amz-date']}\n{'/'.join(scope)}/aws4_request\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def assert_signed(
    received: Received, *, secret: str = SECRET, token: str | None = None, region: str = "eu-west-1"
) -> None:
    method, target = received.method, received.target
    headers, body = received.headers, received.body
    form = _STARTS.fullmatch(headers["Authorization"])
    assert form is not None
    key, day, of_region, service, names, given = form.groups()
    lower = {name.lower(): value for name, value in headers.items()}
    assert (of_region, service) == (region, "aps")
    assert lower["x-amz-date"].startswith(f"{day}T")
    assert {"host", "x-amz-date"} <= set(names.split(";"))
    assert lower.get("x-amz-security-token") == token
    assert token is None or "x-amz-security-token" in names.split(";")
    signed = {name: lower[name] for name in names.split(";")}
    assert signature(secret, (day, of_region, service), method, target, signed, body) == given
    assert key


def test_the_check_knows_amazons_own_example() -> None:
    headers = {
        "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
        "Host": "iam.amazonaws.com",
        "X-Amz-Date": "20150830T123600Z",
    }
    target = "/?Action=ListUsers&Version=2010-05-08"
    scope = ("20150830", "us-east-1", "iam")
    assert (
        signature(SECRET, scope, "GET", target, headers, b"")
        == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def sigv4(region: str, access_key: str, secret_key_file: Path) -> SigV4Settings:
    return SigV4Settings.model_construct(
        region=region, access_key=access_key, secret_key_file=secret_key_file
    )


@pytest.fixture
def keyed(tmp_path: Path) -> SigV4Settings:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    return sigv4("eu-west-1", access_key=KEY, secret_key_file=tmp_path / "key")


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
    keyed: SigV4Settings, promql: str, parameters: dict[str, tuple[str, ...]]
) -> None:
    with ScriptedServer(answer()) as server:
        base = f"{server.url}/workspaces/ws-1:a/%7Eb"
        headers = {"X-Scope-OrgID": "shop", "X-Amz-Custom": "a  b"}
        answered(ask(base, promql, sign_in=keyed, query_parameters=parameters, headers=headers))
    (received,) = server.received
    assert_signed(received)
    assert form(received)["query"] == promql
    assert received.headers["X-Amz-Custom"]
    assert "x-amz-custom" in received.headers["Authorization"]
    assert "accept-encoding" not in received.headers["Authorization"]  # which proxies change


def role_answer(key: str, secret: str, token: str, seconds: float = 3600) -> Step:
    expires = datetime.fromtimestamp(clock.wall() + seconds, UTC).isoformat()
    return answer(
        "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult>"
        f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
        f"<SessionToken>{token}</SessionToken><Expiration>{expires}</Expiration></Credentials>"
        "</AssumeRoleResult></AssumeRoleResponse>",
        headers={"Content-Type": "text/xml"},
    )


def assumed(
    keyed: SigV4Settings, sts: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> SigV4Settings:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
    return keyed.model_copy(update={"role_arn": ROLE, "external_id": "shop"})


@pytest.mark.parametrize("refused", [False, True])
def test_a_role_is_assumed(
    keyed: SigV4Settings, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """Once for many queries, and again before its credentials expire or after Amazon's 403."""
    first = role_answer("ASIA1", "role-secret-1", "session+token/1==", 3600 if refused else 8)
    second = role_answer("ASIA2", "role-secret-2", "session+token/2==")
    third = answer("expired", "403 Forbidden") if refused else answer()

    def signs_with_the_second() -> bool:
        query(reader)
        return "ASIA2" in server.received[-1].headers["Authorization"]

    with (
        ScriptedServer(answer(), answer(), third, third, answer()) as server,
        ScriptedServer(first, second) as sts,
        reading(server.url, sign_in=assumed(keyed, sts, monkeypatch)) as reader,
    ):
        for _ in range(2):
            answered(query(reader))
        assert len(sts.received) == 1
        soon(signs_with_the_second)
    assert len(sts.received) == 2
    asked = form(sts.received[0])
    assert (asked["Action"], asked["RoleArn"], asked["ExternalId"]) == ("AssumeRole", ROLE, "shop")
    for number, received in ((1, server.received[0]), (2, server.received[-1])):
        secret, token = f"role-secret-{number}", f"session+token/{number}=="
        assert_signed(received, secret=secret, token=token)


def test_credentials_of_a_container_are_replaced_before_they_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of Pod Identity, ECS or a machine, which say when."""

    def give(peer: Peer) -> None:
        number = len(container.received)
        expires = datetime.fromtimestamp(clock.wall() + 8, UTC).isoformat()
        keys = {"AccessKeyId": f"ASIA{number}", "SecretAccessKey": "s", "Token": "t"}
        answer(keys | {"Expiration": expires})(peer)

    def keys_of_the_last() -> str:
        answered(query(reader))
        return server.received[-1].headers["Authorization"].split("/")[0]

    with ScriptedServer(give) as container, ScriptedServer(answer()) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url)
        with reading(server.url, sign_in=SigV4Settings(region="eu-west-1")) as reader:
            first = keys_of_the_last()
            soon(lambda: keys_of_the_last() != first)


@pytest.mark.parametrize("of", ["role", "container"])
def test_credentials_that_have_expired_when_they_come_are_told(
    of: str, keyed: SigV4Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our clock, which may be wrong; nothing is sent."""
    ended = datetime.fromtimestamp(clock.wall() - 60, UTC).isoformat()
    keys = {"AccessKeyId": "ASIA1", "SecretAccessKey": "s", "Token": "t", "Expiration": ended}
    step = role_answer("ASIA1", "s", "t", -60) if of == "role" else answer(keys)
    with ScriptedServer(step) as giver, ScriptedServer(answer()) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", giver.url)
        options = (
            assumed(keyed, giver, monkeypatch)
            if of == "role"
            else SigV4Settings(region="eu-west-1")
        )
        message = failed(ask(server.url, "x", sign_in=options))
    assert message == (
        "there is no valid AWS credential: the received token has expired already: is the "
        "clock right?"
    )
    assert server.received == []


def test_what_is_wrong_with_sts_is_told(
    keyed: SigV4Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(answer()) as server:
        error = (
            "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>"
            f"<Message>No {SECRET} may assume it</Message></Error></ErrorResponse>"
        )
        refusing = answer(error, "403 Forbidden", {"Content-Type": "text/xml"})
        with ScriptedServer(refusing) as sts:
            options = assumed(keyed, sts, monkeypatch)
            denied = failed(ask(server.url, "x", sign_in=options))
        away = failed(ask(server.url, "x", sign_in=options))
    start = "there is no valid AWS credential: "
    assert denied == (
        f"{start}An error occurred (AccessDenied) when calling the AssumeRole operation: "
        "No <hidden> may assume it"
    )
    assert away == f'{start}Could not connect to the endpoint URL: "{sts.url}/"'
    assert server.received == []


def test_the_profile_and_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the options leave out is looked for where Amazon's programs do."""
    (tmp_path / "config").write_text("[profile metrics]\nregion = eu-central-1\n")
    (tmp_path / "credentials").write_text(
        f"[metrics]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    with ScriptedServer(answer()) as server:
        answered(ask(server.url, "x", sign_in=SigV4Settings(profile="metrics")))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env-secret")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")
        answered(ask(server.url, "x", sign_in=SigV4Settings(region="us-east-2")))
    first, two = server.received
    assert_signed(first, region="eu-central-1")
    assert_signed(two, secret="env-secret", token="env-token", region="us-east-2")  # noqa: S106 - made up


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            SigV4Settings(region="eu-west-1"),
            "not in the environment, the shared files, or of the",
        ),
        (SigV4Settings(), "no region is named: by sigv4.region, AWS_REGION or the profile"),
        (
            SigV4Settings(region="eu-west-1", profile="none"),
            "The config profile (none) could not be found",
        ),
        (
            sigv4("eu-west-1", access_key="A", secret_key_file=Path("/nowhere/key")),
            "the secret key file /nowhere/key cannot be read: No such file or directory",
        ),
    ],
)
def test_what_is_missing_is_named(options: SigV4Settings, sentence: str) -> None:
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", sign_in=options))
    assert message.startswith("there is no valid AWS credential: ")
    assert sentence in message
    assert server.received == []


def test_a_failing_query_does_not_work_through_the_session_token_again(
    keyed: SigV4Settings, monkeypatch: pytest.MonkeyPatch
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
    with closing(SignIn(settings("", sign_in=SigV4Settings(region=keyed.region)))) as sign_in:
        for _ in range(3):
            request = requests.Request("POST", "http://127.0.0.1/api/v1/query").prepare()
            own = sign_in.sign(request, redactor, 5.0)
            signature = request.headers["Authorization"][-64:]
            told = f"throttled {token[100:120]} {signature[8:24]}"
            assert own.line(told, 100) == "throttled <hidden> <hidden>"
            works.append(sum(looked_at))
            looked_at.clear()
    assert max(works[1:]) * 2 < works[0]


@pytest.mark.parametrize("status", ["200 OK", "403 Forbidden", "503 Service Unavailable"])
def test_no_signature_is_told(
    keyed: SigV4Settings,
    status: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    tries = 2 if status == "403 Forbidden" else 1  # by POST and by GET

    def repeat(peer: Peer) -> None:
        headers = peer.received.headers
        sent = headers["Authorization"].rpartition("Signature=")[2]
        answer(f"{sent} {headers['X-Amz-Security-Token']} {dict(headers)}", status)(peer)

    def labels(peer: Peer) -> None:
        headers = peer.received.headers
        sent = headers["Authorization"] + headers["X-Amz-Security-Token"]
        answer(faults.vector({"metric": {"a": sent}, "value": [1.0, "2"]}))(peer)

    with (
        ScriptedServer(answer(), *[repeat] * tries, labels) as server,
        ScriptedServer(role_answer("ASIA1", "role-secret-1", "the-session-token/1")) as sts,
    ):
        role = assumed(keyed, sts, monkeypatch)
        options = settings(server.url, sign_in=role)
        with reading(options) as reader:
            answered(query(reader))
            said = failed(query(reader, within=0.3)) + repr(options) + repr(reader._sign_in)
            said += repr(answered(query(reader))) + repr(vars(reader._sign_in))
    said += "".join(record.getMessage() for record in caplog.records)
    signatures = [number.headers["Authorization"][-64:] for number in server.received]
    for secret in (*signatures, "the-session-token", "role-secret", SECRET):
        assert secret not in said
