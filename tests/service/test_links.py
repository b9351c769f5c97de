"""Links of the documents lead to files and headings that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

_LINK = re.compile(r"""(?:\]\(|src(?:set)?=")([^)\s"]+)""")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """Return the names by which GitHub links to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Each relative link names a file, and with `#` a heading of it."""
    for link in _LINK.findall(_FENCED.sub("", document.read_text())):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize(
    "file", sorted((ROOT / "config").rglob("*.yaml")), ids=lambda path: path.name
)
def test_comments_of_the_examples_lead_somewhere(file: Path) -> None:
    """So do those to the documents in the comments of examples."""
    for name, anchor in re.findall(r"(docs/\w+\.md)(?:#([\w-]+))?", file.read_text()):
        assert (ROOT / name).exists()
        assert not anchor or anchor in anchors(ROOT / name)
