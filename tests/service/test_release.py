"""`make release` refuses what must not be released, and builds the same files twice."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler import __version__
from tests.service import programs

ROOT = Path(__file__).parents[2]
RELEASE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "release.py"))
VERSION = "7.8.9"
SECTION = f"## [{VERSION}] - 2026-12-01"
CHANGELOG = (
    f"# Changelog\n\n## [Unreleased]\n\n{SECTION}\n\n- A change.\n\n## [7.8.8] - 2026-11-01\n"
)
PACKAGE = "autoscaler/__init__.py"
CHART = "charts/autoscaler/Chart.yaml"
DEPLOYMENT = "config/kubernetes/base/deployment.yaml"
CHANGES = "CHANGELOG.md"
INSTALL = "docs/get-started/install.md"
PROJECT = "pyproject.toml"
LOCKS = [f"requirements{name}.lock" for name in ("", "-build", "-cloud", "-dev", "-tune")]
MAIN, BUILD, CLOUD, DEV, TUNE = LOCKS
CHECKED = [PACKAGE, CHART, DEPLOYMENT, INSTALL, PROJECT, *LOCKS]


def git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command, whose commits have an author."""
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    command = ["git", "-C", str(folder), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, files: list[str]) -> Path:
    """Copy files of the project into a new repository, where they have the made-up version."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
        if name.startswith((PACKAGE, CHART, "config/kubernetes/", "docs/")) and ".png" not in name:
            text = (folder / name).read_text()
            (folder / name).write_text(text.replace(__version__, VERSION))
    (folder / CHANGES).write_text(CHANGELOG)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Made up")
    return folder


def release(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder."""
    command = [sys.executable, "scripts/release.py", VERSION, *options]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def problems(folder: Path, version: str = VERSION, helm: str = sys.executable) -> list[Any]:
    """Return the file of each problem, and what was found there."""
    return [(each.file, each.found) for each in RELEASE["problems"](version, folder, helm)]


@pytest.mark.parametrize(
    ("file", "old", "new", "files", "found"),
    [
        (PACKAGE, VERSION, "7.8.8", [PACKAGE], "__version__ is 7.8.8"),
        (CHART, r"(?m)^version: .*$", "version: 7.8.8", [CHART], "version is 7.8.8"),
        (CHART, r"(?m)^appVersion: .*$", "appVersion: 7.8.8", [CHART], "appVersion is 7.8.8"),
        (DEPLOYMENT, VERSION, "latest", [DEPLOYMENT], "the image tag is latest"),
        (INSTALL, VERSION, "7.8.8", [INSTALL], "examples have version 7.8.8"),
        (CHANGES, r"7\.8\.9", "7.8.7", [CHANGES], "it has no section ## [7.8.9]"),
        (CHANGES, " - 2026-12-01", "", [CHANGES], "## [7.8.9] has no date"),
        (CHANGES, "-12-01", "-13-01", [CHANGES], "## [7.8.9] - 2026-13-01 has no date"),
        (CHANGES, "- A change.\n", "", [CHANGES], "## [7.8.9] is empty"),
        (CHANGES, r"Unreleased\]", "Unreleased]\n\n- B", [CHANGES], "## [Unreleased] has 1 lines"),
        (PROJECT, '"rich>=', '"rich>=99', [MAIN, CLOUD, TUNE, DEV], "does not satisfy rich>=99"),
        (PROJECT, '"google-auth>=', '"grpcio>=', [CLOUD, DEV], "grpcio is not locked"),
        (PROJECT, '"optuna>=', '"grpcio>=', [TUNE, DEV], "grpcio is not locked"),
        (PROJECT, '"mypy"', '"mypy<1"', [DEV], "does not satisfy mypy<1"),
        (BUILD, "hatchling==", "hatchling==9", [BUILD], "is not in requirements-dev.lock"),
    ],
)
def test_a_fault_is_refused(
    file: str, old: str, new: str, files: list[str], found: str, tmp_path: Path
) -> None:
    folder = repository(tmp_path, CHECKED)
    text = (folder / file).read_text()
    assert re.search(old, text)
    (folder / file).write_text(re.sub(old, new, text))
    git(folder, "commit", "--quiet", "--all", "--message", "A fault")
    refused = problems(folder)
    assert [name for name, _ in refused] == files
    assert all(found in reason for _, reason in refused)


def test_changed_and_new_files_and_a_missing_helm_are_refused(tmp_path: Path) -> None:
    folder = repository(tmp_path, CHECKED)
    assert problems(folder) == []
    (folder / PACKAGE).write_text((folder / PACKAGE).read_text() + "\n")
    (folder / "new.txt").touch()
    refused = [name for name, _ in problems(folder, helm="no-such-program")]
    assert refused == [PACKAGE, "new.txt", "HELM"]


@pytest.mark.parametrize(
    ("version", "right"),
    [("7.8.9", True), ("7.8.9-rc.1", True), ("7.8", False), ("v7.8.9", False), ("7.8.09", False)],
)
def test_a_version_is_semantic(version: str, right: bool) -> None:
    refused = [each.file for each in RELEASE["version_problems"](version, ROOT)]
    assert ("VERSION" not in refused) == right


def test_the_state_between_releases_is_refused_with_every_reason(tmp_path: Path) -> None:
    folder = repository(tmp_path, CHECKED)
    (folder / CHANGES).write_text(CHANGELOG.replace(f"\n{SECTION}\n", ""))
    ran = release(ROOT, "--root", str(folder), "--helm", "no-such-program")
    assert ran.returncode == 1
    files = [line.partition(":")[0] for line in ran.stderr.splitlines()]
    assert files == [CHANGES, CHANGES, CHANGES, "HELM", "4 problems"]
    assert not (folder / "dist").exists()


@pytest.mark.usefixtures("built_programs")
def test_a_release_has_every_file_and_is_reproducible(tmp_path: Path) -> None:
    names = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    needed = [name for name in names if not name.startswith(("tests/", "benchmarks/"))]
    folder = repository(tmp_path, [name for name in needed if (ROOT / name).is_file()])
    image = "registry.example/team/scaler"
    options = ["--helm", str(programs.locate("helm")), "--image", image]
    assert release(folder, *options).returncode == 0
    dist = folder / "dist"
    built = {file.name: file.read_bytes() for file in dist.iterdir()}
    assert built.keys() == {
        f"promql_autoscaler-{VERSION}.tar.gz",
        f"promql_autoscaler-{VERSION}-py3-none-any.whl",
        f"autoscaler-{VERSION}.tgz",
        f"promql-autoscaler-{VERSION}.cdx.json",
        *("prometheusrule.yaml", "podmonitor.yaml", "dashboard.json"),
        *(MAIN, BUILD, CLOUD, TUNE),
        "SHA256SUMS",
    }
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=dist, check=True
    )
    assert built["SHA256SUMS"].count(b"\n") == len(built) - 1
    bom = json.loads(built[f"promql-autoscaler-{VERSION}.cdx.json"])
    assert bom["metadata"]["component"]["version"] == VERSION
    locked = re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", (ROOT / MAIN).read_text())
    assert {(each["name"], each["version"]) for each in bom["components"]} == set(locked)
    with tarfile.open(dist / f"autoscaler-{VERSION}.tgz") as chart:
        values = chart.extractfile("autoscaler/values.yaml")
        assert values is not None
        assert yaml.safe_load(values)["image"]["repository"] == image
    assert git(folder, "status", "--porcelain") == ""
    for file in folder.rglob("*.yaml"):
        file.touch()
    assert release(folder, *options).returncode == 0
    assert {file.name: file.read_bytes() for file in dist.iterdir()} == built


def test_the_notes_are_the_section_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / CHANGES).write_text(CHANGELOG)
    assert release(ROOT, "--root", str(tmp_path), "--notes").stdout == "- A change.\n"
