"""The templates, and what they write times, counts and texts from outside with."""

import re
from functools import cache
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from autoscaler import __version__
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.daemon.pages import static_files

_LONGEST_SHOWN = 160
"""So much of a name is shown; the rest is in its title."""
_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d(?:\.\d+)?Z")


def render(template: str, **values: object) -> str:
    """Render a template; every text in it is escaped."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"time": _time, "age": duration, "outside": _outside, "name": _name}
    made.filters |= {"sentence": _sentence, "line": _line, "shown": _shown, "instant": rfc3339}
    made.globals |= {"static": static_files.url, "version": __version__, "href": target_path}
    return made


def target_path(key: str) -> str:
    """Return the path of a target's page."""
    parts = [quote(part, safe="", errors="replace") for part in key.split("/", 2)]
    return f"/targets/{'/'.join(parts)}"


def _time(instant: float) -> Markup:
    """Write an instant in UTC; a script writes it in the reader's zone."""
    text = rfc3339(instant)
    shown = f"{text[:10]} {text[11:19]}"
    return Markup('<time datetime="{}">{}</time>').format(text, shown)


def _outside(text: str) -> Markup:
    """Write a text that may be from outside: its letters cannot turn those around it."""
    return Markup("<bdi>{}</bdi>").format(printable(text, LONGEST_SENTENCE))


def _sentence(text: str, near: float) -> Markup:
    """Write a sentence that may be from outside, with its instants as times.

    Those without a date are of the day of ``near`` in UTC, as of `wording.time_of_day`.
    """
    return Markup("<bdi>{}</bdi>").format(_with_times(printable(text, LONGEST_SENTENCE), near))


def _line(text: str, near: float) -> Markup:
    """Write a line of an explanation likewise, with the blanks that align it."""
    shown = text if text.isprintable() else printable(text, LONGEST_SENTENCE)
    return Markup("<bdi>{}</bdi>").format(_with_times(shown, near))


def _with_times(text: str, near: float) -> Markup:
    day, parts, end = rfc3339(near)[:11], [], 0
    for found in _INSTANT.finditer(text):
        instant = found[0] if found[1] else day + found[0]
        parts.append(escape(text[end : found.start()]))
        parts.append(Markup('<time datetime="{}">{}</time>').format(instant, found[0]))
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _shown(text: str) -> str:
    """Return a name from outside for where there is no markup."""
    return printable(text, _LONGEST_SHOWN)


def _name(text: str) -> Markup:
    """Write a name from outside, cut if it is very long."""
    whole = printable(text, LONGEST_SENTENCE)
    shown = printable(whole, _LONGEST_SHOWN)
    if shown == whole:
        return Markup("<bdi>{}</bdi>").format(shown)
    return Markup('<bdi title="{}">{}</bdi>').format(whole, escape(shown))
