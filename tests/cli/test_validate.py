"""What `autoscaler validate` says of the way to the cluster, which is no part of the file."""

from pathlib import Path

import pytest

from tests.cli.test_commands import NOWHERE, autoscaler, queue_config
from tests.controlplane.credentials import kubeconfig
from tests.endtoend.daemon import write_config


def write_kubeconfig(path: Path, *, verified: bool) -> None:
    """Write one that everybody may read and that names two more files, beside it."""
    cluster = {"server": "https://127.0.0.1:9", "insecure-skip-tls-verify": not verified}
    user = {"client-key": "key", "client-certificate": "certificate", "tokenFile": "token"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kubeconfig(cluster, user))
    for name in ("key", "certificate", "token"):
        (path.parent / name).write_text("s3cret")
    for name in (path.name, "key", "certificate", "token"):
        (path.parent / name).chmod(0o644)


@pytest.mark.parametrize("way", ["named", "KUBECONFIG", "home"])
def test_validate_warns_of_the_kubeconfig_that_would_be_used(tmp_path: Path, way: str) -> None:
    """Of each of its files that others can read, and of a server that need not prove itself."""
    path = tmp_path / ".kube" / "config"
    write_kubeconfig(path, verified=False)
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
        f"{origin}: insecure-skip-tls-verify is set",
    ]
    assert len(warnings) == len(beginnings), warnings
    for warning, beginning in zip(warnings, beginnings, strict=True):
        assert warning.startswith(beginning)
    assert "s3cret" not in ran.stderr


def test_validate_says_nothing_of_a_kubeconfig_that_is_as_it_should_be(tmp_path: Path) -> None:
    """Neither of one that nobody else reads, nor of one that is not there."""
    file = write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a"))
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, verified=True)
    for name in (path.name, "key", "token"):
        (tmp_path / name).chmod(0o600)
    for environment in (NOWHERE, NOWHERE | {"KUBECONFIG": str(path)}):
        assert autoscaler("validate", str(file), environment=environment).stderr == ""


def test_validate_warns_of_an_api_server_without_tls(tmp_path: Path) -> None:
    """What the kubeconfig's context sends there can be read and answered by anyone on the way."""
    file = write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a"))
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(kubeconfig({"server": "http://10.0.0.1:8001"}, {"token": "s3cret"}))
    ran = autoscaler("validate", str(file), environment=NOWHERE | {"KUBECONFIG": str(path)})
    said = f'{file}: warning: context "main" of {path}: the server is http://10.0.0.1:8001, so that'
    assert ran.returncode == 0
    assert ran.stderr.startswith(said)
    assert ran.stderr.count("\n") == 1
    assert "s3cret" not in ran.stderr
