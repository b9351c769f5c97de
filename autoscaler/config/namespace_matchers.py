"""Restricts PromQL to the series of one namespace, as prom-label-proxy does."""

from collections.abc import Sequence
from typing import TypeAlias

from autoscaler.config.promql_parser import parse, quoted, selectors_in, with_insertions

Matchers: TypeAlias = Sequence[tuple[str, str]]
"""Labels with the values that every series must have."""


def restricted(promql: str, matchers: Matchers) -> str:
    """Return an expression in which every selector also has the matchers.

    Raises ValueError for an expression that cannot be rewritten safely.
    """
    inner = ",".join(f"{label}={quoted(value)}" for label, value in matchers)
    insertions = []
    for selector in selectors_in(parse(promql)):
        braced = promql[selector.at - 1 : selector.at] == "{"
        insertions.append((selector.at, f"{inner}," if braced else f"{{{inner}}}"))
    return with_insertions(promql, insertions)
