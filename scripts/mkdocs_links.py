"""A hook of MkDocs: links from docs/ to other files of the checkout work on the site too.

README.md and its neighbors become pages. Other files, such as examples, become text files.
"""

import os
import re
import runpy
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "introduction.md",
    "SCOPE.md": "scope.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "benchmarks/RESULTS.md": "contributing/results.md",
}
"""The pages of the site that are not in docs/."""
_LINK = re.compile(r"""(\]\(|src(?:set)?=")([^)\s"#]+)""")
_FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and the reference of the command line."""
    for name, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    reference = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))["page"]()
    files.append(File.generated(config, "reference/cli.md", content=reference))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links name files of the site."""
    origins = {uri: ROOT / name for name, uri in PAGES.items()}
    uri = page.file.src_uri
    folder = origins.get(uri, Path(config.docs_dir, uri)).parent

    def replaced(found: re.Match[str]) -> str:
        opening, link = found.groups()
        if "://" in link:
            return found[0]
        path = Path(os.path.normpath(folder / link))
        if not path.exists():
            raise PluginError(f"{uri} links to {link}, which does not exist")
        return opening + os.path.relpath(_uri(path, config, files), Path(uri).parent)

    parts = _FENCED.split(markdown)
    return "".join(
        part if number % 2 else _LINK.sub(replaced, part) for number, part in enumerate(parts)
    )


def _uri(path: Path, config: MkDocsConfig, files: Files) -> str:
    """Return the place of a file in the site; it is added if it is not there."""
    if path.is_relative_to(config.docs_dir):
        return str(path.relative_to(config.docs_dir))
    name = str(path.relative_to(ROOT))
    if name in PAGES:
        return PAGES[name]
    uri = f"checkout/{name}.txt"
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, content=_text(path)))
    return uri


def _text(path: Path) -> str:
    """Return the text of a file, or the names of the files of a folder."""
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return "\n".join(sorted(str(file.relative_to(ROOT)) for file in path.rglob("*.*")))
