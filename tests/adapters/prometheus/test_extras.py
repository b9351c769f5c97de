"""The libraries of the vendors are optional, and imported only where they are used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.documents import prometheus, refused

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
