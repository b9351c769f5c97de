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
from tests.narrowing import assert_parts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "policy-tests.md").read_text(encoding="utf-8")
LLM_SERVING = (ROOT / "docs" / "guides" / "llm-serving.md").read_text(encoding="utf-8")
QUEUE = ROOT / "config" / "queue.yaml"


def blocks(text: str, kind: str) -> Iterator[str]:
    yield from re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_first_example_on_the_page_passes(tmp_path: Path) -> None:
    shown = next(block for block in blocks(PAGE, "yaml") if "tests:" in block)
    file = tmp_path / "tests.yaml"
    file.write_text(re.sub(r"config: autoscaler\.yaml", f"config: {QUEUE}", shown))
    assert ran("test", str(file)) == (0, f"{file}: 1 passed\n", "")


@pytest.mark.parametrize(("page", "pattern"), [(PAGE, "*.yaml"), (LLM_SERVING, "llm-*.yaml")])
def test_the_command_prints_the_output_on_the_page(
    page: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, shown = next(blocks(page, "console")).split("\n", 1)
    assert command == f"$ autoscaler test config/policy-tests/{pattern}"
    files = sorted(str(path) for path in Path("config/policy-tests").glob(pattern))
    assert ran("test", *files) == (0, shown, "")


def test_the_guide_to_llm_serving_quotes_its_examples() -> None:
    examples = "".join(path.read_text() for path in sorted((ROOT / "config").glob("llm-*.yaml")))
    for line in "\n".join(blocks(LLM_SERVING, "yaml")).splitlines():
        if "ReplicasQuery" in line:
            assert line in examples
    for metric in re.findall(r"`((?:vllm:|llm_d_|nv_|ray_)\w+)`", LLM_SERVING):
        assert metric in examples or metric == "vllm:gpu_cache_usage_perc"


def test_each_key_is_described() -> None:
    models = (PolicyTest, PolicyTests, Start, WorldEvent, Expectation, ForbiddenValues)
    keys = {key for model in models for key in fields_by_key(model)}
    missing = {key for key in keys if not re.search(rf"[`{{ ]{key}[`:]", PAGE)}
    assert not missing
    assert not {reason for reason in get_args(LimitReason) if f"`{reason}`" not in PAGE}


def test_the_page_has_the_limits_in_force() -> None:
    limits = f"{MOST_SAMPLES:,} samples", f"{MOST_SYNCS:,} syncs", f"{MOST_REPLICAS:,} replicas"
    assert_parts(" ".join(PAGE.split()), *limits)


def test_the_examples_for_ci_are_yaml_and_run_the_command() -> None:
    for name in ("GitHub Actions", "GitLab"):
        block = next(blocks(PAGE.partition(f"{name}:")[2], "yaml"))
        document = yaml.safe_load(block)
        assert "autoscaler test --junit report.xml policy-tests/*.yaml" in str(document)
