"""`autoscaler validate`: warnings about a kubeconfig, standard input, and files of other kinds."""

import os
from pathlib import Path

import pytest

from tests.cli.test_commands import NOWHERE, autoscaler, queue_config
from tests.narrowing import assert_parts
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
    parts = [
        ["kubeconfig: ", f"{path} "],
        [f"client-key of {origin}: ", f"{path.parent}/key "],
        [f"tokenFile of {origin}: ", f"{path.parent}/token "],
        [f"{origin}: ", server if way == "named" else "insecure-skip-tls-verify"],
    ]
    for warning, (place, value) in zip(warnings, parts, strict=True):
        assert warning.startswith(place)
        assert value in warning
    assert "s3cret" not in ran.stderr


def test_validate_has_no_warning_about_a_private_or_absent_kubeconfig(tmp_path: Path) -> None:
    file = write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a"))
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:9", verified=True)
    for name in (path.name, "key", "token"):
        (tmp_path / name).chmod(0o600)
    for environment in (NOWHERE, NOWHERE | {"KUBECONFIG": str(path)}):
        assert autoscaler("validate", str(file), environment=environment).stderr == ""


def test_validate_warns_of_a_key_without_a_value(tmp_path: Path) -> None:
    """With the place, and the file is valid all the same; also one that is piped in."""
    text = "prometheus: {url: http://p:9090}\ntargets: []\nscaleDownBreaker:\n"
    (tmp_path / "a.yaml").write_text(text)
    for name, shown in ((str(tmp_path / "a.yaml"), tmp_path / "a.yaml"), ("-", "standard input")):
        ran = autoscaler("validate", name, environment=NOWHERE, given=text)
        assert ran.returncode == 0
        assert ran.stderr.startswith(f"{shown}:3: warning: scaleDownBreaker: ")


def test_validate_reads_standard_input(tmp_path: Path) -> None:
    """`-` is what is piped in, and includes files of the working directory."""
    (tmp_path / "more.yaml").write_text("targets: []\n")
    text = "prometheus: {url: http://p:9090}\ninclude: [more.yaml]\nsyncPeriod: 15\n"
    for given, code, parts in (
        (text.replace("15", "15s"), 0, ["standard input: valid, ", "0 targets", "2 files"]),
        (text, 2, ["standard input:3: syncPeriod: ", " 15s"]),
    ):
        ran = autoscaler("validate", "-", environment=NOWHERE, given=given, folder=tmp_path)
        assert ran.returncode == code
        assert_parts(ran.stderr if code else ran.stdout, *parts)


def test_validate_of_a_manifest_names_the_command_that_converts_it(tmp_path: Path) -> None:
    """It prints nothing to be redirected."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5}
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    file = write_config(tmp_path / "hpa.yaml", {**kind, "metadata": {"name": "web"}, "spec": spec})
    ran = autoscaler("validate", str(file))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "`autoscaler import FILE`" in ran.stderr


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, command: str) -> None:
    """Nobody writes to it, and nothing waits for that."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    option = [] if command == "validate" else ["-c"]
    ran = autoscaler(command, *option, str(path), environment=NOWHERE)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"{path}: ")
    assert "pipe" in ran.stderr.removeprefix(f"{path}: ")
