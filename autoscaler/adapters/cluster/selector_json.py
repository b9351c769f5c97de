"""A selector in JSON, as an object's spec holds it, to the string form that its scale shows.

The form is that of Go's `labels.Selector.String()`: the requirements are sorted by key, the
values of one requirement among themselves.
"""

from collections.abc import Mapping
from typing import TypedDict


class RequirementJson(TypedDict, total=False):
    """`LabelSelectorRequirement`."""

    key: str
    operator: str
    values: list[str]


class LabelSelectorJson(TypedDict, total=False):
    """`LabelSelector`."""

    matchLabels: dict[str, str]
    matchExpressions: list[RequirementJson]


def of_labels(labels: Mapping[str, str] | None) -> str:
    """Print the map that a ReplicationController selects by."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def of_selector(selector: LabelSelectorJson | None) -> str:
    """Print a LabelSelector; one that is absent or empty is the empty text.

    Raises KeyError, TypeError, AttributeError or ValueError for what is none.
    """
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [_term(requirement) for requirement in selector.get("matchExpressions") or ()]
    # Go's sort keeps the order of equal keys in lists as short as these.
    terms.sort(key=lambda term: term[0])
    return ",".join(text for _, text in terms)


def _term(requirement: RequirementJson) -> tuple[str, str]:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "Exists":
        return key, key
    if operator == "DoesNotExist":
        return key, f"!{key}"
    if operator not in {"In", "NotIn"}:
        raise ValueError(f"{operator!r} is no operator of a label selector")
    return key, f"{key} {operator.lower()} ({','.join(sorted(requirement['values']))})"
