"""Templates in rules of prometheus-adapter: a field in << >> becomes its text.

Go's text/template has conditions, loops and functions too.  Those are refused.
"""

import re
from collections.abc import Mapping

LONGEST = 64 << 10
"""Characters of a template, and of what it becomes."""
VALUES = "LabelValuesByName"
_FIELD = re.compile(
    rf'\s*\.(?:{VALUES}\.([A-Za-z_]\w*)|([A-Z]\w*))\s*|\s*index\s+\.{VALUES}\s+"(\w+)"\s*', re.ASCII
)
_BY_HAND = (
    "only <<.Series>>, <<.LabelMatchers>>, <<.GroupBy>> and <<.LabelValuesByName.LABEL>> are read, "
    "in labels <<.Group>> and <<.Resource>>: write the PromQL of the metric in `queries` by hand"
)


class TemplateError(ValueError):
    """The template has something other than fields; the message says what to write instead."""


class Template:
    """A parsed template.  Raises TemplateError for one with more than fields."""

    def __init__(self, source: str) -> None:
        if len(source) > LONGEST:
            raise TemplateError(f"has {len(source):,} characters, and may have {LONGEST:,}")
        self._text, *actions = source.split("<<")
        self._parts: list[tuple[str, str]] = []
        for action in actions:
            inside, closed, text = action.partition(">>")
            found = _FIELD.fullmatch(inside)
            if not closed or found is None:
                raise TemplateError(f"<<{inside[:40]}{closed}: {_BY_HAND}")
            label = found[1] or found[3]
            self._parts.append((f"{VALUES}.{label}" if label else found[2], text))
        self.fields = frozenset(name for name, _ in self._parts)
        """Those that it writes; a value of a label as ``LabelValuesByName.LABEL``."""

    def fill(self, data: Mapping[str, str]) -> str:
        """Return what it becomes.  Raises TemplateError."""
        unknown = next((name for name, _ in self._parts if name not in data), None)
        if unknown is not None:
            raise TemplateError(f"there is no field .{unknown}: {_BY_HAND}")
        if sum(len(data[name]) for name, _ in self._parts) > LONGEST:
            raise TemplateError(f"becomes more than {LONGEST:,} characters")
        return self._text + "".join(data[name] + text for name, text in self._parts)
