"""The way to the API server: which configuration is used, and how a broken one is refused."""

import errno
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.kubernetes import ConnectError, find_api_server, list_pods
from autoscaler.kubernetes.connection import SERVICE_ACCOUNT
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster.connecting import connect
from tests.worlds.cluster.faults import UNAUTHORIZED, Script, read_web, refusal_of
from tests.worlds.cluster.scripted import Answer, ScriptedServer, scale
from tests.worlds.controlplane.server import ControlPlane

SECRET = "s3cr3t"  # noqa: S105 - what must not be seen
OLD_TOKEN = {"token": "one"}
NEW_TOKEN = {"token": "two"}

CLUSTERS = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
CONTEXTS = (
    "contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: c}}]\n"
)
USERS = f"users: [{{name: u, user: {{token: {SECRET}}}}}]\n"
WHOLE = CLUSTERS + CONTEXTS + USERS + "current-context: a\n"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def _origin(kubeconfig: Path | None = None, context: str | None = None) -> str:
    with connect(kubeconfig, context) as api:
        return api.origin


def test_the_current_context_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(WHOLE)
    assert _origin(path) == f'context "a" of {path}'
    assert _origin(path, "b") == f'context "b" of {path}'
    with pytest.raises(ConnectError, match=r'"c".* a, b$'):
        connect(path, "c")


def test_the_environment_names_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(CONTEXTS + "current-context: b\n")
    second.write_text(CLUSTERS + USERS)
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:{tmp_path}/none")
    assert _origin() == f'context "b" of {first}:{second}:{tmp_path}/none'
    monkeypatch.delenv("KUBECONFIG")
    home = tmp_path / "home" / ".kube" / "config"
    home.parent.mkdir(parents=True)
    home.write_text(WHOLE)
    assert _origin() == f'context "a" of {home}'


def test_without_a_configuration_the_places_and_settings_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConnectError, match=r"~/\.kube/config.* kubernetes\.kubeconfig.*KUBECONFIG"):
        connect()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    with pytest.raises(ConnectError, match=f"{SERVICE_ACCOUNT}/token.*KUBECONFIG=/nowhere/config"):
        connect()


def _user(more: str) -> str:
    return WHOLE.replace("{token:", f"{{{more}, token:")


def _server(url: str) -> str:
    return re.sub("server: [^},]+", f"server: {url}", WHOLE)


IN_CONTEXT = 'context "a" of {}'


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["Config"]),
        ("- a\n", ["Config"]),
        ("a: [b\n", ["YAML", "line 2"]),
        ("- " * 100_000, ["nested"]),
        ("token: *s3cret\n", ["YAML", "line 1"]),
        ("token: !s3cret x\n", ["YAML", "line 1"]),
        ("#" * (16 * 2**20 + 1), ["16 MiB"]),
        ("contexts: {}\n", ["contexts", "list"]),
        ("contexts: [{}]\n", ["contexts", "name"]),
        (CLUSTERS + CONTEXTS + USERS, ["current-context", "kubernetes.context", "a, b"]),
        ("current-context: a\n", ['"a"', "none"]),
        (CONTEXTS + USERS + "current-context: a\n", [IN_CONTEXT, '"c"', "clusters"]),
        (CLUSTERS + CONTEXTS + "current-context: a\n", [IN_CONTEXT, '"u"', "users"]),
        (WHOLE.replace("server:", "sever:"), [IN_CONTEXT, '"c"', "no server"]),
        *(
            (_server(url), [IN_CONTEXT, '"c"', "URL", "https://"])
            for url in ("'https://[::1:6443'", "10.0.0.1:8080")
        ),
        (_user("client-certificate: /nowhere/crt"), [IN_CONTEXT, "/nowhere/crt"]),
        (_user("client-certificate-data: A"), [IN_CONTEXT, "wrong form"]),
        (
            WHOLE.replace(f"token: {SECRET}", "tokenFile: /nowhere/token"),
            [IN_CONTEXT, "/nowhere/token", os.strerror(errno.ENOENT)],
        ),
        (
            WHOLE.replace(f"token: {SECRET}", "exec: {command: 'false', apiVersion: v1}"),
            [IN_CONTEXT, "false", "exit code 1"],
        ),
        (
            _user(f"auth-provider: {{name: oidc, config: {{x: {SECRET}}}}}"),
            [IN_CONTEXT, "not valid"],
        ),
    ],
)
def test_a_broken_kubeconfig_is_refused_with_its_path_and_fault_but_no_secret(
    tmp_path: Path, content: str, parts: list[str]
) -> None:
    path = tmp_path / "k"
    path.write_text(content)
    message = refusal_of(path)
    assert SECRET not in message
    assert_parts(message.replace(str(path), "{}"), "{}", *parts)


FILES = ("client-certificate", "client-key", "tokenFile")


def _with_file(key: str, name: str) -> str:
    if key in FILES:
        return _user(f"{key}: {name}")
    return WHOLE.replace("{server:", f"{{{key}: {name}, server:")


@pytest.mark.parametrize(
    ("content", "needs"),
    [
        (_user("exec: {command: 'false', apiVersion: v1}"), "exec"),
        (_user("auth-provider: {name: gcp}"), "auth-provider"),
        *(
            (_with_file(key, name), rf"{key} \(.*\)")
            for key in (*FILES, "certificate-authority")
            for name in ("/proc/self/environ", "../secret", "link", "below/../../secret")
        ),
        (_user("exec: {}, tokenFile: /x"), r"exec and tokenFile \(/x\)"),
    ],
)
def test_a_foreign_kubeconfig_runs_no_programs_and_reads_no_files_elsewhere(
    tmp_path: Path, content: str, needs: str
) -> None:
    folder = tmp_path / "of-the-owner"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "secret").write_text(SECRET)
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "k"
    path.write_text(WHOLE)
    endpoint = find_api_server(path, None, allow_exec=False)
    endpoint.load()
    path.write_text(content)
    refused = rf'"a" of {path} .*{needs}: .*allowExec: true'
    with pytest.raises(ConnectError, match=refused):
        endpoint.load()
    with pytest.raises(ConnectError, match=refused):
        find_api_server(path, None, allow_exec=False)
    for trusted in (True, None):
        assert find_api_server(path, None, allow_exec=trusted).url == "https://127.0.0.1:1"


@pytest.mark.parametrize("token", ["token", "./below/token", "..data/token"])
def test_a_foreign_kubeconfig_may_name_files_of_its_folder(tmp_path: Path, token: str) -> None:
    for folder in ("below", "..2026"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "token").write_text("s")
    (tmp_path / "..data").symlink_to("..2026")
    for name in ("k", "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    (tmp_path / "k").write_text(WHOLE.replace(f"token: {SECRET}", f"tokenFile: {token}"))
    endpoint = find_api_server(tmp_path / "k", None, allow_exec=False)
    with endpoint.connect() as api:
        assert api.origin == f'context "a" of {tmp_path / "k"}'


@pytest.mark.timeout(20)
@pytest.mark.parametrize("key", [*FILES, "certificate-authority"])
@pytest.mark.parametrize("allow_exec", [None, False, True])
def test_a_pipe_in_place_of_a_file_is_refused(
    tmp_path: Path, key: str, allow_exec: bool | None
) -> None:
    """Opening it would wait for a writer."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "k").write_text(_with_file(key, "pipe"))
    refused = rf"{key} {tmp_path / 'pipe'}: .*\bpipe\b"
    with pytest.raises(ConnectError, match=refused):
        find_api_server(tmp_path / "k", None, allow_exec=allow_exec).connect()


def test_a_missing_kubeconfig_and_a_directory_are_refused_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=f"{tmp_path}/k$"):
        connect(tmp_path / "k")
    with pytest.raises(ConnectError, match=f"{tmp_path} .*{os.strerror(errno.EISDIR)}$"):
        connect(tmp_path)


def test_nothing_of_a_connection_shows_its_credentials(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(WHOLE)
    with connect(path) as api:
        assert SECRET not in repr(vars(api)) + repr(api)


def test_a_token_file_is_read_again_when_it_changes(script: Script, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    answers = (scale(1), UNAUTHORIZED, scale(2), UNAUTHORIZED, scale(3))
    server, api = script(*answers, user={"tokenFile": "token", **OLD_TOKEN})
    for content in ("first", "second", "third"):
        token.write_text(f"{content}\n")
        assert isinstance(read_web(api), Scale)
    sent = [asked.authorization.removeprefix("Bearer ") for asked in server.asked]
    assert sent == ["first", "first", "second", "second", "third"]


def test_a_kubeconfig_is_read_again_after_a_401(script: Script, tmp_path: Path) -> None:
    server, api = script(UNAUTHORIZED, scale(2), user=OLD_TOKEN)
    server.write_kubeconfig(tmp_path / "kubeconfig", **NEW_TOKEN)
    assert isinstance(read_web(api), Scale)
    assert [asked.authorization for asked in server.asked] == ["Bearer one", "Bearer two"]


def test_a_server_that_speaks_no_tls_is_a_tls_failure(tmp_path: Path) -> None:
    with ScriptedServer(Answer()) as server:
        path = server.write_kubeconfig(tmp_path / "k")
        path.write_text(path.read_text().replace("http://", "https://"))
        with connect(path) as api:
            answer = instance(ReadFailure, read_web(api))
    assert_parts(answer, "TLS", api.server)


@pytest.fixture
def service_account(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Lay out token and certificate as the kubelet mounts them, and set its variables."""
    address = urlsplit(control_plane.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    (tmp_path / "ca.crt").write_text(control_plane.ca_file.read_text())
    (tmp_path / "token").write_text(control_plane.admin_token)
    return tmp_path


def test_the_service_account_is_used_and_its_token_rotates(
    control_plane: ControlPlane, service_account: Path
) -> None:
    token = service_account / "token"
    token.write_text("expired")
    with connect(service_account=service_account) as api:
        refused = list_pods(api, "default", "app=none", clock.monotonic() + 5)
        refusal = instance(ReadFailure, refused)
        assert_parts(refusal, control_plane.url, api.origin, "Unauthorized")
        token.write_text(control_plane.admin_token + "\n")
        assert list_pods(api, "default", "app=none", clock.monotonic() + 5) == ()


@pytest.mark.parametrize("verified", [True, False])
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    control_plane: ControlPlane, tmp_path: Path, *, verified: bool
) -> None:
    """Except with insecure-skip-tls-verify; a warning per request would be an error here."""
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    del cluster["certificate-authority"]
    cluster |= {} if verified else {"insecure-skip-tls-verify": True}
    path.write_text(yaml.safe_dump(config))
    with connect(path) as api:
        answer = list_pods(api, "default", "app=none", clock.monotonic() + 5)
    if not verified:
        assert answer == ()
        return
    failed = instance(ReadFailure, answer)
    assert_parts(failed, "TLS", control_plane.url, "CERTIFICATE_VERIFY_FAILED")


def test_a_service_account_without_certificate_is_refused(service_account: Path) -> None:
    (service_account / "ca.crt").unlink()
    with pytest.raises(ConnectError, match=r"in-cluster.*ertificat"):
        connect(service_account=service_account)
