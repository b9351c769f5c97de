#!/usr/bin/env python3
"""Check that prose and names avoid the patterns of the style page.

Prose is what documents, comments of examples, templates, docstrings, comments and messages say.
"""

import ast
import io
import re
import sys
import tokenize
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
    r"\b(is|are|has|have) (?-i:none)\b": "is not a, has no",
    r"(?<!there )\b(is|are) no (?!longer|more|less)": "is not a, has no",
    r"\b(anew|in vain|at hand)\b": "again; without result; available",
    r"\b(of ours|of theirs|is away|are away)\b": "our, their; is unreachable",
    r"\b(is|are) to (be|stay|go)\b|\bwould have had\b": "must, will; would change",
}
"""Patterns, and what to write instead."""

FILES = ("*.md", "docs/**/*.md", "config/**/*.yaml")
CODE = ("autoscaler/**/*.py", "autoscaler/web/**/*.html", "autoscaler/web/**/*.js")
"""The files whose messages, comments and docstrings are checked."""
NAMED = ("autoscaler/**/*.py", "benchmarks/**/*.py", "scripts/**/*.py", "tests/**/*.py")
"""The files whose names are checked."""
QUOTES = "docs/contributing/style.md"

FUNCTIONS = re.compile(
    r"_*(at|of|told|said|shown|asked|found|held|kept)$"
    r"|test_(what|who|whoever|everything|all_of)_|test_\w+_(told|said)$"
)
"""Names of functions that do not say what they do, and of tests that state no fact."""

STRINGS = frozenset({tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)})
"""Tokens with text; since Python 3.12 the text of an f-string has its own."""


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


def prose_of_code(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of a comment, message or docstring."""
    if file.suffix != ".py":
        page = re.sub(r"\{[{%].*?[}%]\}", "`", file.read_text(encoding="utf-8"))
        yield from enumerate(page.splitlines(), 1)
        return
    with io.StringIO(file.read_text(encoding="utf-8")) as text:
        for token in tokenize.generate_tokens(text.readline):
            if token.type == tokenize.COMMENT or token.type in STRINGS:
                for number, line in enumerate(token.string.splitlines(), token.start[0]):
                    yield number, re.sub(r"`[^`]*`", "`", line)


def bad_names(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each function or variable that is named badly."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.FunctionDef(name=name, lineno=line) if FUNCTIONS.match(name):
                yield line, name
            case ast.Name(id="one", ctx=ast.Store(), lineno=line) | ast.arg("one", lineno=line):
                yield line, "one"


def files_of(patterns: tuple[str, ...], root: Path) -> list[Path]:
    """Return the files that match a pattern."""
    return sorted({file for pattern in patterns for file in root.glob(pattern)} - {root / QUOTES})


def findings(root: Path) -> list[str]:
    """Return a line for each place that matches a pattern."""
    texts = [(file, prose(file)) for file in files_of(FILES, root)]
    texts += [(file, prose_of_code(file)) for file in files_of(CODE, root)]
    return [
        f"{file.relative_to(root)}:{number}: '{match[0].strip()}': write instead: {better}"
        for file, lines in texts
        for number, text in lines
        for pattern, better in PATTERNS.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    ] + [
        f"{file.relative_to(root)}:{line}: '{name}': write instead: a noun, a verb or a fact"
        for file in files_of(NAMED, root)
        for line, name in sorted(bad_names(file))
    ]


if __name__ == "__main__":
    found = findings(Path())
    print("\n".join(found) or "no pattern of the style page is used")
    sys.exit(1 if found else 0)
