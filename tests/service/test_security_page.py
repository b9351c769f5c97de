"""docs/security.md is true: what it says to be defended is held by tests that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
HEAD = "| what they may try | what happens | test |"


def test_each_test_that_is_named_is_there() -> None:
    """By its file and its name."""
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE))
    assert len(named) > 30
    found = {
        (file, node.name)
        for file, _ in named
        for node in ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert named - found == set()


def test_each_row_names_a_test() -> None:
    """What no test holds is not said to be defended."""
    rows = [row for row in ROWS if row != HEAD]
    assert len(rows) > 30
    assert [row for row in rows if "::test_" not in row] == []


def test_each_table_has_a_paragraph_of_what_is_not_defended() -> None:
    """Nobody has to guess what is left out."""
    for chapter in PAGE.split("\n## ")[1:]:
        assert HEAD in chapter
        assert "\nNot defended" in chapter
