"""The way to the API server: which configuration is taken, and what is said of a broken one."""

import re
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError, Scales, connect
from autoscaler.core.observation import Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from tests.adapters.cluster.scripted import Answer, ScriptedServer, failure, scale

WEB = ScaleTargetRef("apps/v1", "Deployment", "web")
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
    """Stand outside any cluster, in a home without a kubeconfig."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def _origin(kubeconfig: Path | None = None, context: str | None = None) -> str:
    with connect(kubeconfig, context) as api:
        return api.origin


def test_the_current_context_is_taken(tmp_path: Path) -> None:
    """Of a kubeconfig that is named, the current context is in force; another can be named."""
    path = tmp_path / "k"
    path.write_text(WHOLE)
    assert _origin(path) == f'context "a" of {path}'
    assert _origin(path, "b") == f'context "b" of {path}'


def test_the_environment_names_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG may list files, which are merged; ~/.kube/config is taken without it."""
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
    """Neither pod nor kubeconfig: the sentence says what to set."""
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


@pytest.mark.parametrize(
    ("content", "context", "sentence"),
    [
        ("", None, "the kubeconfig {} is empty or not a mapping of kind Config"),
        ("- a\n", None, "the kubeconfig {} is empty or not a mapping of kind Config"),
        (
            "a: [b\n",
            None,
            "the kubeconfig {} is not YAML: expected ',' or ']', but got '<stream end>' in line 2",
        ),
        ("- " * 100_000, None, "the kubeconfig {} is nested too deeply"),
        ("token: *s3cret\n", None, "the kubeconfig {} is not YAML in line 1"),
        ("token: !s3cret x\n", None, "the kubeconfig {} is not YAML in line 1"),
        (
            "#" * (16 * 2**20 + 1),
            None,
            "the kubeconfig {} cannot be read: it is larger than 16 MiB",
        ),
        ("contexts: {}\n", None, "the kubeconfig {} is not valid: contexts must be a list"),
        ("contexts: [{}]\n", None, "the kubeconfig {} has an entry without name in contexts"),
        (
            CLUSTERS + CONTEXTS + USERS,
            None,
            "{} sets no current-context; name one by kubernetes.context (a, b)",
        ),
        (WHOLE, "c", '{} has no context "c"; it has: a, b'),
        ("current-context: a\n", None, '{} has no context "a"; it has: none'),
        (
            CONTEXTS + USERS + "current-context: a\n",
            None,
            'context "a" of {} cannot be used: it names "c", which is not in clusters',
        ),
        (
            CLUSTERS + CONTEXTS + "current-context: a\n",
            None,
            'context "a" of {} cannot be used: it names "u", which is not in users',
        ),
        (
            WHOLE.replace("server:", "sever:"),
            None,
            'context "a" of {} cannot be used: cluster "c" has no server',
        ),
        (
            re.sub("server: [^},]+", "server: 'https://[::1:6443'", WHOLE),
            None,
            (
                'context "a" of {} cannot be used: the server of cluster "c" is no URL; '
                "right is https://, a host and maybe a port"
            ),
        ),
        (
            re.sub("server: [^},]+", "server: 10.0.0.1:8080", WHOLE),
            None,
            (
                'context "a" of {} cannot be used: the server of cluster "c" is no URL; '
                "right is https://, a host and maybe a port"
            ),
        ),
        (
            WHOLE.replace("{token:", "{client-certificate: /nowhere/crt, token:"),
            None,
            'context "a" of {} cannot be used: File does not exist: /nowhere/crt',
        ),
        (
            WHOLE.replace("{token:", "{client-certificate-data: A, token:"),
            None,
            'context "a" of {} cannot be used: a field of its cluster or user has the wrong form',
        ),
        (
            WHOLE.replace(f"token: {SECRET}", "tokenFile: /nowhere/token"),
            None,
            'context "a" of {} cannot be used: /nowhere/token: No such file or directory',
        ),
        (
            WHOLE.replace(f"token: {SECRET}", "exec: {command: 'false', apiVersion: v1}"),
            None,
            (
                'context "a" of {} cannot be used: its exec plugin gave no credentials: '
                "it failed, or took more than 30 s"
            ),
        ),
        (
            WHOLE.replace(
                "{token:", f"{{auth-provider: {{name: oidc, config: {{x: {SECRET}}}}}, token:"
            ),
            None,
            'context "a" of {} cannot be used: it is not valid',
        ),
    ],
)
def test_a_broken_kubeconfig_is_a_sentence(
    tmp_path: Path, content: str, context: str | None, sentence: str
) -> None:
    """Each mistake is named with the file, and nothing secret is quoted."""
    path = tmp_path / "k"
    path.write_text(content)
    with pytest.raises(ConnectError) as broken:
        connect(path, context)
    assert str(broken.value) == sentence.format(path)
    assert SECRET not in str(broken.value)


def test_a_kubeconfig_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A file that was named must exist, and be readable."""
    with pytest.raises(ConnectError, match=f"^there is no kubeconfig at {tmp_path}/k$"):
        connect(tmp_path / "k")
    with pytest.raises(ConnectError, match=r"cannot be read: Is a directory$"):
        connect(tmp_path)


def test_nothing_of_a_connection_shows_its_credentials(tmp_path: Path) -> None:
    """No repr holds the token."""
    path = tmp_path / "k"
    path.write_text(WHOLE)
    with connect(path) as api:
        assert SECRET not in repr(vars(api)) + repr(api)


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A rotated token file is in use at the latest after a 401; it wins over `token`."""
    token = tmp_path / "token"
    unauthorized = failure(401, "Unauthorized", "Unauthorized")
    token.write_text("first\n")
    with ScriptedServer(scale(1), unauthorized, scale(2), unauthorized, scale(3)) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k", tokenFile="token", **OLD_TOKEN)
        with connect(kubeconfig) as api:
            scales = Scales(api)
            for content in ("first", "second", "third"):
                token.write_text(f"{content}\n")
                assert isinstance(scales.read("shop", WEB, clock.monotonic() + 5), Scale)
    sent = [asked.authorization.removeprefix("Bearer ") for asked in server.asked]
    assert sent == ["first", "first", "second", "second", "third"]


def test_a_kubeconfig_is_read_again_after_a_401(tmp_path: Path) -> None:
    """A token that was replaced in the kubeconfig itself is taken up."""
    unauthorized = failure(401, "Unauthorized", "Unauthorized")
    with ScriptedServer(unauthorized, scale(2)) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k", **OLD_TOKEN)
        with connect(kubeconfig) as api:
            server.write_kubeconfig(kubeconfig, **NEW_TOKEN)
            answer = Scales(api).read("shop", WEB, clock.monotonic() + 5)
    assert isinstance(answer, Scale)
    assert [asked.authorization for asked in server.asked] == ["Bearer one", "Bearer two"]


def test_an_empty_token_file_keeps_the_last_token(tmp_path: Path) -> None:
    """Half-way through a rotation the last token stands; a 401 is not asked for twice."""
    token = tmp_path / "token"
    token.write_text("one")
    with (
        ScriptedServer(scale(1), failure(401, "Unauthorized", "Unauthorized")) as server,
        connect(server.write_kubeconfig(tmp_path / "k", tokenFile=str(token))) as api,
    ):
        scales = Scales(api)
        assert isinstance(scales.read("shop", WEB, clock.monotonic() + 5), Scale)
        token.write_text("")
        assert isinstance(scales.read("shop", WEB, clock.monotonic() + 5), Unavailable)
    assert [asked.authorization for asked in server.asked] == ["Bearer one"] * 2


def test_no_certificate_is_trusted_unasked(tmp_path: Path) -> None:
    """Plain HTTP where TLS is expected is a sentence about TLS, and is not tried again."""
    with ScriptedServer(Answer()) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "k")
        kubeconfig.write_text(kubeconfig.read_text().replace("http://", "https://"))
        with connect(kubeconfig) as api:
            answer = Scales(api).read("shop", WEB, clock.monotonic() + 5)
    assert isinstance(answer, Unavailable)
    assert re.match(r"TLS with the API server https://127\.0\.0\.1:\d+ failed: ", answer.message)
