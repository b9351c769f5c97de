"""What is wrong with a configuration: findings, problems, and the error that carries them all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.config.settings import Sources

Location = tuple[str | int, ...]
"""Where something is in a document: the keys and list positions that lead to it."""


MOST_PROBLEMS = 100
"""As many are looked for and told: nobody mends more at once."""


_MOST_CHARACTERS = 2000
_MOST_OF_A_KEY = 200


class Finding(NamedTuple):
    """A fault at a place of a document, before its line and value are looked up."""

    location: Location
    message: str
    show_value: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration, in a sentence that says what would be right.

    ``line`` counts from 1 and is None where there is no text to count in; ``value`` is the
    faulty value, shortened, and None where there is none or where it may be a secret.
    """

    file: str
    line: int | None
    path: str
    value: str | None
    message: str

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
        """Give one line per problem."""
        return "\n".join(str(problem) for problem in self.problems)


def more_than_the_most(file: str) -> Problem:
    """Say that the search for further problems was given up."""
    message = f"these are {MOST_PROBLEMS} mistakes, and more are not looked for; mend these first"
    return Problem(file, None, "", None, message)


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
