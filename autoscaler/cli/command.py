"""Commands are functions: their parameters are arguments and options.

`--help` imports the modules of commands and options, so these import slow modules only when they
run.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

_METAVARS = {"str": "NAME", "int": "N", "float": "NUMBER", "Path": "FILE"}
_TYPE = re.compile(r" <(?:list\[)?(\w+)(?: range)?\]?>$")
"""How typer writes a type of Python in the help of a parameter."""


class GroupedCommand(TyperCommand):
    """A command whose help groups options by `rich_help_panel` and shows no Python types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, without the braces of what is required."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, a section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_argument = param.param_type_name == "argument"
                group = getattr(param, "rich_help_panel", None)
                group = group or ("Arguments" if is_argument else "Options")
                name, text = record
                if (found := _TYPE.search(name)) and found[1] in _METAVARS:
                    name = name[: found.start()] + (
                        "" if is_argument else " " + _METAVARS[found[1]]
                    )
                sections.setdefault(group, []).append((name, text))
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


class PurposeGroup(TyperGroup):
    """An application whose help lists its commands by purpose."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and first lines of the commands, a section for each purpose."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                line = command.get_short_help_str(formatter.width)
                sections.setdefault(command.rich_help_panel, []).append((name, line))
        for purpose, lines in sections.items():
            with formatter.section(purpose):
                formatter.write_dl(lines)


@dataclass(frozen=True, slots=True)
class Command:
    """A function that returns an exit code, and examples of its arguments."""

    work: Callable[..., int]
    examples: tuple[str, ...]

    def add_to(self, app: typer.Typer, purpose: str, former: str = "") -> None:
        """Add the command to an application; by a former name it is hidden from help.

        A trailing _ of the function's name is not part of the command's name.
        """
        line = (self.work.__doc__ or "").partition("\n")[0]
        lines = [f"  autoscaler {example}" for example in self.examples]
        epilog = "\b\n" + "\n".join(["Examples:", *lines])
        name = former or self.work.__name__.rstrip("_")
        app.command(
            name,
            cls=GroupedCommand,
            short_help=line,
            epilog=epilog,
            hidden=bool(former),
            rich_help_panel=purpose,
        )(_flat(self.work))


def command(*examples: str) -> Callable[[Callable[..., int]], Command]:
    """Make a function a command, with examples of its arguments.

    A parameter whose type is a dataclass has the options that are annotated in it.
    """
    return lambda work: Command(work, examples)


def _flat(work: Callable[..., int]) -> Callable[..., None]:
    """Return a function for typer, with a parameter for each field of a dataclass parameter."""
    parameters: list[inspect.Parameter] = []
    grouped: dict[str, Any] = {}
    for parameter in inspect.signature(work).parameters.values():
        if is_dataclass(parameter.annotation):
            grouped[parameter.name] = parameter.annotation
            parameters += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=_default(field),
                    annotation=field.type,
                )
                for field in _options_of(parameter.annotation)
            ]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(work)
    def run(**given: Any) -> None:
        for name, kind in grouped.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in _options_of(kind)})
        try:
            code: int | None = work(**given)
        except Exception as error:
            from autoscaler.cli.output import code_of  # noqa: PLC0415 - slow

            if (code := code_of(error)) is None:
                raise
        sys.exit(code)

    # What typer reads.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options_of(kind: Any) -> Iterator[Field[Any]]:
    return (field for field in fields(kind) if get_origin(field.type) is Annotated)


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
