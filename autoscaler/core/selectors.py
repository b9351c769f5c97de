"""Label selectors as text: of a scale, and in the name of a metric."""

import re
from collections.abc import Sequence

from autoscaler.core.quick import bounded_cache
from autoscaler.core.spec import LabelSelector, Operator, Requirement
from autoscaler.core.text import printable

_LONGEST_SHOWN = 500


def go_string(selector: LabelSelector | None) -> str:
    """Format a selector as Go prints the struct, which is part of an External metric's name."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{requirement.key},Operator:{requirement.operator},"
        f"Values:[{' '.join(requirement.values)}],}},"
        for requirement in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


# Possessive repetitions do not backtrack, so the time is linear in the length.
_KEY = r"[A-Za-z0-9][A-Za-z0-9./_-]*+"
_VALUE = r"[A-Za-z0-9._-]*+"
_TERM = re.compile(
    rf"\s*+(?:"
    rf"(?P<absent>!)\s*+(?P<absent_key>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s++(?P<set_operator>in|notin)\s*+"
    rf"\((?P<set_values>\s*+{_VALUE}\s*+(?:,\s*+{_VALUE}\s*+)*+)\)"
    rf"|(?P<key>{_KEY})\s*+(?:(?P<operator>==|=|!=)\s*+(?P<value>{_VALUE}))?+"
    rf")\s*+(?:,|$)"
)
LONGEST = 64 << 10
"""The maximum length in characters; API servers do not check selectors of custom resources."""
_CACHED_BYTES, _BYTES_OF_A_TERM = 16 << 20, 500


def _parsed_bytes(text: str) -> int:
    return 2 * len(text) + _BYTES_OF_A_TERM * (text.count(",") + 1)


@bounded_cache(_CACHED_BYTES, _parsed_bytes)
def parse(text: str) -> LabelSelector:
    """Parse a selector in the string form of `scale.status.selector`.

    An empty text is the empty selector.  Raises ValueError if the text is not a selector, or is
    longer than ``LONGEST``.
    """
    if len(text) > LONGEST:
        raise ValueError(
            f"a label selector of {len(text):,} characters is not read; right is one of at most "
            f"{LONGEST:,}, such as app=web,tier in (a, b),!canary"
        )
    requirements: list[Requirement] = []
    labels: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise ValueError(
                f"{_quoted(text)} is not a label selector: it cannot be read from character "
                f"{position + 1} on; right is, for example, app=web,tier in (a, b),!canary"
            )
        if term["key"] and term["operator"] in {"=", "=="}:
            labels.append((term["key"], term["value"]))
        else:
            requirements.append(_requirement(term))
        position = term.end()
    if text.rstrip().endswith(","):
        raise ValueError(f"{_quoted(text)} is not a label selector: nothing follows the last comma")
    return LabelSelector(tuple(labels), tuple(requirements))


def _quoted(text: str) -> str:
    return f"'{printable(text, _LONGEST_SHOWN)}'"


def _requirement(term: re.Match[str]) -> Requirement:
    if term["absent"]:
        return Requirement(term["absent_key"], Operator.DOES_NOT_EXIST)
    if term["set_key"]:
        values = tuple(value.strip() for value in term["set_values"].split(","))
        operator = Operator.IN if term["set_operator"] == "in" else Operator.NOT_IN
        return Requirement(term["set_key"], operator, values)
    if term["operator"]:
        return Requirement(term["key"], Operator.NOT_IN, (term["value"],))
    return Requirement(term["key"], Operator.EXISTS)


def selector_problem(selector: str, ambiguous_with: Sequence[str]) -> tuple[str, str, str] | None:
    """Return event, reason and message for an unusable or shared selector; else None (1.3.1)."""
    if not selector.strip():
        return "SelectorRequired", "InvalidSelector", "the scale has no selector of its pods"
    try:
        parse(selector)
    except ValueError as error:
        return "InvalidSelector", "InvalidSelector", str(error)
    if ambiguous_with:
        others = ", ".join(ambiguous_with)
        message = f"the selector {_quoted(selector)} also matches pods of {others}"
        return "AmbiguousSelector", "AmbiguousSelector", message
    return None
