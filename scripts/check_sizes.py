#!/usr/bin/env python3
"""Print how many lines each part of the project has, and fail where one is over its limit.

The limits are the table `tool.autoscaler.sizes` of pyproject.toml: of a folder the lines of its
Python files with all folders below, of `autoscaler/*.py` those of the files in it alone, and of
another pattern the lines of all files that match.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lines_of(pattern: str, root: Path) -> int:
    """Return the lines of the files that a key of the table stands for."""
    files = root.glob(pattern) if "*" in pattern else (root / pattern).rglob("*.py")
    return sum(len(file.read_bytes().splitlines()) for file in files)


def over_limit(limits: dict[str, int], root: Path) -> list[str]:
    """Print each part with its lines and its limit; return a sentence for each that is over."""
    found = []
    for pattern, limit in limits.items():
        lines = lines_of(pattern, root)
        print(f"{pattern:<32}{lines:>8,} of {limit:>7,}")
        if lines > limit:
            found.append(f"{pattern} has {lines:,} lines, more than the {limit:,} of its limit")
    return found


def unlisted(limits: dict[str, int], root: Path) -> list[str]:
    """Return a sentence for each package without a limit."""
    packages = (path.parent.name for path in (root / "autoscaler").glob("*/__init__.py"))
    missing = sorted(name for name in packages if f"autoscaler/{name}" not in limits)
    return [f"autoscaler/{name} has no limit in pyproject.toml" for name in missing]


def main(root: Path = ROOT) -> int:
    """Check the project in a folder, and return the exit code."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    limits: dict[str, int] = settings["tool"]["autoscaler"]["sizes"]
    problems = over_limit(limits, root) + unlisted(limits, root)
    for problem in problems:
        print(f"{problem}; SCOPE.md says what that means", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
