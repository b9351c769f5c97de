#!/usr/bin/env python3
"""Check that the prose of documents and examples avoids the patterns of the style page."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PATTERNS = {
    r"\b(is|are|was|were|be) (told|said)\b": "is shown, is reported",
    r"(^|[.:;] |- )(who|what|whoever) (is|are|was|has|have|cannot)\b(?!.*\?)": "a noun as subject",
    r"\bso many\b": "the number",
    r"\b((that|those) of|of which|of whom|the ones? (that|whose))\b": "repeat the noun",
    r"\b(comes?|came) (to|of)\b": "becomes, results in",
    r"\bbesides?\b": "next to, in addition",
    r"\b(until|since|by|with) (when|whom)\b": "the time at which, the client that",
    r"\b(stands|stood|lies)\b": "is",
    r"\b(goes|go|going) on\b": "continues",
    r"\b(is|are|has|have) none\b|(?<!there )\b(is|are) no (?!longer|more|less)": "is not a, has no",
    r"\b(anew|in vain|at hand)\b": "again; without result; available",
    r"\b(of ours|of theirs|is away|are away)\b": "our, their; is unreachable",
    r"\b(is|are) to (be|stay|go)\b|\bwould have had\b": "must, will; would change",
}
"""Patterns, and what to write instead."""

FILES = ("*.md", "docs/**/*.md", "config/**/*.yaml")
QUOTES = "docs/contributing/style.md"


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the prose of each line: comments of YAML, no code of Markdown."""
    fenced = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if file.suffix == ".yaml":
            yield number, "".join(re.findall(r"(?:^|\s)#\s?(.*)", line))
            continue
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("| `autoscaler_"):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "`", line)


def findings(root: Path) -> list[str]:
    """Return a line for each place that matches a pattern."""
    files = {file for pattern in FILES for file in root.glob(pattern)} - {root / QUOTES}
    return [
        f"{file.relative_to(root)}:{number}: '{match[0].strip()}': write instead: {better}"
        for file in sorted(files)
        for number, text in prose(file)
        for pattern, better in PATTERNS.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    ]


if __name__ == "__main__":
    found = findings(Path())
    print("\n".join(found) or "no pattern of the style page is used")
    sys.exit(1 if found else 0)
