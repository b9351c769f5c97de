"""The steps of docs/get-started/install.md, run below a temporary folder, and their result."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import yaml

from autoscaler import __version__
from autoscaler.config import Config, load
from tests.service import kustomize
from tests.service.programs import locate
from tests.worlds.controlplane.api import Json
from tests.worlds.notify_socket import NotifySocket
from tests.worlds.packages import ROOT, borrow_libraries, built, installed, offline
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.fixtures import StartPrometheus

DOCUMENT = (ROOT / "docs" / "get-started" / "install.md").read_text()
NAME = "promql-autoscaler"


def documented_commands(heading: str) -> list[str]:
    """Return the commands below a heading of the page."""
    (section,) = re.findall(rf"^## {heading}$(.*?)(?=^## )", DOCUMENT, re.MULTILINE | re.DOTALL)
    return re.findall(r"^ *\$ (.+)$", section, re.MULTILINE)


def steps(folder: Path, kubeconfig: str) -> list[str]:
    """Return the commands that install the service, below a folder instead of the root."""
    commands = [line.removeprefix("sudo ") for line in documented_commands("As a systemd service")]
    (at,) = [number for number, line in enumerate(commands) if line.startswith("sudoedit ")]
    placed = [re.sub(r" /(opt|etc)/", rf" {folder}/\1/", command) for command in commands[:at]]
    return [
        command.replace("python3", sys.executable).replace("~/.kube/config", kubeconfig)
        for command in placed
    ]


def test_every_documented_installation_is_locked_or_takes_the_released_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = "|".join(settings["optional-dependencies"])
    released = re.compile(rf"{NAME}(\[({extras})\])?")
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    commands = [
        command
        for text in texts
        for command in re.findall(r"\bpip3? (?:install|wheel)\b[^`\n]*", text)
    ]
    assert len(commands) >= 6
    for command in commands:
        locks = re.findall(r"-r (\S+)", command)
        assert all((ROOT / lock).is_file() for lock in locks)
        assert ("--require-hashes" in command) == bool(locks)
        assert locks or released.fullmatch(command.split()[-1].strip("'"))


def test_the_build_tools_are_those_of_the_tests() -> None:
    build, tested = (
        dict(re.findall(r"(?m)^(\S+)==(\S+)", (ROOT / f"requirements-{name}.lock").read_text()))
        for name in ("build", "dev")
    )
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert backend in build
    assert build.items() <= tested.items()


def test_a_documented_installation_runs(
    exporter: Exporter,
    start_prometheus: StartPrometheus,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    built("wheel", tmp_path / "dist")
    variables = {**os.environ, **offline(tmp_path / "dist")}
    for command in steps(tmp_path, environment["KUBECONFIG"]):
        subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=variables, check=True)
    venv = tmp_path / "opt" / "autoscaler"
    borrow_libraries(venv)
    file = tmp_path / "etc/autoscaler/autoscaler.yaml"
    prometheus = start_prometheus([exporter.target])
    text = file.read_text().replace("http://127.0.0.1:9090", prometheus.url)
    file.write_text(f"{text}\nlisten: null\nstateDirectory: {tmp_path}/state\n")
    kubeconfig = tmp_path / "etc/autoscaler/secrets/kubeconfig"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    unit = (venv / "share" / "autoscaler" / "autoscaler.service").read_text()
    assert unit == (ROOT / "systemd" / "autoscaler.service").read_text()
    with NotifySocket(str(tmp_path / "notify")) as manager:
        variables = {**os.environ, **manager.environment, "KUBECONFIG": str(kubeconfig)}
        with subprocess.Popen(
            [venv / "bin" / "autoscaler", "run", "-c", file], cwd=tmp_path, env=variables
        ) as daemon:
            try:
                manager.wait_for("READY")
                daemon.terminate()
                assert daemon.wait(30) == 0
            finally:
                daemon.kill()


def metadata(folder: Path) -> Message:
    """Return the metadata of a wheel that is built into the folder."""
    with zipfile.ZipFile(built("wheel", folder)) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(wheel.read(name))


def test_the_sdist_has_what_an_operator_reads_and_installs(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    locks = {path.name for path in ROOT.glob("*.lock")}
    assert names >= {"README.md", "CHANGELOG.md", "LICENSE", "config/queue.yaml", *locks}
    assert {"docs/index.md", "systemd/autoscaler.service", "autoscaler/app.py"} <= names
    assert "charts/autoscaler/Chart.yaml" in names
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_a_built_package_has_the_commands_and_its_data(kind: str, tmp_path: Path) -> None:
    """The name on PyPI is promql-autoscaler, since `autoscaler` is another project's.

    Its command exists under that name as well: `uvx promql-autoscaler` runs it.
    """
    venv = tmp_path / "venv"
    programs = installed(built(kind, tmp_path / "dist"), venv)
    assert list(venv.glob(f"lib/python*/site-packages/promql_autoscaler-{__version__}.dist-info"))
    (pages,) = venv.glob("lib/python*/site-packages/autoscaler/web/pages")
    assert (pages / "templates" / "fleet.html").is_file()
    assert (pages / "static" / "charts.js").is_file()
    for name, *arguments in (
        (NAME, "--version"),
        ("autoscaler", "demo", "--help"),
        ("autoscaler", "validate", ROOT / "config" / "queue.yaml"),
    ):
        command = [programs / name, *arguments]
        ran = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


def test_a_package_built_by_a_repository_has_its_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "platform/scaling")
    repository = "https://git.example/platform/scaling"
    documents = f"{repository}/blob/v{__version__}"
    released = metadata(tmp_path / "there")
    assert released.get_all("Project-URL") == [
        f"Homepage, {repository}",
        f"Documentation, {documents}/docs/index.md",
        f"Changelog, {documents}/CHANGELOG.md",
        f"Issues, {repository}/issues",
        f"Source, {repository}",
    ]
    assert released["Metadata-Version"] == "2.4", "the action that uploads knows no newer one"
    readme = str(released.get_payload())
    assert f"]({documents}/docs/" in readme
    assert f'src="{repository}/raw/v{__version__}/docs/images/' in readme
    assert not re.search(r'\]\((?!http|#)|(src|srcset)="(?!http)', readme)
    monkeypatch.delenv("GITHUB_REPOSITORY")
    elsewhere = metadata(tmp_path / "elsewhere")
    assert "Project-URL" not in elsewhere
    assert "](docs/" in str(elsewhere.get_payload())


def test_the_demo_installs_the_command_that_it_prints(tmp_path: Path) -> None:
    ran = subprocess.run(
        ["make", "--dry-run", "demo", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    libraries, itself, *_, demo = [line for line in ran.stdout.splitlines() if "/venv/bin/" in line]
    assert libraries.endswith("-r requirements.lock -r requirements-build.lock")
    assert itself.endswith(
        "install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e ."
    )
    assert demo == f"{tmp_path}/venv/bin/autoscaler demo "


def documented_file(name: str) -> str:
    """Return the text of a file that the page shows."""
    (text,) = re.findall(rf"(?ms)^```yaml\n# {re.escape(name)}\n(.*?)^```", DOCUMENT)
    return str(text)


def configuration(objects: list[Json], folder: Path) -> Config:
    """Return the configuration in the ConfigMap, as the daemon reads it."""
    (found,) = [each for each in objects if each["kind"] == "ConfigMap"]
    file = folder / "autoscaler.yaml"
    file.write_text(found["data"][file.name])
    return load(file, lambda: "autoscaler")


@pytest.mark.usefixtures("built_programs")
def test_the_documented_values_make_a_configuration_that_a_pod_can_use(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(documented_file(values.name))
    checked = tmp_path / "config.yaml"  # as `yq .config values.yaml` prints it
    checked.write_text(yaml.safe_dump(yaml.safe_load(values.read_text())["config"]))
    assert len(load(checked, lambda: "autoscaler").targets) == 1
    helm = [str(locate("helm")), "template", "autoscaler", str(ROOT / "charts" / "autoscaler")]
    options = ["--namespace=autoscaler", f"--values={values}"]
    ran = subprocess.run([*helm, *options], check=True, capture_output=True, text=True)
    config = configuration(list(yaml.safe_load_all(ran.stdout)), tmp_path)
    assert [str(target.key) for target in config.targets] == ["shop/Deployment/order-worker"]
    assert config.leader_election.enabled
    assert config.listen is not None
    assert config.listen.port == 9191


@pytest.mark.usefixtures("built_programs")
def test_the_documented_kustomization_has_your_configuration_and_image(tmp_path: Path) -> None:
    (tmp_path / "autoscaler").symlink_to(ROOT)
    (tmp_path / "kustomization.yaml").write_text(documented_file("kustomization.yaml"))
    example = (ROOT / "config" / "kubernetes" / "base" / "autoscaler.yaml").read_text()
    (tmp_path / "autoscaler.yaml").write_text(example.replace("order-worker", "mine"))
    objects = kustomize.render(tmp_path)
    config = configuration(objects, tmp_path)
    assert [str(target.key) for target in config.targets] == ["shop/Deployment/mine"]
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example/autoscaler:{__version__}"
    assert [each for each in objects if each["kind"] == "PodMonitor"]
