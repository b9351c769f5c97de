"""Mistakes in a configuration: findings, problems with their lines, and the error that has all."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from autoscaler.config.document import (
    Location,
    Place,
    TooMuchError,
    child,
    describe,
    kind_of,
    one_line,
    path_of,
    place_of,
)
from autoscaler.config.settings import Sources

MOST_PROBLEMS = 100
"""As many are reported, those of each kind first: more are not fixed at once."""


MOST_LOOKED_AT = 20_000
"""So many are looked for, so that those of one kind in every target do not hide the others."""

_POSITION = re.compile(r"\[[0-9]+\]")
_NAMED = re.compile(r"^(queries|resourceQueries)(\.[^.\[]+|\[\".*?\"\])")
_MOST_CHARACTERS = 2000


class Finding(NamedTuple):
    """A fault at a place of a document, before its line and value are looked up.

    ``meant`` are the places where an unknown key was probably meant to stand, ``missing`` those any
    of which would have fixed the fault; ``details`` and ``ready`` as in a `Problem`.
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
    """Return as many problems as are reported, in order, and a last one that counts the others.

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


def of_server(location: Location) -> Location:
    """Return the place below `prometheus` that is as one of a server below `prometheus.servers`."""
    named = location[:2] == ("prometheus", "servers")
    return ("prometheus", *location[3:]) if named else location


_SHOWN_OF_PROMETHEUS: tuple[Location, ...] = (
    ("prometheus", "timeout"),
    ("prometheus", "tls", "insecureSkipVerify"),
    ("prometheus", "tls", "serverName"),
)


def one_per_place(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each place: a name that is malformed need not be unknown too.

    Nor need a key be missing that was only misspelt.
    """
    first: dict[Location, Finding] = {}
    for finding in findings:
        first.setdefault(finding.location, finding)
    meant = {place for finding in first.values() for place in finding.meant}
    return [finding for finding in first.values() if meant.isdisjoint(finding.missing)]


def located(
    findings: Iterable[Finding],
    document: object,
    file: str,
    places: Mapping[Location, Place] | None = None,
) -> list[Problem]:
    """Look up the findings in a document; without ``places`` they have no line."""
    problems = []
    for finding in findings:
        place = place_of(finding.location, places) if places is not None else None
        problems.append(
            Problem(
                file=file,
                line=place.line if place is not None else None,
                path=path_of(_as_written(finding.location, document)),
                value=_shown(finding, document, place),
                message=finding.message,
                details=finding.details,
                ready=finding.ready,
            )
        )
    return problems


def _as_written(location: Location, document: object) -> Location:
    """Leave out `query` where the user wrote the PromQL directly."""
    if location[-1:] == ("query",) and isinstance(child(document, *location[:-1]), str):
        return location[:-1]
    return location


def _shown(finding: Finding, document: object, place: Place | None) -> str | None:
    location = _as_written(finding.location, document)
    if not finding.show_value or (location and child(document, *location[:-1]) is None):
        return None
    value = child(document, *location)
    server = of_server(location)
    if server[:1] in {(), ("prometheus",)} and server not in _SHOWN_OF_PROMETHEUS:
        return None if isinstance(value, str) else kind_of(value)
    if place is not None and place.plain and not isinstance(value, str):
        return one_line(place.plain)
    return describe(value)


_SYNTAX = {
    "found character that cannot start any token": "a tab or another character that cannot "
    "begin a value; indent with spaces, and put texts that begin with @, ` or % in quotes",
    "mapping values are not allowed in this context": 'a ":" that YAML does not expect; check '
    'the indentation, and put texts with ": " in quotes',
    "did not find expected alphabetic or numeric character": "a text that begins with * or & needs "
    'quotes, as in "*/5 8 * * *"',
    "could not find expected ':'": 'a ":" is missing after a key',
    "did not find expected key": "a key is expected; check the indentation, commas and brackets",
}
_LONGEST_LINE = 2000
_LABELS = re.compile(r"""\{[^{}'"]*(?:=|!=|=~|!~) *["'].*""")


def syntax_problem(error: yaml.YAMLError, file: str, text: str) -> Problem:
    """Say where a text stops being YAML, and why; of the text nothing is quoted."""
    if isinstance(error, TooMuchError):
        return Problem(file, error.line, "", None, error.message)
    if not isinstance(error, yaml.MarkedYAMLError):
        message = "not YAML: the file holds a character that YAML does not allow"
        return Problem(file, None, "", None, message)
    mark = error.problem_mark or error.context_mark
    where = "" if mark is None else f" at column {mark.column + 1}"
    reason = _SYNTAX.get(error.problem or "", error.problem or "it cannot be read")
    hint = "" if mark is None else _hint(text, mark.line, error.context_mark)
    line = None if mark is None else mark.line + 1
    return Problem(file, line, "", None, f"not YAML{where}: {reason}{hint}")


def _hint(text: str, line: int, begin: yaml.Mark | None) -> str:
    """Say what the lines look like that YAML stumbles over."""
    lines = text.splitlines()
    first = line if begin is None else max(begin.line, line - 1)
    near = "\n".join(one[:_LONGEST_LINE] for one in lines[first : line + 1])
    if "{{" in near:
        return "; {{ is of a template, which has to be rendered first (such as by `helm template`)"
    if _LABELS.search(near):
        return "; PromQL at such a place belongs in single quotes, as in 'sum(a{b=\"c\"})'"
    return ""
