"""The way to the API server: which configuration is taken, and what is said of a broken one."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.kubernetes import ConnectError, find_api_server, list_pods
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
    with pytest.raises(ConnectError, match=r'has no context "c"; it has: a, b$'):
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


def test_no_configuration_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectError) as none:
        connect()
    assert str(none.value) == (
        "no Kubernetes configuration: this is not a pod of a cluster, and no ~/.kube/config; "
        "set kubernetes.kubeconfig or the environment variable KUBECONFIG"
    )
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    with pytest.raises(
        ConnectError, match=r"this pod has no service account token .* names no file"
    ):
        connect()


def _user(more: str) -> str:
    return WHOLE.replace("{token:", f"{{{more}, token:")


def _server(url: str) -> str:
    return re.sub("server: [^},]+", f"server: {url}", WHOLE)


NO_URL = 'the server of cluster "c" is not a URL; right is https://, a host and maybe a port'
NOT_YAML = "the kubeconfig {} is not YAML"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "the kubeconfig {} is empty or not a mapping of kind Config"),
        ("- a\n", "the kubeconfig {} is empty or not a mapping of kind Config"),
        ("a: [b\n", f"{NOT_YAML}: expected ',' or ']', but got '<stream end>' in line 2"),
        ("- " * 100_000, "the kubeconfig {} is nested too deeply"),
        ("token: *s3cret\n", f"{NOT_YAML} in line 1"),
        ("token: !s3cret x\n", f"{NOT_YAML} in line 1"),
        ("#" * (16 * 2**20 + 1), "the kubeconfig {} cannot be read: it is larger than 16 MiB"),
        ("contexts: {}\n", "the kubeconfig {} is not valid: contexts must be a list"),
        ("contexts: [{}]\n", "the kubeconfig {} has an entry without name in contexts"),
        (
            CLUSTERS + CONTEXTS + USERS,
            "{} sets no current-context; name one by kubernetes.context (a, b)",
        ),
        ("current-context: a\n", '{} has no context "a"; it has: none'),
    ],
)
def test_a_broken_kubeconfig_is_a_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    assert _refusal(tmp_path, content) == sentence


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (CONTEXTS + USERS + "current-context: a\n", 'it names "c", which is not in clusters'),
        (CLUSTERS + CONTEXTS + "current-context: a\n", 'it names "u", which is not in users'),
        (WHOLE.replace("server:", "sever:"), 'cluster "c" has no server'),
        (_server("'https://[::1:6443'"), NO_URL),
        (_server("10.0.0.1:8080"), NO_URL),
        (_user("client-certificate: /nowhere/crt"), "File does not exist: /nowhere/crt"),
        (_user("client-certificate-data: A"), "a field of its cluster or user has the wrong form"),
        (
            WHOLE.replace(f"token: {SECRET}", "tokenFile: /nowhere/token"),
            "/nowhere/token: No such file or directory",
        ),
        (
            WHOLE.replace(f"token: {SECRET}", "exec: {command: 'false', apiVersion: v1}"),
            "its exec plugin false ended with exit code 1",
        ),
        (_user(f"auth-provider: {{name: oidc, config: {{x: {SECRET}}}}}"), "it is not valid"),
    ],
)
def test_a_context_that_cannot_be_used_is_a_sentence(
    tmp_path: Path, content: str, fault: str
) -> None:
    assert _refusal(tmp_path, content) == f'context "a" of {{}} cannot be used: {fault}'


def _refusal(folder: Path, content: str) -> str:
    """Return what is said of a kubeconfig, with {} for its path; the secret is not in it."""
    path = folder / "k"
    path.write_text(content)
    said = refusal_of(path)
    assert SECRET not in said
    return said.replace(str(path), "{}")


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
    refused = rf'context "a" of {path} has {needs}: .* only with allowExec: true in its entry'
    with pytest.raises(ConnectError, match=refused):
        endpoint.load()
    with pytest.raises(ConnectError, match=refused):
        find_api_server(path, None, allow_exec=False)
    for trusted in (True, None):
        assert find_api_server(path, None, allow_exec=trusted).url == "https://127.0.0.1:1"


@pytest.mark.parametrize("token", ["token", "./below/token", "..data/token"])
def test_a_foreign_kubeconfig_may_name_files_of_its_folder(tmp_path: Path, token: str) -> None:
    """Also as a Secret is mounted, where each file is a link into a folder of a link."""
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
    """To open it would wait for whoever writes into it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "k").write_text(_with_file(key, "pipe"))
    refused = f"{key} {tmp_path / 'pipe'}: it is a pipe, not a file$"
    with pytest.raises(ConnectError, match=refused):
        find_api_server(tmp_path / "k", None, allow_exec=allow_exec).connect()


def test_a_kubeconfig_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=f"^there is no kubeconfig at {tmp_path}/k$"):
        connect(tmp_path / "k")
    with pytest.raises(ConnectError, match=r"cannot be read: Is a directory$"):
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


def test_no_certificate_is_trusted_unasked(tmp_path: Path) -> None:
    with ScriptedServer(Answer()) as server:
        path = server.write_kubeconfig(tmp_path / "k")
        path.write_text(path.read_text().replace("http://", "https://"))
        with connect(path) as api:
            answer = read_web(api)
    assert isinstance(answer, ReadFailure)
    assert re.match(r"TLS with the API server https://127\.0\.0\.1:\d+ failed: ", answer.message)


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
        assert refused == ReadFailure(
            f"the API server {control_plane.url} does not accept the credentials of "
            "the service account of this pod: Unauthorized"
        )
        token.write_text(control_plane.admin_token + "\n")
        assert list_pods(api, "default", "app=none", clock.monotonic() + 5) == ()


@pytest.mark.parametrize("verified", [True, False])
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    control_plane: ControlPlane, tmp_path: Path, *, verified: bool
) -> None:
    """Unless insecure-skip-tls-verify says so; a warning per request would be an error here."""
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
    assert isinstance(answer, ReadFailure)
    assert answer.message.startswith(f"TLS with the API server {control_plane.url} failed: ")
    assert "CERTIFICATE_VERIFY_FAILED" in answer.message


def test_a_service_account_without_certificate_is_told(service_account: Path) -> None:
    (service_account / "ca.crt").unlink()
    with pytest.raises(ConnectError, match=r"^the in-cluster configuration cannot be used: "):
        connect(service_account=service_account)
