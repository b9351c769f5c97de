"""Where the query of a metric comes from, for those who are told of a decision."""

from typing import NamedTuple

from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.printable import printable
from autoscaler.sync.ports import SyncResult


class QuerySource(NamedTuple):
    """``name`` says whose PromQL it is: `queries.NAME`, the metric's own, a built-in one.

    ``default`` is of the metric that a target without `metrics` has.
    """

    name: str
    default: bool = False


def promql_of(result: SyncResult, index: int) -> str:
    """Return the PromQL of a metric of a result, on one line that is no longer than a sentence."""
    queries = result.target.queries
    return printable(queries[index].promql, LONGEST_SENTENCE) if index < len(queries) else ""
