"""What is wrong with a configuration: findings, problems, and the error that carries them all."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.config.settings import Sources

Location = tuple[str | int, ...]
"""Where something is in a document: the keys and list positions that lead to it."""


MOST_PROBLEMS = 100
"""As many are told, those of each kind first: nobody mends more at once."""


MOST_LOOKED_AT = 20_000
"""So many are looked for, so that those of one kind in every target do not hide the others."""

_POSITION = re.compile(r"\[[0-9]+\]")
_NAMED = re.compile(r"^(queries|resourceQueries)(\.[^.\[]+|\[\".*?\"\])")
_MOST_CHARACTERS = 2000
_MOST_OF_A_KEY = 200


class Finding(NamedTuple):
    """A fault at a place of a document, before its line and value are looked up.

    ``meant`` are the places where an unknown key was probably meant to stand, ``missing`` those any
    of which would have mended the fault; ``details`` and ``ready`` as in a `Problem`.
    """

    location: Location
    message: str
    show_value: bool = True
    meant: tuple[Location, ...] = ()
    missing: tuple[Location, ...] = ()
    details: tuple[str, ...] = ()
    ready: str = ""


def below(location: Location, finding: Finding) -> Finding:
    """Return a finding on a part of a document as one on the whole."""
    return finding._replace(
        location=(*location, *finding.location),
        meant=tuple((*location, *place) for place in finding.meant),
        missing=tuple((*location, *place) for place in finding.missing),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration, in a sentence that says what would be right.

    ``line`` counts from 1 and is None where there is no text to count in; ``value`` is the
    faulty value, shortened, and None where there is none or where it may be a secret.  ``details``
    are lines that say more, and ``ready`` is what would be right, as YAML that can be pasted; both
    are mostly empty.
    """

    file: str
    line: int | None
    path: str
    value: str | None
    message: str
    details: tuple[str, ...] = ()
    ready: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """What mistakes that differ only in their place and names have in common."""
        words = self.message.split(maxsplit=2)[:2]
        return _NAMED.sub(r"\1.*", _POSITION.sub("[]", self.path)), " ".join(words)

    @property
    def text(self) -> str:
        """The problem as one line, and its details below it, indented."""
        details = (one_line(f"  {detail}", _MOST_CHARACTERS) for detail in self.details)
        return "\n".join((str(self), *details))

    def __str__(self) -> str:
        """Give the problem as one line: ``file:line: path: message (got VALUE)``."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        path = f"{self.path}: " if self.path else ""
        got = f" (got {self.value})" if self.value is not None else ""
        text = f"{place}: {path}{self.message}{got}"
        return one_line(text, _MOST_CHARACTERS)  # names of files and keys may hold anything


class ConfigError(Exception):
    """A configuration is refused; ``problems`` holds every fault, in the order of the files.

    ``sources`` are the files that were read; a change of them may be the remedy.
    """

    def __init__(self, problems: Sequence[Problem], sources: Sources | None = None) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)
        self.sources = Sources({}) if sources is None else sources

    def __str__(self) -> str:
        """Give the problems line by line, with their details."""
        return "\n".join(problem.text for problem in self.problems)


def chosen(problems: Sequence[Problem], file: str, *, more: bool) -> list[Problem]:
    """Return as many problems as are told, in their order, and a last one that counts the others.

    No kind of problem is hidden by the many of another.  ``file`` is the main one; ``more`` says
    that there are problems which were not looked for.
    """
    if len(problems) <= MOST_PROBLEMS and not more:
        return list(problems)
    seen: Counter[tuple[str, str]] = Counter()
    rounds = []
    for index, problem in enumerate(problems):
        rounds.append((seen[problem.kind], index))
        seen[problem.kind] += 1
    told = sorted(index for _, index in sorted(rounds)[:MOST_PROBLEMS])
    count = f"more than {len(problems):,}" if more else f"{len(problems):,}"
    message = f"these are {len(told)} of {count} mistakes, of each kind the first; mend these first"
    return [*(problems[index] for index in told), Problem(file, None, "", None, message)]


def path_of(location: Location) -> str:
    """Write a location as ``targets[3].metrics[0].external``."""
    path = ""
    for key in location:
        if isinstance(key, int):
            path += f"[{key}]"
        elif key and all(character.isalnum() or character in "_-:/" for character in key):
            path += f"{'.' if path else ''}{one_line(key, _MOST_OF_A_KEY)}"
        else:
            path += f'["{one_line(key)}"]'
    return path


def one_line(text: str, limit: int = 60) -> str:
    """Shorten a text to one printable line."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def describe(value: object) -> str:
    """Show a value of a document shortly: scalars as written, the rest by its kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{one_line(value)}"'
    if isinstance(value, int | float):
        return one_line(repr(value))
    if value in ([], {}):
        return repr(value)
    return kind_of(value)


def kind_of(value: object) -> str:
    """Name the kind of a value without showing it."""
    kinds: tuple[tuple[type, str], ...] = (
        (type(None), "nothing"),
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a number"),
        (str, "a text"),
        (list, "a list"),
        (dict, "a mapping"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "something else")
