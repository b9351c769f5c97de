"""Tokens of an OAuth 2.0 server, of Google and of Entra ID, from stand-ins of their endpoints."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.compute_engine import _metadata

from autoscaler import clock
from autoscaler.config.prometheus_connection import (
    AzureAdSettings,
    AzureOAuthSettings,
    GoogleIamSettings,
    ManagedIdentitySettings,
    OAuth2Settings,
    Tls,
    WorkloadIdentitySettings,
)
from autoscaler.core.series import QueryResult
from autoscaler.prometheus.azuread import AzureFetch
from autoscaler.prometheus.google_iam import fetch_token
from tests.adapters.prometheus.reading import Observed, answered, ask, failed, query, reading
from tests.config.documents import prometheus, refused
from tests.worlds.certificates import self_signed
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, Received, ScriptedServer, Step, answer
from tests.worlds.prometheus.token_endpoints import (
    basic,
    behind_tls,
    claims,
    denied,
    form,
    only_with,
)
from tests.worlds.prometheus.token_endpoints import token_answer as token
from tests.worlds.waiting import soon

TOKEN, OTHER = "eyJ0-first-token-of-the-endpoint", "eyJ0-second-token-of-the-endpoint"
SECRET = "s3cret&of/the client"  # noqa: S105 - made up
PARAMETERS = {"audience": "https://api/?a=b&c", "assertion": "param-secret"}
READ = "https://www.googleapis.com/auth/monitoring.read"
JSON = {"Content-Type": "application/json"}
NOWHERE = "http://127.0.0.1:1"


class TokenEndpoint:
    """Plays a step for each request of a token, the last one again and again."""

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] = ()
        self.requests: list[Received] = []

    def __call__(self, peer: Peer) -> None:
        # The library of Azure asks first where the endpoints are.
        if peer.received.target.startswith("/tenant/v2.0/.well-known"):
            base = f"https://{peer.received.headers['Host']}/tenant"
            found = {
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
            }
            answer(found, headers=JSON)(peer)
            return
        self.requests.append(peer.received)
        self.steps[min(len(self.requests), len(self.steps)) - 1](peer)


@dataclass(frozen=True)
class Way:
    """A way to sign in; ``sign_in`` puts a secret in place, and returns the settings."""

    name: str
    url: str
    endpoint: TokenEndpoint
    sign_in: Callable[[str], object]

    @property
    def fault(self) -> str:
        """How a message begins that says why there without a token."""
        of = {"google": " of Google", "azure": " of Azure"}.get(self.name, "")
        return f"there is no valid access token{of}: "


def oauth2(url: str, file: Path, tls: Tls | None = None) -> OAuth2Settings:
    return OAuth2Settings.model_construct(
        client_id="the client",
        client_secret_file=file,
        token_url=url,
        scopes=("read", "metrics"),
        endpoint_params=PARAMETERS,
        tls=tls or Tls(),
    )


def google(file: Path) -> GoogleIamSettings:
    return GoogleIamSettings.model_construct(credentials_file=file)


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def account(url: str, private_key: str, name: str = "reader") -> str:
    """Return the key file of a service account of Google."""
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "shop",
            "private_key_id": "1",
            "private_key": private_key,
            "client_email": f"{name}@shop",
            "token_uri": url,
        }
    )


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    private_key: str,
) -> Iterator[Way]:
    """Start a token endpoint; the libraries are told of it as by an operator."""
    name, endpoint, file = str(request.param), TokenEndpoint(), tmp_path / "secret"
    server = ScriptedServer(endpoint)
    url = f"{server.url}/oauth2/token"
    if name == "azure":
        pair = self_signed(tmp_path, "localhost")
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", behind_tls(server, pair))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pair.certificate))
    client = AzureOAuthSettings.model_construct(
        client_id="the-client", tenant_id="tenant", client_secret_file=file
    )
    settings: dict[str, object] = {
        "oauth2": oauth2(url, file),
        "google": google(file),
        "azure": AzureAdSettings.model_construct(oauth=client),
    }

    def sign_in(secret: str) -> object:
        name_of_account = "reader" if secret == SECRET else secret
        of_google = account(url, private_key, name_of_account)
        file.write_text(of_google if name == "google" else f"{secret}\n")
        return settings[name]

    with server:
        yield Way(name, url, endpoint, sign_in)


# -- all of them -----------------------------------------------------------------------------------


def fields_of(asked: Received) -> dict[str, object]:
    """Return what a token was asked for with: of a form, a header or an assertion."""
    fields: dict[str, object] = {**form(asked), "target": asked.target}
    if "assertion" in fields and fields["assertion"] != PARAMETERS["assertion"]:
        fields |= claims(str(fields["assertion"]))
    return fields | ({"pair": basic(asked)} if "Authorization" in asked.headers else {})


@pytest.mark.parametrize(
    ("way", "fields"),
    [
        (
            "oauth2",
            {
                "grant_type": "client_credentials",
                "scope": "read metrics",
                "target": "/oauth2/token",
                # Both are encoded before they are joined: RFC 6749 2.3.1.
                "pair": "the+client:s3cret%26of%2Fthe+client",
                **PARAMETERS,
            },
        ),
        (
            "google",
            {
                "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "scope": READ,
                "iss": "reader@shop",
            },
        ),
        (
            "azure",
            {
                "grant_type": "client_credentials",
                "scope": "https://prometheus.monitor.azure.com/.default",
                "client_id": "the-client",
                "client_secret": SECRET,
            },
        ),
    ],
    indirect=["way"],
)
def test_a_token_is_asked_for_once_and_sent_with_each_query(
    way: Way, fields: dict[str, object]
) -> None:
    way.endpoint.steps = (token(TOKEN),)
    with (
        ScriptedServer(only_with(TOKEN)) as server,
        reading(server.url, sign_in=way.sign_in(SECRET)) as reader,
    ):
        for _ in range(5):
            answered(query(reader))
    (asked,) = way.endpoint.requests
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert fields_of(asked) == fields_of(asked) | fields


@pytest.mark.parametrize(
    ("way", "secret"),
    [
        ("oauth2", ("pair", "the+client:rotated")),
        ("google", ("iss", "rotated@shop")),
        ("azure", ("client_secret", "rotated")),
    ],
    indirect=["way"],
)
def test_a_refused_token_and_a_rotated_secret(way: Way, secret: tuple[str, str]) -> None:
    """A 401 of Prometheus fetches another token soon, with the secret that the file has then."""
    way.endpoint.steps = (token(TOKEN), token(OTHER))
    with (
        ScriptedServer(only_with(OTHER)) as server,
        reading(server.url, sign_in=way.sign_in(SECRET)) as reader,
    ):
        soon(lambda: len(way.endpoint.requests) == 1)
        way.sign_in("rotated")
        message = failed(query(reader))
        assert "did not accept the credentials, or wants some (HTTP 401" in message
        assert message.endswith(": Bearer is none of mine")  # the token is hidden
        soon(lambda: isinstance(query(reader), QueryResult))
    assert secret in fields_of(way.endpoint.requests[-1]).items()


NO_TOKEN, NO_ANSWER = "sent an answer without a token", "closed the connection without an answer"
WRONG: list[tuple[str, Step, str]] = [
    *(
        ("oauth2", step, f"the token endpoint {{}} {words}")
        for step, words in (
            (
                denied("invalid_client", "unknown"),
                "answered HTTP 401 Unauthorized: invalid_client: un",
            ),
            (
                denied("invalid_scope", "", "400 Bad Request"),
                "answered HTTP 400 Bad Request: invalid_",
            ),
            (answer("<html>", "503 Service Unavailable"), "answered HTTP 503 Service Unavailable"),
            (answer("", "302 Found", {"Location": NOWHERE}), "answered HTTP 302 Found"),
            *((answer(body), NO_TOKEN) for body in ("<html>", "[]", {"token": "x"})),
            (answer({"access_token": 5}), NO_TOKEN),
            (answer({"access_token": "a", "expires_in": 1e999}), NO_TOKEN),
            (answer({"access_token": "a\nb"}), "gave holds characters that no token may have"),
            (
                answer({"access_token": "a", "token_type": "mac"}),
                "gave a token of another type than",
            ),
            (answer("x" * (1 << 20) + "x"), "sent more than 1 MiB"),
            (faults.hang_up, NO_ANSWER),
            (faults.speak(b"garbage\r\n\r\n"), "answered what is not HTTP"),
        )
    ),
    ("google", denied("invalid_grant", "no", "400 Bad Request"), "Google gave none: invalid_grant"),
    ("google", answer("<html>"), f"Google's token endpoint {NO_TOKEN}"),
    ("google", faults.hang_up, f"Google's token endpoint {NO_ANSWER}"),
    ("azure", denied("invalid_client", "AADSTS7000215: Invalid client"), "AADSTS7000215: Inval"),
    ("azure", faults.hang_up, NO_ANSWER),
]


@pytest.mark.parametrize(("way", "step", "sentence"), WRONG, indirect=["way"])
def test_what_is_wrong_is_said_and_nothing_is_sent(way: Way, step: Step, sentence: str) -> None:
    told: list[str] = []
    way.endpoint.steps = (step,)
    with ScriptedServer(answer()) as server:
        message = failed(ask(server.url, "x", sign_in=way.sign_in(SECRET), observer=Observed(told)))
    assert message.startswith(way.fault)
    assert sentence.format(way.url) in message
    assert told == [message]
    assert server.received == []


@pytest.mark.parametrize(
    "step", [faults.echo("401 Unauthorized"), faults.echo("200 OK"), faults.hang_up]
)
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("oauth2", "invalid_client: <hidden> "),
        ("google", "Google gave none: invalid_client"),
        ("azure", "AADSTS1: <hidden> "),
    ],
    indirect=["way"],
)
def test_no_secret_is_told(
    way: Way, words: str, step: Step, private_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by servers that repeat what they were sent, nor by a log or a repr."""
    caplog.set_level(logging.DEBUG)

    def repeat(peer: Peer) -> None:
        sent = peer.received.headers.get("Authorization") or peer.received.body.decode()
        start = "AADSTS1: " if way.name == "azure" else ""
        denied("invalid_client", f"{start}{SECRET} {sent}")(peer)

    way.endpoint.steps = (repeat,)
    options = way.sign_in(SECRET)
    with ScriptedServer(step) as server, reading(server.url, sign_in=options) as reader:
        said = failed(query(reader, within=1.0))
        asked = len(way.endpoint.requests)
        soon(lambda: len(way.endpoint.requests) > asked + 1)
        said += failed(query(reader, within=1.0))
        assert words in said
        way.endpoint.steps = (token(TOKEN),)
        soon(lambda: failed(query(reader, within=1.0)) != "" and len(server.received) > 0)
        said += failed(query(reader, within=1.0)) + repr(vars(reader._sign_in)) + repr(options)
    said += "".join(record.getMessage() for record in caplog.records)
    secrets = [SECRET, TOKEN, "param-secret", "M2NyZXQlMjZvZiUyRnRoZ", private_key.splitlines()[1]]
    if way.name == "google":
        assertion = form(way.endpoint.requests[0])["assertion"]
        secrets += [assertion, assertion.rpartition(".")[2]]
    assert [secret for secret in secrets if secret in said] == []


# -- OAuth 2.0 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["oauth2"], indirect=True)
def test_a_server_that_wants_the_secret_in_the_body_gets_it_there(way: Way) -> None:
    """As Prometheus does, and from then on at once."""
    way.endpoint.steps = (denied("invalid_client"), token(TOKEN, 1), token(OTHER))
    with (
        ScriptedServer(only_with(TOKEN, OTHER)) as server,
        reading(server.url, sign_in=way.sign_in(SECRET)) as reader,
    ):
        answered(query(reader))
        soon(lambda: len(way.endpoint.requests) == 3)
    _, second, third = way.endpoint.requests
    assert form(second) == form(third)
    assert (form(second)["client_id"], form(second)["client_secret"]) == ("the client", SECRET)
    assert "Authorization" not in second.headers


def test_a_token_endpoint_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    """It is trusted if its authority is named, and the secret is not sent otherwise."""
    pair, file = self_signed(tmp_path, "localhost"), tmp_path / "secret"
    file.write_text(SECRET)
    tokens = ScriptedServer(token(TOKEN))
    url = behind_tls(tokens, pair)
    with ScriptedServer(only_with(TOKEN)) as server, tokens:
        message = failed(ask(server.url, "x", sign_in=oauth2(url, file)))
        assert f"the token endpoint {url} is not trusted: TLS verification failed" in message
        assert tokens.received == []
        trusted = Tls.model_construct(ca_file=pair.certificate)
        answered(ask(server.url, "x", sign_in=oauth2(url, file, trusted)))


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with ScriptedServer(token(TOKEN)) as tokens:
        message = failed(ask("http://h", "x", sign_in=oauth2(tokens.url, tmp_path / "none")))
    assert f"the client secret file {tmp_path}/none cannot be read: No such file" in message
    assert tokens.received == []


@pytest.mark.parametrize("way", ["oauth2"], indirect=True)
def test_credentials_are_sent_to_nobody_else(way: Way) -> None:
    """Neither Prometheus nor the token endpoint can lead them to another server."""
    with ScriptedServer(answer()) as other:
        elsewhere = answer("", "307 Temporary Redirect", {"Location": other.url})
        way.endpoint.steps = (token(TOKEN),)
        with ScriptedServer(elsewhere) as server:
            failed(ask(server.url, "x", sign_in=way.sign_in(SECRET)))
            assert len(server.received) == 1
        way.endpoint.steps = (elsewhere,)
        failed(ask(NOWHERE, "x", sign_in=way.sign_in(SECRET)))
        assert other.received == []


# -- Google ----------------------------------------------------------------------------------------


def test_the_application_default_credentials(
    tmp_path: Path, private_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "account.json"
    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(token(TOKEN)) as tokens:
        file.write_text(account(tokens.url, private_key))
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
        answer(body, headers={"Metadata-Flavor": "Google", **JSON})(peer)

    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(metadata) as machine:
        host = machine.url.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", False)
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_IP", host)
        answered(ask(server.url, "x", sign_in=GoogleIamSettings()))


def test_a_file_that_is_none_is_named_and_nothing_of_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    start = f"there is no valid access token of Google: the credentials file {file} cannot be used"
    for content in (None, "", "s3cret", '{"type": "s3cret"}', '{"type": "service_account"}'):
        if content is not None:
            file.write_text(content)
        message = failed(ask(NOWHERE, "x", sign_in=google(file)))
        assert message.startswith(start)
        assert "s3cret" not in message
    message = failed(ask(NOWHERE, "x", sign_in=GoogleIamSettings()))
    assert "default credentials were not found" in message


# -- Entra ID --------------------------------------------------------------------------------------


def of_machine(token: str, seconds: int = 3600) -> Step:
    """Answer as the metadata service of a machine does."""

    def step(peer: Peer) -> None:
        until = str(int(clock.wall()) + seconds)
        body = {"access_token": token, "expires_in": str(seconds), "expires_on": until}
        more = {"resource": "https://prometheus.monitor.azure.com", "token_type": "Bearer"}
        answer(body | more, headers=JSON)(peer)

    return step


def machine_of(client_id: str | None) -> AzureAdSettings:
    identity = ManagedIdentitySettings.model_construct(client_id=client_id)
    return AzureAdSettings.model_construct(managed_identity=identity)


@pytest.mark.parametrize("client_id", [None, "11111111-2222-3333-4444-555555555555"])
def test_a_managed_identity(client_id: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(only_with(TOKEN)) as server, ScriptedServer(of_machine(TOKEN)) as machine:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", machine.url)
        answered(ask(server.url, "x", sign_in=machine_of(client_id)))
        assert 3500 < (AzureFetch(machine_of(client_id))().seconds or 0) <= 3600
    target = machine.received[-1].target
    assert target.startswith("/metadata/identity/oauth2/token?")
    assert "resource=https://prometheus.monitor.azure.com" in unquote(target)
    assert (f"client_id={client_id}" in target) is (client_id is not None)
    assert machine.received[-1].headers["Metadata"] == "true"


def test_a_refused_token_and_a_machine_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 401 fetches another at once, past what the library remembers, and failures end."""
    bad = answer({"error": "x"}, "500 Internal Server Error", JSON)
    with (
        ScriptedServer(only_with(OTHER)) as server,
        ScriptedServer(of_machine(TOKEN), bad, bad, of_machine(OTHER)) as machine,
    ):
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", machine.url)
        with reading(server.url, sign_in=machine_of(None)) as reader:
            assert "did not accept the credentials" in failed(query(reader))
            soon(lambda: isinstance(query(reader), QueryResult))


def workload(**fields: object) -> AzureAdSettings:
    identity = WorkloadIdentitySettings.model_construct(**fields)  # type: ignore[arg-type]  # of it
    return AzureAdSettings.model_construct(workload_identity=identity)


@pytest.mark.parametrize("way", ["azure"], indirect=True)
def test_a_workload_identity(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the service account is exchanged; Azure's webhook says where it is."""
    way.endpoint.steps = (token(TOKEN),)
    (tmp_path / "federated").write_text("service-account-token")
    monkeypatch.setenv("AZURE_CLIENT_ID", "the-client")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "federated"))
    with ScriptedServer(only_with(TOKEN)) as server:
        answered(ask(server.url, "x", sign_in=workload()))
        named = workload(client_id="another", token_file_path=tmp_path / "federated")
        named = named.model_copy(update={"scope": "api://x/.default"})
        answered(ask(server.url, "x", sign_in=named))
    first, two = (form(request) for request in way.endpoint.requests)
    assert (first["client_assertion"], first["client_id"]) == (
        "service-account-token",
        "the-client",
    )
    assert (two["client_id"], two["scope"]) == ("another", "api://x/.default")


def test_a_workload_identity_without_its_webhook_names_what_is_missing() -> None:
    message = failed(ask(NOWHERE, "x", sign_in=workload()))
    assert message.startswith("there is no valid access token of Azure: ")
    assert "'tenant_id'" in message


# -- the libraries, which are optional, and imported only where they are used ----------------------

MODULES = ("botocore", "autoscaler.prometheus.google_iam", "azure.identity", "msal")
"""google.auth itself is imported by the client of Kubernetes, where it is installed."""

WAYS = {
    "nothing": "",
    "token": "bearerTokenFile: secret\n",
    "oauth2": "oauth2: {clientId: a, clientSecretFile: secret, tokenUrl: 'http://127.0.0.1:1'}\n",
    "amazon": "sigv4: {region: a, accessKey: b, secretKeyFile: secret}\n",
    "google": "googleIam: {credentialsFile: secret}\n",
    "azure": "azuread: {oauth: {clientId: a, tenantId: b, clientSecretFile: secret}}\n",
}
PROGRAM = f"""
import sys, threading
from contextlib import closing
from pathlib import Path
import autoscaler.daemon.service, autoscaler.cli.planning, autoscaler.cli.validating
from autoscaler.config import load
from autoscaler.prometheus import PrometheusReader
for way in {list(WAYS)!r}:
    config = load(Path(way))
    with closing(PrometheusReader(config.prometheus, threading.Event())):
        print(way, *[name for name in {MODULES!r} if name in sys.modules])
"""


def test_only_what_is_used_is_imported(tmp_path: Path) -> None:
    """By the commands, the check of a configuration and the connection to Prometheus."""
    (tmp_path / "secret").touch()
    for way, keys in WAYS.items():
        (tmp_path / way).write_text(prometheus(keys))
    program = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(program, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    botocore, google, azure, msal = MODULES
    assert result.stdout.decode().splitlines() == [
        "nothing",
        "token",
        "oauth2",
        f"amazon {botocore}",
        f"google {botocore} {google}",
        f"azure {botocore} {google} {azure} {msal}",
    ]


@pytest.mark.parametrize(
    ("key", "value", "library"),
    [
        ("sigv4", "{}", "botocore"),
        ("googleIam", "{}", "google.auth"),
        ("azuread", "{managedIdentity: {}}", "azure.identity"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (problem,) = refused(tmp_path, prometheus(f"{key}: {value}\n"))
    assert problem.path == f"prometheus.{key}"
    sentence = "needs a library that is not installed: pip install --require-hashes -r "
    sentence += "requirements-cloud.lock in the checkout of this project"
    assert problem.message == sentence
