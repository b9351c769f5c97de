"""The limits of SCOPE.md: what `scripts/check_sizes.py` counts and refuses."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.narrowing import assert_parts

ROOT = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "check_sizes.py"))


def project(folder: Path, *limits: str) -> Path:
    """Write a project of a package of 3 lines, one module of 2 and a schema of 4."""
    package = folder / "autoscaler" / "core"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("a = 1\n")
    (package / "inner").mkdir()
    (package / "inner" / "more.py").write_text("b = 1\nc = 2\n")
    (folder / "autoscaler" / "clock.py").write_text("d = 1\ne = 2\n")
    (folder / "config").mkdir()
    (folder / "config" / "x.schema.json").write_text("{\n\n\n}\n")
    table = "\n".join(("[tool.autoscaler.sizes]", *limits))
    (folder / "pyproject.toml").write_text(table)
    return folder


WITHIN = ('"autoscaler/core" = 3', '"autoscaler/*.py" = 2', '"config/*.schema.json" = 4')


def test_parts_within_their_limits_pass(tmp_path: Path) -> None:
    assert SCRIPT["main"](project(tmp_path, *WITHIN)) == 0


@pytest.mark.parametrize("index", range(3))
def test_a_part_over_its_limit_fails_with_both_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], index: int
) -> None:
    limits = [*WITHIN]
    name, limit = limits[index].split(" = ")
    limits[index] = f"{name} = {int(limit) - 1}"
    assert SCRIPT["main"](project(tmp_path, *limits)) == 1
    part = name.strip('"')
    assert_parts(capsys.readouterr().err, part, f" {limit} ", f" {int(limit) - 1} ")


def test_a_package_without_a_limit_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SCRIPT["main"](project(tmp_path, *WITHIN[1:])) == 1
    assert "autoscaler/core has no limit" in capsys.readouterr().err
