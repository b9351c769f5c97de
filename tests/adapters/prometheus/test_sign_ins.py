"""Credentials that are fetched: tokens of OAuth 2.0, Google and Entra ID, and keys of Amazon."""

import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from autoscaler.core.series import QueryResult
from autoscaler.transport import credentials
from autoscaler.transport.credentials import EXPIRED
from autoscaler.transport.network_errors import Kind
from tests.adapters.prometheus.reading import (
    Observed,
    answered,
    ask,
    failed,
    network_sentence,
    query,
    reading,
    settings,
)
from tests.adapters.prometheus.ways import (
    FIRST,
    KEYED,
    OAUTH2,
    OF_AZURE,
    OTHER_CLIENT,
    READ,
    ROLE,
    ROTATED,
    SETTINGS,
    Way,
    private_key,
    token_of,
    with_names,
)
from tests.config.documents import prometheus, refused
from tests.narrowing import assert_parts
from tests.worlds.certificates import self_signed
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import (
    behind_tls,
    denied,
    form,
    token_answer,
)
from tests.worlds.waiting import soon

NOWHERE = "http://127.0.0.1:1"
BROKEN = answer({"error": "x"}, "500 Internal Server Error", {"Content-Type": "application/json"})
WAYS = ("oauth2", "google", "google-machine", "azure", "workload", "machine", "role", "container")

# -- all of them -----------------------------------------------------------------------------------

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BY_KEY = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "scope": READ}
BY_SECRET = {"grant_type": "client_credentials", "client_id": "the-client"}
OF_MACHINE = {"path": "/metadata/identity/oauth2/token", "resource": OF_AZURE, "Metadata": "true"}
FIELDS: dict[str, Mapping[str, object]] = {
    "oauth2": {
        "grant_type": "client_credentials",
        "scope": "read metrics",
        "path": "/oauth2/token",
        # Both are encoded before they are joined: RFC 6749 2.3.1.
        "pair": "the+client:s3cret%26of%2Fthe+client",
        "audience": "https://api/?a=b&c",
        "assertion": "param-secret",
        **FORM,
    },
    "google": BY_KEY | FORM | {"iss": f"{FIRST}@shop"},
    "google-default": BY_KEY | FORM,
    "google-machine": {"Metadata-Flavor": "Google"},
    "azure": BY_SECRET | FORM | {"client_secret": FIRST, "scope": f"{OF_AZURE}/.default"},
    "workload": BY_SECRET | FORM | {"client_assertion": FIRST},
    "workload-named": {"client_id": "another", "scope": "api://x/.default"},
    "machine": OF_MACHINE,
    "machine-named": OF_MACHINE | {"client_id": OTHER_CLIENT},
    "role": {"Action": "AssumeRole", "RoleArn": ROLE, "ExternalId": "shop", "secret": FIRST},
    "container": {},
}


@pytest.mark.parametrize(("way", "fields"), FIELDS.items(), indirect=["way"])
def test_credentials_are_fetched_once_and_sign_each_query(
    way: Way, fields: Mapping[str, object]
) -> None:
    way.endpoint.steps = (way.gives(1),)
    with ScriptedServer(answer()) as server, reading(server.url, sign_in=way.settings) as reader:
        for _ in range(5):
            answered(query(reader))
    assert [way.number_of(received) for received in server.received] == [1] * 5
    (request,) = way.endpoint.requests
    sent = way.fields_of(request)
    assert sent == {**sent, **fields}
    assert ("client_id" in sent) is ("client_id" in fields)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_refused_credentials_are_fetched_again_with_the_rotated_secret(way: Way) -> None:
    way.endpoint.steps = (way.gives(1), BROKEN, BROKEN, way.gives(2))
    with (
        ScriptedServer(way.accepts(2)) as server,
        reading(server.url, sign_in=way.settings) as reader,
    ):
        soon(lambda: len(way.endpoint.requests) == 1)
        way.write(ROTATED)
        assert_parts(failed(query(reader)), server.url, "40", "is not accepted")
        soon(lambda: isinstance(query(reader), QueryResult))
    sent = way.fields_of(way.endpoint.requests[-1])
    rotated = {
        name: str(value).replace(FIRST, ROTATED).replace(quote_plus(FIRST), ROTATED)
        for name, value in FIELDS[way.name].items()
    }
    assert sent == {**sent, **rotated}


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_credentials_are_replaced_before_they_expire(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_EARLY_SHARE", 0.5)
    # What is short of time is fetched twice from a container.
    first = [way.gives(1, 6)] * (2 if way.name == "container" else 1)
    way.endpoint.steps = (*first, way.gives(2))
    with ScriptedServer(answer()) as server, reading(server.url, sign_in=way.settings) as reader:

        def number() -> int:
            answered(query(reader))
            return way.number_of(server.received[-1])

        assert number() == 1
        soon(lambda: number() == 2)
    assert len(way.endpoint.requests) == len(way.endpoint.steps)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_credentials_that_expired_before_they_arrive_are_refused(way: Way) -> None:
    way.endpoint.steps = (way.gives(1, -60),)
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", sign_in=way.settings))
    assert message.endswith(EXPIRED)
    assert server.received == []


def of_endpoint(kind: Kind) -> str:
    return network_sentence(kind, "the token endpoint {url}")


NO_TOKEN = "without a token"  # noqa: S105 - words
WRONG: dict[str, list[tuple[Step, list[str]]]] = {
    "oauth2": [
        (denied("invalid_client", "unknown"), ["{url}", "401", "invalid_client", "unknown"]),
        (denied("invalid_scope", "", "400 Bad Request"), ["{url}", "400", "invalid_scope"]),
        (answer("<html>", "503 Service Unavailable"), ["{url}", "503"]),
        (answer("", "302 Found", {"Location": NOWHERE}), ["{url}", "302"]),
        *((answer(body), ["{url}", NO_TOKEN]) for body in ("<html>", "[]", {"token": "x"})),
        (answer({"access_token": 5}), ["{url}", NO_TOKEN]),
        (answer({"access_token": "a", "expires_in": 1e999}), ["{url}", NO_TOKEN]),
        (answer({"access_token": "a\nb"}), ["{url}", "holds characters"]),
        (answer({"access_token": "a", "token_type": "mac"}), ["{url}", "another type"]),
        (answer("x" * (1 << 20) + "x"), ["{url}", "1 MiB"]),
        (faults.hang_up, [of_endpoint(Kind.CLOSED)]),
        (faults.speak(b"garbage\r\n\r\n"), [of_endpoint(Kind.NOT_HTTP)]),
    ],
    "google": [
        (denied("invalid_grant", "no", "400 Bad Request"), ["Google", "invalid_grant"]),
        (answer("<html>"), ["Google", NO_TOKEN]),
        (faults.hang_up, ["Google", network_sentence(Kind.CLOSED, "")]),
    ],
    "azure": [
        (denied("invalid_client", "AADSTS7000215: Invalid client"), ["Azure", "AADSTS7000215"]),
        (faults.hang_up, ["Azure", network_sentence(Kind.CLOSED, "")]),
    ],
    "role": [(faults.hang_up, ["AWS", "{sts}"])],
}


@pytest.mark.parametrize(
    ("way", "step", "parts"),
    [(name, *row) for name, rows in WRONG.items() for row in rows],
    indirect=["way"],
)
def test_without_credentials_the_cause_is_reported_and_nothing_is_sent(
    way: Way, step: Step, parts: list[str]
) -> None:
    failures: list[str] = []
    way.endpoint.steps = (step,)
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", sign_in=way.settings, observer=Observed(failures)))
    sts = way.url.removesuffix("/oauth2/token")
    assert_parts(message, *(part.format(url=way.url, sts=sts) for part in parts))
    assert failures == [message]
    assert server.received == []


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (OAUTH2.replace("URL", NOWHERE), ["/none", "No such file"]),
        ("googleIam: {credentialsFile: /none}", ["Google", "/none"]),
        ("googleIam: {}", ["Google", "default credentials"]),
        ("azuread: {workloadIdentity: {}}", ["Azure", "'tenant_id'"]),
        ("sigv4: {region: eu-west-1}", ["AWS", "environment"]),
        ("sigv4: {}", ["AWS", "sigv4.region", "AWS_REGION"]),
        ("sigv4: {region: eu-west-1, profile: none}", ["AWS", "(none)"]),
        (KEYED, ["AWS", "/none", "No such file"]),
    ],
)
def test_a_missing_setting_or_file_is_named(settings: str, parts: list[str]) -> None:
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", sign_in=with_names(settings, Path("/none"))))
    assert_parts(message, *parts)
    assert server.received == []


@pytest.mark.parametrize(
    ("way", "parts"),
    [
        ("oauth2", ["invalid_client", "<hidden>"]),
        ("google", ["invalid_client"]),
        ("azure", ["AADSTS7000215", "<hidden>"]),
        ("role", ["AccessDenied", "<hidden>"]),
    ],
    indirect=["way"],
)
def test_no_secret_is_shown(way: Way, parts: list[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def denies(peer: Peer) -> None:
        sent = peer.received.headers.get("Authorization") or peer.received.body.decode()
        way.denies(f"{FIRST} {sent}")(peer)

    def labels(peer: Peer) -> None:
        sent = {"sent": "".join(peer.received.headers.values())}
        answer(faults.vector({"metric": sent, "value": [1.0, "2"]}))(peer)

    shown: list[str] = []

    def is_answered() -> bool:
        outcome = query(reader)
        shown.append(repr(outcome))
        return isinstance(outcome, QueryResult)

    way.endpoint.steps = (denies,)
    statuses = ("401 Unauthorized", *["403 Forbidden"] * 2, "200 OK", "503 Service Unavailable")
    steps = [*map(faults.echo, statuses), faults.hang_up, labels]
    with (
        ScriptedServer(*steps) as server,
        reading(server.url, sign_in=way.settings, observer=Observed(shown, shown)) as reader,
    ):
        shown.append(failed(query(reader)))
        assert_parts(shown[-1], *parts)
        count = len(way.endpoint.requests)
        soon(lambda: len(way.endpoint.requests) > count + 1)
        way.endpoint.steps = (way.gives(1),)
        soon(is_answered)
        shown += [repr(vars(reader._sign_in)), repr(settings("", sign_in=way.settings))]
    text = "".join((*shown, *(record.getMessage() for record in caplog.records)))
    secrets = [FIRST, token_of(1), "param-secret", "M2NyZXQlMjZvZiUyRnRoZ"]
    secrets += [private_key().splitlines()[1], "session+token", "role-secret"]
    secrets += [request.headers["Authorization"][-40:] for request in server.received]
    if way.name == "google":
        assertion = form(way.endpoint.requests[0])["assertion"]
        secrets += [assertion, assertion.rpartition(".")[2]]
    assert [secret for secret in secrets if secret in text] == []


# -- OAuth 2.0 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["oauth2"], indirect=True)
def test_a_server_that_wants_the_secret_in_the_body_gets_it_there(way: Way) -> None:
    way.endpoint.steps = (denied("invalid_client"), way.gives(1, 1), way.gives(2))
    with ScriptedServer(answer()) as server, reading(server.url, sign_in=way.settings) as reader:
        answered(query(reader))
        assert way.number_of(server.received[0]) == 1
        soon(lambda: len(way.endpoint.requests) == 3)
    _, second, third = way.endpoint.requests
    assert form(second) == form(third)
    assert (form(second)["client_id"], form(second)["client_secret"]) == ("the client", FIRST)
    assert "Authorization" not in second.headers


def test_a_token_endpoint_is_trusted_only_by_its_own_authority(tmp_path: Path) -> None:
    pair, file = self_signed(tmp_path, "localhost"), tmp_path / "secret"
    file.write_text(FIRST)
    tokens = ScriptedServer(token_answer("a-token"))
    url = behind_tls(tokens, pair)
    sign_in = with_names(OAUTH2, file, url)
    with ScriptedServer(answer()) as server, tokens:
        message = failed(ask(server.url, "x", sign_in=sign_in))
        assert_parts(message, url, "tls.caFile")
        assert tokens.received == []
        trusted = sign_in.replace("{", f"{{tls: {{caFile: '{pair.certificate}'}}, ", 1)
        answered(ask(server.url, "x", sign_in=trusted))
        assert server.received[0].headers["Authorization"] == "Bearer a-token"


@pytest.mark.parametrize("way", ["oauth2", "google", "azure", "role"], indirect=True)
def test_credentials_are_sent_to_nobody_else(way: Way) -> None:
    with ScriptedServer(answer()) as other:
        elsewhere = answer("", "307 Temporary Redirect", {"Location": other.url})
        way.endpoint.steps = (way.gives(1),)
        with ScriptedServer(elsewhere) as server:
            failed(ask(server.url, "x", sign_in=way.settings))
            assert len(server.received) == 1
        way.endpoint.steps = (elsewhere,)
        failed(ask(NOWHERE, "x", sign_in=way.settings))
        assert other.received == []


# -- Google ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ["", "s3cret", '{"type": "s3cret"}', '{"type": "service_account"}']
)
def test_a_file_without_credentials_of_google_is_named_but_not_quoted(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "account.json"
    file.write_text(content)
    message = failed(ask(NOWHERE, "x", sign_in=with_names(SETTINGS["google"], file)))
    assert_parts(message, "Google", str(file))
    assert "s3cret" not in message


# -- the libraries, which are optional, and imported only where they are used ----------------------

MODULES = ("botocore", "autoscaler.prometheus.google_iam", "azure.identity", "msal")
"""google.auth itself is imported by the client of Kubernetes, where it is installed."""

USED = ("oauth2", "role", "google", "azure")
PROGRAM = f"""
import contextlib, pathlib, sys, threading
import autoscaler.daemon.service, autoscaler.cli.planning, autoscaler.cli.validating
from autoscaler.config import load
from autoscaler.prometheus import PrometheusReader
for name in {("token", *USED)!r}:
    config = load(pathlib.Path(name))
    with contextlib.closing(PrometheusReader(config.prometheus, threading.Event())):
        print(name, *(set({MODULES!r}) & set(sys.modules)))
"""


def test_a_library_is_imported_only_where_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    (tmp_path / "token").write_text(prometheus("bearerTokenFile: secret\n"))
    for name in USED:
        keys = with_names(SETTINGS[name], Path("secret"), NOWHERE)
        (tmp_path / name).write_text(prometheus(f"{keys}\n"))
    program = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(program, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    botocore, google, azure, msal = MODULES
    assert [set(line.split()) for line in result.stdout.decode().splitlines()] == [
        {"token"},
        {"oauth2"},
        {"role", botocore},
        {"google", botocore, google},
        {"azure", botocore, google, azure, msal},
    ]


@pytest.mark.parametrize(
    ("key", "value", "library", "extra"),
    [
        ("sigv4", "{}", "botocore", "aws"),
        ("googleIam", "{}", "google.auth", "google"),
        ("azuread", "{managedIdentity: {}}", "azure.identity", "azure"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (problem,) = refused(tmp_path, prometheus(f"{key}: {value}\n"))
    assert problem.path == f"prometheus.{key}"
    assert f"pip install 'promql-autoscaler[{extra}]'" in str(problem)
