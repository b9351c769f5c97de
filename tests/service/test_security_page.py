"""docs/security.md is true: what it says to be defended is held by tests that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
AWAITED = {
    "send a token back in an error, so that it is logged",
    "answer slowly, without end, or with too much",
    "let a small file become large: its size, aliases, thousands of mistakes",
    "name a file outside of the folder by a link",
    "write the configuration, or the folder that it is in",
    "read or change the state",
}
"""Rows whose tests are not named yet."""
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
    """What no test holds is not said to be defended, but for what is listed here."""
    rows = [row for row in ROWS if row != HEAD]
    assert len(rows) > 30
    assert {
        row.split(" | ")[0].removeprefix("| ") for row in rows if "::test_" not in row
    } == AWAITED


def test_each_table_has_a_paragraph_of_what_is_not_defended() -> None:
    """Nobody has to guess what is left out."""
    for chapter in PAGE.split("\n## ")[1:]:
        assert HEAD in chapter
        assert "\nNot defended" in chapter
