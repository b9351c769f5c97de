"""What docs/guides/migrating.md shows is what the commands print."""

import re
from pathlib import Path

import pytest

from tests.cli.test_commands import ran

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "migrating.md").read_text()
COMMAND = re.compile(r"^\$ (.*)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
WALKS = re.findall(r"^## (A.*?)\n(.*?)(?=^## )", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("title", "walk"), WALKS, ids=[title for title, _ in WALKS])
def test_a_walk(title: str, walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files, its commands and each line that they print."""
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"```yaml\n(# (?:.*?)\.yaml)\n(.*?)```", walk, re.DOTALL):
        Path(name.removeprefix("# ")).write_text(f"{name}\n{text}")
    shown = "".join(re.findall(r"```console\n(.*?)```", walk, re.DOTALL))
    for command, output in COMMAND.findall(shown):
        program, *arguments = command.split()
        printed = Path(arguments[0]).read_text() if program == "cat" else ran(*arguments)[1]
        assert printed == output, (title, command)


def test_there_are_three_walks() -> None:
    """With an adapter, from KEDA, and plain."""
    assert len(WALKS) == 3
    assert all(walk.count("```console") == 1 for _, walk in WALKS)
