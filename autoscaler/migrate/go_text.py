"""Regular expressions and templates of Go in rules for names, evaluated by `re`, and inverted.

Differences between the two languages, and slow matches of `re`, are refused.
https://github.com/google/re2/wiki/Syntax
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from re import _parser  # type: ignore[attr-defined]  # typeshed does not have the parse tree
from typing import Any, NamedTuple

LONGEST = 1_000
"""The most characters of an expression."""
LONGEST_TEXT = 255
"""The most characters of a text to match; longer ones match nothing."""
MOST_GROUPS = 3
"""The most group references of a name, so that inverting it is fast."""
_MOST_STEPS = 10**7
"""The most steps of a match: a hundred for each repetition that may begin anywhere, times the
alternatives."""
_MOST_TEXTS = 16
_FEW = 4
"""A range of at most this many characters means each of them; a larger one any character."""
_OTHERWISE = re.compile(r"\(\?(?!P<|:|[ims]{1,3}[:)])|(?<!\\)\{,|\\(?=[^dDwWsSbBAtnrfv_\W])|\\\Z")
"""Syntax that Python reads differently from Go, or does not know."""
_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z0-9_]{1,100})\}|([A-Za-z0-9_]{1,100}))?")
BY_HAND = "write the PromQL of the metric in `queries` by hand"


class PossibleText(NamedTuple):
    """A text that an expression matches; not ``sure`` if it could have more in some place."""

    text: str
    sure: bool


class GoRegex:
    """A compiled expression.  Raises ValueError if it is invalid or refused."""

    def __init__(self, source: str) -> None:
        if len(source) > LONGEST:
            raise ValueError(f"has {len(source):,} characters, and may have {LONGEST:,}")
        other = _OTHERWISE.search(source.replace(r"\\", "--"))
        if other is not None:
            shown = source[other.start() : other.start() + 5]
            raise ValueError(f"{shown!r} at character {other.start() + 1} is not read: {BY_HAND}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._tree = _parser.parse(source, re.ASCII)
                steps = _steps_of(self._tree)
                self._pattern = re.compile(source, re.ASCII)
        except (re.error, RecursionError, OverflowError, Warning) as error:
            raise ValueError(f"{error}: {BY_HAND}") from error
        begins = bool(self._tree) and str(self._tree[0][1]) in {
            "AT_BEGINNING",
            "AT_BEGINNING_STRING",
        }
        if steps * (1 if begins else 100) > _MOST_STEPS:
            raise ValueError(f"it repeats in too many places to be matched quickly: {BY_HAND}")
        self._folds = re.search(r"\(\?[ms]*i", source) is not None
        self.groups: Mapping[str, int] = self._pattern.groupindex
        """The numbers of its named groups."""
        self.count = self._pattern.groups
        """The number of its groups."""

    def search(self, text: str) -> re.Match[str] | None:
        """Return the leftmost match that Go finds, or None."""
        return None if len(text) > LONGEST_TEXT or "\n" in text else self._pattern.search(text)

    def matches_all(self, text: str) -> bool:
        """Return whether the whole text is a match, as Prometheus matches labels."""
        return len(text) <= LONGEST_TEXT and self._pattern.fullmatch(text) is not None

    def texts(self, given: Mapping[int, str] | None = None) -> list[PossibleText]:
        """Return a few short texts that it matches, with groups (0 is all of it) as ``given``.

        None if it matches any text. A group is not compared with its given text.
        """
        given = given or {}
        if 0 in given:
            return [PossibleText(given[0], sure=True)]
        made = islice(_texts(self._tree, given), _MOST_TEXTS)
        return [
            possible_text._replace(sure=possible_text.sure and not self._folds)
            for possible_text in made
        ]


def _steps_of(tree: Iterable[tuple[Any, Any]], *, repeated: bool = False) -> int:
    """Return a bound for the steps of a match.  Raises ValueError without a bound."""
    steps = 1
    for operator, value in tree:
        name = str(operator)
        if repeated and name in {"BRANCH", "MAX_REPEAT", "MIN_REPEAT"}:
            raise ValueError(f"a repetition within a repetition is not read: {BY_HAND}")
        if name == "SUBPATTERN":
            steps *= _steps_of(value[3], repeated=repeated)
        elif name == "BRANCH":
            steps *= sum(_steps_of(option) for option in value[1])
        elif name in {"MAX_REPEAT", "MIN_REPEAT"}:
            _, most, of = value
            steps *= 2 * _steps_of(of) if most == 1 else 100 * _steps_of(of, repeated=True)
        elif name not in {"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT"}:
            raise ValueError(f"{name.lower().replace('_', ' ')} is not read: {BY_HAND}")
    return steps


def _texts(tree: Iterable[tuple[Any, Any]], given: Mapping[int, str]) -> Iterator[PossibleText]:
    return _joined([list(islice(_choices(*node, given), _MOST_TEXTS)) for node in tree])


def _choices(  # noqa: C901 - one of each
    operator: Any, value: Any, given: Mapping[int, str]
) -> Iterator[PossibleText]:
    """Yield the texts of one node of the tree."""
    match str(operator):
        case "LITERAL":
            yield PossibleText(chr(value), sure=True)
        case "IN":
            known = all(str(kind) in {"LITERAL", "RANGE"} for kind, _ in value)
            bounds = [(of, of) if isinstance(of, int) else of for _, of in value] if known else []
            if all(last - first < _FEW for first, last in bounds):
                for first, last in bounds:
                    yield from (
                        PossibleText(chr(code_point), sure=True)
                        for code_point in range(first, last + 1)
                    )
        case "AT":
            yield PossibleText("", sure=True)
        case "SUBPATTERN" if value[0] in given:
            yield PossibleText(given[value[0]], sure=True)
        case "SUBPATTERN":
            yield from _texts(value[3], given)
        case "BRANCH":
            options = [list(islice(_texts(option, given), _MOST_TEXTS)) for option in value[1]]
            for made in (possible_text for option in options for possible_text in option):
                yield made if all(options) else made._replace(sure=False)
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, _, of = value
            inner = list(islice(_texts(of, given), _MOST_TEXTS))
            if least == 0:
                yield PossibleText("", sure=bool(inner))
            if inner:
                yield from _joined([inner] * max(1, min(least, LONGEST_TEXT)))


def _joined(choices: list[list[PossibleText]]) -> Iterator[PossibleText]:
    for chosen in islice(product(*choices), _MOST_TEXTS) if all(choices) else ():
        text = "".join(part.text for part in chosen)
        yield PossibleText(text, sure=all(part.sure for part in chosen))


def expand(template: str, regex: GoRegex, match: re.Match[str]) -> str:
    """Expand a template as Go's Expand: ``$name`` takes all letters, digits and ``_`` it can.

    So ``$1_total`` is the group with the name ``1_total``, which does not exist, and is empty.
    """
    texts = [match[0], *match.groups(default="")]
    return "".join(
        part if isinstance(part, str) else texts[part] if part <= regex.count else ""
        for part in parts_of(template, regex)
    )


def parts_of(template: str, regex: GoRegex) -> Iterator[str | int]:
    """Yield the texts of a template, and the numbers of the groups between them."""
    end = 0
    for found in _REFERENCE.finditer(template):
        if found.start() > end:
            yield template[end : found.start()]
        end = found.end()
        name = found[2] or found[3]
        if name is None:
            yield "$"
        elif name.isdecimal():
            yield int(name[:4])
        elif name in regex.groups:
            yield regex.groups[name]
    if end < len(template):
        yield template[end:]


def unknown_group(template: str, regex: GoRegex) -> str:
    """Return the first reference of a template to a group that does not exist, or nothing."""
    for found in _REFERENCE.finditer(template):
        name = found[2] or found[3] or "0"
        known = int(name[:4]) <= regex.count if name.isdecimal() else name in regex.groups
        if not known:
            return found[0]
    return ""


def captures_of(name: str, template: str, regex: GoRegex) -> dict[int, str] | None:
    """Return the groups' texts if a template has become ``name``; None if it cannot have.

    Of several ways it is the one in which each group takes as much as possible.
    """
    parts = list(parts_of(template, regex))
    numbers = [part for part in parts if isinstance(part, int)]
    if len(template) > LONGEST_TEXT or len(numbers) > MOST_GROUPS:
        return None
    form = "".join(re.escape(part) if isinstance(part, str) else "(.*)" for part in parts)
    found = GoRegex(f"^{form}$").search(name)
    return None if found is None else dict(zip(numbers, found.groups(), strict=True))


LONGEST_TEMPLATE = 64 << 10
"""The most characters of a template, and of its result."""
VALUES = "LabelValuesByName"
_FIELD = re.compile(
    rf'\s*\.(?:{VALUES}\.([A-Za-z_]\w*)|([A-Z]\w*))\s*|\s*index\s+\.{VALUES}\s+"(\w+)"\s*', re.ASCII
)
_BY_HAND = (
    "only <<.Series>>, <<.LabelMatchers>>, <<.GroupBy>> and <<.LabelValuesByName.LABEL>> are read, "
    "in labels <<.Group>> and <<.Resource>>: write the PromQL of the metric in `queries` by hand"
)


class TemplateError(ValueError):
    """The template has more than fields; the message says what to write instead."""


class Template:
    """A parsed template.  Raises TemplateError for one with more than fields."""

    def __init__(self, source: str) -> None:
        if len(source) > LONGEST_TEMPLATE:
            raise TemplateError(
                f"has {len(source):,} characters, and may have {LONGEST_TEMPLATE:,}"
            )
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
        """The fields that it uses; a label's value as ``LabelValuesByName.LABEL``."""

    def fill(self, data: Mapping[str, str]) -> str:
        """Return its result. Raises TemplateError."""
        unknown = next((name for name, _ in self._parts if name not in data), None)
        if unknown is not None:
            raise TemplateError(f"there is no field .{unknown}: {_BY_HAND}")
        if sum(len(data[name]) for name, _ in self._parts) > LONGEST_TEMPLATE:
            raise TemplateError(f"becomes more than {LONGEST_TEMPLATE:,} characters")
        return self._text + "".join(data[name] + text for name, text in self._parts)
