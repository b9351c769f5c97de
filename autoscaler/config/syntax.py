"""What is wrong with a text that is not YAML, and what is often the reason."""

import re

import yaml

from autoscaler.config.document import TooMuchError
from autoscaler.config.problems import Problem

_KNOWN = {
    "found character that cannot start any token": "a tab or another character that cannot "
    "begin a value; indent with spaces, and put texts that begin with @, ` or % in quotes",
    "mapping values are not allowed in this context": 'a ":" that YAML does not expect; check '
    'the indentation, and put texts with ": " in quotes',
    "could not find expected ':'": 'a ":" is missing after a key',
    "did not find expected key": "a key is expected; check the indentation, commas and brackets",
}
_LONGEST = 2000
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
    reason = _KNOWN.get(error.problem or "", error.problem or "it cannot be read")
    hint = "" if mark is None else _hint(text, mark.line, error.context_mark)
    line = None if mark is None else mark.line + 1
    return Problem(file, line, "", None, f"not YAML{where}: {reason}{hint}")


def _hint(text: str, line: int, begin: yaml.Mark | None) -> str:
    """Say what the lines look like that YAML stumbles over."""
    lines = text.splitlines()
    first = line if begin is None else max(begin.line, line - 1)
    near = "\n".join(one[:_LONGEST] for one in lines[first : line + 1])
    if "{{" in near:
        return "; {{ is of a template, which has to be rendered first (such as by `helm template`)"
    if _LABELS.search(near):
        return "; PromQL at such a place belongs in single quotes, as in 'sum(a{b=\"c\"})'"
    return ""
