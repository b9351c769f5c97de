"""The log, the page of the targets and `plan -o json` say the same of a decision."""

import io
import json
from typing import Any

import pytest
import structlog

from autoscaler.core.extensions import Extensions
from autoscaler.daemon.exposition.target_list import target_list
from autoscaler.daemon.log_options import LogFormat, LogLevel
from autoscaler.daemon.logs import configure
from autoscaler.daemon.reporting import LogReporter
from autoscaler.rendering.record import whole
from autoscaler.sync.ports import SyncResult
from tests.core.builders import cpu, spec, utilization, values
from tests.daemon.exposition.results import NOW, metrics_of
from tests.rendering.extended import IDLE, NOTHING, OFFICE_HOURS, lower, opened, result, target
from tests.rendering.test_words import HELD, QUEUE, REFUSED, SLOW, synced

Json = dict[str, Any]

RESULTS = [
    synced(spec(QUEUE, behavior=SLOW), 1, values(90.0)),
    synced(spec(QUEUE), 8, values(30.0), earlier=HELD),
    synced(spec(QUEUE, cpu(utilization(50))), 2, values(50.0), REFUSED),
    result(target(replicas=3).annotated(paused_replicas="5").at("0s", queue=83)),
    result(target(IDLE, replicas=1).at("0s", queue=4)),
    result(target(IDLE, replicas=0).at("0s", queue=None)),
    result(target(lower(2), replicas=3).at("0s", queue=None)),
    result(target(replicas=5).asked_bounds(NOTHING, 12).at("0s", queue=50)),
    result(
        target(Extensions(schedules=(OFFICE_HOURS,)), replicas=5)
        .opened(opened(OFFICE_HOURS))
        .at("0s", queue=500)
    ),
]
OF_THE_LOG = {"event", "level", "timestamp", "logger", "stateBefore", "secondsBefore"}
OF_THE_PAGE = {"namespace", "kind", "name", "since", "lastSync"}


def logged(result: SyncResult) -> Json:
    """Return the line of a result, with its keys in camelCase."""
    stream = io.StringIO()
    configure(LogLevel.DEBUG, LogFormat.JSON, stream)
    LogReporter(structlog.get_logger()).report(result)
    structlog.reset_defaults()
    line: Json = json.loads(stream.getvalue(), object_pairs_hook=camel)
    # These two stages have keys of their own; the reason is written for people.
    return {key: line[key] for key in line.keys() - {"stabilize", "limit", "reason", "time"}}


def camel(pairs: list[tuple[str, object]]) -> Json:
    """Return an object with keys in camelCase."""
    return {
        first + "".join(one.capitalize() for one in others): value
        for (first, *others), value in ((key.split("_"), value) for key, value in pairs)
    }


def listed(result: SyncResult) -> Json:
    """Return the target as the page has it."""
    page = b"".join(target_list(metrics_of(result).states.known(), NOW))
    (target,) = json.loads(page)["targets"]
    return dict(target)


@pytest.mark.parametrize("one", RESULTS)
def test_a_field_has_one_name_and_one_value_everywhere(one: SyncResult) -> None:
    """What the log and the page have of a target, and of its metrics, is in the whole record."""
    record = json.loads(json.dumps(whole(one)))
    for shown, own in ((logged(one), OF_THE_LOG), (listed(one), OF_THE_PAGE)):
        metrics, whole_metrics = shown.pop("metrics"), record["metrics"]
        assert {key: value for key, value in shown.items() if key not in own} == {
            key: record[key] for key in shown.keys() - own
        }
        for metric, whole_metric in zip(metrics, whole_metrics, strict=True):
            assert metric == {key: whole_metric[key] for key in metric}
