"""The page about the architecture names what there is."""

import re
import tomllib
from pathlib import Path

import autoscaler

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = Path(autoscaler.__file__).parent
FLOORS = PAGE.split("```")[1]


def test_every_module_that_the_page_names_exists() -> None:
    """As a module or a package, with a name in it where one is given."""
    named = set(
        re.findall(
            r"\b(?:core|sync|rendering|record|config|adapters|daemon|web|telemetry|cli|transport)(?:/[a-z_]+)+",
            PAGE,
        )
    )
    assert len(named) > 40
    missing = [
        name
        for name in named
        if not ((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file())
    ]
    assert missing == []


def test_the_floors_are_those_that_imports_are_held_to() -> None:
    """In their order, each package of a floor on its line, and every package on one."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        one["layers"]
        for one in settings["tool"]["importlinter"]["contracts"]
        if one["type"] == "layers"
    )
    floors = [
        {name.strip().removeprefix("autoscaler.") for name in row.split("|")} for row in layers
    ]
    lines = [line for line in FLOORS.splitlines() if line.strip()]
    shown = [
        set(re.split(r"\s{2,}", line.strip())[: len(floor)])
        for line, floor in zip(lines, floors, strict=True)
    ]
    assert shown == floors
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert packages <= set().union(*floors)
