"""No secret of a configuration reaches an error, a repr or a log."""

import traceback
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load
from autoscaler.config.problems import MOST_LOOKED_AT
from tests.config.documents import loaded, prometheus, refused

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be seen

LEAKS = [
    f"prometheus: {{url: 'http://me:{SECRET}@prometheus:9090'}}\ntargets: []\n",
    f"prometheus: {{url: 'http://{SECRET}@prometheus:9090'}}\ntargets: []\n",
    f"prometheus: {{url: 'http://prometheus/?token={SECRET}'}}\ntargets: []\n",
    f"prometheus: {{url: '{SECRET}'}}\ntargets: []\n",
    f"prometheus: {SECRET}\ntargets: []\n",
    f"prometheus: [{SECRET}]\ntargets: []\n",
    f"- {SECRET}\n",
    f"{SECRET}\n",
    f"bearerToken: {SECRET}\ntargets: []\n",
    prometheus(f"bearerToken: {SECRET}\n"),
    prometheus(f"bearerTokenFile: {SECRET}\n"),
    prometheus(f"bearerTokenFile: [{SECRET}]\n"),
    prometheus(f"basicAuth: {{username: a, password: {SECRET}}}\n"),
    prometheus(f"basicAuth: {{username: 'a:{SECRET}', passwordFile: x}}\n"),
    prometheus(f"basicAuth: 'a:{SECRET}'\n"),
    prometheus(f"headers: {{Authorization: Bearer {SECRET}}}\n"),
    prometheus(f"headers: {{Proxy-Authorization: {SECRET}}}\n"),
    prometheus(f'headers: {{X-Key: "a\\n{SECRET}"}}\n'),
    prometheus(f"headers: {{X-Key: [{SECRET}]}}\n"),
    prometheus(f"headers: {{X-Key: *{SECRET}}}\n"),
    prometheus(f"headers: {{X-Key: !{SECRET} a}}\n"),
    prometheus(f"headers: ['X-Key: {SECRET}']\n"),
    prometheus(f"headersFiles: {{X-Key: {SECRET}}}\n"),
    prometheus(f"headersFiles: {{X-Key: [{SECRET}]}}\n"),
    prometheus(f"headersFiles: {SECRET}\n"),
    prometheus(f"queryParameters: {{token: {{a: {SECRET}}}}}\n"),
    prometheus(f"headers: {{X-Key: {SECRET}, X-Key: {SECRET}}}\n"),
    prometheus(f"tls: {{keyFile: {SECRET}}}\n"),
    prometheus(f"servers: {{m: {{url: 'http://a:{SECRET}@p', headers: {{X-A: [{SECRET}]}}}}}}\n"),
    prometheus(f"oauth2: {{clientSecret: {SECRET}}}\n"),
    prometheus(f"oauth2: {{clientSecretFile: {SECRET}}}\n"),
    prometheus(f"oauth2: {{tokenUrl: 'https://u:{SECRET}@h'}}\n"),
    prometheus(f"oauth2: {{endpointParams: {{a: [{SECRET}]}}}}\n"),
    prometheus(f"sigv4: {{secretKey: {SECRET}}}\n"),
    prometheus(f"sigv4: {{accessKey: A, secretKeyFile: {SECRET}}}\n"),
    prometheus(f"googleIam: {{credentialsFile: {SECRET}}}\n"),
    prometheus(f"azuread: {{oauth: {{clientSecret: {SECRET}}}}}\n"),
    prometheus(f"azuread: {{oauth: {{clientSecretFile: {SECRET}}}}}\n"),
]


@pytest.mark.parametrize("text", LEAKS)
def test_errors_show_no_secret(tmp_path: Path, text: str) -> None:
    problems = refused(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "autoscaler.yaml")
    texts = "".join(traceback.format_exception(caught.value)) + repr(problems) + repr(caught.value)
    assert SECRET not in texts


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET}: x\n",
        f"{SECRET}: x\n{SECRET}: y\n",
        f"user:{SECRET}: x\nother: [\n",
        f"{SECRET}: x\n{SECRET}: y\nother: [\n",
        f"[{{{SECRET}: x, {SECRET}: y}}]\n",
        f"{SECRET}: *{SECRET}\n",
        f"{SECRET}: {{a: 1, a: 2}}\n",
        f"password: {{{SECRET}: {SECRET}}}\n",
    ],
)
def test_keys_of_a_foreign_file_are_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "main.yaml").write_text("prometheus: {url: http://p}\ninclude: [a.yaml]\n")
    (tmp_path / "a.yaml").write_text(text)
    for name in ("a.yaml", "main.yaml"):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path}/a.yaml")
        assert SECRET not in str(caught.value)


def test_a_numeric_key_is_shown_of_a_configuration_only(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "48151623: x\nother: y\n")
    assert problem.message.startswith("not a configuration")
    assert "48151623" not in str(problem)
    assert "48151623" in str(refused(tmp_path, "48151623: x\ntargets: []\n")[0])


def test_a_secret_that_is_a_number_is_not_shown(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, prometheus("headers: {X-Pin: 48151623}\n"))
    assert "48151623" not in str(problem)
    assert "put it in quotes" in problem.message


def test_the_content_of_a_secret_file_is_not_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    config = loaded(tmp_path, prometheus("bearerTokenFile: token\n"))
    assert config.prometheus.bearer_token_file == tmp_path / "token"
    assert SECRET not in repr(config)


def test_only_a_usual_kind_of_a_manifest_is_shown(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: %s\nmetadata: {name: hunter2}\nstringData: {hunter2: hunter2}\n"
    (problem,) = refused(tmp_path, text % "Secret")
    assert (
        problem.message
        == "this is a Kubernetes manifest (Secret), not a configuration of autoscaler"
    )
    (problem,) = refused(tmp_path, text % "hunter2")
    assert "hunter2" not in str(problem)


def test_very_many_keys_of_a_foreign_file_are_not_shown(tmp_path: Path) -> None:
    text = "".join(f"{48151623 + number}: x\n" for number in range(MOST_LOOKED_AT + 1))
    problems = refused(tmp_path, text)
    assert "481" not in "".join(str(problem).partition(": ")[2] for problem in problems)
    assert problems[0].message.startswith("not a configuration")
