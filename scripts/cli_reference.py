#!/usr/bin/env python3
"""Print the reference of the command line, which is a page of the site, from the commands."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typer.main import get_command

from autoscaler.app import app

HEAD = """\
# Command line

This page is generated from the commands. `autoscaler COMMAND --help` has more about each command.

A `TARGET` is `NAMESPACE/NAME` or `NAMESPACE/KIND/NAME`. `--version` prints the version, and
`--install-completion` installs shell completion.

"""
COLUMNS = "| option | description |\n|---|---|\n"
COMMON = "Common options"
PYTHON_TYPE = re.compile(r" <(?!\w+(?:-\w+)*\|)[^>]*>")
"""Such as `<int range>`, but no choice such as `<text|json>`."""


@dataclass(frozen=True)
class Option:
    """An option or argument as it is listed; options of several commands have a ``group``."""

    name: str
    default: str
    text: str
    group: str

    @property
    def row(self) -> str:
        """The row of a table."""
        cells = (f"`{self.name}`", f"{self.text} {self.default}".strip())
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    @property
    def flag(self) -> str:
        """The long form, without what follows it."""
        found = re.search(r"--[\w-]+|^\w+", self.name)
        return found[0] if found else self.name


def option_of(param: Any, context: Any) -> Option:
    """Return an option as `--help` shows it."""
    name, text = param.get_help_record(context)
    text, _, extras = text.partition("  [")
    values: list[str] = []
    for extra in extras.rstrip("]").split("; "):
        key, _, value = extra.partition(": ")
        if key == "required":
            values.insert(0, "Required.")
        elif key in {"default", "env var"}:
            values.append(f"Default: `{value}`." if key == "default" else f"Or `${value}`.")
    group = getattr(param, "rich_help_panel", None) or ""
    return Option(PYTHON_TYPE.sub("", name), " ".join(values), " ".join(text.split()), group)


def table(options: list[Option]) -> str:
    """Return a table; of options with one name the first is listed."""
    named = {option.name: option for option in reversed(options)}
    return COLUMNS + "\n".join(named[name].row for name in reversed(named)) + "\n"


def sections() -> Iterator[str]:
    """Yield the section of each command, then those of options that several have."""
    root: Any = get_command(app)
    contexts = {
        name: command.make_context(name, [], resilient_parsing=True)
        for name, command in root.commands.items()
        if not command.hidden
    }
    options = {
        name: [
            option
            for param in context.command.get_params(context)
            if "--help" not in param.opts and (option := option_of(param, context)).flag != "TARGET"
        ]
        for name, context in contexts.items()
    }
    counts = Counter(option for found in options.values() for option in set(found))
    groups: dict[str, list[Option]] = {COMMON: []}
    for name, context in contexts.items():
        summary, *paragraphs = (context.command.help or "").split("\n\n")
        usage = re.sub(r"[{}]", "", " ".join(context.command.collect_usage_pieces(context)))
        lines = [summary, f"    autoscaler {name} {usage}"]
        own = [option for option in options[name] if not option.group and counts[option] == 1]
        if own:
            lines.append(table(own).rstrip())
        links: dict[str, list[str]] = {}
        for option in options[name]:
            if option not in own:
                group = option.group or COMMON
                groups.setdefault(group, []).append(option)
                links.setdefault(group, []).append(f"`{option.flag}`")
        lines += [
            f"[{group}](#{anchor(group)})" + (f": {', '.join(flags)}." if group == COMMON else ".")
            for group, flags in links.items()
        ]
        lines += [" ".join(part.split()) for part in paragraphs if part.startswith("Exit codes")]
        yield f"## `{name}`\n\n" + "\n\n".join(lines) + "\n"
    for group, found in groups.items():
        yield f"## {group}\n\n" + table(found)


def anchor(heading: str) -> str:
    """Return the name by which a heading is linked."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def page() -> str:
    """Return the page as Markdown."""
    return HEAD + "\n".join(sections())


if __name__ == "__main__":
    print(page())
