"""`autoscaler validate`: warnings about a kubeconfig, standard input, and files of other kinds."""

import os
from pathlib import Path

import pytest

from tests.cli.refusals import assert_refused
from tests.cli.test_commands import NOWHERE, autoscaler, queue_config, ran
from tests.narrowing import assert_parts
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.daemon import write_config


def write_kubeconfig(path: Path, server: str, *, verified: bool) -> None:
    """Write a kubeconfig that everybody may read, and the files that it names."""
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
    code, _, err = ran("validate", str(file), environment=environment)
    assert code == 0
    warnings = [line.removeprefix(f"{file}: warning: ") for line in err.splitlines()]
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
    assert "s3cret" not in err


def test_validate_has_no_warning_about_a_private_or_absent_kubeconfig(tmp_path: Path) -> None:
    file = write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a"))
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:9", verified=True)
    for name in (path.name, "key", "token"):
        (tmp_path / name).chmod(0o600)
    for environment in (NOWHERE, NOWHERE | {"KUBECONFIG": str(path)}):
        assert ran("validate", str(file), environment=environment)[2] == ""


@pytest.mark.parametrize(
    ("line", "code", "place", "part"),
    [
        ("syncPeriod: 15s", 0, ":", "2 files"),
        ("syncPeriod: 15", 2, ":3: syncPeriod: ", " 15s"),
        ("scaleDownBreaker:", 0, ":3: warning: scaleDownBreaker: ", "2 files"),
        # The namespace of the Lease is the pod's, which `run` knows there.
        ("leaderElection: {enabled: true}", 0, ": warning: leaderElection.namespace ", "2 files"),
    ],
    ids=["valid", "mistake", "warning", "file-for-a-pod"],
)
def test_validate_reads_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, place: str, part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.yaml").write_text("targets: []\n")
    text = f"prometheus: {{url: http://p:9090}}\ninclude: [more.yaml]\n{line}\n"
    (tmp_path / "a.yaml").write_text(text)
    for name, shown in (("-", "standard input"), ("a.yaml", "a.yaml")):
        ended, *printed = ran("validate", name, environment=NOWHERE, given=text)
        assert ended == code
        assert_parts("".join(printed), f"{shown}{place}", part)


def test_validate_of_a_manifest_names_the_command_that_converts_it(tmp_path: Path) -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5}
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    file = write_config(tmp_path / "hpa.yaml", {**kind, "metadata": {"name": "web"}, "spec": spec})
    assert_refused(ran("validate", str(file)), 2, "`autoscaler import FILE`")


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, command: str) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    option = [] if command == "validate" else ["-c"]
    begin = autoscaler if command == "run" else ran
    code, _, err = begin(command, *option, str(path), environment=NOWHERE)
    assert code == 2
    assert err.startswith(f"{path}: ")
    assert "pipe" in err.removeprefix(f"{path}: ")
