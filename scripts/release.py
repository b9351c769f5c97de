#!/usr/bin/env python3
"""Check that a version can be released, then build its files into dist/: `release.py 1.2.3`.

All problems are reported at once.  Nothing is tagged, pushed or uploaded: the workflow
.github/workflows/release.yaml does that for a tag.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CHART = Path("charts/autoscaler")
DEPLOYMENT = Path("config/kubernetes/base/deployment.yaml")
DEVELOPMENT = "requirements-dev.lock"
BUILD_HELM = "go build -C tests/service -o FILE helm.sh/helm/v4/cmd/helm"
VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-(alpha|beta|rc)\.(0|[1-9]\d*))?")
"""Semantic versions that Python packages can have as well."""

EXAMPLE = re.compile(
    r"(?:autoscaler[:-]|newTag: |ref=v)(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?)"
)
"""The versions of images, charts and tags in examples."""


@dataclass(frozen=True)
class Problem:
    """A reason not to release."""

    file: str
    found: str
    action: str

    def __str__(self) -> str:
        return f"{self.file}: {self.found}; {self.action}"


def version_problems(version: str, root: Path) -> Iterator[Problem]:
    """Yield the places that have another version than the release."""
    if not VERSION.fullmatch(version):
        yield Problem(
            "VERSION",
            f"{version!r} is not a semantic version",
            "use MAJOR.MINOR.PATCH, if need be with -alpha.N, -beta.N or -rc.N",
        )
    package = (root / "autoscaler/__init__.py").read_text()
    chart = yaml.safe_load((root / CHART / "Chart.yaml").read_text())
    deployment = yaml.safe_load((root / DEPLOYMENT).read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found = [
        (
            "autoscaler/__init__.py",
            "__version__",
            *re.findall(r'^__version__ = "(.*)"', package, re.MULTILINE),
        ),
        (f"{CHART}/Chart.yaml", "version", chart["version"]),
        (f"{CHART}/Chart.yaml", "appVersion", chart["appVersion"]),
        (f"{DEPLOYMENT}", "the image tag", container["image"].rpartition(":")[2]),
    ]
    for file, name, value in found:
        if value != version:
            yield Problem(file, f"{name} is {value}", f"set it to {version}")


def example_problems(version: str, root: Path) -> Iterator[Problem]:
    """Yield the documents and manifests whose examples have another version."""
    for file in sorted([*root.glob("docs/**/*.md"), *root.glob("config/kubernetes/**/*.yaml")]):
        others = set(EXAMPLE.findall(file.read_text())) - {version}
        if others and file != root / DEPLOYMENT:
            found = f"examples have version {', '.join(sorted(others))}"
            yield Problem(f"{file.relative_to(root)}", found, f"set it to {version}")


def changelog_section(version: str, root: Path) -> tuple[str, str] | None:
    """Return what the heading has after the version, and the text of the version's section."""
    text = (root / "CHANGELOG.md").read_text()
    heading = rf"^## \[{re.escape(version)}\](.*)\n"
    section = re.search(rf"{heading}((?:(?!## ).*\n?)*)", text, re.MULTILINE)
    return (section[1], section[2].strip()) if section else None


def changelog_problems(version: str, root: Path) -> Iterator[Problem]:
    """Yield what the changelog lacks, and changes that no version has."""
    section = changelog_section(version, root)
    if section is None:
        yield Problem(
            "CHANGELOG.md",
            f"it has no section ## [{version}]",
            f"add ## [{version}] - YYYY-MM-DD below ## [Unreleased] and move the changes there",
        )
    else:
        try:
            date.fromisoformat(section[0].removeprefix(" - "))
        except ValueError:
            yield Problem(
                "CHANGELOG.md",
                f"## [{version}]{section[0]} has no date",
                f"write ## [{version}] - YYYY-MM-DD with the day of the release",
            )
        if not section[1]:
            yield Problem("CHANGELOG.md", f"## [{version}] is empty", "list the changes")
    unreleased = changelog_section("Unreleased", root)
    if unreleased and unreleased[1]:
        yield Problem(
            "CHANGELOG.md",
            f"## [Unreleased] has {len(unreleased[1].splitlines())} lines",
            f"move the changes to ## [{version}]",
        )


def requirements_by_lock(root: Path) -> dict[str, list[str]]:
    """Return what pyproject.toml requires of each lock file, as scripts/lock.sh writes them."""
    document = tomllib.loads((root / "pyproject.toml").read_text())
    needed: list[str] = document["project"]["dependencies"]
    extras: dict[str, list[str]] = document["project"]["optional-dependencies"]
    everything = [requirement for extra in extras.values() for requirement in extra]
    return {
        "requirements.lock": needed,
        "requirements-cloud.lock": needed + extras["aws"] + extras["azure"] + extras["google"],
        "requirements-tune.lock": needed + extras["tune"],
        "requirements-build.lock": document["build-system"]["requires"],
        DEVELOPMENT: needed + everything + document["dependency-groups"]["dev"],
    }


def pins(file: Path) -> dict[str, set[str]]:
    """Return the versions of each package in a lock file; some depend on the Python version."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", file.read_text(), re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def lock_problems(root: Path) -> Iterator[Problem]:
    """Yield requirements that a lock file does not satisfy, and versions that no test has run."""
    tested = pins(root / DEVELOPMENT)
    for file, requirements in requirements_by_lock(root).items():
        locked = pins(root / file)
        for requirement in map(Requirement, requirements):
            versions = locked.get(canonicalize_name(requirement.name), set())
            if not versions:
                yield Problem(file, f"{requirement.name} is not locked", "run `make lock`")
            for version in versions:
                if not requirement.specifier.contains(version, prereleases=True):
                    found = f"{requirement.name}=={version} does not satisfy {requirement}"
                    yield Problem(file, found, "run `make lock`")
        for name, versions in locked.items():
            if untested := versions - tested.get(name, set()):
                found = f"{name}=={', '.join(sorted(untested))} is not in {DEVELOPMENT}"
                yield Problem(file, found, "run `make lock`, then the tests")


def tree_problems(root: Path) -> Iterator[Problem]:
    """Yield the files that differ from the last commit."""
    for line in git(root, "status", "--porcelain").splitlines():
        yield Problem(line[3:], "it differs from the last commit", "commit or remove it")


def helm_problems(helm: str) -> Iterator[Problem]:
    """Yield a problem if the program that packages the chart is missing."""
    if shutil.which(helm) is None:
        yield Problem(
            "HELM",
            f"the program {helm} was not found",
            f"set HELM to Helm 4.3 or newer; `{BUILD_HELM}` builds it",
        )


def problems(version: str, root: Path, helm: str) -> list[Problem]:
    """Return every reason not to release the version."""
    return [
        *version_problems(version, root),
        *example_problems(version, root),
        *changelog_problems(version, root),
        *lock_problems(root),
        *tree_problems(root),
        *helm_problems(helm),
    ]


def git(root: Path, *arguments: str) -> str:
    """Return the output of a git command."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def build_package(root: Path, output: Path) -> None:
    """Build the sdist and the wheel."""
    run(root, sys.executable, "-m", "hatchling", "build", "-d", str(output))


def build_chart(root: Path, output: Path, helm: str, image: str | None) -> None:
    """Package the chart, with an image repository if one is given."""
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(shutil.copytree(root / CHART, Path(folder) / CHART.name))
        if image:
            set_repository(chart / "values.yaml", image)
        run(root, helm, "package", str(chart), "--destination", str(output))


def set_repository(values: Path, image: str) -> None:
    """Replace the repository of the chart's image; its tag is the chart's appVersion."""
    pattern = r"^(image:\n(?:  .*\n|\n)*?  repository: ).*$"
    text, count = re.subn(pattern, rf"\g<1>{image}", values.read_text(), flags=re.MULTILINE)
    if count != 1 or yaml.safe_load(text)["image"]["repository"] != image:
        raise SystemExit(
            f"{CHART}/values.yaml: image.repository was not found; nothing is released"
        )
    values.write_text(text)


def build_sbom(root: Path, output: Path, version: str) -> None:
    """List the locked libraries as CycloneDX; the program validates the list."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    fields = {name: project[name] for name in ("name", "description", "license")}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        # The version in pyproject.toml is known only to the build.
        file.write("[project]\n")
        for name, value in {**fields, "version": version}.items():
            file.write(f"{name} = {json.dumps(value)}\n")
        file.flush()
        target = output / f"{project['name']}-{version}.cdx.json"
        command = [
            sys.executable,
            "-W",
            "ignore::UserWarning",
            "-m",
            "cyclonedx_py",
            "requirements",
        ]
        options = ["--pyproject", file.name, "--output-reproducible", "--output-file", str(target)]
        run(root, *command, "requirements.lock", *options)


def build(version: str, root: Path, output: Path, helm: str, image: str | None) -> None:
    """Build every file of the release, and their checksums."""
    # Two builds of a commit have equal files: Hatchling, Helm and CycloneDX read this.
    os.environ["SOURCE_DATE_EPOCH"] = git(root, "log", "-1", "--format=%ct").strip()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    build_package(root, output)
    build_chart(root, output, helm, image)
    build_sbom(root, output, version)
    run(root, sys.executable, "scripts/operator_objects.py", "--output", str(output))
    for lock in requirements_by_lock(root).keys() - {DEVELOPMENT}:
        shutil.copy(root / lock, output)
    files = sorted(output.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (output / "SHA256SUMS").write_text("".join(sums))


def run(root: Path, *command: str) -> None:
    """Run a program in the project; its messages appear only if it fails."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Check, then build, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--helm", default="helm", help="the program that packages the chart")
    parser.add_argument("--image", help="the image repository that the chart uses by default")
    parser.add_argument("--notes", action="store_true", help="print the section of the changelog")
    arguments = parser.parse_args()
    root: Path = arguments.root
    if arguments.notes:
        section = changelog_section(arguments.version, root)
        print(section[1] if section else "")
        return 0
    found = problems(arguments.version, root, arguments.helm)
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        print(f"{len(found)} problems: {arguments.version} is not released", file=sys.stderr)
        return 1
    output = root / "dist"
    build(arguments.version, root, output, arguments.helm, arguments.image)
    print((output / "SHA256SUMS").read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
