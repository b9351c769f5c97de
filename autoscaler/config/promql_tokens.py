"""The tokens of PromQL, in time in proportion to the text.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

# A string that is never closed goes on to the end, so that no part of a text is read twice.
_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|`[^`]*+(?:`|\Z))"""
    r"|(?P<blank>\#[^\n]*+|\s++)"
    r"|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*+)"
    r"|(?P<number>[0-9][A-Za-z0-9_.]*+)"
    r"|(?P<sign>=~|!~|[=!<>]=|.)",
    re.DOTALL,
)

COMPARISONS = frozenset({"==", "!=", ">=", "<=", ">", "<"})
MATCHER_OPERATORS = frozenset({"=", "!=", "=~", "!~"})
AGGREGATIONS = frozenset(
    {
        *("sum", "avg", "min", "max", "count", "stddev", "stdvar", "topk", "bottomk", "quantile"),
        *("count_values", "group", "limitk", "limit_ratio"),
    }
)


class PromqlToken(NamedTuple):
    """A string, word, number or sign; ``start`` is where it stands in the expression."""

    kind: str
    text: str
    start: int = 0


def tokens_of(promql: str) -> Iterator[PromqlToken]:
    """Yield the tokens of an expression but blanks and comments."""
    for match in _TOKEN.finditer(promql):
        if match.lastgroup != "blank":
            yield PromqlToken(match.lastgroup or "", match[0], match.start())
