"""What `validate` warns of in queries: a range that is not understood."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.cli.cautions import cautions_on
from autoscaler.config.written import as_written
from tests.config.documents import external, loaded, target, top

UNKNOWN = "sum(rate(a[2m*2+1m]))"
MESSAGE = "how far this PromQL looks back is not understood: write its longest range as `window`"


def by_name(query: str) -> str:
    """Return a document with a metric whose query has a name."""
    document = external("metric: {name: rps}\ntarget: {type: Value, value: 1}\n")
    return document.replace("rps: sum by (pod) (rps)", f"rps: {query}")


def of_metric(query: str) -> str:
    """Return a document with a metric that has its own query."""
    return external(f"metric: {{name: m, query: {query}}}\ntarget: {{type: Value, value: 1}}\n")


def of_resource(query: str) -> str:
    """Return a document with a query of a resource."""
    return target("") + f"resourceQueries: {{cpu: {query}}}\n"


@pytest.mark.parametrize(
    ("form", "path"),
    [
        (by_name, "queries.rps"),
        (of_metric, "targets[0].metrics[0].external.metric.query"),
        (of_resource, "resourceQueries.cpu"),
    ],
)
def test_a_range_that_is_not_understood_needs_a_window(
    tmp_path: Path, form: Callable[[str], str], path: str
) -> None:
    """Until then it counts as 5m, or as the longest range that is known if that is longer."""
    for query, window, seconds in (
        (UNKNOWN, None, 300.0),
        ("max_over_time(rate(a[$__i])[1h:])", None, 3900.0),
        ("rate(a)", None, 300.0),
        (UNKNOWN, "20m", 1200.0),
        (UNKNOWN, "45s", 45.0),
        ("rate(a[20i]) / rate(b[10m])", "1m", 600.0),
    ):
        entry = f"{{query: '{query}', window: {window}}}" if window else f"'{query}'"
        config = loaded(tmp_path, form(entry))
        (asked,) = config.targets[0].queries
        assert (asked.range_seconds, asked.assumes_range) == (seconds, window is None)
        found = [one for one in cautions_on(config) if MESSAGE in one.message]
        assert [one.path for one in found] == ([] if window else [path])
        assert all(one.line for one in found)
        # A target that is written as it is has the same query again.
        again = loaded(tmp_path, _document(as_written(config.targets[0])))
        assert again.targets[0].queries == (asked,)


def _document(written: object) -> str:
    return top("").replace("targets: []", f"targets: [{json.dumps(written)}]")


def test_a_hold_and_a_bound_need_no_window(tmp_path: Path) -> None:
    """Nothing waits until their ranges are whole."""
    keys = f"holdScaleDownQuery: {UNKNOWN}\nminReplicasQuery: {UNKNOWN}\n"
    assert cautions_on(loaded(tmp_path, target(keys))) == []
