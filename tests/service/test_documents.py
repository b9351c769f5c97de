"""The documents: links lead somewhere, and what pages say of modules and tests is true."""

import ast
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import autoscaler
from autoscaler.app import app
from autoscaler.core.classification import MISSING_BOUND, MISSING_HOLD, Mark, State
from autoscaler.core.status import INVALID_ANNOTATION, OWN_REASONS

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
PACKAGE = Path(autoscaler.__file__).parent
FLOORS = ARCHITECTURE.split("```")[1]


def test_every_module_that_the_page_names_exists() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    named = set(re.findall(rf"\b(?:{'|'.join(packages)})(?:/[a-z_]+)+", ARCHITECTURE))
    assert len(named) > 40
    missing = [
        name
        for name in named
        if not ((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file())
    ]
    assert missing == []


def test_the_floors_are_those_that_imports_are_held_to() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        setting["layers"]
        for setting in settings["tool"]["importlinter"]["contracts"]
        if setting["type"] == "layers"
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


DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "SCOPE.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "RESULTS.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

_LINK = re.compile(r"""(?:\]\(|src(?:set)?=")([^)\s"]+)""")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """Return the names by which GitHub links to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_an_anchor(document: Path) -> None:
    for link in _LINK.findall(_FENCED.sub("", document.read_text())):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_is_in_the_index_and_the_navigation() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    listed = set(re.findall(r"[\w/-]+\.md", NAVIGATION))
    linked = set(_LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert listed - pages >= {"reference/cli.md"}
    assert pages - listed == set()
    assert pages - linked == {"index.md"}


@pytest.mark.parametrize(
    "file", sorted((ROOT / "config").rglob("*.yaml")), ids=lambda path: path.name
)
def test_documents_named_in_examples_exist(file: Path) -> None:
    for name, anchor in re.findall(r"(docs/[\w/-]+\.md)(?:#([\w-]+))?", file.read_text()):
        assert (ROOT / name).exists()
        assert not anchor or anchor in anchors(ROOT / name)


SECURITY = (ROOT / "docs" / "contributing" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in SECURITY.splitlines() if line.startswith("| ")]
HEAD = "| attack | "


def test_every_test_named_on_the_security_page_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", SECURITY))
    assert len(named) > 30
    found = {
        (file, node.name)
        for file, _ in named
        for node in ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert named - found == set()


def test_every_attack_names_a_test() -> None:
    rows = [row for row in ROWS if not row.startswith(HEAD)]
    assert len(rows) > 30
    assert [row for row in rows if "::test_" not in row] == []


def test_each_table_has_a_paragraph_of_what_is_not_defended() -> None:
    for chapter in SECURITY.split("\n## ")[1:]:
        assert HEAD in chapter
        assert "\nNot defended" in chapter


STATES = (ROOT / "docs" / "reference" / "states.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> set[str]:
    """Return the code in the first column of the table below a heading of the page of states."""
    (section,) = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", STATES, re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_page_of_states_lists_each_state_and_mark() -> None:
    assert first_cells("States") == set(State)
    assert first_cells("Marks") == {mark.word for mark in Mark}


def test_the_page_of_states_names_each_reason_that_the_hpa_does_not_have() -> None:
    own = OWN_REASONS | {MISSING_BOUND, MISSING_HOLD, INVALID_ANNOTATION}
    assert {reason for reason in own if f"`{reason}`" not in STATES} == set()


def test_the_glossary_has_each_term_once_in_order() -> None:
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^- \*\*([^*]+)\*\*: ", page, re.MULTILINE)
    assert len(terms) >= 40
    assert terms == sorted(set(terms), key=str.lower)


def test_the_reference_of_the_command_line_has_each_command_with_its_options() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))["page"]()
    every = get_command(app).commands  # type: ignore[attr-defined]
    commands = {name: value for name, value in every.items() if not value.hidden}
    assert re.findall(r"^## `([\w-]+)`$", page, re.MULTILINE) == list(commands)
    options = {
        option for command in commands.values() for param in command.params for option in param.opts
    }
    assert len(options) > 40
    assert {option for option in options if option not in page} <= {"-h"}
