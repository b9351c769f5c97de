"""The GitHub workflows: valid, with few rights, and about the versions that the package names."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.service import programs

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
WORKFLOWS: dict[str, Any] = {file.stem: yaml.safe_load(file.read_text()) for file in FILES}
JOBS = [
    pytest.param(job, id=f"{workflow}-{name}")
    for workflow, content in WORKFLOWS.items()
    for name, job in content["jobs"].items()
    if "steps" in job
]


@pytest.mark.usefixtures("built_programs")
def test_actionlint_finds_nothing() -> None:
    lint = [str(programs.locate("actionlint")), "-shellcheck=", "-pyflakes=", *map(str, FILES)]
    subprocess.run(lint, cwd=ROOT, check=True)


def test_the_tested_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    tested = WORKFLOWS["ci"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == classified
    assert project["requires-python"] == f">={classified[0]}"


@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_and_its_actions_are_pinned(job: dict[str, Any]) -> None:
    assert 0 < job["timeout-minutes"] <= 120
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action) for action in actions)


def test_only_jobs_that_publish_may_write() -> None:
    assert all(content["permissions"] == {"contents": "read"} for content in WORKFLOWS.values())
    granted = {
        name: {right for right, access in job["permissions"].items() if access == "write"}
        for content in WORKFLOWS.values()
        for name, job in content["jobs"].items()
        if "permissions" in job
    }
    assert granted == {
        "build": {"id-token", "attestations"},
        "image": {"packages", "id-token", "attestations"},
        "chart": {"packages", "id-token"},
        "pypi": {"id-token"},
        "github": {"contents"},
    }


def test_nothing_is_published_before_the_tests_and_the_checks() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yaml"
    for name in jobs.keys() - {"tests", "build"}:
        needed: set[str] = set()
        new = {name}
        while new:
            new = {need for job in new for need in jobs[job].get("needs", [])} - needed
            needed |= new
        assert needed >= {"tests", "build"}


def test_a_released_image_gets_every_argument() -> None:
    steps = WORKFLOWS["release"]["jobs"]["image"]["steps"]
    (given,) = [
        step["with"]["build-args"] for step in steps if "build-args" in step.get("with", {})
    ]
    arguments = re.findall(r"(?m)^ARG (\w+)", (ROOT / "Dockerfile").read_text())
    assert sorted(re.findall(r"(?m)^(\w+)=", given)) == sorted(arguments)
