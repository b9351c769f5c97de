"""How a command is declared: a function, whose parameters are its arguments and options.

Modules of commands and options are imported for `--help`, so that they import their work, and what
is slow to import, when they run.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand


class GroupedCommand(TyperCommand):
    """A command whose options stand below their `rich_help_panel`, without rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, a section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                group = getattr(param, "rich_help_panel", None) or usual
                sections.setdefault(group, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


@dataclass(frozen=True, slots=True)
class Command:
    """What a command does, to return its exit code, and examples of its arguments."""

    work: Callable[..., int]
    examples: tuple[str, ...]

    def add_to(self, app: typer.Typer, former: str = "") -> None:
        """Make it a command of an application; its first line is listed, unless by a former name.

        Where its name is a word of Python, the function has _ behind it.
        """
        line = (self.work.__doc__ or "").partition("\n")[0]
        shown = ", ".join(f"autoscaler {one}" for one in self.examples)
        epilog = f"Example{'s' if len(self.examples) > 1 else ''}: {shown}"
        name = former or self.work.__name__.rstrip("_")
        app.command(name, cls=GroupedCommand, short_help=line, epilog=epilog, hidden=bool(former))(
            _flat(self.work)
        )


def command(*examples: str) -> Callable[[Callable[..., int]], Command]:
    """Make a function a command, with examples of its arguments.

    A parameter whose type is a dataclass stands for the options that are annotated in it.
    """
    return lambda work: Command(work, examples)


def _flat(work: Callable[..., int]) -> Callable[..., None]:
    """Return a function as typer reads it: each field of a dataclass is a parameter of its own."""
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
