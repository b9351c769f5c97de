"""No secret of a configuration reaches an error, a repr or a log."""

import logging
import traceback
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load
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
    prometheus(f"bearerTokenFile: abc/{SECRET}\n"),
    prometheus(f"basicAuth: {{username: a, password: {SECRET}}}\n"),
    prometheus(f"basicAuth: {{username: 'a:{SECRET}', passwordFile: x}}\n"),
    prometheus(f"basicAuth: 'a:{SECRET}'\n"),
    prometheus(f"headers: {{Authorization: Bearer {SECRET}}}\n"),
    prometheus(f"headers: {{authorization: Bearer {SECRET}}}\n"),
    prometheus(f"headers: {{Proxy-Authorization: {SECRET}}}\n"),
    prometheus(f'headers: {{X-Key: "a\\n{SECRET}"}}\n'),
    prometheus(f"headers: {{X-Key: [{SECRET}]}}\n"),
    prometheus(f"headers: {{X-Key: *{SECRET}}}\n"),
    prometheus(f"headers: {{X-Key: !{SECRET} a}}\n"),
    prometheus(f"headers: ['X-Key: {SECRET}']\n"),
    prometheus(f"queryParameters: {{token: {{a: {SECRET}}}}}\n"),
    prometheus(f"headers: {{X-Key: {SECRET}, X-Key: {SECRET}}}\n"),
    prometheus(f"tls: {{keyFile: {SECRET}}}\n"),
]


@pytest.mark.parametrize("text", LEAKS)
def test_errors_show_no_secret(tmp_path: Path, text: str) -> None:
    """A refused secret is named by its key and line, never by its value, in traceback or repr."""
    problems = refused(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "autoscaler.yaml")
    told = "".join(traceback.format_exception(caught.value)) + repr(problems) + repr(caught.value)
    assert SECRET not in told


def test_numeric_secret(tmp_path: Path) -> None:
    """A header whose secret is a number, and so of the wrong type, is not shown."""
    (problem,) = refused(tmp_path, prometheus("headers: {X-Pin: 48151623}\n"))
    assert "48151623" not in str(problem)
    assert "put it in quotes" in problem.message


def test_repr_of_the_configuration(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Values of headers and parameters are usable, and are not in what a log would print."""
    config = loaded(
        tmp_path,
        prometheus(f"headers: {{X-Key: {SECRET}}}\nqueryParameters: {{token: {SECRET}}}\n"),
    )
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("%s %r", config, config.prometheus)
    assert SECRET not in caplog.text
    assert config.prometheus.headers["X-Key"].get_secret_value() == SECRET
    assert config.prometheus.query_parameters["token"] == (SECRET,)


def test_files_are_named_not_read(tmp_path: Path) -> None:
    """The content of a secret's file is not part of the configuration."""
    (tmp_path / "token").write_text(SECRET)
    config = loaded(tmp_path, prometheus("bearerTokenFile: token\n"))
    assert config.prometheus.bearer_token_file == tmp_path / "token"
    assert SECRET not in repr(config)
