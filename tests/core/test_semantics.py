"""docs/reference/semantics.md, docs/guides/keda.md, code and tests name each other rightly."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "semantics.md").read_text()
FOR_USERS = (ROOT / "docs" / "reference" / "decisions.md").read_text()
KEDA = (ROOT / "docs" / "guides" / "keda.md").read_text()

_RULE = re.compile(r"^(?:#+|\|) (\d(?:\.\d+)*) ", re.MULTILINE)
"""A numbered heading, or a row of the table of deviations."""
_NUMBERS = r"\d+(?:\.\d+)*(?:(?:,| and| to)\s+\d+(?:\.\d+)*)*"
_CITATION = re.compile(rf"\bsemantics(?:\.md)?,?\s+({_NUMBERS})")
_REFERENCE = re.compile(rf"\(({_NUMBERS})[);]")
_LINK = re.compile(r"\[([\d.]+)\]\(semantics\.md#")
_TEST = re.compile(r"`([\w/]+\.py)?(?:::(test_\w+))?`")


def numbers() -> list[str]:
    return _RULE.findall(PAGE)


def cited(form: re.Pattern[str], text: str) -> set[str]:
    return {number for found in form.findall(text) for number in re.findall(r"[\d.]+", found)}


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return file and function of each test that a text names; no function for a whole file."""
    named: list[tuple[str, str]] = []
    for file, function in _TEST.findall(text):
        if file or function:
            named.append((file or named[-1][0], function))
    return named


def test_every_rule_has_one_number() -> None:
    assert len(numbers()) > 50
    assert sorted(numbers()) == sorted(set(numbers()))


def test_every_citation_names_a_rule() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {number}"
        for folder in ("autoscaler", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for number in cited(_CITATION, path.read_text()) - set(numbers())
    }
    assert wrong == set()
    assert cited(_REFERENCE, PAGE) <= set(numbers())
    assert cited(_LINK, FOR_USERS) | set(_RULE.findall(FOR_USERS)) <= set(numbers())


def test_every_rule_names_its_tests() -> None:
    starts = [*_RULE.finditer(PAGE)]
    ends = [start.start() for start in starts[1:]] + [len(PAGE)]
    untested = {
        start[1]
        for start, end in zip(starts, ends, strict=True)
        if not any(number.startswith(f"{start[1]}.") for number in numbers())
        and not named_tests(PAGE[start.start() : end])
    }
    assert untested == set()


def test_every_behaviour_of_keda_names_a_test() -> None:
    tables = re.findall(r"^\| KEDA [^\n]*\| test \|\n\|[-|]+\n((?:\|.*\n)+)", KEDA, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 25
    assert [row for row in rows if not named_tests(row.rsplit("|", 2)[1])] == []


@pytest.mark.parametrize("page", [PAGE, KEDA], ids=["semantics", "keda"])
def test_every_test_on_the_page_exists(page: str) -> None:
    missing = {
        f"{name}::{function}"
        for name, function in named_tests(page)
        if not (file := ROOT / "tests" / name).is_file()
        or (function and f"def {function}(" not in file.read_text())
    }
    assert missing == set()
