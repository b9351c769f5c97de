"""Unusable credentials are reported and never shown; users that impersonate another one."""

import errno
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import urllib3
import yaml
from kubernetes.client import Configuration

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.kubernetes import Api, Failure, connection
from autoscaler.kubernetes.credentials import Access, Credentials
from autoscaler.kubernetes.failures import from_exception
from tests.adapters.cluster.test_certificates import whoami
from tests.adapters.cluster.test_exec_plugins import VERSION, credential
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster.cluster import eventually
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import UNAUTHORIZED, Script, read_web, refusal_of
from tests.worlds.cluster.scripted import DisplayedQuery, ScriptedServer, failure, scale
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.controlplane.server import ControlPlane

BAD_TOKENS = ["line1-s3cret\nline2", "line1-s3cret\r\n X-Other: 1", "s3cr\u65e5et", "s3cret\x7f"]


def _begin_watch(api: Api) -> object:
    return api.stream("/apis/apps/v1/deployments", {"watch": "true"}, 1.0)


def _read(api: Api) -> object:
    return api.get("/apis/apps/v1/deployments", clock.monotonic() + 5)


@pytest.mark.parametrize("ask", [_read, _begin_watch])
@pytest.mark.parametrize("token", BAD_TOKENS)
@pytest.mark.parametrize("in_file", [True, False])
def test_a_token_that_no_header_can_carry_is_not_sent(
    script: Script, tmp_path: Path, token: str, ask: Callable[[Api], object], *, in_file: bool
) -> None:
    (tmp_path / "token").write_text(token)
    server, api = script(scale(1), user={"tokenFile": "token"} if in_file else {"token": token})
    failed = instance(Failure, ask(api))
    assert (failed.transient, failed.uncertain) == (False, False)
    assert_parts(failed, f"{tmp_path}/token" if in_file else api.origin, "ASCII")
    assert "s3cr" not in failed.message
    assert server.asked == []


def test_a_rotation_to_a_bad_token_is_reported_until_the_next(
    script: Script, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    server, api = script(UNAUTHORIZED, scale(2), user={"tokenFile": str(token)})
    api._credentials.access(clock.monotonic())
    token.write_text("two\nthree")
    answer: object = instance(ReadFailure, read_web(api))
    assert_parts(answer, str(token), "ASCII")
    token.write_text("four")
    until = clock.monotonic() + 5
    while isinstance(answer, ReadFailure) and clock.monotonic() < until:
        answer = read_web(api)
    assert isinstance(answer, Scale)
    assert [asked.authorization for asked in server.asked] == ["Bearer one", "Bearer four"]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe"), "UTF-8"),
        (lambda path: path.write_text(" \n"), "empty"),
        (Path.unlink, os.strerror(errno.ENOENT)),
        (lambda path: os.truncate(path, 3 * 2**30), "1 MiB"),
    ],
    ids=["not-text", "empty", "gone", "gigabytes"],
)
def test_without_a_token_in_its_file_nothing_is_sent(
    script: Script, tmp_path: Path, spoil: Callable[[Path], object], fault: str
) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    server, api = script(scale(1), user={"tokenFile": str(token)})
    spoil(token)
    assert_parts(instance(ReadFailure, read_web(api)), str(token), fault)
    assert server.asked == []


def test_a_url_that_the_client_cannot_use_fails_with_its_error_and_address(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig({"server": "http://h..h"}, {"token": "one"}))
    with connect(path) as api:
        for answer in (_read(api), _begin_watch(api)):
            assert_parts(instance(Failure, answer), "http://h..h", "LocationParseError")


@pytest.mark.parametrize("error", [ValueError("Bearer s3cret"), OSError(5, "Bearer s3cret")])
def test_the_text_of_an_exception_is_not_repeated(error: Exception) -> None:
    failed = from_exception(error, "http://h")
    assert type(error).__name__ in failed.message
    assert "s3cret" not in failed.message
    assert failed.uncertain


def write_contexts(path: Path, server: str, current: str, **tokens: str) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in tokens],
        "current-context": current,
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("moved", [False, True], ids=["same-server", "another-server"])
def test_a_rejected_token_is_replaced_by_that_of_the_same_context_and_server(
    tmp_path: Path, *, moved: bool
) -> None:
    """Another current-context changes nothing meanwhile; which server it is takes a restart."""
    with ScriptedServer(UNAUTHORIZED, scale(2)) as server:
        path = write_contexts(tmp_path / "k", server.url, "one", one="first", two="other")
        with connect(path) as api:
            url = "http://127.0.0.1:1" if moved else server.url
            write_contexts(path, url, "two", one="second", two="other")
            assert isinstance(read_web(api), ReadFailure if moved else Scale)
    sent = [asked.authorization for asked in server.asked]
    assert sent == ["Bearer first", *([] if moved else ["Bearer second"])]


NO_DATE = "\nexpires: 2020-13-45\n"
"""YAML reads it as a date, which does not exist."""


@pytest.mark.parametrize("error", [urllib3.exceptions.MaxRetryError, AttributeError, ImportError])
def test_the_last_token_stays_if_a_provider_raises(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    credentials = Credentials(configuration, None, lambda: "none", "origin", takes_long=True)
    credentials._fresh_until = 0.0
    for _ in range(30):
        access = credentials.access(clock.monotonic() + 5)
        assert isinstance(access, Access)
        assert access.authorization == "Bearer last"
        eventually(lambda: asked, bool)
    assert len(asked) == 1
    assert died == []


def test_an_issuer_out_of_reach_is_reported_with_the_context(tmp_path: Path) -> None:
    expired = "a.eyJleHAiOiAxMH0.c"
    options = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "a", "refresh-token": "s3cret"}
    provider = {"name": "oidc", "config": {**options, "client-secret": "s", "id-token": expired}}
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig({"server": "https://127.0.0.1:1"}, {"auth-provider": provider}))
    message = refusal_of(path)
    assert_parts(message, f'context "main" of {path}', "MaxRetryError")
    assert "s3cret" not in message


def test_an_invalid_date_in_a_kubeconfig_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with ScriptedServer(failure(401, "Unauthorized", "Unauthorized")) as server:
        server.write_kubeconfig(path, token="one")  # noqa: S106 - no secret
        with connect(path) as api:
            path.write_text(path.read_text() + NO_DATE)
            answer = api.once("GET", "/api", clock.monotonic() + 5)
    assert isinstance(answer, Failure)
    assert answer.status == 401
    message = refusal_of(path)
    assert_parts(message, str(path), "YAML")
    assert "2020" not in message


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text(":"), Path.mkdir])
def test_a_kubeconfig_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig({"server": "http://127.0.0.1:1"}, {"token": "s3cret"}))
    check = connection._check_form

    def check_and_spoil(file: Path) -> None:
        check(file)
        if spoil is Path.mkdir:
            file.unlink()
        spoil(file)

    monkeypatch.setattr(connection, "_check_form", check_and_spoil)
    message = refusal_of(path)
    assert_parts(message, str(path), "changed")
    assert "s3cret" not in message


# -- impersonation ---------------------------------------------------------------------------------

User = Mapping[str, object]

IMPERSONATED: list[tuple[User, list[tuple[str, str]]]] = [
    ({"as": "jane"}, [("User", "jane")]),
    ({"as": "système"}, [("User", "système")]),
    (
        {"as": "system:serviceaccount:shop:scaler", "as-groups": ["scalers", "shop, eu"]},
        [
            ("User", "system:serviceaccount:shop:scaler"),
            ("Group", "scalers"),
            ("Group", "shop, eu"),
        ],
    ),
    ({"as": "jane", "as-uid": "06f6"}, [("User", "jane"), ("Uid", "06f6")]),
    (
        {"as": "jane", "as-user-extra": {"acme.com/Project é": ["a", "b"], "scopes": ["view"]}},
        [
            ("User", "jane"),
            ("Extra-acme.com%2FProject%20%C3%A9", "a"),
            ("Extra-acme.com%2FProject%20%C3%A9", "b"),
            ("Extra-scopes", "view"),
        ],
    ),
    ({}, []),
    ({"as": "", "as-groups": [], "as-uid": "", "as-user-extra": {}}, []),
    ({"as": None, "as-groups": None, "as-uid": None, "as-user-extra": None}, []),
]


def impersonated(asked: DisplayedQuery) -> list[tuple[str, str]]:
    """Return the headers of a request that impersonate, without their prefix."""
    prefix = "Impersonate-"
    return [
        (name.removeprefix(prefix), value.encode("latin-1").decode())
        for name, value in asked.headers
        if name.startswith(prefix)
    ]


def send_each_kind(api: Api) -> None:
    deadline = clock.monotonic() + 10
    read_web(api)
    api.once("PUT", "/apis/apps/v1/namespaces/shop/deployments/web/scale", deadline, body={})
    api.once("POST", "/api/v1/namespaces/shop/events", deadline, body={})
    api.stream("/api/v1/pods", {"watch": "1"}, 5.0)


@pytest.mark.parametrize(("user", "headers"), IMPERSONATED)
def test_every_request_impersonates(
    script: Script, user: User, headers: list[tuple[str, str]]
) -> None:
    server, api = script(scale(1), user={"token": "base", **user})
    send_each_kind(api)
    assert server.methods == ["GET", "PUT", "POST", "GET"]
    assert [impersonated(asked) for asked in server.asked] == [headers] * 4


@pytest.mark.parametrize("way", ["token", "tokenFile", "exec", "password", "nothing"])
def test_users_of_every_sign_in_impersonate(script: Script, tmp_path: Path, way: str) -> None:
    (tmp_path / "token").write_text("base")
    command = {"command": "echo", "args": [credential("base")], "apiVersion": VERSION}
    ways: dict[str, dict[str, object]] = {
        "token": {"token": "base"},
        "tokenFile": {"tokenFile": str(tmp_path / "token")},
        "exec": {"exec": command},
        "password": {"username": "base", "password": "s3cret"},
        "nothing": {},
    }
    server, api = script(scale(1), user={**ways[way], "as": "jane", "as-groups": ["a"]})
    send_each_kind(api)
    for asked in server.asked:
        assert impersonated(asked) == [("User", "jane"), ("Group", "a")]
    assert {bool(asked.authorization) for asked in server.asked} == {way != "nothing"}


def test_a_kubeconfig_that_is_read_again_may_impersonate_another_user(
    script: Script, tmp_path: Path
) -> None:
    server, api = script(UNAUTHORIZED, scale(1), user={"token": "one", "as": "jane"})
    server.write_kubeconfig(tmp_path / "kubeconfig", **{"token": "two", "as": "joe"})
    read_web(api)
    sent = [(asked.authorization, impersonated(asked)) for asked in server.asked]
    assert sent == [("Bearer one", [("User", "jane")]), ("Bearer two", [("User", "joe")])]


@pytest.mark.parametrize(
    ("user", "fault"),
    [
        *(
            ({"as": name}, ": as of")
            for name in (5, ["jane"], "jane\nX-Other: 1", {"user": "jane"})
        ),
        ({"as": "j", "as-uid": 7}, ": as-uid of"),
        *(
            ({"as": "jane", "as-groups": groups}, ": as-groups of")
            for groups in ("scalers", [5], [""], ["a\nb"], {"a": "b"})
        ),
        *(
            ({"as": "jane", "as-user-extra": extra}, ": as-user-extra of")
            for extra in (["a"], "a", {"a": "b"}, {5: ["b"]}, {"a": [None]}, {"": ["b"]})
        ),
        *(
            (user, "no user")
            for user in (
                {"as-groups": ["a"]},
                {"as-uid": "1"},
                {"as-user-extra": {"a": ["b"]}},
                {"as": "", "as-groups": ["system:masters"]},
            )
        ),
    ],
)
def test_invalid_impersonation_is_refused_with_its_key(
    tmp_path: Path, user: User, fault: str
) -> None:
    path = tmp_path / "k"
    path.write_text(kubeconfig({"server": "https://127.0.0.1:1"}, {"token": "base", **user}))
    assert_parts(refusal_of(path), f'context "main" of {path}', fault)


def test_the_api_server_sees_the_impersonated_user(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    path = control_plane.write_kubeconfig(tmp_path / "k", control_plane.admin_token)
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] |= {
        "as": "jane",
        "as-uid": "06f6",
        "as-groups": ["scalers", "shop, eu"],
        "as-user-extra": {"acme.com/project é": ["a", "b, c"]},
    }
    path.write_text(yaml.safe_dump(document))
    with connect(path) as api:
        user = whoami(api)
    assert (user["username"], user["uid"]) == ("jane", "06f6")
    assert user["groups"] == ["scalers", "shop, eu", "system:authenticated"]
    assert user["extra"] == {"acme.com/project é": ["a", "b, c"]}
