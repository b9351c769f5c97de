"""The files, commands and outputs that the documents show are valid, and the outputs are real."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from autoscaler.app import app
from tests.cli.test_commands import ran

ROOT = Path(__file__).parents[2]
MIGRATE = (ROOT / "docs" / "guides" / "migrate.md").read_text()
STARTS = sorted((ROOT / "docs" / "get-started").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_COMMAND = re.compile(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
_EXAMPLES = re.findall(r"^### Example: (.*?)\n(.*?)(?=^###? )", MIGRATE, re.DOTALL | re.MULTILINE)
_RUN = [page for page in STARTS if page.name != "install.md"]
"""`tests/service/test_install.py` runs the commands of install.md."""
WALKS = [*_EXAMPLES, *((page.stem, page.read_text()) for page in _RUN)]
_FENCED = re.compile(r"```(?:console|sh|text)\n(.*?)```", re.DOTALL)
_OURS = re.compile(r"(?:\$ )?(?:.*?-- |sudo \S+ |\S*/)?autoscaler ([a-z][^|>#;]*)")
_INLINE = re.compile(r"`(autoscaler (?!cannot )[a-z][^`]*)`")


@pytest.mark.parametrize(("title", "walk"), WALKS, ids=[title for title, _ in WALKS])
def test_commands_of_a_walk_print_what_it_shows(
    title: str, walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"```yaml\n(# (?:.*?)\.yaml)\n(.*?)```", walk, re.DOTALL):
        Path(name.removeprefix("# ")).write_text(f"{name}\n{text}")
    consoles = "".join(re.findall(r"```console\n(.*?)```", walk, re.DOTALL))
    commands = _COMMAND.findall(consoles)
    assert commands
    for command, output in commands:
        program, *arguments = command.split()
        printed = Path(arguments[0]).read_text() if program == "cat" else ran(*arguments)[1]
        assert printed == output, (title, command)


def test_each_first_page_and_kind_of_migration_has_a_walk() -> None:
    assert (len(_EXAMPLES), len(_RUN)) == (2, 3)
    assert all(walk.count("```console") == 1 for _, walk in _EXAMPLES)


def shown_commands(text: str) -> Iterator[list[str]]:
    """Return the arguments of each command of ours in code, without comments and redirections."""
    lines = [line for block in _FENCED.findall(text) for line in block.splitlines()]
    for line in [*lines, *_INLINE.findall(_FENCED.sub("", text))]:
        if found := _OURS.match(line):
            yield shlex.split(found[1])


def options_of(command: typer.core.TyperCommand) -> set[str]:
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_have_the_options_that_are_shown(page: Path) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    for name, *arguments in shown_commands(page.read_text()):
        command = group.commands.get(name)
        assert isinstance(command, typer.core.TyperCommand), (name, arguments)
        options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
        assert options <= {*options_of(command), "-", "--help"}, (name, arguments)


def whole_configurations() -> Iterator[tuple[str, str]]:
    """Return the name and the text of each configuration with targets on a page for users."""
    for page in [PAGES[0], *STARTS, *sorted((ROOT / "docs" / "guides").glob("*.md"))]:
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        for number, block in enumerate(blocks):
            if re.search(r"^prometheus:", block, re.MULTILINE) and "targets:" in block:
                yield f"{page.stem}-{number}", block


@pytest.mark.parametrize(
    "text", dict(whole_configurations()).values(), ids=dict(whole_configurations())
)
def test_a_whole_configuration_is_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text(text.replace("/etc/autoscaler", str(tmp_path)))
    for name in re.findall(r"kubeconfig: /etc/autoscaler/([\w.]+)", text):
        (tmp_path / name).write_text("apiVersion: v1\nkind: Config\n")
    code, _, refused = ran("validate", str(file))
    assert code == 0, refused
