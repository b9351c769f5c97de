"""Whether a scale's selector says which pods are its own (semantics 1.3.1)."""

from collections.abc import Sequence

from autoscaler.core.selectors import parse, shown


def selector_problem(selector: str, ambiguous_with: Sequence[str]) -> tuple[str, str, str] | None:
    """Return event, reason and message of a selector that cannot be used; None for a good one.

    ``ambiguous_with`` names other targets whose selector matches one of the same pods.
    """
    if not selector.strip():
        return "SelectorRequired", "InvalidSelector", "the scale has no selector of its pods"
    try:
        parse(selector)
    except ValueError as error:
        return "InvalidSelector", "InvalidSelector", str(error)
    if ambiguous_with:
        others = ", ".join(ambiguous_with)
        message = f"pods of the selector {shown(selector)} are also those of {others}"
        return "AmbiguousSelector", "AmbiguousSelector", message
    return None
