"""What `autoscaler validate` says of the way to the cluster, which is no part of the file."""

import os
from pathlib import Path

import pytest

from tests.cli.test_commands import NOWHERE, autoscaler, queue_config
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.daemon import write_config


def write_kubeconfig(path: Path, server: str, *, verified: bool) -> None:
    """Write one that everybody may read and that names two more files, beside it."""
    cluster = {"server": server, "insecure-skip-tls-verify": not verified}
    user = {"client-key": "key", "client-certificate": "certificate", "tokenFile": "token"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kubeconfig(cluster, user))
    for name in ("key", "certificate", "token"):
        (path.parent / name).write_text("s3cret")
    for name in (path.name, "key", "certificate", "token"):
        (path.parent / name).chmod(0o644)


@pytest.mark.parametrize("way", ["named", "KUBECONFIG", "home"])
def test_validate_warns_of_the_kubeconfig_that_would_be_used(tmp_path: Path, way: str) -> None:
    """Of its files that others can read, of http, and of a server that need not prove itself."""
    path = tmp_path / ".kube" / "config"
    server = "http://10.0.0.1:8001" if way == "named" else "https://127.0.0.1:9"
    write_kubeconfig(path, server, verified=False)
    document = queue_config("http://p:9090", "shop", "a")
    environment = NOWHERE
    if way == "named":
        document["kubernetes"] = {"kubeconfig": str(path)}
    elif way == "KUBECONFIG":
        environment = NOWHERE | {"KUBECONFIG": f"/nonexistent:{path}"}
    else:
        environment = NOWHERE | {"KUBECONFIG": "", "HOME": str(tmp_path)}
    file = write_config(tmp_path / "a.yaml", document)
    ran = autoscaler("validate", str(file), environment=environment)
    assert ran.returncode == 0
    warnings = [line.removeprefix(f"{file}: warning: ") for line in ran.stderr.splitlines()]
    origin = f'context "main" of {environment["KUBECONFIG"] if way == "KUBECONFIG" else path}'
    beginnings = [
        f"kubeconfig: {path} can be read by every user of this machine",
        f"client-key of {origin}: {path.parent}/key can be read by every user",
        f"tokenFile of {origin}: {path.parent}/token can be read by every user",
        f"{origin}: "
        + (f"the server is {server}, so" if way == "named" else "insecure-skip-tls-verify is set"),
    ]
    assert len(warnings) == len(beginnings), warnings
    for warning, beginning in zip(warnings, beginnings, strict=True):
        assert warning.startswith(beginning)
    assert "s3cret" not in ran.stderr


def test_validate_says_nothing_of_a_kubeconfig_that_is_as_it_should_be(tmp_path: Path) -> None:
    """Neither of one that nobody else reads, nor of one that is not there."""
    file = write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a"))
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:9", verified=True)
    for name in (path.name, "key", "token"):
        (tmp_path / name).chmod(0o600)
    for environment in (NOWHERE, NOWHERE | {"KUBECONFIG": str(path)}):
        assert autoscaler("validate", str(file), environment=environment).stderr == ""


def test_validate_warns_of_what_is_probably_not_meant(tmp_path: Path) -> None:
    """With the place, and the file is valid all the same; also one that is piped in."""
    text = "prometheus: {url: http://p:9090}\ntargets: []\nscaleDownBreaker:\n"
    (tmp_path / "a.yaml").write_text(text)
    for name, shown in ((str(tmp_path / "a.yaml"), tmp_path / "a.yaml"), ("-", "standard input")):
        ran = autoscaler("validate", name, environment=NOWHERE, given=text)
        assert ran.returncode == 0
        assert ran.stderr.startswith(f"{shown}:3: warning: scaleDownBreaker: has no value, so that")


def test_validate_reads_standard_input(tmp_path: Path) -> None:
    """`-` is what is piped in, and includes files of the working directory."""
    (tmp_path / "more.yaml").write_text("targets: []\n")
    text = "prometheus: {url: http://p:9090}\ninclude: [more.yaml]\nsyncPeriod: 15\n"
    for given, code, said in (
        (text.replace("15", "15s"), 0, "standard input: valid, 0 targets in 2 files\n"),
        (text, 2, "standard input:3: syncPeriod: a plain number has no unit; write 15s"),
    ):
        ran = autoscaler("validate", "-", environment=NOWHERE, given=given, folder=tmp_path)
        assert ran.returncode == code
        assert (ran.stderr if code else ran.stdout).startswith(said)


def test_validate_names_what_converts_a_manifest(tmp_path: Path) -> None:
    """It says what the file is, and prints nothing to be redirected."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5}
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    file = write_config(tmp_path / "hpa.yaml", {**kind, "metadata": {"name": "web"}, "spec": spec})
    ran = autoscaler("validate", str(file))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "`autoscaler import FILE` converts it" in ran.stderr


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, command: str) -> None:
    """Nobody writes to it, and nothing waits for that."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    option = [] if command == "validate" else ["-c"]
    ran = autoscaler(command, *option, str(path), environment=NOWHERE)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"{path}: it is a pipe, not a file")
