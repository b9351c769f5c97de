"""The examples of docs/guides/policy-tests.md run as shown."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml

from autoscaler.config.models import fields_by_key
from autoscaler.lab.policy_tests.loading import MOST_REPLICAS, MOST_SYNCS
from autoscaler.lab.policy_tests.settings import (
    Expectation,
    ForbiddenValues,
    LimitReason,
    PolicyTest,
    PolicyTests,
    Start,
    WorldEvent,
)
from autoscaler.lab.series_notation import MOST_SAMPLES
from tests.cli.test_commands import ran

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "policy-tests.md").read_text(encoding="utf-8")
QUEUE = ROOT / "config" / "queue.yaml"


def blocks(text: str, kind: str) -> Iterator[str]:
    yield from re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_first_test_that_is_shown_holds(tmp_path: Path) -> None:
    shown = next(block for block in blocks(PAGE, "yaml") if "tests:" in block)
    file = tmp_path / "tests.yaml"
    file.write_text(re.sub(r"config: autoscaler\.yaml", f"config: {QUEUE}", shown))
    assert ran("test", str(file)) == (0, f"{file}: 1 passed\n", "")


def test_the_command_prints_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command, shown = next(blocks(PAGE, "console")).split("\n", 1)
    assert command == "$ autoscaler test config/policy-tests/*.yaml"
    files = sorted(str(path) for path in Path("config/policy-tests").glob("*.yaml"))
    assert ran("test", *files) == (0, shown, "")


def test_each_key_is_described() -> None:
    models = (PolicyTest, PolicyTests, Start, WorldEvent, Expectation, ForbiddenValues)
    keys = {key for model in models for key in fields_by_key(model)}
    missing = {key for key in keys if not re.search(rf"[`{{ ]{key}[`:]", PAGE)}
    assert not missing
    assert not {reason for reason in get_args(LimitReason) if f"`{reason}`" not in PAGE}


def test_the_limits_are_those_that_are_told() -> None:
    told = (
        f"A series may have {MOST_SAMPLES:,} samples",
        f"a test {MOST_SYNCS:,} syncs of all its targets",
        f"each of at most {MOST_REPLICAS:,} replicas",
    )
    page = " ".join(PAGE.split())
    assert [text for text in told if text not in page] == []


def test_what_ci_runs_is_yaml_that_runs_the_command() -> None:
    for name in ("GitHub Actions", "GitLab"):
        block = next(blocks(PAGE.partition(f"{name}:")[2], "yaml"))
        document = yaml.safe_load(block)
        assert "autoscaler test --junit report.xml policy-tests/*.yaml" in str(document)
