"""The output of commands: text wrapped for terminals, and errors with their exit codes."""

import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence

from autoscaler.cli.target_names import UnknownTargetError
from autoscaler.cli.times import UnknownTimeError
from autoscaler.config import ConfigError
from autoscaler.core.target import TargetName
from autoscaler.core.text import printable
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.answers import LeaderState

_NARROWEST = 40
_INDENT = "  "

EXPLAINED_FROM = 14
"""The column at which the text of an explanation begins, after the name of the stage."""


class CommandError(Exception):
    """A command cannot be executed; the text is a sentence for the operator."""

    code = 1


class ArgumentError(CommandError):
    """An argument of a command is invalid."""

    code = 2


def code_of(error: Exception) -> int | None:
    """Print an error and return the exit code: 2 for invalid arguments, else usually 1.

    None is for any other error: a defect, or typer's.
    """
    if isinstance(error, ConfigError | UnknownTargetError | UnknownTimeError):
        code = 2
    elif isinstance(error, CommandError | RecordError):
        code = error.code if isinstance(error, CommandError) else 1
    else:
        return None
    print(error, file=sys.stderr)
    return code


def wrapped(text: str, width: int, first: str = "", others: str = _INDENT) -> list[str]:
    """Wrap a text between words; lines begin with ``first`` and ``others``. No word is split."""
    return textwrap.wrap(
        text,
        max(width, len(first) + 1, len(others) + 1),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_text(text: str, indent: int = 2 * len(_INDENT)) -> None:
    """Print lines, wrapped between words on a terminal; in a pipe each is one line, for grep.

    Continuation lines keep the indentation of their line.
    """
    if not sys.stdout.isatty():
        print(text)
        return
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for line in text.split("\n"):
        others = " " * indent if line.startswith(" ") else _INDENT
        print("\n".join(wrapped(line, width, others=others) or [""]))


def aligned(rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> Iterator[str]:
    """Yield a table's rows as lines, two spaces between columns; ``left`` are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield _INDENT.join(cells).rstrip()


def counts(current: int | None, desired: int | None, unknown: str) -> str:
    """Format the current and the desired count of a target: "3 -> 5"."""
    if current is None:
        return unknown
    return str(current) if desired in {None, current} else f"{current} -> {desired}"


_MOST_NAMED = 10
"""The most clusters of one leader that are named."""


def who_leads(leaders: Iterable[LeaderState], keys: Iterable[str] | None) -> Iterator[str]:
    """Yield a sentence for each process that leads clusters of some targets, or of any if None.

    The only cluster, without a name, is not mentioned while the daemon itself leads it.
    """
    clusters = None if keys is None else {TargetName.parse(key).cluster for key in keys}
    by_leader = defaultdict[str, list[str]](list)
    for leader in leaders:
        if (clusters is None or leader.cluster in clusters) and (
            leader.cluster or not leader.leading
        ):
            by_leader[_words(leader)].append(printable(leader.cluster))
    for words, names in by_leader.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        of = ", ".join(names[:_MOST_NAMED]) + more
        yield f"{of}: {words}" if of else f"this daemon is a standby: {words}"


def _words(state: LeaderState) -> str:
    if state.leading:
        return "led by this daemon"
    if not state.holder:
        return "nobody is known to lead"
    return f"led by {state.holder}" + (f", see {state.url}" if state.url else "")
